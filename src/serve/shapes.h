// The JSON of answers: whole ones and the pieces of streams, in the forms that the clients of each route know.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/likelihood.h"
#include "serve/ask.h"
#include "text/tool_calls.h"

namespace llada::serve {

struct AnswerHead {
  Shape shape;
  std::string id;
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

// Of a call in the answer `index`.
std::string call_id(const AnswerHead& head, int64_t index, int64_t call);

// How a protocol whose requests have one answer writes it: whole, and as the pieces of a stream.
class AnswerForm {
 public:
  virtual ~AnswerForm() = default;
  // An object with some members, as text: the arguments of calls are what the model wrote.
  virtual std::string whole(const FinishedAnswer& answer, const Json& usage) const = 0;
  virtual std::string begin() { return ""; }
  virtual std::string delta(const std::string& text) = 0;                  // empty: no event
  virtual std::string call(const AnswerPiece& /*piece*/) { return ""; }    // of a protocol with tools
  virtual std::string thought(const std::string& /*text*/) { return ""; }  // of one with thoughts, which come before
  virtual Json nothing_yet() const { return nullptr; }  // an event without text, to which others are added; or none
  // All of the answer was sent.
  virtual std::string end(const FinishedAnswer& answer, const Json& usage) = 0;
  virtual std::string failed(const ApiError& error) = 0;
  virtual std::string ping() { return ": ping\n\n"; }  // a comment of an event stream, which clients leave out
  virtual const char* type() const { return "text/event-stream"; }
};

// A whole reply of /infill.
Json infill_json(const AnswerHead& head, const FinishedAnswer& answer, const Json& usage);

// A whole reply with choices. Each is written as soon as it is added: as JSON values, which take many times the memory
// of their text, there is one answer at a time.
class WholeText {
 public:
  explicit WholeText(const AnswerHead& head);
  void add(const FinishedAnswer& answer);
  std::string end(const Json& rest);  // the object's further fields, of which there are some

 private:
  const AnswerHead& head_;
  std::string text_;
  size_t count_ = 0;
};

// A piece of the stream of answer `index`. reason may be empty: it goes on.
Json piece_json(const AnswerHead& head, int64_t index, const std::string& delta, const std::string& reason,
                const Json& logprobs);
// The same of a part of the thoughts before it.
Json thought_json(const AnswerHead& head, int64_t index, const std::string& thoughts);
// The same of a call.
Json call_json(const AnswerHead& head, int64_t index, const AnswerPiece& piece);
// The first piece of a chat's stream; null for others. calls: the answer may be calls, without text.
Json role_json(const AnswerHead& head, int64_t index, bool calls);
// Behind the last piece, where it was asked for.
Json usage_piece_json(const AnswerHead& head, const Json& usage);

std::string event_text(const Json& json);  // "data: ...\n\n"
// JSON text in the place of a member that is null, the first of that name. (In strings quotes have a backslash.)
std::string with_value(const Json& json, std::string_view name, std::string_view value);
// The arguments of a call as the text of an object: no number loses digits (text/json_text.h).
std::string arguments_object(const std::string& arguments);
inline constexpr std::string_view kLastEvent = "data: [DONE]\n\n";

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

// OpenAI's log-probabilities.
Json logprobs_json(const Model& model, Shape shape, std::span<const ScoredToken> tokens);

// An edit, as `llada.edits` lists them.
Json edit_json(const Model& model, const decode::Edit& edit);

}  // namespace llada::serve
