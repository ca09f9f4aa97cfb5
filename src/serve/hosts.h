// Names of hosts: where the server listens, what URLs call it, and by which names requests may call it.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada::serve {

// What --host names: an IPv6 address may stand in brackets, as in URLs. Invalid: nothing, or no name of a host.
Result<std::string> parse_host(const std::string& given);

// NAME:PORT, an IPv6 address in brackets.
std::string host_and_port(std::string_view host, int port);

// Whether only this machine reaches it.
bool is_loopback(std::string_view host);

// The name in a Host header or in an origin behind its ://, in lower case, without port, brackets and a dot at its end.
std::optional<std::string> name_of_host(std::string_view host);

// By which names requests may call the server. A web page whose own name an attacker has made to lead to this machine
// (DNS rebinding) asks by that name, and the browser takes the answer for the page's own: so a name must be one that
// nobody else gives to this machine. Those of the loopback device and addresses are; others are to be named.
class HostNames {
 public:
  HostNames() = default;
  // Invalid: one that is no name of a host. * allows all.
  static Result<HostNames> parse(const std::vector<std::string>& further);

  bool allows(std::string_view host) const;  // a Host header

 private:
  std::set<std::string> further_;
  bool any_ = false;
};

}  // namespace llada::serve
