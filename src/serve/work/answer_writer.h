// How a protocol writes answers: the body of a whole reply, and the events of a stream. An answer comes as text,
// thoughts and calls, and ends, or the request fails; a protocol's writer puts that into its words.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/likelihood.h"
#include "engine/request.h"
#include "serve/http/http.h"
#include "text/tool_calls.h"

namespace llada::serve {

// Parts of answers as JSON, which protocols share.

// The id of a call in the answer `index` to the request with that id.
std::string call_id(const std::string& request, int64_t index, int64_t call);

std::string event_text(const Json& json);                             // "data: ...\n\n"
std::string event_text(const std::string& type, const Json& fields);  // the same with a name, that of its type
// The object's text with `value`, a JSON text, in the first member of that name, which is null. (Quotes in strings have
// a backslash, so none can be taken for it.)
std::string with_value(const Json& json, std::string_view name, std::string_view value);
// The arguments of a call as the text of an object: no number loses digits (text/json_text.h).
std::string arguments_object(const std::string& arguments);
// An object's text, which has members, with further ones.
std::string with_members(std::string object, const Json& more);

// The usage of all answers together; prompts count once, seconds are those of the longest.
Json usage_json(const std::vector<GenerationStats>& stats, int64_t prompt_tokens);

// A token of a canvas for a reader: its own characters, bytes of unfinished ones as U+FFFD.
std::string token_text(const Model& model, int32_t token);

// A token with its log-probability (nats), where it has one, and the best tokens in its place.
struct ScoredToken {
  int32_t token;
  std::optional<double> log_probability;
  std::vector<TokenScore::Alternative> top = {};  // best first
};
ScoredToken with_score(const TokenScore& score);
// A token of an answer, which was decided with this probability.
ScoredToken taken(int32_t token, double confidence);
// The tokens of a prompt, the first without a log-probability. rest: the scores of the others.
std::vector<ScoredToken> scored_prompt(std::span<const int32_t> prompt, const ContinuationScore& rest);

// OpenAI's log-probabilities of a chat, a list; empty_lists: tokens without others have an empty list of them.
Json chat_logprobs(const Model& model, std::span<const ScoredToken> tokens, bool empty_lists);

// An edit, as `llada.edits` lists them.
Json edit_json(const Model& model, const decode::Edit& edit);

struct Ask;

struct AnswerHead {
  std::string id;  // of the request
  int64_t created;
  std::string model;
};

// One answer, once it is finished.
struct FinishedAnswer {
  std::string text;             // valid UTF-8
  std::string reason;           // OpenAI's finish_reason
  Json logprobs;                // or null
  Json spans = nullptr;         // of infilling: the text of each gap
  std::string stopped_by = {};  // the stop text that ended it
  std::string thoughts = {};    // where they were wished for
  int64_t thought_tokens = 0;   // of them, and those around them
  std::vector<ToolCall> calls = {};
  // Beside tools: text and calls as they were written, which a stream reads piece by piece.
  std::optional<std::string> written = {};
};

// The answers to a request that have all ended.
struct EndedAnswers {
  size_t count;
  std::function<FinishedAnswer(size_t index)> take;  // called once each, in order; frees the answer's memory
  std::function<Json(size_t index)> usage_of;        // of one
  Json usage;                                        // of all
};

// The end of a stream's answer.
struct AnswerEnd {
  const FinishedAnswer& answer;
  int64_t tokens;
  Json usage;                   // of this answer
  Json all_usage;               // of the request, where it has one answer
  std::string frame_text = {};  // text that came with the last frame
  Json frame = nullptr;         // where frames are watched
};

class AnswerWriter {
 public:
  explicit AnswerWriter(AnswerHead head, const char* prefix = "") : head_(std::move(head)), id_(prefix + head_.id) {}
  virtual ~AnswerWriter() = default;
  // For a protocol with one answer per request: an object with some members, as text. Arguments of calls are as the
  // model wrote them.
  virtual std::string whole(const FinishedAnswer& /*answer*/, const Json& /*usage*/) const { return ""; }
  // beside: further fields of the reply.
  virtual std::string body(const EndedAnswers& answers, const Json& beside) {
    return with_members(whole(answers.take(0), answers.usage), beside);
  }
  virtual Json logprobs(const Model& /*model*/, std::span<const ScoredToken> /*tokens*/) const { return nullptr; }

  // Events of a stream; empty: none. index: the answer's; tokens: its final tokens so far.
  virtual std::string begin() { return ""; }
  // frame: the step's edits (frame_json), or null. Without text and frame there is no event.
  virtual std::string text(int64_t index, const std::string& delta, int64_t tokens, Json frame) = 0;
  virtual std::string call(int64_t /*index*/, const AnswerPiece& /*piece*/, int64_t /*tokens*/) { return ""; }
  virtual std::string thought(int64_t /*index*/, const std::string& /*text*/) { return ""; }
  virtual std::string so_far(int64_t /*index*/, const std::string& /*text*/, double /*share*/) { return ""; }
  virtual Json empty_event(int64_t /*index*/) const { return nullptr; }  // an event without text, to add members to
  virtual std::string end(int64_t index, const AnswerEnd& end) = 0;
  virtual std::string all_ended(const Json& /*usage*/) { return ""; }
  virtual std::string failed(const ApiError& error) = 0;
  virtual std::string ping() { return ": ping\n\n"; }  // a comment of an event stream, which clients leave out
  virtual const char* type() const { return "text/event-stream"; }

 protected:
  const AnswerHead head_;
  const std::string id_;  // in answers
};

// Makes a protocol's writer for a request (Ask::writer).
using MakeWriter = std::unique_ptr<AnswerWriter> (*)(AnswerHead head, const Ask& ask);
template <class Writer>
std::unique_ptr<AnswerWriter> write_as(AnswerHead head, const Ask& ask) {
  return std::make_unique<Writer>(std::move(head), ask);
}

}  // namespace llada::serve
