#include "serve/cors.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "formats/printable.h"
#include "serve/hosts.h"

namespace llada::serve {
namespace {

// scheme://host[:port], as a browser writes it: in lower case, nothing behind it.
bool is_origin(std::string_view text) {
  const size_t colon = text.find("://");
  if (colon == std::string_view::npos || colon == 0) return false;
  const auto belongs = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  };
  const std::string_view host = text.substr(colon + 3);
  return std::ranges::all_of(text.substr(0, colon), belongs) && !host.ends_with('.') && !host.ends_with(':') &&
         std::ranges::none_of(host, [](unsigned char c) { return std::isupper(c); }) && name_of_host(host).has_value();
}

// Names of headers, with commas between them, of a length that a browser sends.
bool is_list_of_headers(std::string_view text) {
  const auto belongs = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == ',' || c == ' ';
  };
  return !text.empty() && text.size() <= 4096 && std::ranges::all_of(text, belongs);
}

}  // namespace

Result<Origins> Origins::parse(const std::vector<std::string>& given) {
  Origins origins;
  for (std::string_view list : given) {
    for (bool more = true; more;) {
      const size_t comma = list.find(',');
      more = comma != std::string_view::npos;
      std::string_view one = list.substr(0, comma);
      list.remove_prefix(more ? comma + 1 : list.size());
      while (one.starts_with(' ')) one.remove_prefix(1);
      while (one.ends_with(' ')) one.remove_suffix(1);
      if (one == "*") {
        origins.any_ = true;
      } else if (is_origin(one)) {
        origins.origins_.emplace_back(one);
      } else {
        return invalid("--cors: found \"{}\", needed an origin, as https://a.example or http://localhost:3000, or *",
                       printable(one, 100));
      }
    }
  }
  return origins;
}

bool Origins::let_in(const std::string& origin) const {
  return any_ || std::ranges::find(origins_, origin) != origins_.end();
}

bool Origins::allow(const HttpRequest& request) const {
  if (request.origin.empty() || let_in(request.origin)) return true;
  const size_t host = request.origin.find("://");
  return host != std::string::npos && request.origin.substr(host + 3) == request.host;
}

void Origins::add_headers(const HttpRequest& request, HttpReply& reply) const {
  if (origins_.empty() && !any_) return;
  // A cache must not hand one origin's reply to another; with * all get the same.
  if (!any_) reply.headers.emplace_back("Vary", "Origin");
  if (request.origin.empty() || !let_in(request.origin)) return;
  reply.headers.emplace_back("Access-Control-Allow-Origin", any_ ? "*" : request.origin);
  reply.headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After, X-Should-Retry, Llada-Note");
}

bool Origins::is_preflight(const HttpRequest& request) const {
  return request.method == "OPTIONS" && !request.origin.empty() && let_in(request.origin);
}

HttpReply Origins::preflight(const HttpRequest& request) const {
  HttpReply reply{.status = 204, .type = "text/plain"};
  reply.headers = {
      {"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
      {"Access-Control-Allow-Headers",
       is_list_of_headers(request.asked_headers) ? request.asked_headers : "Authorization, Content-Type, X-Api-Key"},
      {"Access-Control-Max-Age", "600"}};
  return reply;
}

}  // namespace llada::serve
