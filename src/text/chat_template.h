// Conversations in the form that the models were trained on. The Jinja templates that models ship are recognised and
// not run. Control tokens come from here alone, so a message can never forge a turn. Styles:
//
//   llada    BOS, then per message <|start_header_id|>ROLE<|end_header_id|>\n\n TEXT <|eot_id|>; TEXT is trimmed
//   chatml   per message <|im_start|>ROLE\n TEXT <|im_end|>\n; a default system message where the model's template has
//            one (Dream and Qwen2.5 have one, Qwen3 has not)
//   bailing  per message <role>ROLE</role> TEXT <|role_end|> with the roles SYSTEM, HUMAN and ASSISTANT; the system
//            text is "detailed thinking off" where none is given (LLaDA-MoE, LLaDA2); both are left out for a
//            vocabulary without <|role_end|> (the first Ling models)
//   plain    the texts joined by newlines, BOS first where the tokenizer asks for it (base models)
//
// An answer that comes back as history may contain the text of the end token. It is removed, as the models' own chat
// programs do. Deliberately absent: tools, images, "thinking" switches.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"

namespace llada {

enum class ChatStyle { llada, chatml, bailing, plain };

struct ChatMessage {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

// By the shipped template's text, else by the control tokens that the vocabulary has.
ChatStyle detect_chat_style(const Tokenizer& tokenizer);

// The ids of a whole conversation; with add_assistant_header they end where the answer begins.
// Errors: no messages, an unknown role, a style whose control tokens the vocabulary lacks.
Result<std::vector<int32_t>> render_chat(const Tokenizer& tokenizer, ChatStyle style,
                                         std::span<const ChatMessage> messages, bool add_assistant_header);

// The ids that end an answer, ascending, without repetition.
std::vector<int32_t> stop_ids(const Tokenizer& tokenizer, ChatStyle style);

}  // namespace llada
