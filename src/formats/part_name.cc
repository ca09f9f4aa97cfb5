#include "formats/part_name.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

namespace llada {

std::string PartName::of(int part) const { return fmt::format("{}-{:05}-of-{:05}{}", stem, part, count, ending); }

PartName part_name(const std::string& path) {
  const size_t of = path.rfind("-of-"), dot = path.rfind('.');
  if (of == std::string::npos || dot == std::string::npos || of < 6 || dot < of + 5) return {};
  const auto number = [](std::string_view digits) {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() && value > 0 ? value : 0;
  };
  const size_t dash = path.rfind('-', of - 1);
  if (dash == std::string::npos) return {};
  const int index = number(std::string_view(path).substr(dash + 1, of - dash - 1));
  const int count = number(std::string_view(path).substr(of + 4, dot - of - 4));
  if (index == 0 || count == 0 || index > count) return {};
  return {index, count, path.substr(0, dash), path.substr(dot)};
}

}  // namespace llada
