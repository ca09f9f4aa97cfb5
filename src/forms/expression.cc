#include "forms/expression.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace llada::forms {
namespace {

using Kind = Expression::Kind;

Expr make(Expression e) { return std::make_shared<const Expression>(std::move(e)); }

std::string utf8_of(char32_t code) {
  std::string out;
  append_utf8(out, code);
  return out;
}

// The characters' UTF-8 as sequences of byte ranges (the splitting of Thompson's and Cox's utf8 automata: ranges are
// cut where the encoding gets longer, and where only the last bytes run through all their values).
void add_utf8(char32_t first, char32_t last, std::vector<Expr>& out) {
  if (first > last) return;
  for (const char32_t most : {U'\x7f', U'\x7ff', U'\xffff'})
    if (first <= most && last > most) {
      add_utf8(first, most, out);
      return add_utf8(most + 1, last, out);
    }
  for (int i = 1; i < 4 && last > 0x7f; ++i) {
    const char32_t low = (char32_t{1} << (6 * i)) - 1;
    if ((first & ~low) == (last & ~low)) break;
    if ((first & low) != 0) {
      add_utf8(first, first | low, out);
      return add_utf8((first | low) + 1, last, out);
    }
    if ((last & low) != low) {
      add_utf8(first, (last & ~low) - 1, out);
      return add_utf8(last & ~low, last, out);
    }
  }
  const std::string from = utf8_of(first), to = utf8_of(last);
  std::vector<Expr> parts;
  for (size_t i = 0; i < from.size(); ++i)
    parts.push_back(
        make({.kind = Kind::bytes, .ranges = {{static_cast<uint8_t>(from[i]), static_cast<uint8_t>(to[i])}}}));
  out.push_back(sequence(std::move(parts)));
}

constexpr std::pair<char32_t, char> kEscapes[] = {{U'"', '"'},  {U'\\', '\\'}, {U'\b', 'b'}, {U'\f', 'f'},
                                                  {U'\n', 'n'}, {U'\r', 'r'},  {U'\t', 't'}};

bool contains(std::span<const CodeRange> ranges, char32_t code) {
  return std::ranges::any_of(ranges, [&](const CodeRange& r) { return r.first <= code && code <= r.last; });
}

std::vector<CodeRange> cut_out(const std::vector<CodeRange>& ranges, CodeRange out) {
  std::vector<CodeRange> left;
  for (const CodeRange& r : ranges) {
    if (r.first < out.first) left.push_back({r.first, std::min<char32_t>(r.last, out.first - 1)});
    if (r.last > out.last) left.push_back({std::max<char32_t>(r.first, out.last + 1), r.last});
  }
  return left;
}

}  // namespace

Status Budget::spend(size_t cost) {
  left_ -= steps_ > 0 ? std::min(cost, left_) : left_;
  return left_ > 0 ? Status() : invalid("the form is too large");
}

Status Budget::step(int64_t steps) {
  steps_ -= std::min(steps, steps_);
  return spend(0);
}

Status Budget::spend_on(const Expression& fresh) {
  LLADA_TRY_STATUS(spend(1 + fresh.text.size()));
  for (const Expr& part : fresh.parts) LLADA_TRY_STATUS(spend_on(*part));
  return {};
}

Expr never() { return make({}); }
Expr text(std::string bytes) { return make({.kind = Kind::text, .text = std::move(bytes)}); }

Expr sequence(std::vector<Expr> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  return make({.kind = Kind::sequence, .parts = std::move(parts)});
}

Expr either(std::vector<Expr> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  return make({.kind = Kind::either, .parts = std::move(parts)});
}

Expr repeat(Expr part, int64_t least, int64_t most) {
  return make({.kind = Kind::repeat, .parts = {std::move(part)}, .least = least, .most = most});
}

Expr members(std::vector<Expr> parts, std::vector<bool> required, std::string between) {
  return make(
      {.kind = Kind::members, .text = std::move(between), .parts = std::move(parts), .required = std::move(required)});
}

Expr without(std::string text) { return make({.kind = Kind::without, .text = std::move(text)}); }

std::vector<CodeRange> merged(std::vector<CodeRange> ranges) {
  std::ranges::sort(ranges, {}, &CodeRange::first);
  std::vector<CodeRange> out;
  for (const CodeRange& r : ranges) {
    if (!out.empty() && r.first <= out.back().last + 1)
      out.back().last = std::max(out.back().last, r.last);
    else
      out.push_back(r);
  }
  return out;
}

std::vector<CodeRange> others(std::vector<CodeRange> ranges) {
  std::vector<CodeRange> left;
  char32_t next = 0;
  for (const CodeRange& r : merged(std::move(ranges))) {
    if (r.first > next) left.push_back({next, r.first - 1});
    next = r.last + 1;
  }
  if (next <= kLastCode) left.push_back({next, kLastCode});
  return left;
}

Expr one_of(std::vector<CodeRange> ranges, Letters letters) {
  std::vector<CodeRange> codes = cut_out(merged(std::move(ranges)), {0xd800, 0xdfff});
  std::vector<Expr> parts;
  if (letters == Letters::json) {
    for (const auto& [code, escape] : kEscapes)
      if (contains(codes, code)) parts.push_back(text({'\\', escape}));
    for (const CodeRange& out : {CodeRange{0, 0x1f}, {'"', '"'}, {'\\', '\\'}}) codes = cut_out(codes, out);
  }
  for (const CodeRange& r : codes) add_utf8(r.first, r.last, parts);
  return parts.empty() ? never() : either(std::move(parts));
}

Expr any_letter(Letters letters) {
  static const Expr plain = one_of({{0, kLastCode}}, Letters::plain), json = one_of({{0, kLastCode}}, Letters::json);
  return letters == Letters::json ? json : plain;
}

}  // namespace llada::forms
