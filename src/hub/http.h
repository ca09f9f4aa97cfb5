// An HTTP client for the hub: curl_http.cc by libcurl, winhttp_http.cc by Windows, or absent_http.cc, whose error says
// that there is none. Every answer of a server is a result, whatever its status; no answer is status 0 with a reason.
//
// A token goes to the host, port and scheme of the request it was given for, never to a redirection's. Files lie on
// other hosts, with the right to read them in their addresses. Certificates are checked.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada::hub {

struct HttpSettings {
  std::string token;                   // empty: none
  std::string certificates;            // a file of trusted authorities; empty: the system's
  int connect_seconds = 15;            // until a connection stands
  int stall_seconds = 30;              // without one byte
  std::function<bool()> stopped = {};  // asked several times a second; true ends a transfer
};

struct HttpAnswer {
  long status = 0;      // 0: no answer, or one that broke off
  std::string failure;  // why
  bool stopped = false;
  bool unknown_host = false;                   // its name, or the proxy's, has no address
  std::map<std::string, std::string> headers;  // names in lower case, of the last answer; at most 200
  std::string body;
  void add_header(std::string_view line);  // "Name: value"; a line without a colon says nothing
  const std::string& header(const std::string& name) const {
    static const std::string none;
    const auto found = headers.find(name);
    return found == headers.end() ? none : found->second;
  }
};

// Takes the bytes of a body. `answer` is its head; false ends the transfer.
using BodySink = std::function<bool(const HttpAnswer& head, std::span<const std::byte> bytes)>;

class Http {
 public:
  static Result<std::unique_ptr<Http>> create(HttpSettings settings);  // failed: a build without libcurl
  virtual ~Http() = default;

  // The whole body, at most `limit` bytes, following redirects.
  virtual HttpAnswer get(const std::string& url, size_t limit) = 0;
  // The head alone. Redirects are not followed.
  virtual HttpAnswer head(const std::string& url) = 0;
  // Gets the bytes from `from` on (0: without a range), following redirects. A server may ignore the range and say 200.
  virtual HttpAnswer download(const std::string& url, int64_t from, const BodySink& sink) = 0;
};

// The checksums in a hub's etags: SHA-256, or Git's blob id, which is SHA-1 over "blob SIZE\0" and the content.
class Checksum {
 public:
  static Result<std::unique_ptr<Checksum>> sha256();
  static Result<std::unique_ptr<Checksum>> sha1();
  static Result<std::unique_ptr<Checksum>> git_blob(int64_t bytes);
  virtual ~Checksum() = default;
  virtual void update(std::span<const std::byte> bytes) = 0;
  std::string hex();  // called once, at the end; empty where the system failed

 private:
  virtual std::vector<unsigned char> digest() = 0;
};

}  // namespace llada::hub
