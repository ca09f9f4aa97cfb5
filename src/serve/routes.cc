#include "serve/routes.h"

#include <algorithm>

#include "serve/job.h"

namespace llada::serve {
namespace {

template <HttpReply (*reply)(Service&, const HttpRequest&)>
void get(Service& service, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond(reply(service, exchange->request));
}

template <Answered<HttpReply> (*reply)(Service&, Body)>
void post(Service& service, const std::shared_ptr<Exchange>& exchange) {
  auto body = Body::parse(*exchange);
  auto answer = body ? reply(service, std::move(*body)) : std::unexpected(body.error());
  exchange->respond(answer ? std::move(*answer) : error_reply(answer.error()));
}

// The body has gone when the job begins, which may take an hour.
template <Answered<Ask> (*read)(Service&, Body)>
void generate(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const auto read_ask = [&]() -> Answered<Ask> {
    LLADA_TRY(Body body, Body::parse(*exchange));
    return read(service, std::move(body));
  };
  begin_job(service, exchange, read_ask());
}

constexpr Route answers(std::string_view path, decltype(Route::answer) answer) {
  return {.method = "POST", .path = path, .answer = answer, .streams = true};
}

constexpr std::string_view kBelow = "/v1";

struct Absent {
  std::string_view path;  // that begins so
  const char* why;
};
constexpr Absent kAbsent[] = {
    {"/api/embed", "this server has no embeddings"},
    {"/api/",
     "of Ollama's routes there are /api/chat, generate, show, tags, ps and version; the model is the one that "
     "the server was started with"},
    {"/v1/messages/", "of Anthropic's routes there are /v1/messages and /v1/messages/count_tokens"},
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

std::span<const Route> routes() {
  static constexpr Route kRoutes[] = {
      {"GET", "/", get<front_page>, true, true},
      {"GET", "/health", get<health>, true, true, true},
      {"GET", "/ready", get<readiness>, true, true, true},
      {"GET", "/openapi.json", get<openapi>, false, true},
      {"GET", "/v1/llada/options", get<decoding_options>},
      {"GET", "/v1/models", get<models>},
      {"GET", "/v1/models/{id}", get<one_model>},
      {"GET", "/props", get<properties>},
      {"GET", "/metrics", get<metrics>, false, true, true},
      answers("/v1/chat/completions", generate<read_chat>),
      answers("/v1/responses", generate<read_response>),
      answers("/v1/messages", generate<read_message_request>),
      {"POST", "/v1/messages/count_tokens", post<count_tokens>},
      {"POST", "/v1/decisions", decisions},
      {"POST", "/v1/systemone", systemone},
      answers("/v1/completions", generate<read_completion>),
      answers("/completion", generate<read_llama_completion>),
      answers("/v1/fim/completions", generate<read_fim>),
      answers("/infill", generate<read_infill>),
      {"POST", "/tokenize", post<tokenize>},
      {"POST", "/detokenize", post<detokenize>},
      {"POST", "/apply-template", post<apply_template>},
      {"GET", "/tokenizer_info", get<tokenizer_info>},
      {"GET", "/api/version", get<ollama_version>},
      {"GET", "/api/tags", get<ollama_tags>},
      {"GET", "/api/ps", get<ollama_running>},
      {"POST", "/api/show", post<ollama_show>},
      answers("/api/chat", ollama_chat),
      answers("/api/generate", ollama_generate),
  };
  return kRoutes;
}

// A path that ends with {id} stands for all that go on where it begins.
bool has_path(const Route& route, std::string_view path) {
  if (!route.path.ends_with(kPathId)) return path == route.path;
  const std::string_view begin = route.path.substr(0, route.path.size() - kPathId.size());
  return path.size() > begin.size() && path.starts_with(begin);
}

ApiError missing_route(std::string_view path) {
  if (const std::string_view nearest = nearest_route(path); !nearest.empty())
    return {404, fmt::format("there is no such route; needed {}", nearest)};
  for (const Absent& a : kAbsent)
    if (path.starts_with(a.path)) return {404, fmt::format("there is no such route: {}", a.why)};
  return {404, "there is no such route (see /openapi.json)"};
}

}  // namespace llada::serve
