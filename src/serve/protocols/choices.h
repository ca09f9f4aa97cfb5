// The answers of OpenAI's chats and completions, and of the protocols that are made like them: choices, in a stream as
// pieces. The engine's own beside it: `diffusing`, which shows the whole text so far or each step's edits.
#pragma once
#include "serve/work/answer_writer.h"
#include "serve/work/ask.h"

namespace llada::serve {

std::unique_ptr<AnswerWriter> write_chat(AnswerHead head, const Ask& ask);
std::unique_ptr<AnswerWriter> write_completion(AnswerHead head, const Ask& ask);
std::unique_ptr<AnswerWriter> write_fim(AnswerHead head, const Ask& ask);
std::unique_ptr<AnswerWriter> write_infill(AnswerHead head, const Ask& ask);

}  // namespace llada::serve
