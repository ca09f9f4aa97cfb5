#include "text/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "text/unicode_additions.h"
#include "text/utf8.h"

namespace llada {
namespace {

// Hangul syllables are arithmetic (The Unicode Standard, 3.12): an L and a V make an LV, an LV and a T an
// LVT. The bases are one below the first T, because T counts from 1.
constexpr char32_t kL = 0x1100, kV = 0x1161, kT = 0x11A7, kS = 0xAC00;
constexpr char32_t kLs = 19, kVs = 21, kTs = 28;

int combining_class(char32_t c) {
  const int known = utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
  return known != 0 ? known : added_combining_class(c);
}

void decompose(char32_t c, std::vector<char32_t>& out) {
  if (const CodePointPair parts = added_decomposition(c); parts.first != 0) {
    decompose(parts.first, out);
    decompose(parts.second, out);
    return;
  }
  utf8proc_int32_t parts[8];
  int boundary = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 8, UTF8PROC_DECOMPOSE, &boundary);
  if (count > 0 && count <= 8)
    out.insert(out.end(), parts, parts + count);
  else
    out.push_back(c);
}

// utf8proc's own ordering is quadratic in the length of a run of marks, so the order is made here: by class,
// equals in the order they came.
void order_marks(std::vector<char32_t>& text) {
  struct Mark {
    int combining_class;
    size_t position;
    char32_t code_point;
  };
  std::vector<Mark> run;
  for (size_t i = 0; i < text.size();) {
    run.clear();
    for (size_t end = i; end < text.size() && combining_class(text[end]) != 0; ++end)
      run.push_back({combining_class(text[end]), end, text[end]});
    std::sort(run.begin(), run.end(), [](const Mark& a, const Mark& b) {
      return std::tie(a.combining_class, a.position) < std::tie(b.combining_class, b.position);
    });
    for (size_t k = 0; k < run.size(); ++k) text[i + k] = run[k].code_point;
    i += run.size() + 1;
  }
}

// The primary composite of a pair, or 0.
char32_t compose(char32_t a, char32_t b) {
  if (a - kL < kLs && b - kV < kVs) return kS + ((a - kL) * kVs + (b - kV)) * kTs;
  if (a - kS < kLs * kVs * kTs && (a - kS) % kTs == 0 && b > kT && b - kT < kTs) return a + (b - kT);
  if (const char32_t added = added_composite({a, b})) return added;
  // Only marks follow in the other compositions. utf8proc shows its table of pairs only through this
  // function, which would also compose an LV and U+11A7, the T that is none.
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(b));
  if (category != UTF8PROC_CATEGORY_MN && category != UTF8PROC_CATEGORY_MC) return 0;
  utf8proc_int32_t pair[2] = {static_cast<utf8proc_int32_t>(a), static_cast<utf8proc_int32_t>(b)};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  return utf8proc_normalize_utf32(pair, 2, options) == 1 ? static_cast<char32_t>(pair[0]) : 0;
}

// Joins every character with the starter before it, unless one of the same or a higher class stands between
// them.
void compose_all(std::vector<char32_t>& text) {
  size_t size = 0, starter = text.size();
  int last_class = 0;  // of text[size - 1]; 0 behind the starter itself
  for (const char32_t c : text) {
    const int own_class = combining_class(c);
    const bool adjacent = size == starter + 1;
    if (starter < size && (adjacent || last_class < own_class)) {
      if (const char32_t composite = compose(text[starter], c)) {
        text[starter] = composite;
        continue;
      }
    }
    if (own_class == 0) starter = size;
    last_class = own_class;
    text[size++] = c;
  }
  text.resize(size);
}

}  // namespace

std::string_view to_nfc(std::string_view text, std::string& buffer) {
  // No character below U+0300 (lead bytes below 0xCC) composes with another one below it or decomposes in
  // form C.
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0xCC; })) return text;
  std::vector<char32_t> code_points;
  code_points.reserve(text.size());
  while (!text.empty()) {
    const Utf8Unit unit = utf8_unit(text);
    decompose(unit.code_point, code_points);
    text.remove_prefix(static_cast<size_t>(unit.length));
  }
  order_marks(code_points);
  compose_all(code_points);
  buffer.clear();
  for (const char32_t c : code_points) append_utf8(buffer, c);
  return buffer;
}

}  // namespace llada
