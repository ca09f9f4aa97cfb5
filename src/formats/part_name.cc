#include "formats/part_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

namespace llada {
namespace {

// 0: none above 0.
int number(std::string_view digits) {
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc() && end == digits.data() + digits.size() && value > 0 ? value : 0;
}

}  // namespace

std::string PartName::of(int part) const { return fmt::format("{}-{:05}-of-{:05}{}", stem, part, count, ending); }

CutName cut_name(const std::string& path) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (const std::string_view ending : {".gguf", ".safetensors"}) {
    const size_t at = path.rfind(ending), end = at + ending.size();
    if (at == std::string::npos || at == 0 || end + 1 >= path.size()) continue;
    std::string_view rest = std::string_view(path).substr(end + 1);
    if (std::string_view(".-_").find(path[end]) == std::string_view::npos) continue;
    const size_t word = rest.starts_with("part") ? 4 : rest.starts_with("split") ? 5 : 0;
    rest.remove_prefix(word);
    if (rest.empty() || rest.contains('/') || (word == 0 && !std::ranges::all_of(rest, is_digit))) continue;
    CutName cut{path.substr(0, end)};
    if (const size_t of = rest.rfind("of"); of != std::string_view::npos) {
      rest.remove_prefix(of + 2);
      cut.count = number(rest.starts_with('-') ? rest.substr(1) : rest);
    }
    return cut;
  }
  return {};
}

bool is_earlier_cut(const std::string& part, const std::string& other) {
  return std::pair(part.size(), std::string_view(part)) < std::pair(other.size(), std::string_view(other));
}

PartName part_name(const std::string& path) {
  const size_t of = path.rfind("-of-"), dot = path.rfind('.');
  if (of == std::string::npos || dot == std::string::npos || of < 6 || dot < of + 5) return {};
  const size_t dash = path.rfind('-', of - 1);
  if (dash == std::string::npos) return {};
  const int index = number(std::string_view(path).substr(dash + 1, of - dash - 1));
  const int count = number(std::string_view(path).substr(of + 4, dot - of - 4));
  if (index == 0 || count == 0 || index > count) return {};
  return {index, count, path.substr(0, dash), path.substr(dot)};
}

}  // namespace llada
