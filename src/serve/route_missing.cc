// Paths that are not here: what a client that asks for one may have meant.
#include <algorithm>

#include "serve/routes.h"

namespace llada::serve {
namespace {

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

}  // namespace

ApiError missing_route(std::string_view path) {
  const std::string below = "/v1" + std::string(path);
  if (std::ranges::find(routes(), below, &Route::path) != routes().end())
    return {404, fmt::format("there is no such route; needed {}", below)};
  for (const Absent& a : kAbsent)
    if (path.starts_with(a.path)) return {404, fmt::format("there is no such route: {}", a.why)};
  return {404, "there is no such route (see /openapi.json)"};
}

}  // namespace llada::serve
