// The answers of protocols other than OpenAI's: Anthropic's messages, Ollama's chat and generate, llama-server's
// /completion; and their errors.
#pragma once
#include <memory>
#include <string_view>

#include "serve/shapes.h"

namespace llada::serve {

// Null: the shape's answers are choices (WholeText, piece_json), or those of infilling.
std::unique_ptr<AnswerForm> make_form(const AnswerHead& head, const Ask& ask);

// Writes a refusal as the clients of that path's protocol read it.
void put_error_in_form(std::string_view path, HttpReply& reply);

}  // namespace llada::serve
