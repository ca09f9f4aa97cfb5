#include "forms/json_values.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "forms/form.h"
#include "forms/product.h"
#include "forms/regex.h"
#include "json/parse.h"

namespace llada::forms {
namespace {

Expr fits(std::string_view regex, Letters letters = Letters::plain) {
  Budget budget;
  auto parsed = parse_regex(regex, budget, letters);
  LLADA_CHECK(parsed.has_value());
  return *std::move(parsed);
}

Expr digit(char first, char last) {
  return one_of({{static_cast<char32_t>(first), static_cast<char32_t>(last)}}, Letters::plain);
}
Expr digits(size_t count) { return repeat(digit('0', '9'), static_cast<int64_t>(count), static_cast<int64_t>(count)); }

// Numbers of as many digits as both bounds have, which are equally long.
Expr same_length(std::string_view least, std::string_view most) {
  if (least.empty()) return text("");
  if (least.find_first_not_of('0') == std::string_view::npos && most.find_first_not_of('9') == std::string_view::npos)
    return digits(least.size());
  if (least[0] == most[0]) return sequence({text({least[0]}), same_length(least.substr(1), most.substr(1))});
  std::vector<Expr> parts;
  const std::string zeros(least.size() - 1, '0'), nines(least.size() - 1, '9');
  parts.push_back(sequence({text({least[0]}), same_length(least.substr(1), nines)}));
  if (most[0] - least[0] > 1)
    parts.push_back(
        sequence({digit(static_cast<char>(least[0] + 1), static_cast<char>(most[0] - 1)), digits(zeros.size())}));
  parts.push_back(sequence({text({most[0]}), same_length(zeros, most.substr(1))}));
  return either(std::move(parts));
}

// Of numbers from 0; most none: without end.
Expr natural(uint64_t least, std::optional<uint64_t> most) {
  if (most && *most < least) return never();
  std::vector<Expr> parts;
  std::string low = std::to_string(least);
  const std::string high = most ? std::to_string(*most) : "";
  while (!most || low.size() < high.size()) {
    parts.push_back(same_length(low, std::string(low.size(), '9')));
    low.assign(low.size() + 1, '0').front() = '1';
    if (!most) {  // all that are longer
      parts.push_back(sequence({digit('1', '9'), repeat(digit('0', '9'), static_cast<int64_t>(low.size()) - 1, -1)}));
      return either(std::move(parts));
    }
  }
  parts.push_back(same_length(low, high));
  return either(std::move(parts));
}

uint64_t magnitude(int64_t value) {
  return value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

std::optional<uint64_t> magnitude(std::optional<int64_t> value) {
  return value ? std::optional(magnitude(*value)) : std::nullopt;
}

// A bound without its sign: the digits before the point as a number, those behind it without zeros at the end.
struct Size {
  uint64_t whole = 0;
  std::string fraction = {};
};

Size size_of(double bound) {
  std::string digits = fmt::format("{}", std::abs(bound));
  if (const size_t e = digits.find("e-"); e != std::string::npos) {
    const size_t zeros = std::stoul(digits.substr(e + 2)) - 1;
    digits.resize(e);
    std::erase(digits, '.');
    digits = "0." + std::string(zeros, '0') + digits;
  }
  const size_t point = std::min(digits.find('.'), digits.size());
  Size size{std::stoull(digits.substr(0, point)), digits.substr(std::min(point + 1, digits.size()))};
  while (size.fraction.ends_with('0')) size.fraction.pop_back();
  return size;
}

// The digits behind a point and behind those that equal the bounds': in [least, most], where "" is zero and none is no
// bound; above, below: the bound itself is out. At most `room`, -1: any number, where no bound is out; first: one at
// least.
Expr fraction(std::optional<std::string_view> least, std::optional<std::string_view> most, bool above, bool below,
              int64_t room, bool first) {
  const bool ends = !first && (!least || (least->empty() && !above)) && (!most || !most->empty() || !below);
  if (least && least->empty() && !above) least.reset();
  if (room == 0 || (most && most->empty())) return ends ? text("") : never();
  if (!least && !most) return repeat(digit('0', '9'), first ? 1 : 0, room);
  const auto front = [](std::string_view digits) { return digits.empty() ? '0' : digits.front(); };
  const auto rest = [](std::string_view digits) { return digits.empty() ? digits : digits.substr(1); };
  const int64_t left = room < 0 ? room : room - 1;
  const char low = least ? front(*least) : char{'0' - 1}, high = most ? front(*most) : char{'9' + 1};
  std::vector<Expr> parts;
  if (ends) parts.push_back(text(""));
  if (low == high) {
    parts.push_back(sequence({text({low}), fraction(rest(*least), rest(*most), above, below, left, false)}));
    return either(std::move(parts));
  }
  if (high - low > 1)
    parts.push_back(
        sequence({digit(static_cast<char>(low + 1), static_cast<char>(high - 1)), repeat(digit('0', '9'), 0, left)}));
  if (least) parts.push_back(sequence({text({low}), fraction(rest(*least), {}, above, false, left, false)}));
  if (most) parts.push_back(sequence({text({high}), fraction({}, rest(*most), false, below, left, false)}));
  return either(std::move(parts));
}

// The numbers of one sign by their size, in [least, most]; most none: without end. Where a bound is out, so few digits
// stand behind the point that a double tells them from the bound.
Expr sized(const Size& least, const std::optional<Size>& most, bool above, bool below) {
  constexpr size_t kDigits = 15;  // that a double holds
  const size_t before = std::to_string(std::max(least.whole, most ? most->whole : 0)).size(),
               behind = std::max(least.fraction.size(), most ? most->fraction.size() : 0) + 1;
  const int64_t room =
      above || below ? static_cast<int64_t>(std::max(kDigits - std::min(before, kDigits), behind)) : -1;
  const uint64_t next = least.whole + (least.fraction.empty() ? 0 : 1);  // the first whole number that is not below
  const auto whole = [&](uint64_t first, bool to_most) {  // numbers from `first` to the most one, or the one before it
    if (!most) return natural(first, {});
    return to_most ? natural(first, most->whole) : most->whole > 0 ? natural(first, most->whole - 1) : never();
  };
  std::vector<Expr> parts = {
      whole(next + (above && least.fraction.empty() ? 1 : 0), !most || !most->fraction.empty() || !below),
      sequence(
          {whole(next, false), text("."), repeat(digit('0', '9'), 0, room < 0 ? room : room - 1), digit('1', '9')})};
  const auto add = [&](uint64_t before_point, Expr behind_point) {
    parts.push_back(sequence({text(std::to_string(before_point) + "."), std::move(behind_point)}));
  };
  const bool same = most && most->whole == least.whole;
  if (!least.fraction.empty() && !same) add(least.whole, fraction(least.fraction, {}, above, false, room, true));
  if (most && !most->fraction.empty())
    add(most->whole, same ? fraction(least.fraction, most->fraction, above, below, room, true)
                          : fraction({}, most->fraction, false, below, room, true));
  return either(std::move(parts));
}

}  // namespace

Result<Json> parse_json_text(std::string_view text, std::string_view source) {
  LLADA_TRY(JsonDocument read, parse_json_document(text, source, {.values = 20'000, .run_bytes = size_t{1} << 16}));
  return std::move(read.root);
}

Letters letters_in(CallForm spelling) { return spelling == CallForm::json ? Letters::json : Letters::plain; }

Expr quoted(Expr content, CallForm spelling) {
  const std::string mark(spelling == CallForm::json ? "\"" : kGemmaQuote);
  return sequence({text(mark), std::move(content), text(mark)});
}

Expr json_string(int64_t least, int64_t most, CallForm spelling) {
  return quoted(repeat(any_letter(letters_in(spelling)), least, most), spelling);
}

Expr json_integer(std::optional<int64_t> least, std::optional<int64_t> most) {
  if (least && most && *most < *least) return never();
  std::vector<Expr> parts;
  if (!most || *most >= 0)
    parts.push_back(natural(magnitude(std::max<int64_t>(least.value_or(0), 0)), magnitude(most)));
  if (!least || *least < 0)
    parts.push_back(sequence({text("-"), natural(most && *most < 0 ? magnitude(*most) : 1, magnitude(least))}));
  return either(std::move(parts));
}

Expr json_number(const NumberRange& r) {
  static const Expr any = fits("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]{1,2})?");
  if (!r.least && !r.most) return any;
  std::vector<Expr> parts;
  const auto size = [](std::optional<double> bound) { return bound ? std::optional(size_of(*bound)) : std::nullopt; };
  if (!r.most || *r.most >= 0) {
    const bool bounded = r.least && *r.least >= 0;
    parts.push_back(sized(bounded ? size_of(*r.least) : Size(), size(r.most), bounded && r.above, r.below));
  }
  if (!r.least || *r.least < 0) {
    const bool bounded = r.most && *r.most < 0;
    const Expr below_zero =
        sized(bounded ? size_of(*r.most) : Size(), size(r.least), bounded ? r.below : true, r.above);
    parts.push_back(sequence({text("-"), below_zero}));
  }
  return either(std::move(parts));
}

// Gemma's templates write Python's word for it.
Expr json_null(CallForm spelling) {
  return spelling == CallForm::json ? text("null") : either({text("null"), text("None")});
}

namespace {

std::string between(CallForm spelling) { return spelling == CallForm::json ? ", " : ","; }

}  // namespace

Expr bare_name() {
  static const Expr name =
      repeat(one_of(others({{0, 0x20}, {':', ':'}, {',', ','}, {'[', '['}, {']', ']'}, {'{', '{'}, {'}', '}'}}),
                    Letters::plain),
             1, -1);
  return name;
}

Expr json_key(CallForm spelling) {
  if (spelling == CallForm::json) return sequence({json_string(0, -1), text(": ")});
  return sequence({bare_name(), text(":")});
}

Expr json_key(std::string_view name, CallForm spelling) {
  return text(spelling == CallForm::json ? Json(name).dump() + ": " : gemma_key(name) + ":");
}

Expr json_list(const Expr& item, int64_t least, int64_t most, CallForm spelling) {
  if (most == 0) return least > 0 ? never() : text("[]");
  const Expr more =
      repeat(sequence({text(between(spelling)), item}), std::max<int64_t>(least - 1, 0), most < 0 ? -1 : most - 1);
  const Expr some = sequence({text("["), item, more, text("]")});
  return least > 0 ? some : either({text("[]"), some});
}

Expr json_dictionary(const Expr& member, int64_t least, int64_t most, CallForm spelling) {
  if (most == 0) return least > 0 ? never() : text("{}");
  const Expr more =
      repeat(sequence({text(between(spelling)), member}), std::max<int64_t>(least - 1, 0), most < 0 ? -1 : most - 1);
  const Expr some = sequence({text("{"), member, more, text("}")});
  return least > 0 ? some : either({text("{}"), some});
}

namespace {

// Values and objects by depth, each made once and of those below.
struct Nested {
  std::vector<Expr> any, object = {nullptr};

  explicit Nested(CallForm spelling) {
    const Expr string = json_string(0, -1, spelling), number = json_number({}),
               literal = either({text("true"), text("false"), json_null(spelling)});
    any.push_back(either({string, number, literal}));
    for (int64_t depth = 1; depth <= kMostLevels; ++depth) {
      object.push_back(json_dictionary(sequence({json_key(spelling), any.back()}), 0, -1, spelling));
      any.push_back(either({string, number, literal, json_list(any.back(), 0, -1, spelling), object.back()}));
    }
  }
};

const Nested& nested(CallForm spelling) {
  static const Nested json(CallForm::json), gemma(CallForm::gemma);
  return spelling == CallForm::json ? json : gemma;
}

}  // namespace

Expr json_object(int64_t depth, CallForm spelling) { return nested(spelling).object.at(static_cast<size_t>(depth)); }
Expr json_any(int64_t depth, CallForm spelling) { return nested(spelling).any.at(static_cast<size_t>(depth)); }

// A step as whole over a power of ten.
Result<Expr> json_multiples(double step, bool integer, Budget& budget) {
  if (step > 1e15 || step < 1e-9) return invalid("found {}, needed a step from 1e-9 to 1e15", step);
  const Size size = size_of(step);
  auto digits = static_cast<int64_t>(size.fraction.size());
  auto whole = static_cast<int64_t>(size.whole);
  if (digits > 9 || size.whole > 1'000'000'000) {
    if (digits > 0) return invalid("found {}, needed a step of fewer digits", step);
  }
  int64_t scale = 1;
  for (const char c : size.fraction) scale *= 10, whole = whole * 10 + (c - '0');
  if (integer) return multiples(whole / std::gcd(whole, scale), 0, false, budget);
  return multiples(whole, digits, digits > 0, budget);
}

Expr json_format(std::string_view name, Letters letters) {
  // February has 28 days in every year.
  static const std::string date =
      "[12][0-9]{3}-(((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01]))|((0[469]|11)-(0[1-9]|[12][0-9]|30))|"
      "(02-(0[1-9]|1[0-9]|2[0-8])))";
  static const std::string time = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
  static const std::string label = "[a-z0-9]([a-z0-9-]{0,14}[a-z0-9])?";
  static const std::string host = label + "(\\." + label + "){1,3}";
  static const std::string byte = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  static const std::string path = "(/[A-Za-z0-9_.~-]{0,40}){0,8}";
  static const std::string pointer = "(/[A-Za-z0-9_.-]{0,40}){0,8}";
  static const std::string uri = "https?://" + host + path;
  static const std::string email = "[A-Za-z0-9_]([A-Za-z0-9_+-]|\\.[A-Za-z0-9_]){0,30}@" + host;
  static const std::string days =
                               "(([0-9]{1,6}Y([0-9]{1,6}M([0-9]{1,6}D)?)?)|([0-9]{1,6}M([0-9]{1,6}D)?)|([0-9]{1,6}D))",
                           hours =
                               "(T(([0-9]{1,6}H([0-9]{1,6}M([0-9]{1,6}S)?)?)|([0-9]{1,6}M([0-9]{1,6}S)?)|"
                               "([0-9]{1,6}S)))";
  // Eight groups, or :: for as many as are left out.
  static const auto groups = [](int n) { return fmt::format("([0-9a-f]{{1,4}}:){{{}}}", n); };
  static const std::string ipv6 = [] {
    std::string all = groups(7) + "[0-9a-f]{1,4}|::";
    for (int before = 0; before < 7; ++before)
      all += fmt::format("|{}(:[0-9a-f]{{1,4}}){{1,{}}}", before == 0 ? ":" : groups(before), 7 - before);
    return all;
  }();
  static const std::vector<std::pair<std::string_view, std::string>> kFormats = {
      {"date", date},
      {"time", time},
      {"date-time", date + "T" + time},
      {"duration", "P(" + days + hours + "?|" + hours + "|[0-9]{1,6}W)"},
      {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
      {"email", email},
      {"idn-email", email},
      {"hostname", host},
      {"idn-hostname", host},
      {"ipv4", byte + "(\\." + byte + "){3}"},
      {"ipv6", ipv6},
      {"uri", uri},
      {"iri", uri},
      {"uri-reference", uri + "|" + path},
      {"iri-reference", uri + "|" + path},
      {"uri-template", uri},
      {"json-pointer", pointer},
      {"relative-json-pointer", "(0|[1-9][0-9]{0,5})(#|" + pointer + ")"},
      {"regex", "[A-Za-z0-9 _-]{0,60}"},
  };
  const auto format = std::ranges::find(kFormats, name, [](const auto& known) { return known.first; });
  return format == kFormats.end() ? nullptr : fits(format->second, letters);
}

}  // namespace llada::forms
