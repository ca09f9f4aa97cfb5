// The answers of protocols other than OpenAI's: Anthropic's messages, Ollama's chat and generate, llama-server's
// /completion; and their errors.
#pragma once
#include <memory>
#include <string_view>

#include "serve/work/answer_writer.h"

namespace llada::serve {

std::unique_ptr<AnswerWriter> write_response(AnswerHead head, const Ask& ask);
std::unique_ptr<AnswerWriter> write_message(AnswerHead head, const Ask& ask);
std::unique_ptr<AnswerWriter> write_ollama_chat(AnswerHead head, const Ask& ask);
std::unique_ptr<AnswerWriter> write_ollama_text(AnswerHead head, const Ask& ask);
std::unique_ptr<AnswerWriter> write_llama(AnswerHead head, const Ask& ask);

// Writes a refusal as the clients of that path's protocol read it.
void put_error_in_form(std::string_view path, HttpReply& reply);

}  // namespace llada::serve
