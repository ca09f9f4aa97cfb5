// /v1/responses: OpenAI's response object, whose output items are thoughts, where they were wished for, a message with
// one part, its text, and calls of functions. The events of its stream have numbers.
#pragma once
#include <string>
#include <vector>

#include "serve/work/answer_writer.h"

namespace llada::serve {

class ResponseForm final : public OneAnswerWriter {
 public:
  // repeated: the request's own fields that the response has, too.
  ResponseForm(AnswerHead head, Json repeated) : head_(std::move(head)), repeated_(std::move(repeated)) {
    head_.id = "resp_" + head_.id;
  }

  std::string whole(const FinishedAnswer& answer, const Json& usage) const override {
    return dump(as_json(answer, usage));
  }
  std::string begin() override;
  std::string delta(const std::string& text) override;
  std::string call(const AnswerPiece& piece) override;
  std::string thought(const std::string& text) override;
  std::string end(const FinishedAnswer& answer, const Json& usage) override;
  std::string failed(const ApiError& error) override;

 private:
  Json as_json(const FinishedAnswer& answer, const Json& usage) const;
  std::string event(const std::string& type, const Json& fields);
  std::string item_event(const std::string& type, const Json& fields, Json more);
  std::string begin_text();
  std::string end_text(const std::string& status);
  std::string end_thoughts();
  std::string end_item(Json item);

  AnswerHead head_;
  const Json repeated_;
  int64_t next_ = 0;             // event
  int64_t items_ = 0;            // that were begun
  Json output_ = Json::array();  // those of them that have ended
  std::string text_, thoughts_;  // of the item so far
  bool in_text_ = false, in_thoughts_ = false;
  ToolCall call_;  // that is being written
};

}  // namespace llada::serve
