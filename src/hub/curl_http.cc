// libcurl for transfers and proxies, OpenSSL's libcrypto for checksums.
#include <curl/curl.h>
#include <openssl/evp.h>

#include <algorithm>
#include <utility>

#include "hub/http.h"

namespace llada::hub {
namespace {

// libcurl's own setting up, which may run once per process and never beside threads that use it.
bool library_is_up() {
  static const bool up = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return up;
}

struct Transfer {
  CURL* curl;
  HttpAnswer answer;
  size_t limit = 0;
  const BodySink* sink = nullptr;
  const std::function<bool()>* stopped = nullptr;
  bool too_long = false;
};

size_t on_header(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  std::string_view line(data, size * count);
  if (line.starts_with("HTTP/")) transfer.answer.headers.clear();  // another answer of the same transfer
  const size_t colon = line.find(':');
  if (colon != std::string_view::npos && transfer.answer.headers.size() < 200) {
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    std::string_view value = line.substr(colon + 1);
    const size_t first = value.find_first_not_of(" \t"), last = value.find_last_not_of(" \t\r\n");
    value =
        first == std::string_view::npos || last < first ? std::string_view() : value.substr(first, last - first + 1);
    transfer.answer.headers.insert_or_assign(std::move(name), std::string(value));
  }
  return size * count;
}

size_t on_body(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const size_t bytes = size * count;
  if (transfer.sink != nullptr) {
    curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &transfer.answer.status);
    return (*transfer.sink)(transfer.answer, {reinterpret_cast<const std::byte*>(data), bytes}) ? bytes : 0;
  }
  transfer.too_long = bytes > transfer.limit - transfer.answer.body.size();
  if (transfer.too_long) return 0;
  transfer.answer.body.append(data, bytes);
  return bytes;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& transfer = *static_cast<Transfer*>(user);
  return *transfer.stopped && (*transfer.stopped)() ? 1 : 0;
}

}  // namespace

struct Http::State {
  HttpSettings settings;
  CURL* curl = nullptr;
  explicit State(HttpSettings s) : settings(std::move(s)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { curl_easy_cleanup(curl); }

  HttpAnswer perform(const std::string& url, bool head, int64_t from, size_t limit, const BodySink* sink);
};

HttpAnswer Http::State::perform(const std::string& url, bool head, int64_t from, size_t limit, const BodySink* sink) {
  curl_easy_reset(curl);  // keeps connections
  Transfer transfer{.curl = curl, .answer = {}, .limit = limit, .sink = sink, .stopped = &settings.stopped};
  char reason[CURL_ERROR_SIZE] = "";
  const bool secure = url.starts_with("https://");
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  // A redirect may not leave TLS, nor name a file or another protocol.
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, secure ? "https" : "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, head ? 0L : 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
  curl_easy_setopt(curl, CURLOPT_UNRESTRICTED_AUTH, 0L);
  curl_easy_setopt(curl, CURLOPT_NOBODY, head ? 1L : 0L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "llada.cpp");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, static_cast<long>(settings.connect_seconds));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(settings.stall_seconds));
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L << 10);
  if (!settings.certificates.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, settings.certificates.c_str());
  if (!settings.token.empty()) {
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
    curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, settings.token.c_str());
  }
  // Sizes and sums are those of the file, so no encoding of the way.
  curl_slist* headers = curl_slist_append(nullptr, "Accept-Encoding: identity");
  if (from > 0) headers = curl_slist_append(headers, ("Range: bytes=" + std::to_string(from) + "-").c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  const CURLcode code = curl_easy_perform(curl);
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &transfer.answer.status);
  curl_slist_free_all(headers);
  HttpAnswer answer = std::move(transfer.answer);
  if (code == CURLE_OK) return answer;
  answer.stopped = code == CURLE_ABORTED_BY_CALLBACK;
  answer.unknown_host = code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY;
  answer.failure = transfer.too_long   ? "the answer is longer than expected"
                   : reason[0] != '\0' ? std::string(reason)
                                       : std::string(curl_easy_strerror(code));
  answer.status = 0;
  return answer;
}

Result<Http> Http::create(HttpSettings settings) {
  auto state = std::make_unique<State>(std::move(settings));
  if (library_is_up()) state->curl = curl_easy_init();
  if (state->curl == nullptr) return failed("libcurl cannot be started");
  return Http(std::move(state));
}

Http::Http(std::unique_ptr<State> state) : state_(std::move(state)) {}
Http::Http(Http&&) noexcept = default;
Http::~Http() = default;

HttpAnswer Http::get(const std::string& url, size_t limit) { return state_->perform(url, false, 0, limit, nullptr); }
HttpAnswer Http::head(const std::string& url) { return state_->perform(url, true, 0, 0, nullptr); }
HttpAnswer Http::download(const std::string& url, int64_t from, const BodySink& sink) {
  return state_->perform(url, false, from, 0, &sink);
}

struct Checksum::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Checksum::Checksum(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;
Checksum::~Checksum() = default;

Result<Checksum> Checksum::sha256() {
  auto state = std::make_unique<State>();
  if (state->context == nullptr || EVP_DigestInit_ex(state->context, EVP_sha256(), nullptr) != 1)
    return failed("libcrypto has no SHA-256");
  return Checksum(std::move(state));
}

Result<Checksum> Checksum::git_blob(int64_t bytes) {
  auto state = std::make_unique<State>();
  if (state->context == nullptr || EVP_DigestInit_ex(state->context, EVP_sha1(), nullptr) != 1)
    return failed("libcrypto has no SHA-1");
  const std::string head = "blob " + std::to_string(bytes);
  EVP_DigestUpdate(state->context, head.c_str(), head.size() + 1);  // with the NUL
  return Checksum(std::move(state));
}

void Checksum::update(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

std::string Checksum::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_DigestFinal_ex(state_->context, digest, &size) != 1) return "";
  std::string out;
  for (unsigned int i = 0; i < size; ++i) {
    out += "0123456789abcdef"[digest[i] >> 4];
    out += "0123456789abcdef"[digest[i] & 15];
  }
  return out;
}

}  // namespace llada::hub
