#include "serve/work/ask.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "engine/model_runner.h"
#include "engine/prompt.h"
#include "engine/request_memory.h"
#include "formats/printable.h"

namespace llada::serve {

ScoreRequest prompt_score(const Request& request) {
  ScoreRequest score{.prompt = {request.tokens.front()},
                     .continuations = {{request.tokens.begin() + 1, request.tokens.end()}}};
  score.options.top = request.alternatives;
  return score;
}

AnswerBytes answer_bytes(const RequestBytes& engine, const Request& request, double prompt_score) {
  constexpr double kTextCopies = 12;     // valid UTF-8, JSON with every byte escaped, the reply
  constexpr double kJsonOfToken = 1024;  // one token with its log-probability, or its edit
  constexpr double kJsonOfText = 32;     // a byte of a token's text in a list of bytes
  constexpr double kNotes = 128;         // steps of blocks that wait for a slow reader
  const auto positions = static_cast<double>(engine.positions);
  const double each = 1 + static_cast<double>(request.alternatives);
  const double notes =
      (positions + kNotes * static_cast<double>(request.options.block_length)) * 2 * sizeof(decode::Edit);
  // One after the other; the scores stay.
  const double bytes = std::max(engine.computed, prompt_score) + kTextCopies * engine.text + notes +
                       each * (positions * kJsonOfToken + kJsonOfText * engine.text);
  // The result, and the prompt's scores; of a stream its own text and tokens, confidences, notes that were not read.
  const double score = sizeof(TokenScore) + each * sizeof(TokenScore::Alternative);
  const double kept = engine.result + (prompt_score > 0 ? positions * score : 0) + 2 * engine.text +
                      positions * (sizeof(int32_t) + sizeof(double)) + notes;
  return {std::ceil(std::max(bytes, kept)), std::ceil(kept)};
}

ApiError about(const DecodeChoice& choice, const Error& error) {
  ApiError api(choice.as_typed(error));
  const size_t colon = std::min(api.message.find(':'), api.message.size());
  const std::string_view before = std::string_view(api.message).substr(0, colon);
  if (error.of_input() && colon < api.message.size() && !before.contains(' ')) api.param = before;
  const std::string name(before.substr(0, before.find(' ')));  // a value may stand behind it
  if (name.starts_with("llada.") || decode::find_field(name) != nullptr) api.param = name;
  // A value of the preset's: nobody sent that field.
  if (before.contains(" (of preset ")) {
    api.param = choice.preset_typed();
    api.message.insert(0, choice.preset_typed() + ": ");
  }
  return api;
}

Done unless_strict(const Service& service, const std::string& warning) {
  if (!service.options().strict) return {};
  return refuse(warning + " (--strict)", warning.substr(0, warning.find_first_of(",:")));
}

Done add_warning(Service& service, Ask& ask, const std::string& warning) {
  LLADA_TRY_STATUS(unless_strict(service, warning));
  ask.warnings.push_back(warning);
  add_note(ask, warning);
  return {};
}

void add_note(Ask& ask, std::string_view note) {
  if (note.empty()) return;
  if (!ask.note.empty()) ask.note += "; ";
  ask.note += note;
}

std::unexpected<ApiError> too_long(const std::string& field, const std::string& message) {
  auto refused = refuse(fmt::format("{}: {}", field, message), field);
  refused.error().code = kTooLong;
  return refused;
}

namespace {

// A form that needs more than the context leaves beside the prompt: a client can only shorten that.
std::optional<ApiError> context_error(const Service& service, const Ask& ask, const Request& request,
                                      const Error& error, const ApiError& typed) {
  constexpr std::string_view kFound = "gen_length: found ";
  int64_t found = 0;
  if (request.gaps || !error.message.starts_with(kFound)) return std::nullopt;
  const char* end = error.message.data() + error.message.size();
  const char* const behind = std::from_chars(error.message.data() + kFound.size(), end, found).ptr;
  const int64_t room = room_behind(service.model(), std::ssize(request.tokens));
  const int64_t asked = request.options.auto_length ? 0 : request.options.gen_length;
  // The answer is as long as there is room, but for a part of a block.
  if (asked > 0 ? asked <= room : found + request.options.block_length <= room) return std::nullopt;
  const std::string needed(std::string_view(behind, end).substr(2));
  std::string message =
      asked > 0 ? fmt::format("{}: found {}, of which the context leaves {}, {}",
                              typed.message.substr(0, typed.message.find(':')), asked, room, needed)
                : fmt::format("{}: the context leaves {} tokens behind it, {}", ask.prompt_field, room, needed);
  return ApiError(400, std::move(message), ask.prompt_field, kTooLong);
}

ApiError refusal_of(const Service& service, const Ask& ask, const Request& request, const Refusal& refused) {
  using enum Refusal::About;
  if (refused.about == prompt) return too_long(ask.prompt_field, refused.message).error();
  ApiError error = about(ask.decoding->choice, refused);
  constexpr std::string_view kTop = " is $";  // a schema's own name of itself
  if (const size_t at = error.message.rfind(kTop); ask.form && at != std::string::npos)
    error.message.replace(at + kTop.size() - 1, 1, ask.form->where);
  if (refused.about == length) error.code = kTooLong;
  if (refused.about != form) return error;
  if (auto context = context_error(service, ask, request, refused, error)) error = std::move(*context);
  if (const std::string key = ask.form ? " for " + ask.form->key : ""; ask.form && error.message.ends_with(key))
    error.message.replace(error.message.size() - key.size(), key.size(), " for " + ask.form->name);
  return error;
}

// How the lengths are found that nobody insists on. A bound on memory is shared out evenly, so that as many answers are
// computed at a time as may be.
Preparation preparation(Service& service, const Ask& ask, const Request& request) {
  Preparation how{.shortens = !ask.decoding->insists};
  const RoomLimits& limits = service.room().limits();
  if (ask.decoding->choice.length_by_default() && limits.kv_bytes > 0)
    how.may_hold = [&request, share = limits.kv_bytes / static_cast<double>(limits.running)](
                       const RequestBytes& bytes) { return answer_bytes(bytes, request).computed <= share; };
  return how;
}

AnswerBytes bytes_of_answer(Service& service, const Ask& ask, const ReadyRequest& ready) {
  double score = 0;
  if (ask.scores_prompt && ready.request.tokens.size() > 1)
    score = score_bytes(service.model(), prompt_score(ready.request),
                        std::max(service.engine().row_budget(), RowBudget::kMostOfMixture));
  return answer_bytes(ready.bytes, ready.request, score);
}

// Of a prompt of which more is computed than what is kept for the next turn.
std::string kept_part(const Service& service, int64_t prompt_tokens) {
  constexpr double kMiB = 1 << 20;
  const auto kept = static_cast<double>(service.options().kept_prefix_bytes);
  if (kept == 0 || service.model().special_ids().prefix_unit() == 0) return "";
  const double bytes = KvStore::needed_bytes(kv_shape(service.model(), prompt_tokens, false));
  if (bytes <= kept) return "";
  return fmt::format(
      "keys and values of the prompt take {:.0f} MiB, of which --prefix-memory keeps {:.0f}: the next turn computes "
      "the others again",
      bytes / kMiB, kept / kMiB);
}

}  // namespace

double waiting_bytes(const Ask& ask) {
  constexpr size_t kJson = 4;  // of a text, as values
  size_t bytes = ask.repeated.empty() ? 0 : kJson * dump(ask.repeated).size();
  const size_t late = ask.decoding != nullptr ? ask.decoding->late.size() : 0;  // each has the form once more
  const auto add = [&](const Request& request) {
    const auto& biases = request.options.logit_bias;
    bytes += request.tokens.size() * sizeof(int32_t) + biases.size() * sizeof(biases[0]);
    if (const auto form = decode::form_of(request.options)) bytes += (1 + late) * form->text.size();
    for (const std::string& stop : request.stop) bytes += stop.size();
  };
  for (const Request& request : ask.asked) add(request);
  for (const Ready& ready : ask.requests) {
    add(ready->request);
    bytes += ready->canvas.tokens.size() * (sizeof(int32_t) + sizeof(decode::TokenState));
  }
  for (const std::string& text : ask.echoed) bytes += text.size();
  if (ask.form) bytes += ask.form->text.size();
  return static_cast<double>(bytes);
}

Done prepare_requests(Service& service, Ask& ask) {
  const auto decoding = ask.decoding;
  const DecodeChoice& choice = decoding->choice;
  std::vector<std::string> left_out = decoding->left_out;
  for (const auto& [field, read] : decoding->late) {
    const auto lines = read();
    if (!lines) return refuse(lines.error().message, field);
    left_out.insert(left_out.end(), lines->begin(), lines->end());
  }
  std::string shorter;  // of several prompts the first that is concerned
  for (const Request& asked : std::exchange(ask.asked, {})) {
    if (!ask.requests.empty() && ask.requests.back()->request.tokens == asked.tokens) {
      ask.requests.push_back(ask.requests.back()), ask.bytes.push_back(ask.bytes.back());
      continue;
    }
    const auto ready = prepare(service.model(), asked, preparation(service, ask, asked));
    if (!ready) return std::unexpected(refusal_of(service, ask, asked, ready.error()));
    ask.requests.push_back(*ready);
    ask.bytes.push_back(bytes_of_answer(service, ask, **ready));
    if (const double bytes = ask.bytes.back().computed; !service.room().could_hold(bytes))
      return std::unexpected(
          about(choice, {ErrorKind::invalid_input,
                         fmt::format("gen_length: the answer needs {:.3g} MB of memory, {:.3g} MB at most are there",
                                     bytes / 1e6, service.room().limits().kv_bytes / 1e6)}));
    if (shorter.empty() && (*ready)->asked_length > 0)
      shorter = fmt::format("the answer may have {} tokens, not {}: the context of {} has {} of prompt",
                            (*ready)->most_generated, (*ready)->asked_length, service.model().context(),
                            (*ready)->prompt_tokens);
  }
  ask.decoding = nullptr;
  ask.preset = choice.preset();
  add_note(ask, shorter);
  add_note(ask, choice.note());
  const ReadyRequest& first = *ask.requests.front();
  if (!first.request.gaps) {
    add_note(ask, prompt_cost(service.model(), first.prompt_tokens, first.request.options));
    add_note(ask, kept_part(service, first.prompt_tokens));
  }
  if (!decoding->unused.empty())
    LLADA_TRY_STATUS(add_warning(
        service, ask,
        decoding->unused + ": not used, since the form or the tools of the answer decide which tokens may be sampled"));
  for (const std::string& line : left_out) LLADA_TRY_STATUS(add_warning(service, ask, printable(line, 300)));
  return {};
}

}  // namespace llada::serve
