#include "text/text_file.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "text/utf8.h"

namespace llada {
namespace {

using namespace std::string_view_literals;

// The longer marks first: UTF-32's begins as UTF-16's does.
constexpr std::pair<std::string_view, std::string_view> kOtherMarks[] = {
    {"\xFF\xFE\0\0"sv, "UTF-32"}, {"\0\0\xFE\xFF"sv, "UTF-32"}, {"\xFF\xFE"sv, "UTF-16"}, {"\xFE\xFF"sv, "UTF-16"}};

}  // namespace

Result<std::string> as_text(std::string bytes, const std::string& name) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  const std::string_view text = bytes;
  for (const auto& [mark, encoding] : kOtherMarks)
    if (text.starts_with(mark)) return invalid("{}: found {}, needed UTF-8", name, encoding);
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = utf8_unit(text.substr(at));
    if (!unit.valid)
      return invalid("{}: byte {} (line {}): found 0x{:02x}, which is not UTF-8 there", name, at + 1,
                     1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'),
                     static_cast<unsigned char>(text[at]));
    at += static_cast<size_t>(unit.length);
  }
  if (text.starts_with(kMark)) bytes.erase(0, kMark.size());
  return bytes;
}

Result<std::string> read_text_file(const std::string& path, size_t limit_bytes) {
  LLADA_TRY(auto bytes, read_any_file(path, limit_bytes));
  return as_text(std::move(bytes), path);
}

}  // namespace llada
