// /infill and /v1/fim/completions: text for the gaps of a text. A gap has as many tokens as were asked for, where a
// number was: the model fills each of them, so a long gap holds a long text.
#include <algorithm>

#include "serve/protocols/adapter.h"
#include "serve/protocols/choices.h"

namespace llada::serve {
namespace {

// Clients of fill-in-the-middle read texts or messages.
class FimWriter final : public ChoicesWriter {
 public:
  using ChoicesWriter::ChoicesWriter;

 protected:
  void put_answer(Json& choice, const FinishedAnswer& answer, int64_t index) const override {
    ChoicesWriter::put_answer(choice, answer, index);
    choice["message"] = {{"role", "assistant"}, {"content", answer.text}};
  }
  void put_delta(Json& choice, const std::string& delta, bool ends) const override {
    ChoicesWriter::put_delta(choice, delta, ends);
    choice["delta"] = {{"content", delta}};
  }
};

// content and the counts beside it are llama-server's names, which editors read.
class InfillWriter final : public ChoicesWriter {
 public:
  using ChoicesWriter::ChoicesWriter;
  std::string body(const EndedAnswers& answers, const Json& beside) override {
    const FinishedAnswer answer = answers.take(0);
    return with_members(dump({{"object", "infill"},
                              {"model", head_.model},
                              {"content", answer.text},
                              {"spans", answer.spans},
                              {"stop", true},
                              {"tokens_predicted", answers.usage.at("completion_tokens")},
                              {"tokens_evaluated", answers.usage.at("prompt_tokens")},
                              {"usage", answers.usage}}),
                        beside);
  }

 protected:
  Json piece(int64_t index, const std::string& delta, const std::string& reason = "",
             const Json& logprobs = nullptr) const override {
    Json json = ChoicesWriter::piece(index, delta, reason, logprobs);
    json["content"] = delta, json["stop"] = !reason.empty();
    return json;
  }
};

constexpr Dialect kFim{
    .writer = write_as<FimWriter>, .frames = true, .biased = true, .form = read_response_format, .infills = true};
constexpr Dialect kInfill{.writer = write_as<InfillWriter>, .frames = true, .infills = true};

constexpr int64_t kGap = 32;  // tokens, where nobody says how many

// Of a gap, as the client's fields say it, the first before the others; kGap where none does, or -1.
Answered<int64_t> read_gap(Fields& body, std::initializer_list<const char*> names) {
  std::optional<int64_t> length;
  for (const char* name : names) {
    LLADA_TRY(const auto value, body.optional_integer(name, -1, INT64_MAX));
    if (value == 0) return wrong(name, Json(*value), "a whole number from 1");
    if (value && *value > 0 && !length) length = std::min(*value, kMaxGap);
  }
  return length.value_or(kGap);
}

Answered<InfillLayout> lay_out(Service& service, const std::string& field, std::span<const InfillPiece> pieces) {
  size_t bytes = 0;
  for (const InfillPiece& piece : pieces) bytes += piece.text.size();
  LLADA_TRY_STATUS(check_bytes(service, bytes, field));
  LLADA_TRY(InfillLayout layout, lay_out_infill(service.model(), pieces));
  return layout;
}

// n answers, each with a seed of its own. field: where the text stood.
Answered<Ask> lay(Service& service, Ask ask, const std::string& field, InfillLayout layout, Decoding decoding,
                  int64_t n = 1) {
  LLADA_TRY_STATUS(make_requests(service, ask, field, {std::move(layout.tokens)}, std::move(decoding), n));
  Request& request = ask.asked.front();
  request.gaps = std::move(layout.positions);
  request.auto_gaps = layout.automatic();
  ask.gaps = std::move(layout.gaps);
  return ask;
}

// One gap between two texts, no longer than the context has room for beside them.
Answered<Ask> lay_one(Service& service, Ask ask, const std::string& field, std::string_view before, int64_t gap,
                      std::string_view behind, Decoding decoding, int64_t n = 1) {
  const auto with = [&](int64_t length) {
    return lay_out(service, field, std::vector<InfillPiece>{{before, 0}, {{}, length}, {behind, 0}});
  };
  LLADA_TRY(InfillLayout layout, with(gap));
  const int64_t context = service.model().context(), size = std::ssize(layout.tokens);
  if (context > 0 && size > context && gap - (size - context) >= 1) {
    const int64_t left = gap - (size - context);
    LLADA_TRY(layout, with(left));
    add_note(ask, fmt::format("the gap has {} tokens, not {}: the context of {} has {} of text", left, gap, context,
                              size - gap));
  }
  return lay(service, std::move(ask), field, std::move(layout), std::move(decoding), n);
}

// Text of other files, which goes before the text of this one.
Answered<std::string> read_extra(Fields& body) {
  const Json* list = body.find("input_extra");
  std::string text;
  if (list == nullptr) return text;
  if (!list->is_array()) return wrong("input_extra", *list, "a list of objects with text");
  for (const Json& item : *list) {
    if (!item.is_object() || !item.contains("text") || !item["text"].is_string())
      return wrong("input_extra", item, "objects with text");
    text += item["text"].get<std::string>() + "\n";
  }
  return text;
}

Answered<Ask> read_fim(Service& service, Fields body) {
  LLADA_TRY(Ask ask, read_ask(service, body, kFim));
  LLADA_TRY(const int64_t n, read_count(service, body));
  LLADA_TRY_STATUS(read_logprobs(body, ask));
  return read_between(service, body, std::move(ask), n);
}

Answered<Ask> read_infill(Service& service, Fields body) {
  LLADA_TRY(Ask ask, read_ask(service, body, kInfill));
  LLADA_TRY(const auto text, body.optional_text("text"));
  LLADA_TRY(const auto before, body.optional_text("input_prefix"));
  LLADA_TRY(const auto behind, body.optional_text("input_suffix"));
  LLADA_TRY(const auto cursor, body.optional_text("prompt"));
  LLADA_TRY(std::string prefix, read_extra(body));
  LLADA_TRY(ask.stop, read_stop(body));
  LLADA_TRY(const auto length, body.optional_integer("n_predict", -1, INT64_MAX));
  if (!text) body.ignore({"top_k", "top_p"});  // llama.vim's, of sampling that it does not ask for
  LLADA_TRY(Decoding decoding, read_decoding(body, ask, kInfill, kind_of(service)));
  ignore_llama_settings(body);
  LLADA_TRY_STATUS(body.finish());
  if (text.has_value() == (before.has_value() || behind.has_value()))
    return refuse("text: needed a text with gaps <mask:N> or <mask:auto>, or input_prefix and input_suffix", "text");
  if (!text && length == 0) return ask;  // of editors, so that a cache may hold the text: there is none that could
  if (!text) {
    prefix += before.value_or("") + cursor.value_or("");
    const int64_t gap = length && *length > 0 ? std::min(*length, kMaxGap) : kGap;
    return lay_one(service, std::move(ask), "input_prefix", prefix, gap, behind.value_or(""), std::move(decoding));
  }
  auto pieces = parse_infill_template(*text);
  if (!pieces) return refuse("text: " + pieces.error().message, "text");
  if (!ask.stop.empty()) return refuse("stop: the text goes on behind a gap; needed no stop text", "stop");
  ask.whole_text = true;
  LLADA_TRY(InfillLayout layout, lay_out(service, "text", *pieces));
  return lay(service, std::move(ask), "text", std::move(layout), std::move(decoding));
}

}  // namespace

Answered<Ask> read_between(Service& service, Fields& body, Ask ask, int64_t n) {
  LLADA_TRY(const auto prompt, body.optional_text("prompt"));
  LLADA_TRY(const auto suffix, body.optional_text("suffix"));
  LLADA_TRY(ask.stop, read_stop(body));
  LLADA_TRY(const auto gap, read_gap(body, {"max_completion_tokens", "max_tokens"}));
  LLADA_TRY(Decoding decoding, read_decoding(body, ask, kFim, kind_of(service)));
  LLADA_TRY_STATUS(body.finish());
  if (!prompt && !suffix) return refuse("prompt: is missing; needed a text (or suffix)", "prompt");
  const std::string before = prompt.value_or(""), behind = suffix.value_or("");
  return lay_one(service, std::move(ask), prompt ? "prompt" : "suffix", before, gap, behind, std::move(decoding), n);
}

Protocol infill_protocol() {
  static constexpr Route kRoutes[] = {answers("/v1/fim/completions", generate<read_fim>, true),
                                      answers("/infill", generate<read_infill>, true)};
  return {kRoutes};
}

}  // namespace llada::serve
