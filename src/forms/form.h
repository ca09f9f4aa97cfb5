// What an answer must fit, as somebody writes it. (No library of Debian 12 makes automata of JSON Schema for C++: those
// that exist are Rust and Python.)
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

// The key of the option that asks for it, which errors begin with.
std::string_view key_of(FormKind kind);

struct Form {
  FormKind kind{};
  std::string text;    // of json_object: how many levels, 1 to kMostLevels; of tools: tool_form.h
  bool loose = false;  // of json_schema: what cannot be followed exactly is left out (json_schema.h)
  bool operator==(const Form&) const = default;
};

inline constexpr size_t kMostFormBytes = size_t{1} << 20;
inline constexpr int64_t kMostLevels = 5;

// "yes|no|maybe"; "\|" is a bar, "\\" a backslash.
Result<Expr> parse_choice(std::string_view text, Budget& budget);

// What a text may be that has this form. warnings: one line for whatever was left out of schemas. where: what their
// paths begin with.
Result<Expr> parse_form(const Form& form, Budget& budget, std::vector<std::string>* warnings = nullptr,
                        std::string_view where = "$");

// Invalid: one line that begins with the option. check_form() makes no automaton: its time and memory are bounded by
// Budget.
Status check_form(const Form& form, std::vector<std::string>* warnings = nullptr, std::string_view where = "$");
Result<Automaton> automaton_of(const Form& form);
// With as few loops whose bounds are counted as this vocabulary allows.
Result<TokenForm> token_form_of(const Form& form, const Vocabulary& vocabulary, const EndTokens& ends);

}  // namespace llada::forms
