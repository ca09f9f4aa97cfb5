#include "serve/protocols/routes.h"

#include <algorithm>

#include "serve/work/job.h"

namespace llada::serve {
namespace {

template <HttpReply (*reply)(Service&, const HttpRequest&)>
void get(Service& service, const std::shared_ptr<Exchange>& exchange) {
  exchange->respond(reply(service, exchange->request));
}

template <Answered<HttpReply> (*reply)(Service&, Fields)>
void post(Service& service, const std::shared_ptr<Exchange>& exchange) {
  auto body = read_body(*exchange, service.options().strict);
  auto answer = body ? reply(service, std::move(*body)) : std::unexpected(body.error());
  exchange->respond(answer ? std::move(*answer) : error_reply(answer.error()));
}

// The body has gone when the job begins, which may take an hour.
template <Answered<Ask> (*read)(Service&, Fields)>
void generate(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const auto read_ask = [&]() -> Answered<Ask> {
    LLADA_TRY(Fields body, read_body(*exchange, service.options().strict));
    return read(service, std::move(body));
  };
  begin_job(service, exchange, read_ask());
}

constexpr Route answers(std::string_view path, decltype(Route::answer) answer) {
  return {.method = "POST", .path = path, .answer = answer, .streams = true};
}

constexpr Route in_batches(Route route) {
  route.in_batch = true;
  return route;
}

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

}  // namespace

std::span<const Route> routes() {
  static constexpr Route kRoutes[] = {
      {"GET", "/", get<front_page>, true, true},
      {"GET", "/health", get<health>, true, true, true},
      {"GET", "/v1/health", get<health>, true, true, true},
      {"GET", "/ready", get<readiness>, true, true, true},
      {"GET", "/openapi.json", get<openapi>, false, true},
      {"GET", "/v1/llada/options", get<decoding_options>},
      {"GET", "/v1/models", get<models>},
      {"GET", "/v1/models/{id}", get<one_model>},
      {"GET", "/props", get<properties>},
      {"GET", "/slots", get<slots>},
      {"GET", "/metrics", get<metrics>, false, true, true},
      in_batches(answers("/v1/chat/completions", generate<read_chat>)),
      in_batches(answers("/v1/responses", generate<read_response>)),
      answers("/v1/messages", generate<read_message_request>),
      {"POST", "/v1/messages/count_tokens", post<count_tokens>},
      {"POST", "/v1/decisions", decisions},
      {"POST", "/v1/systemone", systemone},
      in_batches(answers("/v1/completions", generate<read_completion>)),
      answers("/completion", generate<read_llama_completion>),
      in_batches(answers("/v1/fim/completions", generate<read_fim>)),
      in_batches(answers("/infill", generate<read_infill>)),
      in_batches({.method = "POST", .path = "/v1/llada/score", .answer = score}),
      {"POST", "/v1/files", add_file},
      {"GET", "/v1/files", get<list_files>},
      {"GET", "/v1/files/{id}/content", get<file_content>},
      {"GET", "/v1/files/{id}", get<one_file>},
      {"DELETE", "/v1/files/{id}", get<remove_file>},
      {"POST", "/v1/batches", add_batch},
      {"GET", "/v1/batches", get<list_batches>},
      {"POST", "/v1/batches/{id}/cancel", get<cancel_batch>},
      {"GET", "/v1/batches/{id}", get<one_batch>},
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

bool is_too_long(const Service& service, const Error& error) {
  return error.kind == ErrorKind::invalid_input && error.message.contains(service.model().context_bound());
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
