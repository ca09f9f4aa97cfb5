// Parts of answers as JSON, which protocols share.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/likelihood.h"
#include "engine/request.h"
#include "serve/http/http.h"
#include "text/tool_calls.h"

namespace llada::serve {

// Of a call in the answer `index` to the request with that id.
std::string call_id(const std::string& request, int64_t index, int64_t call);

std::string event_text(const Json& json);  // "data: ...\n\n"
// JSON text in the place of a member that is null, the first of that name. (In strings quotes have a backslash.)
std::string with_value(const Json& json, std::string_view name, std::string_view value);
// The arguments of a call as the text of an object: no number loses digits (text/json_text.h).
std::string arguments_object(const std::string& arguments);
// An object's text, which has members, with further ones.
std::string with_members(std::string object, const Json& more);

// Of all answers together; prompts are counted once. seconds: of the longest.
Json usage_json(const std::vector<GenerationStats>& stats, int64_t prompt_tokens);

// A token of a canvas for a reader: its own characters, bytes of unfinished ones as U+FFFD.
std::string token_text(const Model& model, int32_t token);

// A token with its log-probability (nats), where it has one, and the best tokens in its place.
struct ScoredToken {
  int32_t token;
  std::optional<double> log_probability;
  std::vector<TokenScore::Alternative> top = {};  // best first
};
// As a forward scored it.
ScoredToken with_score(const TokenScore& score);
// Of an answer's token, which was taken with that probability.
ScoredToken taken(int32_t token, double confidence);
// Of a prompt's, the first of which has none.
std::vector<ScoredToken> scored_prompt(std::span<const int32_t> prompt, const ContinuationScore& rest);

// OpenAI's log-probabilities of a chat, a list; empty_lists: tokens without others have an empty list of them.
Json chat_logprobs(const Model& model, std::span<const ScoredToken> tokens, bool empty_lists);

// An edit, as `llada.edits` lists them.
Json edit_json(const Model& model, const decode::Edit& edit);

}  // namespace llada::serve
