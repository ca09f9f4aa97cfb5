// Access control: the host names, web pages and keys with which requests are answered.
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/http.h"

namespace llada::serve {

// --host: an IPv6 address may stand in brackets, as in URLs. Invalid: empty, or no name of a host.
Result<std::string> parse_host(const std::string& given);

// NAME:PORT, an IPv6 address in brackets.
std::string host_and_port(std::string_view host, int port);

// Whether only this machine reaches it.
bool is_loopback(std::string_view host);

// The host names by which requests may call the server, against DNS rebinding. There an attacker points the name of his
// web page to this machine, so that a browser takes the server's replies for the page's own. So a name must be one that
// nobody else can point here: an address, a name of the loopback device, or a listed one.
class HostNames {
 public:
  HostNames() = default;
  // Invalid: one that is no name of a host. * allows all.
  static Result<HostNames> parse(const std::vector<std::string>& names);

  bool allows(std::string_view host) const;  // a Host header

 private:
  std::set<std::string> names_;
  bool any_ = false;
};

// The web pages that may send requests from a browser (CORS). A local server often has no key, so only its own page
// may, and those of listed origins.
class Origins {
 public:
  Origins() = default;
  // Each an origin, https://a.example:8443, several with commas between them, or *. Invalid: anything else, since a
  // browser compares to the letter.
  static Result<Origins> parse(const std::vector<std::string>& given);

  // Whether the request's page may send it; always true where it comes from none.
  bool allow(const HttpRequest& request) const;
  // The headers by which a browser lets its page read the reply.
  void add_headers(const HttpRequest& request, HttpReply& reply) const;
  // Whether it is a browser's preflight request, and the reply, which allows the headers that it names.
  bool is_preflight(const HttpRequest& request) const;
  HttpReply preflight(const HttpRequest& request) const;

 private:
  bool lists(const std::string& origin) const;

  std::set<std::string> origins_;
  bool any_ = false;
};

// API keys, one a line; empty lines and those that begin with # are left out. Invalid: no key, or one with a blank.
Result<std::vector<std::string>> parse_keys(std::string_view text, const std::string& source);

// Whether `given` is one of them, in a time that depends on no key's content.
bool holds_key(const std::vector<std::string>& keys, std::string_view given);

// The key that a request gives: Authorization: Bearer KEY, the scheme in any case and any blanks around the key, or
// X-Api-Key.
std::string_view key_of(const HttpRequest& request);

}  // namespace llada::serve
