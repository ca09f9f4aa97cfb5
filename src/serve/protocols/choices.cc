#include "serve/protocols/choices.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace llada::serve {
namespace {

constexpr std::string_view kLastEvent = "data: [DONE]\n\n";

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// A token's name where log-probabilities go by names: its text, or as OpenAI writes it where that is part of a
// character, so that no two have one name.
std::string token_name(const Model& model, int32_t token) {
  std::string bytes = model.tokenizer().decode({&token, 1}, true);
  if (to_valid_utf8(bytes) == bytes) return bytes;
  std::string name = "bytes:";
  for (const char c : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return name;
}

size_t characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

Json named_logprobs(const Model& model, std::span<const ScoredToken> tokens) {
  Json names = Json::array(), logprobs = Json::array(), tops = Json::array(), offsets = Json::array();
  // Where a token begins among the characters of the text: within one, where that one stands.
  size_t offset = 0;
  Utf8Stream text;
  for (const ScoredToken& t : tokens) {
    const std::string name = token_name(model, t.token);
    names.push_back(name), offsets.push_back(offset);
    text.append(model.tokenizer().decode({&t.token, 1}));
    offset += characters(text.take());
    logprobs.push_back(t.log_probability ? Json(*t.log_probability) : Json(nullptr));
    if (!t.log_probability) {
      tops.push_back(nullptr);
      continue;
    }
    // The token itself is there however improbable it is.
    Json top = Json::object();
    const auto add = [&](int32_t token, double log_probability) {
      const std::string own = token_name(model, token);
      top.emplace(top.contains(own) ? fmt::format("token_id:{}", token) : own, log_probability);
    };
    for (const auto& [token, log_probability] : t.top) add(token, log_probability);
    const bool named = std::ranges::find(t.top, t.token, &TokenScore::Alternative::token) != t.top.end();
    if (!named) add(t.token, *t.log_probability);
    tops.push_back(std::move(top));
  }
  return {{"tokens", names}, {"token_logprobs", logprobs}, {"top_logprobs", tops}, {"text_offset", offsets}};
}

}  // namespace

std::string ChoicesWriter::body(const EndedAnswers& answers, const Json& beside) {
  std::string text = dump(head_json(false));
  text.pop_back();
  text += ",\"choices\":[";
  for (size_t i = 0; i < answers.count; ++i) {
    FinishedAnswer answer = answers.take(i);
    Json choice = {{"index", i}};
    put_answer(choice, answer, static_cast<int64_t>(i));
    choice["logprobs"] = std::move(answer.logprobs);
    choice["finish_reason"] = answer.reason;
    if (i > 0) text += ',';
    text += dump(choice);
  }
  Json rest = {{"usage", answers.usage}};
  rest.update(beside);
  return std::move(text) + "]," + dump(rest).substr(1);
}

Json ChoicesWriter::logprobs(const Model& model, std::span<const ScoredToken> tokens) const {
  return named_logprobs(model, tokens);
}

std::string ChoicesWriter::begin() {
  std::string events;
  for (size_t i = 0; i < ask_.requests.size() * static_cast<size_t>(ask_.each); ++i) {
    const auto at = static_cast<int64_t>(i);
    events += first_event(at);
    if (!ask_.echoed.empty() && !ask_.echoed[prompt_of(ask_, i)].empty())
      events += event_text(piece(at, ask_.echoed[prompt_of(ask_, i)]));
  }
  return events;
}

std::string ChoicesWriter::text(int64_t index, const std::string& delta, int64_t tokens, Json frame) {
  if (delta.empty() && frame.is_null()) return "";
  Json json = piece(index, delta);
  if (frame.is_null()) return event_text(with_usage(std::move(json), index, tokens));
  json["llada"] = std::move(frame);
  return event_text(json);
}

std::string ChoicesWriter::call(int64_t index, const AnswerPiece& more, int64_t tokens) {
  Json call = {{"index", more.call}};
  if (!more.name.empty()) {
    call["id"] = call_id(head_.id, index, more.call);
    call["type"] = "function";
    call["function"]["name"] = more.name;
  }
  call["function"]["arguments"] = more.text;
  return event_text(with_usage(piece_with(index, {{"tool_calls", Json::array({std::move(call)})}}), index, tokens));
}

std::string ChoicesWriter::thought(int64_t index, const std::string& thoughts) {
  return event_text(piece_with(index, {{"reasoning_content", thoughts}}));
}

std::string ChoicesWriter::so_far(int64_t index, const std::string& text, double share) {
  return replacing(index, text, "", share);
}

Json ChoicesWriter::empty_event(int64_t index) const { return piece(index, ""); }

std::string ChoicesWriter::end(int64_t index, const AnswerEnd& end) {
  const FinishedAnswer& answer = end.answer;
  if (ask_.watch == Watch::replace)
    return replacing(index, answer.text, answer.reason, 1) +
           event_text(piece(index, "", answer.reason, answer.logprobs));
  Json json = piece(index, end.frame_text, answer.reason, answer.logprobs);
  if (end.frame.is_null()) return event_text(with_usage(std::move(json), index, end.tokens));
  json["llada"] = end.frame;
  json["usage"] = end.usage;
  if (!answer.spans.is_null()) json["spans"] = answer.spans;
  return event_text(json);
}

std::string ChoicesWriter::all_ended(const Json& usage) {
  std::string events;
  if (ask_.include_usage) {
    Json json = head_json(true);
    json["choices"] = Json::array();
    json["usage"] = usage;
    events = event_text(json);
  }
  return events + std::string(kLastEvent);
}

std::string ChoicesWriter::failed(const ApiError& error) {
  return event_text(error_json(error)) + std::string(kLastEvent);
}

void ChoicesWriter::put_answer(Json& choice, const FinishedAnswer& answer, int64_t /*index*/) const {
  choice["text"] = answer.text;
}

void ChoicesWriter::put_delta(Json& choice, const std::string& delta, bool /*ends*/) const { choice["text"] = delta; }

std::string ChoicesWriter::first_event(int64_t /*index*/) const { return ""; }

Json ChoicesWriter::piece(int64_t index, const std::string& delta, const std::string& reason,
                          const Json& logprobs) const {
  Json choice = {{"index", index}};
  put_delta(choice, delta, !reason.empty());
  choice["logprobs"] = logprobs;
  choice["finish_reason"] = or_null(reason);
  Json json = head_json(true);
  json["choices"] = Json::array({std::move(choice)});
  return json;
}

Json ChoicesWriter::piece_with(int64_t index, Json delta) const {
  Json json = piece(index, "");
  json["choices"][0]["delta"] = std::move(delta);
  return json;
}

std::string ChoicesWriter::replacing(int64_t index, const std::string& text, const std::string& reason,
                                     double share) const {
  Json json = piece(index, text, reason);
  if (json["choices"][0].contains("delta") && !json["choices"][0].contains("text"))
    json["choices"][0]["delta"] = {{"role", "assistant"}, {"content", text}};
  json["diffusion_meta"] = {{"diffusion_content", true}, {"diffusion_progress", share}};
  return event_text(json);
}

Json ChoicesWriter::head_json(bool /*chunk*/) const {
  return {{"id", id_}, {"object", object_}, {"created", head_.created}, {"model", head_.model}};
}

Json ChoicesWriter::with_usage(Json piece, int64_t index, int64_t tokens) const {
  if (!ask_.usage_in_pieces) return piece;
  const int64_t prompt = ready_of(ask_, static_cast<size_t>(index)).prompt_tokens;
  piece["usage"] = {{"prompt_tokens", prompt}, {"completion_tokens", tokens}, {"total_tokens", prompt + tokens}};
  return piece;
}

}  // namespace llada::serve
