// Downloads one file of a repository into the cache: asks for its size and etag, fetches its bytes with resumption and
// retries, checks them, and gives the file its name.
#pragma once
#include <functional>
#include <string>

#include "hub/cache.h"
#include "hub/http.h"
#include "hub/hub.h"

namespace llada::hub {

struct RemoteHead {
  std::string etag;  // 40 or 64 hexadecimal digits
  int64_t bytes = 0;
};

// The parts that all requests of one pull share.
struct Connection {
  const HubSettings& settings;
  const Request& request;
  const PullEvents& events;
  const Cache& cache;
  Http& http;
  mutable bool told_of_locks = false;  // once, not for every file
  bool stopped() const { return events.stopped && events.stopped(); }
  void say(const std::string& line) const {
    if (events.say) events.say(line);
  }
};

// Calls `ask`, and again after growing pauses while the network or the server fails. The error names `what`, the answer
// and the remedy.
Result<HttpAnswer> ask_patiently(const Connection& connection, const std::string& what,
                                 const std::function<HttpAnswer()>& ask);

// {endpoint}/OWNER/NAME/resolve/COMMIT/PATH
std::string file_address(const Connection& connection, const std::string& commit, const std::string& path);
std::string escaped(std::string_view text, bool keep_slashes);  // percent-encoded

// listed_bytes: the size in the listing, for servers whose heads have none; -1: none.
Result<RemoteHead> ask_head(const Connection& connection, const std::string& commit, const std::string& path,
                            int64_t listed_bytes);

// Bytes of the file that an earlier attempt has left.
int64_t bytes_there(const Cache& cache, const RemoteHead& head);

// Returns the bytes that came over the network: 0 where the blob is there already.
Result<int64_t> fetch_blob(const Connection& connection, const std::string& commit, const std::string& path,
                           const RemoteHead& head, const std::function<void(int64_t done)>& progress);

}  // namespace llada::hub
