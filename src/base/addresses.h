// Internet addresses as texts, without a zone, as inet_pton() of POSIX reads them.
#pragma once
#include <string_view>

namespace llada {

bool is_ipv4(std::string_view text);
bool is_ipv6(std::string_view text);

}  // namespace llada
