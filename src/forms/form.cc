#include "forms/form.h"

#include <utility>

#include "forms/form_template.h"
#include "forms/json_schema.h"
#include "forms/json_values.h"
#include "forms/nfa.h"
#include "forms/regex.h"
#include "forms/tool_form.h"
#include "text/utf8.h"

namespace llada::forms {

Result<Expr> parse_form(const Form& form, Budget& budget, std::vector<std::string>* warnings, std::string_view where) {
  const std::string_view text = form.text;
  switch (form.kind) {
    case FormKind::choice:
      return parse_choice(text, budget);
    case FormKind::regex:
      return parse_regex(text, budget);
    case FormKind::json_schema:
      return parse_json_schema(text, budget, {.loose = form.loose, .where = where, .warnings = warnings});
    case FormKind::json_object:
      if (text.size() != 1 || text[0] < '1' || text[0] > '0' + kMostLevels)
        return invalid("found '{}', needed 1 to {} levels", text, kMostLevels);
      return json_object(text[0] - '0');
    case FormKind::form_template:
      return parse_template(text, budget);
    case FormKind::tools:
      return parse_tools(text, budget, warnings);
  }
  return never();
}

std::string_view key_of(FormKind kind) {
  constexpr std::string_view kKeys[] = {"choice", "regex", "json_schema", "json_object", "template", "tools"};
  return kKeys[static_cast<size_t>(kind)];
}

Result<Expr> parse_choice(std::string_view given, Budget& budget) {
  std::vector<Expr> parts;
  std::string one;
  for (size_t i = 0; i <= given.size(); ++i) {
    if (i == given.size() || given[i] == '|') {
      if (one.empty()) return invalid("found an empty choice, needed texts with | between them");
      LLADA_TRY_STATUS(budget.spend(1 + one.size()));
      parts.push_back(text(std::exchange(one, {})));
    } else if (given[i] == '\\' && i + 1 < given.size() && (given[i + 1] == '|' || given[i + 1] == '\\')) {
      one += given[++i];
    } else {
      one += given[i];
    }
  }
  return either(std::move(parts));
}

namespace {

// The error with the option before it. It may quote the form, which can hold anything: one line is made of it.
std::unexpected<Error> of_option(const Form& form, Error error) {
  constexpr size_t kMostBytes = 400;
  const std::string_view key = key_of(form.kind);
  error.message = to_valid_utf8(std::string_view(error.message).substr(0, kMostBytes));
  for (char& c : error.message)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  if (!error.message.starts_with(key)) error.message = fmt::format("{}: {}", key, error.message);
  return std::unexpected(std::move(error));
}

// The same; of a form that is too large with what of its schemas costs most: they are read once more for that.
std::unexpected<Error> refused(const Form& form, Error error) {
  Budget budget(Budget::kMostSteps / 4);
  Budget::Heaviest heaviest;
  budget.heaviest = &heaviest;
  const bool has_schemas = form.kind == FormKind::json_schema || form.kind == FormKind::tools;
  if (has_schemas && error.kind == ErrorKind::too_large) static_cast<void>(parse_form(form, budget));
  if (!heaviest.path.empty()) error.message += fmt::format("; most of it is {}", heaviest.path);
  return of_option(form, std::move(error));
}

// Null: it takes more steps than these.
Result<Expr> read_within(const Form& form, int64_t steps, std::vector<std::string>* warnings, std::string_view where) {
  if (form.text.size() > kMostFormBytes)
    return of_option(form, {ErrorKind::invalid_input, "found more than 1 MiB of text"});
  Budget budget(steps);
  auto expression = parse_form(form, budget, warnings, where);
  if (steps < Budget::kMostSteps && budget.steps_left() == 0) return nullptr;
  if (expression) return expression;
  // By the budget, since readers put the place of an error before it, or go on without a keyword that failed.
  expression.error().kind = budget.left() == 0 ? ErrorKind::too_large : ErrorKind::invalid_input;
  return refused(form, expression.error());
}

Result<Expr> read(const Form& form) { return read_within(form, Budget::kMostSteps, nullptr, "$"); }

}  // namespace

Result<bool> check_form(const Form& form, std::vector<std::string>* warnings, std::string_view where, int64_t steps) {
  LLADA_TRY(const auto expression, read_within(form, steps, warnings, where));
  return expression != nullptr;
}

Result<Automaton> automaton_of(const Form& form) {
  LLADA_TRY(const Expr expression, read(form));
  for (int level = 0;; ++level) {
    auto automaton = compile(expression, level);
    if (automaton) return automaton;
    if (!has_loops_at(expression, level + 1)) return refused(form, automaton.error());
  }
}

Result<TokenForm> token_form_of(const Form& form, const Vocabulary& vocabulary, const EndTokens& ends) {
  LLADA_TRY(const Expr expression, read(form));
  for (int level = 0;; ++level) {
    const bool last = !has_loops_at(expression, level + 1);
    const auto automaton = compile(expression, level);
    if (!automaton && !last) continue;
    if (!automaton) return refused(form, automaton.error());
    auto made = TokenForm::create(*automaton, vocabulary, ends, last ? kMostVisits : kFewVisits);
    if (made) return made;
    if (last) return refused(form, made.error());
  }
}

}  // namespace llada::forms
