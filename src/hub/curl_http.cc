// libcurl for transfers and proxies, OpenSSL's libcrypto for checksums.
#include <curl/curl.h>
#include <openssl/evp.h>

#include <algorithm>
#include <utility>

#include "base/os.h"
#include "hub/http.h"

namespace llada::hub {
namespace {

// libcurl's own setting up, which may run once per process and never beside threads that use it.
bool library_is_up() {
  static const bool up = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return up;
}

// Where systems keep the authorities that they trust. A program that was linked elsewhere does not know this one's
// place: Debian and Alpine, Fedora, openSUSE, macOS and BSD. Empty: none is there.
std::string system_authorities() {
  for (const char* path : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"})
    if (os::may_read(path)) return path;
  return "";
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
  transfer.answer.add_header(line);
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

class CurlHttp : public Http {
 public:
  CurlHttp(HttpSettings settings, CURL* curl) : settings_(std::move(settings)), curl_(curl) {}
  CurlHttp(const CurlHttp&) = delete;
  CurlHttp& operator=(const CurlHttp&) = delete;
  ~CurlHttp() override { curl_easy_cleanup(curl_); }

  HttpAnswer get(const std::string& url, size_t limit) override { return perform(url, false, 0, limit, nullptr); }
  HttpAnswer head(const std::string& url) override { return perform(url, true, 0, 0, nullptr); }
  HttpAnswer download(const std::string& url, int64_t from, const BodySink& sink) override {
    return perform(url, false, from, 0, &sink);
  }

 private:
  HttpAnswer perform(const std::string& url, bool head, int64_t from, size_t limit, const BodySink* sink);

  const HttpSettings settings_;
  CURL* const curl_;
};

HttpAnswer CurlHttp::perform(const std::string& url, bool head, int64_t from, size_t limit, const BodySink* sink) {
  curl_easy_reset(curl_);  // keeps connections
  Transfer transfer{.curl = curl_, .answer = {}, .limit = limit, .sink = sink, .stopped = &settings_.stopped};
  char reason[CURL_ERROR_SIZE] = "";
  const bool secure = url.starts_with("https://");
  curl_easy_setopt(curl_, CURLOPT_URL, url.c_str());
  // A redirect may not leave TLS, nor name a file or another protocol.
  curl_easy_setopt(curl_, CURLOPT_PROTOCOLS_STR, secure ? "https" : "http,https");
  curl_easy_setopt(curl_, CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
  curl_easy_setopt(curl_, CURLOPT_FOLLOWLOCATION, head ? 0L : 1L);
  curl_easy_setopt(curl_, CURLOPT_MAXREDIRS, 10L);
  curl_easy_setopt(curl_, CURLOPT_UNRESTRICTED_AUTH, 0L);
  curl_easy_setopt(curl_, CURLOPT_NOBODY, head ? 1L : 0L);
  curl_easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl_, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  curl_easy_setopt(curl_, CURLOPT_USERAGENT, "llada.cpp");
  curl_easy_setopt(curl_, CURLOPT_CONNECTTIMEOUT, static_cast<long>(settings_.connect_seconds));
  curl_easy_setopt(curl_, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl_, CURLOPT_LOW_SPEED_TIME, static_cast<long>(settings_.stall_seconds));
  curl_easy_setopt(curl_, CURLOPT_ERRORBUFFER, reason);
  curl_easy_setopt(curl_, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl_, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl_, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl_, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl_, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl_, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(curl_, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(curl_, CURLOPT_BUFFERSIZE, 256L << 10);
  const std::string authorities = settings_.certificates.empty() ? system_authorities() : settings_.certificates;
  if (!authorities.empty()) curl_easy_setopt(curl_, CURLOPT_CAINFO, authorities.c_str());
  if (!settings_.token.empty()) {
    curl_easy_setopt(curl_, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
    curl_easy_setopt(curl_, CURLOPT_XOAUTH2_BEARER, settings_.token.c_str());
  }
  // Sizes and sums are those of the file, so no encoding of the way.
  curl_slist* headers = curl_slist_append(nullptr, "Accept-Encoding: identity");
  if (from > 0) headers = curl_slist_append(headers, ("Range: bytes=" + std::to_string(from) + "-").c_str());
  curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, headers);
  const CURLcode code = curl_easy_perform(curl_);
  curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &transfer.answer.status);
  curl_slist_free_all(headers);
  HttpAnswer answer = std::move(transfer.answer);
  if (code == CURLE_OK) return answer;
  answer.stopped = code == CURLE_ABORTED_BY_CALLBACK;
  answer.unknown_host = code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY;
  const bool untrusted = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;
  answer.failure =
      transfer.too_long ? "the answer is longer than expected"
      : untrusted && authorities.empty()
          ? "found no trusted authorities on this system, needed the package ca-certificates or SSL_CERT_FILE"
      : reason[0] != '\0' ? std::string(reason)
                          : std::string(curl_easy_strerror(code));
  answer.status = 0;
  return answer;
}

using DigestContext = std::unique_ptr<EVP_MD_CTX, decltype([](EVP_MD_CTX* context) { EVP_MD_CTX_free(context); })>;

class OpenSslChecksum : public Checksum {
 public:
  explicit OpenSslChecksum(DigestContext context) : context_(std::move(context)) {}

  void update(std::span<const std::byte> bytes) override {
    EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
  }

 private:
  std::vector<unsigned char> digest() override {
    std::vector<unsigned char> out(EVP_MAX_MD_SIZE);
    unsigned int size = 0;
    if (EVP_DigestFinal_ex(context_.get(), out.data(), &size) != 1) size = 0;
    out.resize(size);
    return out;
  }

  const DigestContext context_;
};

Result<std::unique_ptr<Checksum>> start(const EVP_MD* kind, const char* name) {
  DigestContext context(EVP_MD_CTX_new());
  if (!context || EVP_DigestInit_ex(context.get(), kind, nullptr) != 1) return failed("libcrypto has no {}", name);
  return std::make_unique<OpenSslChecksum>(std::move(context));
}

}  // namespace

Result<std::unique_ptr<Http>> Http::create(HttpSettings settings) {
  CURL* curl = library_is_up() ? curl_easy_init() : nullptr;
  if (curl == nullptr) return failed("libcurl cannot be started");
  return std::make_unique<CurlHttp>(std::move(settings), curl);
}

Result<std::unique_ptr<Checksum>> Checksum::sha256() { return start(EVP_sha256(), "SHA-256"); }
Result<std::unique_ptr<Checksum>> Checksum::sha1() { return start(EVP_sha1(), "SHA-1"); }

}  // namespace llada::hub
