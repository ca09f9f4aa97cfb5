// The table of all protocols, and the answer to a path that none of them has.
#include <algorithm>
#include <vector>

#include "serve/work/route.h"

namespace llada::serve {

#define LLADA_PROTOCOL(name) Protocol name##_protocol();
#include "serve/protocols/protocols.inc"
#undef LLADA_PROTOCOL

namespace {

constexpr std::string_view kBelow = "/v1";

struct Absent {
  std::string_view path;  // that begins so
  const char* why;
};
constexpr Absent kAbsent[] = {
    {"/api/embed", "this server has no embeddings"},
    {"/v1/messages/", "of Anthropic's routes there are /v1/messages and /v1/messages/count_tokens"},
    {"/v1/embeddings", "this server has no embeddings"},
    {"/embedding", "this server has no embeddings"},
    {"/v1/rerank", "this server has no reranking"},
    {"/rerank", "this server has no reranking"},
    {"/v1/audio", "this server takes and gives text alone"},
    {"/v1/images", "this server takes and gives text alone"},
    {"/v1/moderations", "this server has no moderation"},
    {"/v1/responses/", "nothing is stored here; the whole conversation stands in each request"},
};

// Addresses that end like no route, or like one that is not meant.
struct Misnamed {
  std::string_view path, route;
};
constexpr Misnamed kMisnamed[] = {
    {"/v1", "/v1/chat/completions"},       {"/v1/", "/v1/chat/completions"},
    {"/v1/chat", "/v1/chat/completions"},  {"/chat", "/v1/chat/completions"},
    {"/v1/complete", "/v1/completions"},   {"/complete", "/v1/completions"},
    {"/v1/decide", "/v1/decisions"},       {"/decide", "/v1/decisions"},
    {"/v1/completion", "/v1/completions"}, {"/chat/completion", "/v1/chat/completions"},
};

constexpr std::string_view kOllama = "/api/";
constexpr const char* kOllamaRoutes =
    "of Ollama's routes there are /api/chat, generate, show, tags, ps and version; the model is the one that "
    "the server was started with";

// The route that the path ends with, or with a misnamed one, where clients put another address before it: one with /v1
// twice, one without, that of a route, that of an Azure deployment. Of several the longest.
std::string_view nearest_route(std::string_view path) {
  for (const Misnamed& other : kMisnamed)
    if (path == other.path) return other.route;
  std::string_view found;
  size_t length = 0;
  for (const Route& route : routes()) {
    std::string_view end = route.path;
    if (end.starts_with(kBelow)) end.remove_prefix(kBelow.size());
    if (end.starts_with(kOllama)) end.remove_prefix(kOllama.size() - 1);
    if (end == "/" || !path.ends_with(end) || end.size() <= length) continue;
    found = route.path;
    length = end.size();
  }
  for (const Misnamed& other : kMisnamed) {
    if (!path.ends_with(other.path) || other.path.size() <= length) continue;
    found = other.route;
    length = other.path.size();
  }
  return found;
}

std::span<const Protocol> protocols() {
  static const Protocol kProtocols[] = {
#define LLADA_PROTOCOL(name) name##_protocol(),
#include "serve/protocols/protocols.inc"
#undef LLADA_PROTOCOL
  };
  return kProtocols;
}

}  // namespace

std::span<const Route> routes() {
  static const std::vector<Route> kRoutes = [] {
    std::vector<Route> all;
    for (const Protocol& protocol : protocols()) all.insert(all.end(), protocol.routes.begin(), protocol.routes.end());
    return all;
  }();
  return kRoutes;
}

void put_error_in_form(std::string_view path, HttpReply& reply) {
  for (const Protocol& protocol : protocols())
    if (!protocol.below.empty() && path.starts_with(protocol.below))
      reply.body = dump(protocol.error(reply.status, reply.error));
}

// {id} stands for any text, which may have a slash where the path ends with it.
bool has_path(const Route& route, std::string_view path) {
  const size_t place = route.path.find(kPathId);
  if (place == std::string_view::npos) return path == route.path;
  const std::string_view begin = route.path.substr(0, place), end = route.path.substr(place + kPathId.size());
  return path.size() > begin.size() + end.size() && path.starts_with(begin) && path.ends_with(end);
}

const Route* find_route(std::string_view method, std::string_view path) {
  const auto find = [&](const auto& is) {
    const auto found = std::ranges::find_if(routes(), [&](const Route& r) { return r.method == method && is(r); });
    return found == routes().end() ? nullptr : &*found;
  };
  if (const Route* exact = find([&](const Route& r) { return has_path(r, path); })) return exact;
  return find([&](const Route& r) { return r.path.starts_with(kBelow) && r.path.substr(kBelow.size()) == path; });
}

std::string path_id(std::string_view route, std::string_view path) {
  const size_t place = route.find(kPathId), end = route.size() - place - kPathId.size();
  return without_percent(path.substr(place, path.size() - place - end));
}

ApiError missing_route(std::string_view path) {
  const auto absent = [](const char* why) { return ApiError(404, fmt::format("there is no such route: {}", why)); };
  for (const Absent& a : kAbsent)
    if (path.starts_with(a.path)) return absent(a.why);
  if (const std::string_view nearest = nearest_route(path); !nearest.empty())
    return {404, fmt::format("there is no such route; needed {}", nearest)};
  if (path.starts_with(kOllama) || kOllama.substr(0, kOllama.size() - 1) == path) return absent(kOllamaRoutes);
  return {404, "there is no such route (see /openapi.json)"};
}

}  // namespace llada::serve
