// The form of an answer as its author writes it: choices, a regular expression, a schema, a template, tools. (No
// library of Debian 12 makes automata of JSON Schema for C++: those that exist are Rust and Python.)
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "forms/automaton.h"
#include "forms/expression.h"
#include "forms/token_form.h"

namespace llada::forms {

enum class FormKind { choice, regex, json_schema, json_object, form_template, tools };

// The key of the option that asks for it, with which errors begin.
std::string_view key_of(FormKind kind);

struct Form {
  FormKind kind{};
  std::string text;    // of json_object: how many levels, 1 to kMostLevels; of tools: tool_form.h
  bool loose = false;  // of json_schema: parts that cannot be followed exactly are left out (json_schema.h)
  bool operator==(const Form&) const = default;
};

inline constexpr size_t kMostFormBytes = size_t{1} << 20;
inline constexpr int64_t kMostLevels = 5;

// "yes|no|maybe"; "\|" is a bar, "\\" a backslash.
Result<Expr> parse_choice(std::string_view text, Budget& budget);

// The texts of this form as an expression. warnings: gets a line for each part of a schema that was left out. where:
// begins the paths in these lines.
Result<Expr> parse_form(const Form& form, Budget& budget, std::vector<std::string>* warnings = nullptr,
                        std::string_view where = "$");

// Invalid: one line that begins with the option. check_form() makes no automaton; Budget bounds its time and memory.
// False: reading takes more steps than these, so that nothing is known yet.
Result<bool> check_form(const Form& form, std::vector<std::string>* warnings = nullptr, std::string_view where = "$",
                        int64_t steps = Budget::kMostSteps);
Result<Automaton> automaton_of(const Form& form);
// Tries the levels of compile() in order, so that as few loops as possible are counted.
Result<TokenForm> token_form_of(const Form& form, const Vocabulary& vocabulary, const EndTokens& ends);

}  // namespace llada::forms
