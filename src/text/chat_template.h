// Conversations in the form that the models were trained on. The Jinja templates that models ship are not run. A style
// is recognised, the texts that a template adds are read off it (template_texts.h), and a note says where it writes
// anything else. Control tokens come from here alone, so a message can never forge a turn. Styles:
//
//   llada    BOS, then per message <|start_header_id|>ROLE<|end_header_id|>\n\n TEXT <|eot_id|>; TEXT is trimmed
//   chatml   per message <|im_start|>ROLE\n TEXT <|im_end|>\n; a default system message where the model's template
//            has one (Dream and Qwen2.5 have one, Qwen3 has not)
//   bailing  per message <role>ROLE</role> TEXT <|role_end|> with the roles SYSTEM, HUMAN and ASSISTANT; the first
//            system message ends with "detailed thinking off", which is all of it where none is given (Ling 2.0,
//            LLaDA-MoE, LLaDA2). A template says which of the two it does, if any; without a template both are done.
//            None of it, and no <|role_end|>, for a vocabulary without that token (the first Ling models)
//   gemma    BOS, then per message <|turn>ROLE\n TEXT <turn|>\n; TEXT is trimmed, an answer's role is model. It may
//            think first, in <|channel>thought\n ... <channel|>: it is asked to by <|think|>\n at the head of a system
//            message, and where it is not, a template may close an empty channel for it (Gemma 4, DiffusionGemma)
//   plain    the texts joined by newlines, BOS first where the tokenizer asks for it (base models)
//
// An answer that comes back as history may contain the text of the end token. It is removed, as the models' own chat
// programs do. So are an answer's thoughts (up to </think>, or in its channel) where the template does that. For a
// model that was trained on single questions (TokenizerSpec::single_turn), only the leading system message and the text
// from the last user message on are laid out. Calls of tools and their results stand in a turn's text (tool_calls.h);
// results are turns of the role OBSERVATION in the style bailing and of the user in the others. Gemma's have control
// tokens, and belong with their results to the turn of the model, which goes on behind them. Deliberately absent:
// images, other "thinking" switches.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/call_syntax.h"
#include "text/tokenizer.h"

namespace llada {

enum class ChatStyle { llada, chatml, bailing, gemma, plain };
std::string_view name(ChatStyle style);  // "chatml"

struct ToolCall {
  std::string name;
  std::string arguments;  // the text of a JSON object
};

struct ToolResult {
  std::string name;  // of the function
  std::string content;
};

struct ChatMessage {
  std::string role;  // "system", "user", "assistant" or "tool"
  std::string content;
  std::vector<ToolCall> calls = {};      // of an assistant's, behind the content
  std::vector<ToolResult> results = {};  // of a tool's, which is all that it has
  std::vector<std::string> tools = {};   // of a system message: functions that are declared (show_tools())

  size_t bytes() const;  // of all its texts
};

struct ChatFormat {
  ChatStyle style = ChatStyle::plain;
  std::string default_system;   // the system message where none is given; empty: none
  std::string ends_system;      // behind a first system message that is given
  bool drops_thoughts = false;  // of answers before the last question
  bool single_turn = false;
  int32_t thought_begin = -1, thought_end = -1;  // tokens around thoughts, which can be asked for; -1: there are none
  bool closes_thoughts = false;                  // an answer that is not to think begins behind an empty channel
  bool joins_answers = false;  // gemma: answers that follow each other, results of tools between them, are one turn
  bool empty_parts = false;    // chatml: a system message even where none is given, and an answer behind empty thoughts
  CallForm calls = CallForm::json;
  std::string note;  // a sentence for people where a template is there and may write something else; empty: it does not
};

// The style by the shipped template's text, else by the control tokens that the vocabulary has.
ChatFormat detect_chat_format(const Tokenizer& tokenizer);

// The ids of a whole conversation; with add_assistant_header they end where the answer begins. think: it shall think.
// Errors: no messages, an unknown role, a style whose control tokens the vocabulary lacks, thoughts of a model that has
// no channel for them.
Result<std::vector<int32_t>> render_chat(const Tokenizer& tokenizer, const ChatFormat& format,
                                         std::span<const ChatMessage> messages, bool add_assistant_header,
                                         bool think = false);

// The ids that end an answer, ascending, without repetition.
std::vector<int32_t> stop_ids(const Tokenizer& tokenizer, ChatStyle style);

}  // namespace llada
