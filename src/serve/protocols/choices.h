// The answers of OpenAI's chats and completions, and of the protocols that are made like them: choices, in a stream as
// pieces. The engine's own beside it: `diffusing`, which shows the whole text so far or each step's edits.
#pragma once
#include <string>
#include <utility>

#include "serve/work/answer_writer.h"
#include "serve/work/ask.h"

namespace llada::serve {

class ChoicesWriter : public AnswerWriter {
 public:
  ChoicesWriter(AnswerHead head, const Ask& ask, const char* prefix = "cmpl-", const char* object = "text_completion")
      : AnswerWriter(std::move(head), prefix), ask_(ask), object_(object) {}

  // Each choice is written as soon as it is there: as JSON values, which take many times the memory of their text,
  // there is one answer at a time.
  std::string body(const EndedAnswers& answers, const Json& beside) override;
  Json logprobs(const Model& model, std::span<const ScoredToken> tokens) const override;

  std::string begin() override;
  std::string text(int64_t index, const std::string& delta, int64_t tokens, Json frame) override;
  std::string call(int64_t index, const AnswerPiece& more, int64_t tokens) override;
  std::string thought(int64_t index, const std::string& thoughts) override;
  // Mercury's: the whole text so far replaces the text of earlier events.
  std::string so_far(int64_t index, const std::string& text, double share) override;
  Json empty_event(int64_t index) const override;
  std::string end(int64_t index, const AnswerEnd& end) override;
  std::string all_ended(const Json& usage) override;
  std::string failed(const ApiError& error) override;

 protected:
  // An answer in a choice, whole and in pieces.
  virtual void put_answer(Json& choice, const FinishedAnswer& answer, int64_t /*index*/) const;
  virtual void put_delta(Json& choice, const std::string& delta, bool /*ends*/) const;
  virtual std::string first_event(int64_t /*index*/) const;
  virtual Json piece(int64_t index, const std::string& delta, const std::string& reason = "",
                     const Json& logprobs = nullptr) const;
  Json piece_with(int64_t index, Json delta) const;
  virtual std::string replacing(int64_t index, const std::string& text, const std::string& reason, double share) const;
  virtual Json head_json(bool /*chunk*/) const;
  // With the counts so far, where they are wanted in each piece.
  Json with_usage(Json piece, int64_t index, int64_t tokens) const;

  const Ask& ask_;
  const std::string object_;
};

}  // namespace llada::serve
