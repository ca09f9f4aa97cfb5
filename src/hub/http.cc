#include "hub/http.h"

#include <algorithm>

namespace llada::hub {

void HttpAnswer::add_header(std::string_view line) {
  constexpr size_t kMostHeaders = 200;
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || headers.size() >= kMostHeaders) return;
  std::string name(line.substr(0, colon));
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  std::string_view value = line.substr(colon + 1);
  const size_t first = value.find_first_not_of(" \t"), last = value.find_last_not_of(" \t\r\n");
  value = first == std::string_view::npos || last < first ? std::string_view() : value.substr(first, last - first + 1);
  headers.insert_or_assign(std::move(name), std::string(value));
}

std::string Checksum::hex() {
  std::string out;
  for (const unsigned char byte : digest()) out += fmt::format("{:02x}", byte);
  return out;
}

Result<std::unique_ptr<Checksum>> Checksum::git_blob(int64_t bytes) {
  LLADA_TRY(auto sum, sha1());
  const std::string head = fmt::format("blob {}", bytes);
  sum->update(std::as_bytes(std::span(head.c_str(), head.size() + 1)));  // with the NUL
  return sum;
}

}  // namespace llada::hub
