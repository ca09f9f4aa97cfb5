// How Ollama's chat writes answers.
#pragma once
#include <memory>

#include "serve/work/answer_writer.h"

namespace llada::serve {

std::unique_ptr<AnswerWriter> write_ollama_chat(AnswerHead head, const Ask& ask);

}  // namespace llada::serve
