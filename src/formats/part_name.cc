#include "formats/part_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/numbers.h"
#include "formats/printable.h"

namespace llada {
namespace {

// 0: none above 0.
int number(std::string_view digits) { return std::max(parse_number<int>(digits).value_or(0), 0); }

}  // namespace

std::string PartName::of(int part) const { return fmt::format("{}-{:05}-of-{:05}{}", stem, part, count, ending); }

CutName cut_name(const std::string& path) {
  constexpr std::string_view kDigits = "0123456789", kLetters = "abcdefghijklmnopqrstuvwxyz", kBetween = ".-_";
  const auto skip = [&](std::string_view& text) {
    const bool any = !text.empty() && kBetween.contains(text.front());
    if (any) text.remove_prefix(1);
    return any;
  };
  for (const std::string_view ending : {".gguf", ".safetensors"}) {
    const size_t at = path.rfind(ending), end = at + ending.size();
    if (at == std::string::npos || at == 0) continue;
    std::string_view rest = std::string_view(path).substr(end);
    if (!skip(rest)) continue;
    const size_t word = rest.starts_with("part") ? 4 : rest.starts_with("split") ? 5 : 0;
    rest.remove_prefix(word);
    const bool apart = word > 0 && skip(rest);
    const std::string_view behind = rest;
    const size_t digits = std::min(rest.find_first_not_of(kDigits), rest.size());
    const size_t letters = word == 0 ? 0 : std::min(rest.find_first_not_of(kLetters), rest.size());
    constexpr size_t kMostDigits = 9, kMostLetters = 3, kLettersOfSplit = 2;
    CutName cut{path.substr(0, end)};
    if (digits > 0 && digits <= kMostDigits) {
      cut.index = number(rest.substr(0, digits));
    } else if (letters == kLettersOfSplit || (apart && letters > 0 && letters <= kMostLetters)) {
      cut.letters = true;
      for (const char c : rest.substr(0, letters)) cut.index = cut.index * 26 + (c - 'a');
    } else {
      continue;
    }
    rest.remove_prefix(std::max(digits, letters));
    cut.scheme = path.substr(0, path.size() - behind.size()) + (digits > 0 ? "0" : std::string(letters, 'a'));
    cut.scheme += rest;
    if (!rest.empty()) {
      skip(rest);
      if (word == 0 || !rest.starts_with("of")) continue;
      rest.remove_prefix(2);
      skip(rest);
      cut.count = rest.find_first_not_of(kDigits) == rest.npos ? number(rest) : 0;
      if (cut.count == 0) continue;
    }
    return cut;
  }
  return {};
}

Result<std::vector<std::string>> pieces_of_cut(const std::vector<std::string>& pieces, const std::string& name) {
  std::string scheme = cut_name(name).scheme;
  std::vector<std::pair<int, std::string>> found;
  for (const std::string& piece : pieces) {
    const CutName cut = cut_name(piece);
    if (scheme.empty()) scheme = cut.scheme;
    if (cut.scheme == scheme)
      found.emplace_back(cut.index, piece);
    else if (cut_name(name).scheme.empty())
      return invalid("found {} and {}, pieces of two cuts; needed one, by the name of a piece",
                     printable(found.front().second), printable(piece));
  }
  std::ranges::sort(found);
  const std::string whole = printable(cut_name(pieces.front()).whole);
  if (const int count = cut_name(found.front().second).count; count > 0 && count != std::ssize(found))
    return invalid("found {} of {} pieces of {}, needed all", found.size(), count, whole);
  const int first = cut_name(found.front().second).letters ? 0 : std::min(found.front().first, 1);
  std::vector<std::string> all;
  for (auto& [index, piece] : found) {
    const int64_t expected = first + std::ssize(all);
    if (index != expected)
      return invalid("found {} and no piece number {} of {}, needed all", printable(piece), expected, whole);
    all.push_back(std::move(piece));
  }
  return all;
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
