#include "base/addresses.h"

#include <algorithm>

namespace llada {
namespace {

constexpr int kGroups = 8;  // of 16 bits each
constexpr int kNoPart = kGroups + 1;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

bool is_byte(std::string_view text) {
  if (text.empty() || text.size() > 3 || !std::ranges::all_of(text, is_digit)) return false;
  if (text.size() > 1 && text.front() == '0') return false;  // octal to some readers
  return text.size() < 3 || text <= "255";
}

// The groups of a part of an address; kNoPart or more: it is none. The last part may end with an IPv4 address.
int groups_of(std::string_view part, bool last) {
  if (part.empty()) return 0;
  int groups = 0;
  for (bool more = true; more && groups < kNoPart;) {
    const size_t colon = part.find(':');
    more = colon != std::string_view::npos;
    const std::string_view field = part.substr(0, colon);
    part.remove_prefix(more ? colon + 1 : part.size());
    const bool hex = !field.empty() && field.size() <= 4 && std::ranges::all_of(field, is_hex);
    groups += hex ? 1 : !more && last && is_ipv4(field) ? 2 : kNoPart;
  }
  return groups;
}

}  // namespace

bool is_ipv4(std::string_view text) {
  for (int i = 0; i < 3; ++i) {
    const size_t dot = text.find('.');
    if (dot == std::string_view::npos || !is_byte(text.substr(0, dot))) return false;
    text.remove_prefix(dot + 1);
  }
  return is_byte(text);
}

bool is_ipv6(std::string_view text) {
  const size_t zeros = text.find("::");  // stands for at least one group
  if (zeros == std::string_view::npos) return groups_of(text, true) == kGroups;
  return groups_of(text.substr(0, zeros), false) + groups_of(text.substr(zeros + 2), true) < kGroups;
}

}  // namespace llada
