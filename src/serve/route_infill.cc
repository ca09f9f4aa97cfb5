// /infill and /v1/fim/completions: text for the gaps of a text. A gap has as many tokens as were asked for: the model
// fills each of them, so a long gap holds a long text.
#include <algorithm>

#include "serve/infill.h"
#include "serve/job.h"
#include "serve/routes.h"

namespace llada::serve {
namespace {

using nlohmann::json;

constexpr int64_t kGap = 32;  // tokens, where nobody says how many

Answered<Ask> lay(Service& service, Ask ask, std::span<const InfillPiece> pieces, const DecodeChoice& choice) {
  LLADA_TRY(InfillLayout layout, lay_out_infill(service.model(), pieces));
  Request request{.tokens = std::move(layout.tokens), .gaps = std::move(layout.positions), .options = choice.options};
  LLADA_TRY_STATUS(check(service, request, choice));
  ask.requests.push_back(std::move(request));
  ask.gaps = std::move(layout.gaps);
  ask.preset = choice.preset();
  return ask;
}

// What stands in other files, before what stands in this one.
Answered<std::string> read_extra(Body& body) {
  const json* list = body.find("input_extra");
  std::string text;
  if (list == nullptr) return text;
  if (!list->is_array()) return wrong("input_extra", *list, "a list of objects with text");
  for (const json& item : *list) {
    if (!item.is_object() || !item.contains("text") || !item["text"].is_string())
      return wrong("input_extra", item, "objects with text");
    text += item["text"].get<std::string>() + "\n";
  }
  return text;
}

}  // namespace

Answered<Ask> read_fim(Service& service, Body body, Shape shape) {
  Ask ask{.shape = shape, .requests = {}, .preset = {}};
  LLADA_TRY_STATUS(read_streaming(body, ask));
  LLADA_TRY_STATUS(read_format(body));
  LLADA_TRY(const auto prompt, body.text("prompt"));
  LLADA_TRY(const auto suffix, body.text("suffix"));
  LLADA_TRY(ask.stop, read_stop(body));
  LLADA_TRY(const auto most, body.integer("max_tokens", 1, kMaxGap));
  LLADA_TRY(const auto also_most, body.integer("max_completion_tokens", 1, kMaxGap));
  LLADA_TRY(const auto n, body.integer("n", 1, 1));
  static_cast<void>(n);
  LLADA_TRY(const DecodeChoice choice, read_decoding(body, service.model().special_ids().attention_block, true));
  body.ignore({"model"});
  LLADA_TRY_STATUS(body.finish());
  if (!prompt && !suffix) return refuse("prompt: needed, a text (or suffix)", "prompt");
  const std::string before = prompt.value_or(""), behind = suffix.value_or("");
  const int64_t gap = also_most.value_or(most.value_or(kGap));
  const InfillPiece pieces[] = {{before, 0}, {{}, gap}, {behind, 0}};
  return lay(service, std::move(ask), pieces, choice);
}

Answered<Ask> read_infill(Service& service, Body body) {
  Ask ask{.shape = Shape::infill, .requests = {}, .preset = {}};
  LLADA_TRY_STATUS(read_streaming(body, ask));
  LLADA_TRY(const auto text, body.text("text"));
  LLADA_TRY(const auto before, body.text("input_prefix"));
  LLADA_TRY(const auto behind, body.text("input_suffix"));
  LLADA_TRY(const auto cursor, body.text("prompt"));
  LLADA_TRY(std::string prefix, read_extra(body));
  LLADA_TRY(ask.stop, read_stop(body));
  LLADA_TRY(const auto length, body.integer("n_predict", -1, INT64_MAX));
  if (!text) body.ignore({"top_k", "top_p"});  // llama.vim's, of sampling that it does not ask for
  LLADA_TRY(const DecodeChoice choice, read_decoding(body, service.model().special_ids().attention_block, true));
  // Of llama.vim: what it tells llama-server about its cache and time.
  body.ignore({"model", "id_slot", "n_indent", "samplers", "cache_prompt", "t_max_prompt_ms", "t_max_predict_ms",
               "response_fields", "n_cache_reuse"});
  LLADA_TRY_STATUS(body.finish());
  if (text.has_value() == (before.has_value() || behind.has_value()))
    return refuse("text: needed a text with gaps <mask:N>, or input_prefix and input_suffix", "text");
  if (!text) {
    prefix += before.value_or("") + cursor.value_or("");
    const int64_t gap = length && *length > 0 ? std::min(*length, kMaxGap) : kGap;
    const InfillPiece pieces[] = {{prefix, 0}, {{}, gap}, {behind ? *behind : std::string_view(), 0}};
    return lay(service, std::move(ask), pieces, choice);
  }
  auto pieces = parse_infill_template(*text);
  if (!pieces) return refuse("text: " + pieces.error().message, "text");
  if (!ask.stop.empty()) return refuse("stop: the text goes on behind a gap; needed no stop text", "stop");
  ask.whole_text = true;
  return lay(service, std::move(ask), *pieces, choice);
}

namespace {

void answer_with(Service& service, const std::shared_ptr<Exchange>& exchange, Answered<Ask> (*read)(Service&, Body)) {
  auto body = Body::parse(*exchange);
  if (!body) return exchange->respond(error_reply(body.error()));
  begin_job(service, exchange, read(service, std::move(*body)));
}

}  // namespace

void answer_fim(Service& service, const std::shared_ptr<Exchange>& exchange) {
  answer_with(service, exchange, [](Service& s, Body body) { return read_fim(s, std::move(body), Shape::fim); });
}

void answer_infill(Service& service, const std::shared_ptr<Exchange>& exchange) {
  answer_with(service, exchange, read_infill);
}

}  // namespace llada::serve
