#include "text/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "text/utf8.h"

namespace llada {
namespace {

int combining_class(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// utf8proc's own ordering is quadratic in the length of a run of marks, so the order is made here: by class,
// equals in the order they came.
void order_marks(std::vector<utf8proc_int32_t>& text) {
  struct Mark {
    int combining_class;
    size_t position;
    utf8proc_int32_t code_point;
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

}  // namespace

std::string_view to_nfc(std::string_view text, std::string& buffer) {
  // No character below U+0300 (lead bytes below 0xCC) composes with another one below it or decomposes in
  // form C.
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0xCC; }))
    return text;
  std::vector<utf8proc_int32_t> code_points;
  code_points.reserve(text.size());
  while (!text.empty()) {
    const Utf8Unit unit = utf8_unit(text);
    utf8proc_int32_t parts[8];
    int boundary = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(unit.code_point), parts, 8,
                                               UTF8PROC_DECOMPOSE, &boundary);
    if (count > 0 && count <= 8)
      code_points.insert(code_points.end(), parts, parts + count);
    else
      code_points.push_back(static_cast<utf8proc_int32_t>(unit.code_point));
    text.remove_prefix(unit.length);
  }
  order_marks(code_points);
  const auto length =
      utf8proc_normalize_utf32(code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  buffer.clear();
  for (utf8proc_ssize_t i = 0; i < length; ++i) append_utf8(buffer, static_cast<char32_t>(code_points[i]));
  return buffer;
}

}  // namespace llada
