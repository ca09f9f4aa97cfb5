// How models write calls of tools in their answers.
//
//   json    Qwen's and Ling's (the form of Hermes), and here that of every model without one of its own:
//
//             <tool_call>
//             {"name": "add", "arguments": {"a": 1, "b": "x"}}
//             </tool_call>
//
//           Further calls follow behind a line end.
//   gemma   Gemma 4's and DiffusionGemma's: <|tool_call>call:add{a:1,b:<|"|>x<|"|>}<tool_call|>, further calls at once.
//           Members stand in the order of their names, names are bare, strings have no escapes. The three marks are
//           control tokens. In a form, and in the bytes of an answer, each is one byte that no UTF-8 has.
#pragma once
#include <string_view>
#include <utility>

namespace llada {

enum class CallForm { json, gemma };

inline constexpr std::string_view kGemmaCall = "\xF8", kGemmaCallEnd = "\xF9", kGemmaQuote = "\xFA";
// Those bytes, and the control tokens that they stand for.
inline constexpr std::pair<char, std::string_view> kGemmaMarks[] = {
    {kGemmaCall[0], "<|tool_call>"}, {kGemmaCallEnd[0], "<tool_call|>"}, {kGemmaQuote[0], "<|\"|>"}};

struct CallSyntax {
  std::string_view mark;     // starts a call; a form keeps it out of the text before calls
  std::string_view begin;    // before the name; begins with the mark
  std::string_view middle;   // between the name and the arguments
  std::string_view end;      // behind the arguments
  std::string_view between;  // two calls
};
constexpr CallSyntax syntax_of(CallForm form) {
  if (form == CallForm::gemma)
    return {.mark = kGemmaCall,
            .begin =
                "\xF8"
                "call:",
            .middle = "",
            .end = "\xF9",
            .between = ""};
  return {.mark = "<tool_call>",
          .begin = "<tool_call>\n{\"name\": \"",
          .middle = "\", \"arguments\": ",
          .end = "}\n</tool_call>",
          .between = "\n"};
}

}  // namespace llada
