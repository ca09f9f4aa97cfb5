#include "serve/work/ask.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "decode/removed.h"
#include "engine/model_runner.h"
#include "engine/prompt.h"
#include "engine/request_memory.h"
#include "formats/printable.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

std::string setting_text(const Fields& body, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  const auto whole = value.is_number_float() ? whole_number(value) : std::nullopt;
  return whole ? fmt::to_string(*whole) : body.text_of(value);
}

// One option from a field of the body; `typed` is what errors call it.
Done give(DecodeChoice& choice, const Fields& body, const std::string& key, const Json& value,
          const std::string& typed) {
  if (value.is_structured() && key != "json_schema") return wrong(typed, value, "a number, a text, true or false");
  auto setting = decode::setting(key, setting_text(body, value));
  if (!setting) {
    const std::string_view instead = decode::replaced_by(key);
    return refuse(instead.empty() ? fmt::format("{}: this is no decoding option (see /v1/llada/options)", typed)
                                  : fmt::format("{}: was removed: {}", typed, instead),
                  typed);
  }
  decode::DecodeOptions scratch;
  if (const Status status = set_field(scratch, key, setting->text); !status)
    return refuse(typed + status.error().message.substr(key.size()), typed);
  setting->typed = typed;
  choice.give(std::move(*setting));
  return {};
}

Done read_llada(Fields& body, DecodeChoice& choice, bool infill) {
  const Json* options = body.find("llada");
  if (options == nullptr) return {};
  if (!options->is_object()) return wrong("llada", *options, "an object of decoding options");
  for (const auto& [key, value] : options->items()) {
    const std::string typed = "llada." + key;
    if (value.is_null()) continue;
    if (key == "preset") {
      if (!value.is_string() || value == "") return wrong(typed, value, "the name of a preset");
      choice.give_preset(value.get<std::string>());
    } else if (infill && key == "gen_length") {
      return refuse("llada.gen_length: not for infilling, where the gaps say it", typed);
    } else {
      LLADA_TRY_STATUS(give(choice, body, key, value, typed));
    }
  }
  return {};
}

// The field of the body that an error of the engine is about: its first word.
ApiError about(const DecodeChoice& choice, const Error& error) {
  ApiError api(choice.as_typed(error));
  const size_t colon = std::min(api.message.find(':'), api.message.size());
  const std::string_view before = std::string_view(api.message).substr(0, colon);
  if (error.kind == ErrorKind::invalid_input && colon < api.message.size() && !before.contains(' ')) api.param = before;
  const std::string name(before.substr(0, before.find(' ')));  // a value may stand behind it
  if (name.starts_with("llada.") || decode::find_field(name) != nullptr) api.param = name;
  // A value of the preset's: nobody sent that field.
  if (before.contains(" (of preset ")) {
    api.param = choice.preset_typed();
    api.message.insert(0, choice.preset_typed() + ": ");
  }
  return api;
}

// How long the answer may be. A client does not know what the context has room for, so more than there can be is no
// mistake, and -1 leaves it open, as with llama-server.
Done read_length(Fields& body, std::initializer_list<const char*> names, DecodeChoice& choice) {
  bool given = false;
  for (const char* name : names) {
    const Json* value = body.find(name);
    if (value == nullptr || *value == -1 || std::exchange(given, true)) continue;
    const bool huge = value->is_number() && *value > decode::kMaxGenLength;
    LLADA_TRY_STATUS(give(choice, body, "gen_length", huge ? Json(decode::kMaxGenLength) : *value, name));
  }
  return {};
}

// Whether the answer shall fit a form, or may call tools.
bool asks_for_form(const Fields& body) {
  const Json* choice = body.look("tool_choice");
  const bool none =
      choice != nullptr && (choice->is_object() ? choice->value("type", Json()) == "none" : *choice == "none");
  if (!changes_nothing(body, "tools") && !none) return true;
  const Json* own = body.look("llada");
  constexpr std::string_view kForms[] = {"choice", "regex", "json_schema", "json_object", "template"};
  return own != nullptr && own->is_object() &&
         std::ranges::any_of(kForms, [&](std::string_view key) { return !own->value(key, Json()).is_null(); });
}

// The options of sampling count only where tokens are sampled: at temperature 0 the best token is taken. A form of the
// answer decides what may be sampled; clients send some of them with every request.
Done read_sampling(Fields& body, DecodeChoice& choice, bool formed, std::string& left_out) {
  const bool samples = choice.options.temperature > 0 && !formed;
  DecodeChoice unused;
  for (const char* key : {"top_p", "top_k", "min_p"}) {
    const Json* value = body.find(key);
    if (value == nullptr || (key == std::string_view("top_k") && *value == -1)) continue;  // of all, as with vLLM
    LLADA_TRY_STATUS(give(samples ? choice : unused, body, key, *value, key));
    if (formed && choice.options.temperature > 0) left_out += (left_out.empty() ? "" : ", ") + std::string(key);
  }
  return {};
}

// A field's wish as the option that says the same. What of a schema can be followed is known once it is read.
Done give_form(const Fields& body, const FormWish& wish, DecodeChoice& choice) {
  constexpr const char* kAnySchema = "{}";
  const Json* own = body.look("llada");
  if (own != nullptr && own->is_object() && (own->contains("json_schema") || own->contains("json_object")))
    return refuse(fmt::format("{}: llada says it too; needed one of the two", wish.name), wish.name);
  return give(choice, body, wish.key, wish.key == "json_schema" ? kAnySchema : wish.text, wish.name);
}

Done follow_schema(const std::optional<FormWish>& wish, Decoding& decoding) {
  if (!wish || wish->key != "json_schema") return {};
  auto left_out = decode::set_schema(decoding.choice.options, wish->text, wish->strict, wish->where);
  if (!left_out) return refuse(left_out.error().message, wish->name);
  decoding.left_out = std::move(*left_out);
  return {};
}

}  // namespace

Answered<Decoding> read_decoding(Fields& body, const Ask& ask, const decode::ModelKind& kind, bool infill,
                                 std::initializer_list<const char*> lengths) {
  Decoding decoding{.choice = DecodeChoice(infill)};
  DecodeChoice& choice = decoding.choice;
  choice.use_defaults();
  choice.built_in_presets_only("llada.preset");
  if (!infill) LLADA_TRY_STATUS(read_length(body, lengths, choice));
  // The third is Mistral's, the last vLLM's and llama-server's.
  const std::pair<const char*, const char*> named[] = {{"temperature", "temperature"},
                                                       {"seed", "seed"},
                                                       {"random_seed", "seed"},
                                                       {"repeat_penalty", "repeat_penalty"},
                                                       {"repetition_penalty", "repeat_penalty"}};
  const Json* penalty = body.find("repeat_penalty");
  const bool formed = !infill && (ask.form || asks_for_form(body));
  DecodeChoice unused;
  for (const auto& [name, key] : named) {
    const Json* value = body.find(name);
    const bool twice = value != penalty && key == std::string_view("repeat_penalty") && penalty != nullptr;
    if (value == nullptr || (twice && *value == *penalty)) continue;  // some clients send both names
    const bool left_out = formed && key == std::string_view("repeat_penalty");
    LLADA_TRY_STATUS(give(left_out ? unused : choice, body, key, *value, name));
    if (left_out && *value != 1) decoding.unused = name;
  }
  LLADA_TRY(const bool ignore_end, body.boolean("ignore_eos", false));
  if (ignore_end && !infill) LLADA_TRY_STATUS(give(choice, body, "early_stop", "none", "ignore_eos"));
  LLADA_TRY_STATUS(read_llada(body, choice, infill));
  if (ask.form) LLADA_TRY_STATUS(give_form(body, *ask.form, choice));
  if (const Json* own = body.find("llada")) decoding.insists = !own->value("gen_length", Json()).is_null();
  const auto resolve = [&]() -> Done {
    if (const Status status = choice.resolve(kind); !status) return std::unexpected(about(choice, status.error()));
    return {};
  };
  LLADA_TRY_STATUS(resolve());
  LLADA_TRY_STATUS(read_sampling(body, choice, formed, decoding.unused));
  LLADA_TRY_STATUS(resolve());
  LLADA_TRY_STATUS(follow_schema(ask.form, decoding));
  if (ask.drops_answer) static_cast<decode::FormOptions&>(choice.options) = {};  // of an answer that is not there
  choice.draw_seed();
  return decoding;
}

namespace {

// stream, stream_options, diffusing.
Done read_streaming(Fields& body, Ask& ask) {
  LLADA_TRY(ask.stream, body.boolean("stream", false));
  LLADA_TRY(ask.progress, body.boolean("return_progress", false));
  if (const Json* options = body.find("stream_options")) {
    if (!options->is_object()) return wrong("stream_options", *options, "an object");
    for (const auto& [key, value] : options->items()) {
      if (key == "include_usage" && value.is_boolean()) {
        ask.include_usage = value.get<bool>();
      } else if (key == "continuous_usage_stats" && value.is_boolean()) {
        ask.usage_in_pieces = value.get<bool>();
      } else if (!asks_nothing(value) && (key != "include_obfuscation" || !value.is_boolean())) {
        return refuse(fmt::format("stream_options.{}: this field, or this value of it, is not supported here", key),
                      "stream_options." + key);
      }
    }
  }
  if (const Json* watch = body.find("diffusing")) {
    if (*watch == true) {
      ask.watch = Watch::replace;
    } else if (*watch == "frames") {
      ask.watch = Watch::frames;
    } else if (*watch != false) {
      return wrong("diffusing", *watch, "true, false or \"frames\"");
    }
  }
  return {};
}

}  // namespace

Done check_model(Service& service, Fields& body) {
  const Json* model = body.find("model");
  if (model == nullptr || !service.options().strict_model) return {};
  const std::string name = service.name();
  if (*model == name || *model == name + ":latest") return {};
  return std::unexpected(
      ApiError(404,
               fmt::format("the model {} does not exist; there is {}",
                           printable(model->dump(-1, ' ', true, Json::error_handler_t::replace), 100), in_quotes(name)),
               "model", "model_not_found"));
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

bool can_think(const Service& service, Shape shape) {
  constexpr Shape kConversations[] = {Shape::chat, Shape::response, Shape::message, Shape::ollama_chat,
                                      Shape::ollama_text};
  return std::ranges::count(kConversations, shape) > 0 && service.model().chat_format().thought_begin >= 0;
}

Answered<Ask> read_ask(Service& service, Fields& body, Shape shape) {
  Ask ask;
  LLADA_TRY_STATUS(check_model(service, body));
  LLADA_TRY_STATUS(read_streaming(body, ask));
  LLADA_TRY(const auto warnings,
            read_without_effect(body, shape == Shape::response, can_think(service, shape) ? &ask.think : nullptr));
  for (const std::string& warning : warnings) LLADA_TRY_STATUS(add_warning(service, ask, warning));
  LLADA_TRY(ask.form, read_format(body, shape));
  const bool biased =
      shape == Shape::chat || shape == Shape::completion || shape == Shape::fim || shape == Shape::llama;
  if (biased) LLADA_TRY_STATUS(read_logit_bias(service, body, ask));
  return ask;
}

Answered<int64_t> read_count(Service& service, Fields& body) {
  LLADA_TRY(const auto n, body.optional_integer("n", 1, service.options().most_answers));
  return n.value_or(1);
}

Answered<std::vector<std::string>> read_stop(Fields& body, const std::string& name) {
  LLADA_TRY(auto stop, body.texts(name));
  std::erase(stop, "");  // some clients' way to send none
  if (stop.size() > 16) return refuse(fmt::format("{}: found {} texts, needed 16 at most", name, stop.size()), name);
  constexpr size_t kMostBytes = 4096;  // each answer of a request has its own
  for (const std::string& text : stop)
    if (text.size() > kMostBytes)
      return refuse(fmt::format("{}: found a text of {} bytes, needed {} at most", name, text.size(), kMostBytes),
                    name);
  return stop;
}

std::unexpected<ApiError> too_long(const std::string& field, const std::string& message) {
  auto refused = refuse(fmt::format("{}: {}", field, message), field);
  refused.error().code = kTooLong;
  return refused;
}

Done check_bytes(Service& service, size_t bytes, const std::string& field) {
  if (const Status status = service.model().check_length(bytes); !status)
    return too_long(
        field, fmt::format("the prompt is too long: {} bytes; this model's maximum context length is {} tokens", bytes,
                           service.model().context()));
  return {};
}

void add_note(Ask& ask, std::string_view note) {
  if (note.empty()) return;
  if (!ask.note.empty()) ask.note += "; ";
  ask.note += note;
}

Answered<std::vector<int32_t>> conversation_ids(Service& service, std::span<const ChatMessage> messages,
                                                const std::string& field, bool think) {
  size_t bytes = 0;
  for (const ChatMessage& message : messages) bytes += message.bytes();
  LLADA_TRY_STATUS(check_bytes(service, bytes, field));
  auto ids = chat_prompt(service.model(), messages, think);
  if (!ids) return refuse(fmt::format("{}: {}", field, ids.error().message), field);
  return std::move(*ids);
}

Answered<std::vector<int32_t>> text_ids(Service& service, std::string_view text, const std::string& field) {
  LLADA_TRY_STATUS(check_bytes(service, text.size(), field));
  auto ids = text_prompt(service.model(), text);
  if (!ids) return refuse(fmt::format("{}: {}", field, ids.error().message), field);
  return std::move(*ids);
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
      "the "
      "others again",
      bytes / kMiB, kept / kMiB);
}

}  // namespace

int64_t most_answers(const Service& service) {
  const RoomLimits& limits = service.options().admission;
  return std::min(service.options().most_answers, limits.running + limits.waiting);
}

Done check_count(Service& service, int64_t prompts, int64_t n) {
  const int64_t most = most_answers(service);
  if (prompts * n > most)
    return refuse(fmt::format("{}: found {} prompts and n {}, needed {} answers at most", n > 1 ? "n" : "prompt",
                              prompts, n, most),
                  n > 1 ? "n" : "prompt");
  return {};
}

double waiting_bytes(const Ask& ask) {
  constexpr size_t kJson = 4;  // of a text, as values
  size_t bytes = ask.repeated.empty() ? 0 : kJson * dump(ask.repeated).size();
  const auto add = [&](const Request& request) {
    const auto& biases = request.options.logit_bias;
    bytes += request.tokens.size() * sizeof(int32_t) + biases.size() * sizeof(biases[0]);
    if (const auto form = decode::form_of(request.options)) bytes += form->text.size();
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

Done make_requests(Service& service, Ask& ask, const std::string& field, std::vector<std::vector<int32_t>> prompts,
                   Decoding decoding, int64_t n, const std::vector<std::string>& stop) {
  LLADA_TRY_STATUS(check_count(service, std::ssize(prompts), n));
  LLADA_TRY_STATUS(apply_logit_bias(service, ask, decoding.choice.options));
  for (auto& prompt : prompts)
    ask.asked.push_back({.tokens = std::move(prompt),
                         .options = decoding.choice.options,
                         .stop = stop,
                         .alternatives = ask.alternatives});
  ask.each = n;
  ask.prompt_field = field;
  ask.decoding = std::make_shared<const Decoding>(std::move(decoding));
  return {};
}

Done prepare_requests(Service& service, Ask& ask) {
  const auto decoding = ask.decoding;
  const DecodeChoice& choice = decoding->choice;
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
        service, ask, decoding->unused + ": the form of the answer, or its tools, decide what may be sampled"));
  for (const std::string& line : decoding->left_out) LLADA_TRY_STATUS(add_warning(service, ask, printable(line, 300)));
  return {};
}

}  // namespace llada::serve
