#include "serve/keys.h"

#include <algorithm>

namespace llada::serve {

Result<std::vector<std::string>> parse_keys(std::string_view text, const std::string& source) {
  std::vector<std::string> keys;
  for (int line_number = 1; !text.empty(); ++line_number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    const auto is_odd = [](char c) { return c <= ' ' || c > '~'; };
    if (std::ranges::any_of(line, is_odd))
      return invalid("{}:{}: found a blank or a character that is none of ASCII's, needed one key a line", source,
                     line_number);
    keys.emplace_back(line);
  }
  if (keys.empty()) return invalid("{}: found no key, needed one a line", source);
  return keys;
}

bool holds_key(const std::vector<std::string>& keys, std::string_view given) {
  // Every byte of every key is compared, whatever was found before. The time tells the length of what was given, which
  // its sender knows.
  unsigned found = 0;
  for (const std::string& key : keys) {
    unsigned differs = key.size() == given.size() ? 0 : 1;
    for (size_t i = 0; i < given.size(); ++i)
      differs |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(key[i % key.size()]);
    found |= static_cast<unsigned>(differs == 0);
  }
  return found != 0;
}

std::string_view key_of(const HttpRequest& request) {
  constexpr std::string_view kScheme = "bearer";
  std::string_view given = request.authorization;
  const auto same = [](char c, char wanted) { return (c | 0x20) == wanted; };
  if (given.size() <= kScheme.size() || given[kScheme.size()] != ' ' ||
      !std::equal(kScheme.begin(), kScheme.end(), given.begin(), [&](char wanted, char c) { return same(c, wanted); }))
    return request.api_key;
  given.remove_prefix(kScheme.size());
  while (given.starts_with(' ')) given.remove_prefix(1);
  while (given.ends_with(' ')) given.remove_suffix(1);
  return given;
}

}  // namespace llada::serve
