#include "serve/http/beast_head.h"

#include <algorithm>
#include <cctype>

namespace llada::serve {
namespace {

namespace http = boost::beast::http;
constexpr std::string_view kEnd = "\r\n\r\n";

std::string text(boost::string_view view) { return {view.data(), view.size()}; }

// GET http://HOST/PATH, as to a proxy: the target's host counts, whatever Host says. (RFC 9112, 3.2.2)
struct AbsoluteTarget {
  std::string host, rest;
};
std::optional<AbsoluteTarget> absolute_target(const std::string& target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!boost::beast::iequals(target.substr(0, scheme.size()), {scheme.data(), scheme.size()})) continue;
    const size_t end = std::min(target.find_first_of("/?", scheme.size()), target.size());
    const bool slash = target.substr(end).starts_with('/');
    return AbsoluteTarget{target.substr(scheme.size(), end - scheme.size()), (slash ? "" : "/") + target.substr(end)};
  }
  return std::nullopt;
}

}  // namespace

size_t size_of_head(std::string_view bytes, size_t searched) {
  const size_t at = bytes.find(kEnd, searched < kEnd.size() ? 0 : searched - kEnd.size() + 1);
  return at == std::string_view::npos ? 0 : at + kEnd.size();
}

size_t size_of_empty_lines(std::string_view bytes) {
  size_t size = 0;
  while (bytes.substr(size).starts_with("\r\n")) size += 2;
  return size;
}

std::string fault_of_begin(std::string_view bytes) {
  if (bytes.starts_with('\x16')) return "this is TLS, and the server speaks plain HTTP";
  const auto first = static_cast<unsigned char>(bytes.empty() ? 'G' : bytes.front());
  return std::isalpha(first) != 0 || first == '\r' ? "" : "this is no HTTP request";
}

std::string fault_of_head(std::string_view head) {
  for (const std::string_view fold : {"\r\n ", "\r\n\t"})
    if (head.contains(fold)) return "a header goes on in the next line; needed one line each";
  return "";
}

std::string fault_of_fields(const BeastRequest& request) {
  const bool old = request.version() < 11;
  const size_t hosts = request.count(http::field::host);
  if (hosts > 1 || (!old && (hosts == 0 || request[http::field::host].empty())))
    return fmt::format("Host: found {}, needed one", hosts == 1 ? "an empty one" : fmt::format("{} of them", hosts));
  if (const auto absolute = absolute_target(text(request.target())); absolute && absolute->host.empty())
    return "the target begins with http:// and names no host";
  const size_t codings = request.count(http::field::transfer_encoding);
  if (codings == 0) return "";
  if (old || codings > 1 || !boost::beast::iequals(request[http::field::transfer_encoding], "chunked"))
    return "Transfer-Encoding: needed chunked, once, in HTTP/1.1, or a Content-Length";
  return "";
}

HttpRequest plain_request(const BeastRequest& from) {
  HttpRequest to;
  to.method = from.method() == http::verb::head ? "GET" : text(from.method_string());
  to.host = text(from[http::field::host]);
  std::string target = text(from.target());
  if (auto absolute = absolute_target(target)) to.host = std::move(absolute->host), target = std::move(absolute->rest);
  const size_t query = std::min(target.find('?'), target.size());
  to.path = target.substr(0, query);
  while (to.path.size() > 1 && to.path.ends_with('/')) to.path.pop_back();
  if (query < target.size()) to.query = target.substr(query + 1);
  to.authorization = text(from[http::field::authorization]);
  to.api_key = text(from["X-Api-Key"]);
  to.origin = text(from[http::field::origin]);
  to.type = text(from[http::field::content_type]);
  to.coding = text(from[http::field::content_encoding]);
  to.if_none_match = text(from[http::field::if_none_match]);
  to.request_id = text(from["X-Request-Id"]);
  to.asked_headers = text(from[http::field::access_control_request_headers]);
  return to;
}

}  // namespace llada::serve
