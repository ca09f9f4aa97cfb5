#include "serve/http/access.h"

#include <algorithm>
#include <cctype>

#include "base/addresses.h"
#include "formats/printable.h"

namespace llada::serve {
namespace {

// A link-local address may have a zone, fe80::1%eth0.
bool is_ipv6_or_zoned(std::string_view host) { return is_ipv6(host.substr(0, host.find('%'))); }

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || is_digit(c); }

bool is_name(std::string_view host) {
  const auto belongs = [](char c) { return is_lower_or_digit(c) || c == '-' || c == '.' || c == '_'; };
  return !host.empty() && host.size() <= 253 && std::ranges::all_of(host, belongs);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  return out;
}

std::string_view without_blanks(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// The name in a Host header or in an origin behind its ://, in lower case, without port, brackets and a dot at its end.
std::optional<std::string> name_of_host(std::string_view host) {
  std::string name = lower(host);
  std::string_view rest;
  if (name.starts_with('[')) {
    const size_t end = name.find(']');
    if (end == std::string::npos) return std::nullopt;
    rest = host.substr(end + 1);
    name = name.substr(1, end - 1);
    if (!is_ipv6_or_zoned(name)) return std::nullopt;
  } else {
    const size_t end = std::min(name.find(':'), name.size());
    rest = host.substr(end);
    name.resize(end);
    if (name.ends_with('.')) name.pop_back();
    if (!is_name(name)) return std::nullopt;
  }
  if (!rest.empty() && (rest.front() != ':' || !std::ranges::all_of(rest.substr(1), is_digit))) return std::nullopt;
  return name;
}

// scheme://host[:port], as a browser writes it: in lower case, nothing behind it.
bool is_origin(std::string_view text) {
  const size_t colon = text.find("://");
  if (colon == std::string_view::npos || colon == 0) return false;
  const auto belongs = [](char c) { return is_lower_or_digit(c) || c == '+' || c == '-' || c == '.'; };
  const std::string_view host = text.substr(colon + 3);
  return std::ranges::all_of(text.substr(0, colon), belongs) && !host.ends_with('.') && !host.ends_with(':') &&
         lower(host) == host && name_of_host(host).has_value();
}

// Names of headers, with commas between them, of a length that a browser sends.
bool is_list_of_headers(std::string_view text) {
  const auto belongs = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == ',' || c == ' ';
  };
  return !text.empty() && text.size() <= 4096 && std::ranges::all_of(text, belongs);
}

}  // namespace

Result<std::string> parse_host(const std::string& given) {
  const bool brackets = given.size() > 2 && given.front() == '[' && given.back() == ']';
  std::string host = brackets ? given.substr(1, given.size() - 2) : given;
  if (is_ipv6_or_zoned(host) || (!brackets && is_name(lower(host)))) return host;
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

Result<HostNames> HostNames::parse(const std::vector<std::string>& names) {
  HostNames hosts;
  for (const std::string& given : names) {
    const auto name = name_of_host(given);
    if (given == "*") {
      hosts.any_ = true;
    } else if (name) {
      hosts.names_.insert(*name);
    } else {
      return invalid("--allow-host: found \"{}\", needed a name, as llada.example.org, or *", printable(given, 100));
    }
  }
  return hosts;
}

bool HostNames::allows(std::string_view host) const {
  if (any_) return true;
  const auto name = name_of_host(host);
  return name && (is_ipv4(*name) || is_ipv6_or_zoned(*name) || is_loopback(*name) || names_.contains(*name));
}

Result<Origins> Origins::parse(const std::vector<std::string>& given) {
  Origins origins;
  for (std::string_view list : given) {
    for (bool more = true; more;) {
      const size_t comma = list.find(',');
      more = comma != std::string_view::npos;
      const std::string_view one = without_blanks(list.substr(0, comma));
      list.remove_prefix(more ? comma + 1 : list.size());
      if (one == "*") {
        origins.any_ = true;
      } else if (is_origin(one)) {
        origins.origins_.emplace(one);
      } else {
        return invalid("--cors: found \"{}\", needed an origin, as https://a.example or http://localhost:3000, or *",
                       printable(one, 100));
      }
    }
  }
  return origins;
}

bool Origins::lists(const std::string& origin) const { return any_ || origins_.contains(origin); }

bool Origins::allow(const HttpRequest& request) const {
  if (request.origin.empty() || lists(request.origin)) return true;
  const size_t host = request.origin.find("://");
  return host != std::string::npos && request.origin.substr(host + 3) == request.host;
}

void Origins::add_headers(const HttpRequest& request, HttpReply& reply) const {
  if (origins_.empty() && !any_) return;
  // A cache must not hand one origin's reply to another; with * all get the same.
  if (!any_) reply.headers.emplace_back("Vary", "Origin");
  if (request.origin.empty() || !lists(request.origin)) return;
  reply.headers.emplace_back("Access-Control-Allow-Origin", any_ ? "*" : request.origin);
  reply.headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After, X-Should-Retry, Llada-Note");
}

bool Origins::is_preflight(const HttpRequest& request) const {
  return request.method == "OPTIONS" && !request.origin.empty() && lists(request.origin);
}

HttpReply Origins::preflight(const HttpRequest& request) const {
  HttpReply reply{.status = 204, .type = "text/plain"};
  reply.headers = {
      {"Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"},
      {"Access-Control-Allow-Headers",
       is_list_of_headers(request.asked_headers) ? request.asked_headers : "Authorization, Content-Type, X-Api-Key"},
      {"Access-Control-Max-Age", "600"}};
  return reply;
}

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
  // Every byte of every key is compared, so the time tells the length of the given text alone, which its sender knows.
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
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view given = request.authorization;
  if (lower(given.substr(0, kScheme.size())) != kScheme) return request.api_key;
  return without_blanks(given.substr(kScheme.size()));
}

}  // namespace llada::serve
