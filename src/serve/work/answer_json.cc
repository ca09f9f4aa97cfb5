// Parts of answers as JSON (answer_writer.h).
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "serve/work/answer_writer.h"
#include "text/json_text.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

constexpr double kLeast = -9999;  // in the place of minus infinity, which JSON has not

Json token_logprob(const Model& model, int32_t token, double log_probability) {
  Json bytes = Json::array();
  for (const char c : model.tokenizer().piece(token)) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", token_text(model, token)}, {"logprob", log_probability}, {"bytes", bytes}};
}

}  // namespace

std::string call_id(const std::string& request, int64_t index, int64_t call) {
  return fmt::format("call_{}_{}_{}", request, index, call);
}

std::string with_members(std::string object, const Json& more) {
  if (more.empty()) return object;
  object.back() = ',';
  return object + dump(more).substr(1);
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

std::string event_text(const std::string& type, const Json& fields) {
  Json all = {{"type", type}};
  all.update(fields);
  return fmt::format("event: {}\n{}", type, event_text(all));
}

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
