// Paths that are not here: what a client that asks for one may have meant.
#include <algorithm>

#include "serve/routes.h"

namespace llada::serve {
namespace {

constexpr std::string_view kBelow = "/v1";

struct Absent {
  std::string_view path;  // that begins so
  const char* why;
};
constexpr Absent kAbsent[] = {
    {"/api/", "Ollama's protocol is not spoken here; OpenAI's is, below /v1"},
    {"/v1/messages", "Anthropic's protocol is not spoken here; OpenAI's is: /v1/chat/completions, /v1/responses"},
    {"/v1/embeddings", "this server has no embeddings"},
    {"/embedding", "this server has no embeddings"},
    {"/v1/rerank", "this server has no reranking"},
    {"/rerank", "this server has no reranking"},
    {"/v1/audio", "this server takes and gives text alone"},
    {"/v1/images", "this server takes and gives text alone"},
    {"/v1/moderations", "this server has no moderation"},
    {"/v1/files", "nothing is stored here"},
    {"/v1/batches", "nothing is stored here"},
    {"/v1/responses/", "nothing is stored here; the whole conversation stands in each request"},
    {"/completion", "needed /v1/completions"},
};

// The route that the path ends with, where clients put another address before it: one with /v1 twice, one without, that
// of a route, that of an Azure deployment. Of several the longest.
std::string_view nearest_route(std::string_view path) {
  std::string_view found;
  size_t length = 0;
  for (const Route& route : routes()) {
    const std::string_view end = route.path.substr(route.path.starts_with(kBelow) ? kBelow.size() : 0);
    if (end == "/" || !path.ends_with(end) || end.size() <= length) continue;
    found = route.path;
    length = end.size();
  }
  return found;
}

}  // namespace

ApiError missing_route(std::string_view path) {
  if (const std::string_view nearest = nearest_route(path); !nearest.empty())
    return {404, fmt::format("there is no such route; needed {}", nearest)};
  for (const Absent& a : kAbsent)
    if (path.starts_with(a.path)) return {404, fmt::format("there is no such route: {}", a.why)};
  return {404, "there is no such route (see /openapi.json)"};
}

}  // namespace llada::serve
