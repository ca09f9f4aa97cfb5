// The forms of /v1/responses: OpenAI's response object, and the events of its stream, each with its number. A response
// has one output item, a message, with one part, its text.
#pragma once
#include <string>

#include "serve/shapes.h"

namespace llada::serve {

// Finished. said: the request's own fields, which a response repeats.
Json response_json(const AnswerHead& head, const Json& said, const FinishedAnswer& answer, const Json& usage);

class ResponseEvents {
 public:
  ResponseEvents(AnswerHead head, Json said) : head_(std::move(head)), said_(std::move(said)) {}

  std::string begin();
  std::string delta(const std::string& text);  // empty: no event
  // rest: what has not been handed on; answer: all of it.
  std::string end(const std::string& rest, const FinishedAnswer& answer, const Json& usage);
  std::string failed(const ApiError& error);

 private:
  std::string event(const std::string& type, Json fields);
  std::string part_event(const std::string& type, Json fields);

  const AnswerHead head_;
  const Json said_;
  int64_t next_ = 0;
};

}  // namespace llada::serve
