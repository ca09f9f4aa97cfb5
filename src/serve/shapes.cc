#include "serve/shapes.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "text/json_text.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

bool is_chat(const AnswerHead& head) { return head.shape == Shape::chat; }

Json head_json(const AnswerHead& head, bool chunk) {
  const std::string object = is_chat(head) ? (chunk ? "chat.completion.chunk" : "chat.completion") : "text_completion";
  return {{"id", head.id}, {"object", object}, {"created", head.created}, {"model", head.model}};
}

Json chunk_json(const AnswerHead& head, Json choices) {
  Json json = head_json(head, true);
  json["choices"] = std::move(choices);
  return json;
}

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace

std::string call_id(const AnswerHead& head, int64_t index, int64_t call) {
  return fmt::format("call_{}_{}_{}", head.id.substr(head.id.find_first_of("-_") + 1), index, call);
}

Json infill_json(const AnswerHead& head, const FinishedAnswer& answer, const Json& usage) {
  // content and the counts beside it are llama-server's names, which editors read.
  return {{"object", "infill"},
          {"model", head.model},
          {"content", answer.text},
          {"spans", answer.spans},
          {"stop", true},
          {"tokens_predicted", usage.at("completion_tokens")},
          {"tokens_evaluated", usage.at("prompt_tokens")},
          {"usage", usage}};
}

WholeText::WholeText(const AnswerHead& head) : head_(head), text_(dump(head_json(head, false))) {
  text_.pop_back();
  text_ += ",\"choices\":[";
}

void WholeText::add(const FinishedAnswer& answer) {
  Json choice = {{"index", count_}};
  if (is_chat(head_)) {
    choice["message"] = {{"role", "assistant"}, {"content", answer.text}, {"refusal", nullptr}};
    if (!answer.calls.empty() && answer.text.empty()) choice["message"]["content"] = nullptr;
    for (size_t i = 0; i < answer.calls.size(); ++i)
      choice["message"]["tool_calls"].push_back(
          {{"id", call_id(head_, static_cast<int64_t>(count_), static_cast<int64_t>(i))},
           {"type", "function"},
           {"function", {{"name", answer.calls[i].name}, {"arguments", answer.calls[i].arguments}}}});
    if (!answer.thoughts.empty()) choice["message"]["reasoning_content"] = answer.thoughts;
  } else {
    choice["text"] = answer.text;
    // Clients of fill-in-the-middle read one or the other.
    if (head_.shape == Shape::fim) choice["message"] = {{"role", "assistant"}, {"content", answer.text}};
  }
  choice["logprobs"] = answer.logprobs;
  choice["finish_reason"] = answer.reason;
  if (count_++ > 0) text_ += ',';
  text_ += dump(choice);
}

std::string WholeText::end(const Json& rest) { return std::move(text_) + "]," + dump(rest).substr(1); }

Json piece_json(const AnswerHead& head, int64_t index, const std::string& delta, const std::string& reason,
                const Json& logprobs) {
  Json choice = {{"index", index}};
  if (is_chat(head)) {
    choice["delta"] = delta.empty() && !reason.empty() ? Json::object() : Json{{"content", delta}};
  } else {
    choice["text"] = delta;
    if (head.shape == Shape::fim) choice["delta"] = {{"content", delta}};
  }
  choice["logprobs"] = logprobs;
  choice["finish_reason"] = or_null(reason);
  Json json = chunk_json(head, Json::array({std::move(choice)}));
  if (head.shape == Shape::infill) json["content"] = delta, json["stop"] = !reason.empty();  // as llama-server has them
  return json;
}

Json thought_json(const AnswerHead& head, int64_t index, const std::string& thoughts) {
  Json json = piece_json(head, index, "", "", nullptr);
  json["choices"][0]["delta"] = {{"reasoning_content", thoughts}};
  return json;
}

Json call_json(const AnswerHead& head, int64_t index, const AnswerPiece& piece) {
  Json json = piece_json(head, index, "", "", nullptr);
  Json call = {{"index", piece.call}};
  if (!piece.name.empty()) {
    call["id"] = call_id(head, index, piece.call);
    call["type"] = "function";
    call["function"]["name"] = piece.name;
  }
  call["function"]["arguments"] = piece.text;
  json["choices"][0]["delta"] = {{"tool_calls", Json::array({std::move(call)})}};
  return json;
}

Json role_json(const AnswerHead& head, int64_t index, bool calls) {
  if (!is_chat(head)) return nullptr;
  Json json = piece_json(head, index, "", "", nullptr);
  json["choices"][0]["delta"] = {{"role", "assistant"}, {"content", calls ? Json(nullptr) : Json("")}};
  return json;
}

Json usage_piece_json(const AnswerHead& head, const Json& usage) {
  Json json = chunk_json(head, Json::array());
  json["usage"] = usage;
  return json;
}

std::string with_value(const Json& json, std::string_view name, std::string_view value) {
  std::string text = dump(json);
  const std::string member = fmt::format("\"{}\":", name);
  const size_t at = text.find(member + "null");
  LLADA_CHECK(at != std::string::npos);
  return text.replace(at + member.size(), 4, value);
}

std::string arguments_object(const std::string& arguments) {
  const auto text = spelled_text(to_valid_utf8(arguments));
  return text && text->starts_with('{') ? *text : "{}";
}

std::string event_text(const Json& json) { return "data: " + dump(json) + "\n\n"; }

Json usage_json(const std::vector<GenerationStats>& stats, int64_t prompt_tokens) {
  int64_t tokens = 0, forwards = 0, rows = 0, reused = 0;
  double seconds = 0;
  for (const GenerationStats& s : stats) {
    tokens += s.content_tokens, forwards += s.decode.nfe, rows += s.decode.rows, reused += s.reused_positions;
    seconds = std::max(seconds, s.seconds);
  }
  return {{"prompt_tokens", prompt_tokens},
          {"completion_tokens", tokens},
          {"total_tokens", prompt_tokens + tokens},
          {"prompt_tokens_details", {{"cached_tokens", reused}}},
          {"forwards", forwards},
          {"rows", rows},
          {"seconds", seconds}};
}

std::string token_text(const Model& model, int32_t token) {
  return to_valid_utf8(model.tokenizer().decode({&token, 1}, true));
}

namespace {

Json token_logprob(const Model& model, int32_t token, double log_probability) {
  Json bytes = Json::array();
  for (const char c : model.tokenizer().piece(token)) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", token_text(model, token)}, {"logprob", log_probability}, {"bytes", bytes}};
}

Json chat_logprobs(const Model& model, std::span<const ScoredToken> tokens, bool empty_lists) {
  Json content = Json::array();
  for (const ScoredToken& t : tokens) {
    Json entry = token_logprob(model, t.token, t.log_probability.value_or(0));
    if (empty_lists || !t.top.empty()) entry["top_logprobs"] = Json::array();
    for (const auto& [token, log_probability] : t.top)
      entry["top_logprobs"].push_back(token_logprob(model, token, log_probability));
    content.push_back(std::move(entry));
  }
  return content;
}

constexpr double kLeast = -9999;  // in the place of minus infinity, which JSON has not

}  // namespace

ScoredToken with_score(const TokenScore& score) {
  ScoredToken scored{score.token, std::max(score.log_probability, kLeast), score.top};
  for (auto& alternative : scored.top) alternative.log_probability = std::max(alternative.log_probability, kLeast);
  return scored;
}

ScoredToken taken(int32_t token, double confidence) {
  return {token, confidence > 0 ? std::max(std::log(confidence), kLeast) : kLeast};
}

std::vector<ScoredToken> scored_prompt(std::span<const int32_t> prompt, const ContinuationScore& rest) {
  std::vector<ScoredToken> tokens;
  if (!prompt.empty()) tokens.push_back({prompt.front(), std::nullopt});
  for (const TokenScore& score : rest.tokens) tokens.push_back(with_score(score));
  return tokens;
}

namespace {

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

}  // namespace

Json logprobs_json(const Model& model, Shape shape, std::span<const ScoredToken> tokens) {
  if (shape == Shape::ollama_chat || shape == Shape::ollama_text) return chat_logprobs(model, tokens, false);
  if (shape == Shape::chat) return {{"content", chat_logprobs(model, tokens, true)}, {"refusal", nullptr}};
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

Json edit_json(const Model& model, const decode::Edit& edit) {
  const bool masked = edit.state == decode::TokenState::masked;
  Json json = {{"position", edit.position},
               {"id", edit.token},
               {"text", masked ? "" : to_valid_utf8(model.tokenizer().decode({&edit.token, 1}))},
               {"state", masked                                      ? "masked"
                         : edit.state == decode::TokenState::visible ? "visible"
                                                                     : "stable"},
               {"confidence", std::isfinite(edit.confidence) ? Json(edit.confidence) : Json(nullptr)}};
  if (edit.from >= 0) json["from"] = edit.from;
  if (edit.by_form) json["by_form"] = true;
  return json;
}

}  // namespace llada::serve
