// How a protocol writes answers: the body of a whole reply, and the events of a stream. An answer comes as text,
// thoughts and calls, and ends, or the request fails; its words on the wire are an adapter's own affair.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/work/answer_json.h"

namespace llada::serve {

struct Ask;

struct AnswerHead {
  std::string id;  // of the request; a protocol puts its own prefix before it
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
  std::function<FinishedAnswer(size_t index)> take;  // once, in order: its memory is let go
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
  virtual ~AnswerWriter() = default;
  // beside: further fields of the reply.
  virtual std::string body(const EndedAnswers& answers, const Json& beside) = 0;
  virtual Json logprobs(const Model& /*model*/, std::span<const ScoredToken> /*tokens*/) const { return nullptr; }

  // Of a stream. index: the answer's; tokens: final ones so far.
  virtual std::string begin() { return ""; }
  // Without text there is an event only where there is a frame, the step's edits (frame_json).
  virtual std::string text(int64_t index, const std::string& delta, int64_t tokens, Json frame) = 0;
  virtual std::string call(int64_t /*index*/, const AnswerPiece& /*piece*/, int64_t /*tokens*/) { return ""; }
  virtual std::string thought(int64_t /*index*/, const std::string& /*text*/) { return ""; }
  virtual std::string so_far(int64_t /*index*/, const std::string& /*text*/, double /*share*/) { return ""; }
  virtual Json nothing_yet(int64_t /*index*/) const { return nullptr; }  // an event to which others are added; or none
  virtual std::string end(int64_t index, const AnswerEnd& end) = 0;
  virtual std::string all_ended(const Json& /*usage*/) { return ""; }
  virtual std::string failed(const ApiError& error) = 0;
  virtual std::string ping() { return ": ping\n\n"; }  // a comment of an event stream, which clients leave out
  virtual const char* type() const { return "text/event-stream"; }
};

// A protocol whose requests have one answer.
class OneAnswerWriter : public AnswerWriter {
 public:
  // An object with some members, as text: the arguments of calls are what the model wrote.
  virtual std::string whole(const FinishedAnswer& answer, const Json& usage) const = 0;
  virtual std::string delta(const std::string& text) = 0;                  // empty: no event
  virtual std::string call(const AnswerPiece& /*piece*/) { return ""; }    // of a protocol with tools
  virtual std::string thought(const std::string& /*text*/) { return ""; }  // of one with thoughts, which come before
  virtual std::string end(const FinishedAnswer& answer, const Json& usage) = 0;  // all of it was sent

  std::string body(const EndedAnswers& answers, const Json& beside) override {
    return with_members(whole(answers.take(0), answers.usage), beside);
  }
  std::string text(int64_t, const std::string& text, int64_t, Json) final { return delta(text); }
  std::string call(int64_t, const AnswerPiece& piece, int64_t) final { return call(piece); }
  std::string thought(int64_t, const std::string& text) final { return thought(text); }
  std::string end(int64_t, const AnswerEnd& last) final { return end(last.answer, last.all_usage); }
};

// A protocol's, by its requests (Ask::writer).
using MakeWriter = std::unique_ptr<AnswerWriter> (*)(AnswerHead head, const Ask& ask);
template <class Writer>
std::unique_ptr<AnswerWriter> write_as(AnswerHead head, const Ask& ask) {
  return std::make_unique<Writer>(std::move(head), ask);
}

}  // namespace llada::serve
