#include "serve/hosts.h"

#include <arpa/inet.h>

#include <algorithm>

#include "formats/printable.h"

namespace llada::serve {
namespace {

bool is_ipv4(const std::string& host) {
  in_addr address;
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1;
}

// A link-local address may have a zone, fe80::1%eth0.
bool is_ipv6(const std::string& host) {
  in6_addr address;
  return ::inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &address) == 1;
}

bool is_name(std::string_view host) {
  const auto belongs = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
  };
  return !host.empty() && host.size() <= 253 && std::ranges::all_of(host, belongs);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  return out;
}

}  // namespace

Result<std::string> parse_host(const std::string& given) {
  const bool brackets = given.size() > 2 && given.front() == '[' && given.back() == ']';
  std::string host = brackets ? given.substr(1, given.size() - 2) : given;
  if (is_ipv6(host) || (!brackets && is_name(lower(host)))) return host;
  return invalid("--host: found \"{}\", needed a name or an address, as localhost, 0.0.0.0 or ::1",
                 printable(given, 100));
}

std::string host_and_port(std::string_view host, int port) {
  return host.find(':') == std::string_view::npos ? fmt::format("{}:{}", host, port)
                                                  : fmt::format("[{}]:{}", host, port);
}

bool is_loopback(std::string_view host) {
  const std::string name = lower(host);
  return name == "localhost" || name.ends_with(".localhost") || name == "::1" ||
         (is_ipv4(name) && name.starts_with("127."));
}

std::optional<std::string> name_of_host(std::string_view host) {
  std::string name = lower(host);
  std::string_view rest;
  if (name.starts_with('[')) {
    const size_t end = name.find(']');
    if (end == std::string::npos) return std::nullopt;
    rest = host.substr(end + 1);
    name = name.substr(1, end - 1);
    if (!is_ipv6(name)) return std::nullopt;
  } else {
    const size_t end = std::min(name.find(':'), name.size());
    rest = host.substr(end);
    name.resize(end);
    if (name.ends_with('.')) name.pop_back();
    if (!is_name(name)) return std::nullopt;
  }
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!rest.empty() && (rest.front() != ':' || !std::ranges::all_of(rest.substr(1), is_digit))) return std::nullopt;
  return name;
}

Result<HostNames> HostNames::parse(const std::vector<std::string>& further) {
  HostNames names;
  for (const std::string& given : further) {
    const auto name = name_of_host(given);
    if (given == "*") {
      names.any_ = true;
    } else if (name) {
      names.further_.insert(*name);
    } else {
      return invalid("--allow-host: found \"{}\", needed a name, as llada.example.org, or *", printable(given, 100));
    }
  }
  return names;
}

bool HostNames::allows(std::string_view host) const {
  if (any_) return true;
  const auto name = name_of_host(host);
  return name && (is_ipv4(*name) || is_ipv6(*name) || is_loopback(*name) || further_.contains(*name));
}

}  // namespace llada::serve
