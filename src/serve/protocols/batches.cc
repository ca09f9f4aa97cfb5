// /v1/files and /v1/batches: OpenAI's batches, whose requests the other routes answer (serve/work/batches.h).
#include <algorithm>
#include <cerrno>

#include "base/numbers.h"
#include "base/os.h"
#include "serve/protocols/adapter.h"
#include "serve/work/batch.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

constexpr int64_t kLeastFileSeconds = 3600, kMostFileSeconds = 2'592'000;

// Who keeps files and batches, and whose a request is shown.
struct Keeper {
  Batches* batches;
  std::string asker;
  bool strict;
};

// Of a route to what is kept.
template <auto reply>
void kept(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const auto answer = [&]() -> Answered<HttpReply> {
    if (Batches* batches = service.batches())
      return reply(Keeper{batches, service.asker(exchange->request), service.options().strict}, *exchange);
    const std::string_view absence = Store::absence();
    // Not 501, which clients take for a passing fault and try again.
    return std::unexpected(ApiError(
        404,
        absence.empty() ? "files and batches are not kept here; needed llada serve --store DIR" : std::string(absence),
        "", "nothing_kept"));
  };
  exchange->respond(answer());
}

Answered<HttpReply> reply_of(const Answered<Json>& answer) {
  if (!answer) return std::unexpected(answer.error());
  return json_reply(*answer);
}

// Of a URL's query.
std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (pair.substr(0, equals) == name) return without_percent(pair.substr(std::min(equals + 1, pair.size())));
  }
  return std::nullopt;
}

// A page of a list: limit objects behind the one whose id is `after`.
Answered<HttpReply> page_of(std::vector<Json> all, const HttpRequest& request, int64_t common) {
  int64_t limit = common;
  if (const auto given = query_value(request.query, "limit")) {
    const auto number = parse_number<int64_t>(*given);
    if (!number || *number < 1 || *number > 10'000) return wrong("limit", *given, "a whole number from 1 to 10000");
    limit = *number;
  }
  if (query_value(request.query, "order") == "asc") std::ranges::reverse(all);
  const auto id_of = [](const Json& object) { return object.at("id").get<std::string>(); };
  auto first = all.begin();
  if (const auto after = query_value(request.query, "after")) {
    const auto found = std::ranges::find(all, *after, id_of);
    if (found == all.end())
      return refuse(fmt::format("after: found {}, needed an id of the list", in_quotes(*after)), "after");
    first = found + 1;
  }
  const bool more = all.end() - first > limit;
  Json data = Json::array();
  for (auto at = first; at != all.end() && std::ssize(data) < limit; ++at) data.push_back(*at);
  Json list = {{"object", "list"}};
  list["first_id"] = data.empty() ? Json(nullptr) : data.front()["id"];
  list["last_id"] = data.empty() ? Json(nullptr) : data.back()["id"];
  list["has_more"] = more;
  list["data"] = std::move(data);
  return json_reply(list);
}

Answered<HttpReply> add_file(const Keeper& keeper, Exchange& exchange) {
  const BodyBytes body = exchange.take_body();
  LLADA_TRY(const auto parts, parse_form(exchange.request.type, body.text()));
  const FormPart* file = nullptr;
  std::string purpose;
  int64_t seconds = 0;
  for (const FormPart& part : parts) {
    if (part.name == "file") {
      file = &part;
    } else if (part.name == "purpose") {
      purpose = to_valid_utf8(part.bytes.substr(0, 100));
    } else if (part.name == "expires_after[seconds]") {
      const auto number = parse_number<int64_t>(part.bytes);
      if (!number || *number < kLeastFileSeconds || *number > kMostFileSeconds)
        return refuse(
            fmt::format("{}: needed a whole number from {} to {}", part.name, kLeastFileSeconds, kMostFileSeconds),
            part.name);
      seconds = *number;
    } else if (part.name != "expires_after[anchor]") {
      return unsupported(part.name);
    }
  }
  if (purpose != "batch") return refuse(fmt::format("purpose: found {}, needed batch", in_quotes(purpose)), "purpose");
  if (file == nullptr) return refuse("file: is missing; needed the requests of a batch", "file");
  return reply_of(
      keeper.batches->add_file(keeper.asker, file->file.empty() ? "file" : file->file, purpose, file->bytes, seconds));
}

// A file's bytes as they are read.
class FileOutflow : public Outflow {
 public:
  explicit FileOutflow(int fd) : fd_(fd) {}
  ~FileOutflow() override { os::close(fd_); }
  FileOutflow(const FileOutflow&) = delete;
  FileOutflow& operator=(const FileOutflow&) = delete;

  Piece take() override {
    Piece piece{.bytes = std::string(size_t{64} << 10, '\0')};
    const int64_t n = os::read(fd_, piece.bytes.data(), piece.bytes.size());
    if (n < 0) throw std::runtime_error("reading a file");  // the connection breaks: half of it is no file
    piece.bytes.resize(static_cast<size_t>(n));
    piece.last = n == 0;
    return piece;
  }
  void listen(std::function<void()>) override {}  // it never waits
  void ping() override {}

 private:
  const int fd_;
};

// 24h: OpenAI's only one; also minutes and days.
struct Window {
  std::string text;
  int64_t seconds;
};
Answered<Window> read_window(Fields& body) {
  LLADA_TRY(const auto window, body.optional_text("completion_window"));
  const std::string text = window.value_or("24h");
  const auto number = parse_number<int64_t>(text.substr(0, text.size() - std::min<size_t>(text.size(), 1)));
  const int64_t unit = text.ends_with('m') ? 60 : text.ends_with('h') ? 3600 : text.ends_with('d') ? 24 * 3600 : 0;
  if (!number || unit == 0 || *number < 1 || *number > 9999)
    return wrong("completion_window", text, "a time such as 24h, 90m or 3d");
  return Window{text, *number * unit};
}

Answered<HttpReply> list_files(const Keeper& keeper, const Exchange& exchange) {
  auto all = keeper.batches->all(keeper.asker, "file");
  if (const auto purpose = query_value(exchange.request.query, "purpose"))
    std::erase_if(all, [&](const Json& file) { return file.at("purpose") != *purpose; });
  return page_of(std::move(all), exchange.request, 10'000);
}

Answered<HttpReply> one_file(const Keeper& keeper, const Exchange& exchange) {
  return reply_of(keeper.batches->find(keeper.asker, "file", path_id("/v1/files/{id}", exchange.request.path)));
}

Answered<HttpReply> file_content(const Keeper& keeper, const Exchange& exchange) {
  const std::string id = path_id("/v1/files/{id}/content", exchange.request.path);
  LLADA_TRY(const Json file, keeper.batches->find(keeper.asker, "file", id));
  const int fd = os::open(keeper.batches->path_of(file.at("id")), os::kRead);
  if (fd < 0) return std::unexpected(ApiError(500, "the file's bytes are not there any more"));
  return HttpReply{.type = "application/octet-stream", .stream = std::make_shared<FileOutflow>(fd)};
}

Answered<HttpReply> remove_file(const Keeper& keeper, const Exchange& exchange) {
  return reply_of(keeper.batches->remove_file(keeper.asker, path_id("/v1/files/{id}", exchange.request.path)));
}

Answered<HttpReply> add_batch(const Keeper& keeper, Exchange& exchange) {
  LLADA_TRY(Fields body, read_body(exchange, keeper.strict));
  LLADA_TRY(const auto input, body.optional_text("input_file_id"));
  LLADA_TRY(const auto endpoint, body.optional_text("endpoint"));
  LLADA_TRY(const Window window, read_window(body));
  const auto* metadata = body.find("metadata");
  if (metadata != nullptr && (!metadata->is_object() || dump(Json(*metadata)).size() > size_t{16} << 10))
    return wrong("metadata", *metadata, "an object of 16384 bytes of JSON at most");
  LLADA_TRY_STATUS(body.finish());
  if (!input) return refuse("input_file_id: is missing; needed the id of a file of requests", "input_file_id");
  if (!endpoint) return refuse("endpoint: is missing; needed the url of the requests", "endpoint");
  if (const Status known = check_batch_url(*endpoint); !known)
    return refuse("endpoint: " + known.error().message, "endpoint");
  const Json given = metadata == nullptr ? Json(nullptr) : *metadata;
  return reply_of(keeper.batches->add_batch(keeper.asker, {{"endpoint", *endpoint},
                                                           {"input_file_id", *input},
                                                           {"completion_window", window.text},
                                                           {"metadata", given},
                                                           {"seconds", window.seconds}}));
}

Answered<HttpReply> list_batches(const Keeper& keeper, const Exchange& exchange) {
  return page_of(keeper.batches->all(keeper.asker, "batch"), exchange.request, 20);
}

Answered<HttpReply> one_batch(const Keeper& keeper, const Exchange& exchange) {
  return reply_of(keeper.batches->find(keeper.asker, "batch", path_id("/v1/batches/{id}", exchange.request.path)));
}

Answered<HttpReply> cancel_batch(const Keeper& keeper, const Exchange& exchange) {
  const std::string id = path_id("/v1/batches/{id}/cancel", exchange.request.path);
  return reply_of(keeper.batches->cancel_batch(keeper.asker, id));
}

}  // namespace

Protocol batches_protocol() {
  static constexpr Route kRoutes[] = {{"POST", "/v1/files", kept<add_file>},
                                      {"GET", "/v1/files", kept<list_files>},
                                      {"GET", "/v1/files/{id}/content", kept<file_content>},
                                      {"GET", "/v1/files/{id}", kept<one_file>},
                                      {"DELETE", "/v1/files/{id}", kept<remove_file>},
                                      {"POST", "/v1/batches", kept<add_batch>},
                                      {"GET", "/v1/batches", kept<list_batches>},
                                      {"POST", "/v1/batches/{id}/cancel", kept<cancel_batch>},
                                      {"GET", "/v1/batches/{id}", kept<one_batch>}};
  return {kRoutes};
}

}  // namespace llada::serve
