#include "forms/form_template.h"

#include <optional>
#include <utility>

#include "base/numbers.h"
#include "forms/form.h"
#include "forms/json_schema.h"
#include "forms/json_values.h"
#include "forms/regex.h"

namespace llada::forms {
namespace {

constexpr std::string_view kTypes = "string, int, number, bool, choice, regex, word, text or json";

// "0..150", "..5", "3.." or nothing.
struct Bounds {
  std::optional<int64_t> least, most;
};

Result<Bounds> bounds_of(std::string_view given) {
  Bounds bounds;
  if (given.empty()) return bounds;
  const size_t dots = given.find("..");
  const auto number = [&](std::string_view digits, std::optional<int64_t>& out) -> Status {
    if (digits.empty()) return {};
    out = parse_number<int64_t>(digits);
    if (!out || *out < -1'000'000'000'000'000 || *out > 1'000'000'000'000'000)
      return invalid("found '{}', needed a range like 0..150", given);
    return {};
  };
  if (dots == std::string_view::npos) return invalid("found '{}', needed a range like 0..150", given);
  LLADA_TRY_STATUS(number(given.substr(0, dots), bounds.least));
  LLADA_TRY_STATUS(number(given.substr(dots + 2), bounds.most));
  if (bounds.least && bounds.most && *bounds.most < *bounds.least)
    return invalid("found '{}', whose end is before its beginning", given);
  return bounds;
}

Result<Expr> gap(std::string_view type, std::string_view given, Budget& budget) {
  LLADA_TRY_STATUS(budget.spend(8));
  if (type == "choice") return parse_choice(given, budget);
  if (type == "regex") return parse_regex(given, budget);
  LLADA_TRY(const Bounds bounds, bounds_of(given));
  if (type == "int") {
    Expr made = json_integer(bounds.least, bounds.most);
    LLADA_TRY_STATUS(budget.spend_on(*made));
    return made;
  }
  if (type == "string") {
    const int64_t most = bounds.most.value_or(-1);
    if (bounds.least.value_or(0) < 0 || bounds.most.value_or(0) < 0 || most > 1'000'000 ||
        bounds.least.value_or(0) > 1'000'000)
      return invalid("found '{}', needed a range of characters", given);
    return json_string(bounds.least.value_or(0), most);
  }
  if (!given.empty()) return invalid("found '{}', needed nothing behind {}", given, type);
  if (type == "number") return json_number({});
  if (type == "bool") return either({text("true"), text("false")});
  if (type == "word") return parse_regex("\\w+", budget);
  if (type == "text") return parse_regex(".+", budget);
  if (type == "json") return json_any(kAnyDepth);
  return invalid("found '{}', needed {}", type, kTypes);
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

Result<Expr> parse_template(std::string_view given, Budget& budget) {
  LLADA_TRY_STATUS(budget.spend(given.size()));
  std::vector<Expr> parts;
  std::string plain;
  for (size_t at = 0; at < given.size();) {
    const bool opens = given[at] == '<' && at + 1 < given.size();
    if (opens && given[at + 1] == '<') {
      plain += '<';
      at += 2;
      continue;
    }
    if (!opens || !is_letter(given[at + 1])) {
      plain += given[at++];
      continue;
    }
    const size_t end = given.find('>', at);
    if (end == std::string_view::npos) return invalid("the gap at byte {} has no '>'", at);
    const std::string_view inside = given.substr(at + 1, end - at - 1);
    const size_t space = inside.find(' ');
    const std::string_view rest = space == std::string_view::npos ? "" : inside.substr(space + 1);
    auto part = gap(inside.substr(0, space), rest, budget);
    if (!part) return invalid("the gap at byte {}: {}", at, part.error().message);
    if (!plain.empty()) parts.push_back(text(std::exchange(plain, {})));
    parts.push_back(*std::move(part));
    at = end + 1;
  }
  if (!plain.empty()) parts.push_back(text(std::move(plain)));
  return sequence(std::move(parts));
}

}  // namespace llada::forms
