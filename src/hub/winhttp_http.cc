// Windows' own WinHTTP for transfers and proxies, and CNG for checksums.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/api_windows.h"
#include "hub/http.h"

namespace llada::hub {
namespace {

using os::narrow;
using os::wide;

struct CloseInternet {
  void operator()(HINTERNET handle) const { ::WinHttpCloseHandle(handle); }
};
using Handle = std::unique_ptr<void, CloseInternet>;

struct Address {
  std::wstring host, path;
  INTERNET_PORT port = 0;
  bool secure = false;
  bool same_place(const Address& other) const {
    return host == other.host && port == other.port && secure == other.secure;
  }
};

std::optional<Address> parse_address(const std::wstring& url) {
  URL_COMPONENTS parts{};
  parts.dwStructSize = sizeof parts;
  parts.dwHostNameLength = parts.dwUrlPathLength = parts.dwExtraInfoLength = static_cast<DWORD>(-1);
  if (::WinHttpCrackUrl(url.c_str(), 0, 0, &parts) == FALSE) return std::nullopt;
  Address address{.host = {parts.lpszHostName, parts.dwHostNameLength},
                  .path = {parts.lpszUrlPath, parts.dwUrlPathLength},
                  .port = parts.nPort,
                  .secure = parts.nScheme == INTERNET_SCHEME_HTTPS};
  address.path.append(parts.lpszExtraInfo, parts.dwExtraInfoLength);
  address.path.resize(std::min(address.path.find(L'#'), address.path.size()));  // which servers are not told
  if (!address.path.starts_with(L"/")) address.path.insert(0, L"/");
  return address;
}

// Ends the calls of a request, which wait for the network, when `stopped` says so.
class Watch {
 public:
  Watch(const std::function<bool()>& stopped, Handle request) : request_(std::move(request)) {
    if (stopped) thread_ = std::thread([this, &stopped] { wait(stopped); });
  }
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  bool has_stopped() const { return has_stopped_; }

 private:
  void wait(const std::function<bool()>& stopped) {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::milliseconds(100), [this] { return over_; })) {
      if (!stopped()) continue;
      has_stopped_ = true;
      request_.reset();
      return;
    }
  }

  Handle request_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::atomic<bool> has_stopped_ = false;
  std::thread thread_;
};

std::string reason_of(DWORD error) {
  switch (error) {
    case ERROR_WINHTTP_NAME_NOT_RESOLVED:
      return "could not resolve the host's name";
    case ERROR_WINHTTP_CANNOT_CONNECT:
      return "could not connect to the server";
    case ERROR_WINHTTP_TIMEOUT:
      return "the server was silent for too long";
    case ERROR_WINHTTP_CONNECTION_ERROR:
      return "the connection broke off";
    case ERROR_WINHTTP_SECURE_FAILURE:
      return "the server's certificate is not trusted";
    case ERROR_WINHTTP_SECURE_CHANNEL_ERROR:
      return "no secure connection could be made, or the server's certificate is not trusted";
    default:
      return fmt::format("error {} of WinHTTP", error);
  }
}

void read_head(HINTERNET request, HttpAnswer& answer) {
  DWORD status = 0, size = sizeof status;
  ::WinHttpQueryHeaders(request, WINHTTP_QUERY_STATUS_CODE | WINHTTP_QUERY_FLAG_NUMBER, WINHTTP_HEADER_NAME_BY_INDEX,
                        &status, &size, WINHTTP_NO_HEADER_INDEX);
  answer.status = static_cast<long>(status);
  size = 0;
  ::WinHttpQueryHeaders(request, WINHTTP_QUERY_RAW_HEADERS_CRLF, WINHTTP_HEADER_NAME_BY_INDEX, nullptr, &size,
                        WINHTTP_NO_HEADER_INDEX);
  std::wstring raw(size / sizeof(wchar_t), L'\0');
  ::WinHttpQueryHeaders(request, WINHTTP_QUERY_RAW_HEADERS_CRLF, WINHTTP_HEADER_NAME_BY_INDEX, raw.data(), &size,
                        WINHTTP_NO_HEADER_INDEX);
  const std::string text = narrow(raw);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find("\r\n", at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 2;
    answer.add_header(line);
  }
}

class WinHttp : public Http {
 public:
  WinHttp(HttpSettings settings, Handle session) : settings_(std::move(settings)), session_(std::move(session)) {}

  HttpAnswer get(const std::string& url, size_t limit) override { return follow(url, 0, limit, nullptr); }
  HttpAnswer head(const std::string& url) override {
    const auto address = parse_address(wide(url));
    return address ? perform(*address, L"HEAD", true, 0, 0, nullptr) : no_address(url);
  }
  HttpAnswer download(const std::string& url, int64_t from, const BodySink& sink) override {
    return follow(url, from, 0, &sink);
  }

 private:
  static HttpAnswer no_address(const std::string& url) {
    HttpAnswer answer;
    answer.failure = url + " is no address of http or https";
    return answer;
  }

  // A redirect may not leave TLS, and takes no token to another place.
  HttpAnswer follow(const std::string& url, int64_t from, size_t limit, const BodySink* sink) {
    constexpr int kMostRedirects = 10;
    const auto first = parse_address(wide(url));
    if (!first) return no_address(url);
    std::wstring now = wide(url);
    for (int i = 0; i <= kMostRedirects; ++i) {
      const auto address = parse_address(now);
      if (!address || (first->secure && !address->secure)) return no_address(narrow(now));
      HttpAnswer answer = perform(*address, L"GET", address->same_place(*first), from, limit, sink);
      if (answer.status < 300 || answer.status >= 400 || answer.header("location").empty()) return answer;
      now = joined(*address, wide(answer.header("location")));
    }
    HttpAnswer answer;
    answer.failure = "more than 10 redirects";
    return answer;
  }

  static std::wstring joined(const Address& base, const std::wstring& location) {
    if (location.starts_with(L"http://") || location.starts_with(L"https://")) return location;
    const std::wstring scheme = base.secure ? L"https:" : L"http:";
    if (location.starts_with(L"//")) return scheme + location;
    const std::wstring place = scheme + L"//" + base.host + L":" + std::to_wstring(base.port);
    if (location.starts_with(L"/")) return place + location;
    const std::wstring path = base.path.substr(0, base.path.find(L'?'));
    return place + path.substr(0, path.rfind(L'/') + 1) + location;
  }

  HttpAnswer perform(const Address& address, const wchar_t* verb, bool with_token, int64_t from, size_t limit,
                     const BodySink* sink) {
    HttpAnswer answer;
    const auto broken = [&](DWORD error) {
      answer.status = 0;
      answer.unknown_host = error == ERROR_WINHTTP_NAME_NOT_RESOLVED;
      answer.failure = reason_of(error);
    };
    const Handle connection(::WinHttpConnect(session_.get(), address.host.c_str(), address.port, 0));
    Handle opened(connection
                      ? ::WinHttpOpenRequest(connection.get(), verb, address.path.c_str(), nullptr, WINHTTP_NO_REFERER,
                                             WINHTTP_DEFAULT_ACCEPT_TYPES, address.secure ? WINHTTP_FLAG_SECURE : 0)
                      : nullptr);
    if (!opened) return broken(::GetLastError()), answer;
    const HINTERNET request = opened.get();
    DWORD off = WINHTTP_DISABLE_REDIRECTS | WINHTTP_DISABLE_COOKIES | WINHTTP_DISABLE_AUTHENTICATION;
    ::WinHttpSetOption(request, WINHTTP_OPTION_DISABLE_FEATURE, &off, sizeof off);
    // Sizes and sums are those of the file, so no encoding of the way.
    std::wstring headers = L"Accept-Encoding: identity\r\n";
    if (from > 0) headers += L"Range: bytes=" + std::to_wstring(from) + L"-\r\n";
    if (with_token && !settings_.token.empty()) headers += L"Authorization: Bearer " + wide(settings_.token) + L"\r\n";
    const Watch watch(settings_.stopped, std::move(opened));
    if (::WinHttpSendRequest(request, headers.c_str(), static_cast<DWORD>(headers.size()), WINHTTP_NO_REQUEST_DATA, 0,
                             0, 0) == FALSE ||
        ::WinHttpReceiveResponse(request, nullptr) == FALSE) {
      broken(::GetLastError());
    } else {
      read_head(request, answer);
      if (const DWORD error = read_body(request, limit, sink, answer); error != ERROR_SUCCESS) broken(error);
      if (answer.body.size() > limit && sink == nullptr) {
        answer.status = 0;
        answer.failure = "the answer is longer than expected";
      }
    }
    answer.stopped = watch.has_stopped();
    return answer;
  }

  // The error that broke it off. A body that is longer than the limit is read no further, a redirect's not at all.
  static DWORD read_body(HINTERNET request, size_t limit, const BodySink* sink, HttpAnswer& answer) {
    std::vector<std::byte> buffer(size_t{256} << 10);
    if (answer.status >= 300 && answer.status < 400) return ERROR_SUCCESS;
    for (DWORD count = 1; count > 0 && answer.body.size() <= limit;) {
      if (::WinHttpReadData(request, buffer.data(), static_cast<DWORD>(buffer.size()), &count) == FALSE)
        return ::GetLastError();
      const std::span<const std::byte> bytes(buffer.data(), count);
      if (count == 0) continue;
      if (sink == nullptr)
        answer.body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      else if (!(*sink)(answer, bytes))
        return ERROR_CANCELLED;
    }
    return ERROR_SUCCESS;
  }

  const HttpSettings settings_;
  const Handle session_;
};

class CngChecksum : public Checksum {
 public:
  CngChecksum(BCRYPT_ALG_HANDLE algorithm, BCRYPT_HASH_HANDLE hash) : algorithm_(algorithm), hash_(hash) {}
  CngChecksum(const CngChecksum&) = delete;
  CngChecksum& operator=(const CngChecksum&) = delete;
  ~CngChecksum() override {
    ::BCryptDestroyHash(hash_);
    ::BCryptCloseAlgorithmProvider(algorithm_, 0);
  }

  void update(std::span<const std::byte> bytes) override {
    constexpr size_t kMost = size_t{1} << 30;
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), kMost)))
      ::BCryptHashData(hash_, reinterpret_cast<PUCHAR>(const_cast<std::byte*>(bytes.data())),
                       static_cast<ULONG>(std::min(bytes.size(), kMost)), 0);
  }

 private:
  std::vector<unsigned char> digest() override {
    DWORD size = 0, used = 0;
    ::BCryptGetProperty(algorithm_, BCRYPT_HASH_LENGTH, reinterpret_cast<PUCHAR>(&size), sizeof size, &used, 0);
    std::vector<unsigned char> out(size);
    if (!BCRYPT_SUCCESS(::BCryptFinishHash(hash_, out.data(), size, 0))) out.clear();
    return out;
  }

  const BCRYPT_ALG_HANDLE algorithm_;
  const BCRYPT_HASH_HANDLE hash_;
};

Result<std::unique_ptr<Checksum>> start(LPCWSTR kind) {
  BCRYPT_ALG_HANDLE algorithm = nullptr;
  BCRYPT_HASH_HANDLE hash = nullptr;
  if (!BCRYPT_SUCCESS(::BCryptOpenAlgorithmProvider(&algorithm, kind, nullptr, 0)))
    return failed("the system has no {}", narrow(kind));
  if (!BCRYPT_SUCCESS(::BCryptCreateHash(algorithm, &hash, nullptr, 0, nullptr, 0, 0))) {
    ::BCryptCloseAlgorithmProvider(algorithm, 0);
    return failed("the system has no {}", narrow(kind));
  }
  return std::make_unique<CngChecksum>(algorithm, hash);
}

}  // namespace

Result<std::unique_ptr<Http>> Http::create(HttpSettings settings) {
  if (!settings.certificates.empty())
    return invalid(
        "{}: Windows trusts its own list of authorities alone; add the certificate there and unset "
        "REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE and SSL_CERT_FILE",
        settings.certificates);
  Handle session(::WinHttpOpen(L"llada.cpp", WINHTTP_ACCESS_TYPE_AUTOMATIC_PROXY, WINHTTP_NO_PROXY_NAME,
                               WINHTTP_NO_PROXY_BYPASS, 0));
  if (!session) return failed("WinHTTP cannot be started: error {}", ::GetLastError());
  const int stall = settings.stall_seconds * 1000;
  ::WinHttpSetTimeouts(session.get(), settings.connect_seconds * 1000, settings.connect_seconds * 1000, stall, stall);
  return std::make_unique<WinHttp>(std::move(settings), std::move(session));
}

Result<std::unique_ptr<Checksum>> Checksum::sha256() { return start(BCRYPT_SHA256_ALGORITHM); }
Result<std::unique_ptr<Checksum>> Checksum::sha1() { return start(BCRYPT_SHA1_ALGORITHM); }

}  // namespace llada::hub
