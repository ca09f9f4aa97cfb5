// The JSON of answers: whole ones and the pieces of streams, in the forms that the clients of each route know.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/likelihood.h"
#include "serve/ask.h"

namespace llada::serve {

struct AnswerHead {
  Shape shape;
  std::string id;
  int64_t created;
  std::string model;
};

// One answer, once it is finished.
struct FinishedAnswer {
  std::string text;      // valid UTF-8
  std::string reason;    // OpenAI's finish_reason
  Json logprobs;         // or null
  Json spans = nullptr;  // of infilling: the text of each gap
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
// The first piece of a chat's stream; null for others.
Json role_json(const AnswerHead& head, int64_t index);
// Behind the last piece, where it was asked for.
Json usage_piece_json(const AnswerHead& head, const Json& usage);

std::string event_text(const Json& json);  // "data: ...\n\n"
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

// /v1/responses: OpenAI's response object, which has one output item, a message, with one part, its text. repeated: the
// request's own fields that it has, too.
Json response_json(const AnswerHead& head, const Json& repeated, const FinishedAnswer& answer, const Json& usage);

// The events of its stream, each with its number.
class ResponseEvents {
 public:
  ResponseEvents(AnswerHead head, Json repeated) : head_(std::move(head)), repeated_(std::move(repeated)) {}

  std::string begin();
  std::string delta(const std::string& text);  // empty: no event
  // rest: the text that has not been sent; answer: all of it.
  std::string end(const std::string& rest, const FinishedAnswer& answer, const Json& usage);
  std::string failed(const ApiError& error);

 private:
  std::string event(const std::string& type, const Json& fields);
  std::string part_event(const std::string& type, const Json& fields);

  const AnswerHead head_;
  const Json repeated_;
  int64_t next_ = 0;
};

}  // namespace llada::serve
