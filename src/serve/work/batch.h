// A batch: a file of requests, one JSON object a line, in OpenAI's batch format: custom_id, method, url, body. Each is
// read by its route as if a client had sent it, many are under way at a time, and the engine computes them in shared
// forwards. Their answers are lines, in the order in which they come to their end:
//
//   {"id": "batch_req_...", "custom_id": "...", "response": {"status_code", "request_id", "body"}, "error": null}
//
// A request that was refused or failed has the body of its refusal, and error as {code, message}. A line that is no
// request has custom_id null, response null, and error with its number, `line`.
//
// A line's answer depends on nothing but the line: sampling without a seed takes one that is made of the custom_id. So
// a batch that was interrupted and went on has the answers that it would have had.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "serve/work/batch_files.h"
#include "serve/work/service.h"

namespace llada::serve {

inline constexpr size_t kMostBatchLine = size_t{16} << 20;  // bytes of a request

struct BatchCounts {
  int64_t answered = 0, failed = 0;  // lines that were written; failed: with an error
  int64_t there = 0;                 // lines that the output had before
  bool over = false;                 // every request has its line
  int64_t read_bytes = 0;            // of the input so far
  int64_t skipped_bytes = 0;         // of these, in requests that had their line before
};

// Why a line is no request.
struct BatchFault {
  std::string message, code = "invalid_line";
};

struct BatchOptions {
  std::string url = {};           // of all requests; empty: each has its own
  std::string salt = {};          // of ids, beside the custom_id
  int64_t shard = 1, shards = 1;  // the lines whose number less one, modulo shards, is shard - 1
  std::string refusal = {};       // why no further request is answered: all get this error, with the code
  std::string refusal_code = {};
  int64_t in_flight = 16;     // requests at a time, most of which the engine works on
  bool low_priority = false;  // to requests of others (serve/work/waiting_room.h)
  // Writes a line with its end; by one thread at a time, any of them.
  std::function<Status(bool failed, std::string_view line)> write;
};

// Answers the requests that `done` does not have. One thread drives it; the objects that it is made of outlive it.
class Batch {
 public:
  Batch(Service& service, LineSource& input, const BatchDone& done, BatchOptions options);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // Begins requests of the input as far as there is room, for a tenth of a second at most. False: there is nothing more
  // to do.
  bool tick();
  // Cancels the requests under way, and begins no further ones.
  void cancel();
  BatchCounts counts() const;
  // Waits for the requests under way. Failed: a file could not be read or written, or the machine failed several
  // requests in a row; written lines stay.
  Result<BatchCounts> finish();

 private:
  struct Asked {
    std::string custom_id;
    const struct Route* route = nullptr;
    std::string body;
  };
  // A line of the input is taken: skipped, refused, or begun.
  Status take_line();
  Status take(const LineSource::Line& line, bool own);
  std::expected<Asked, BatchFault> read(const JsonDocument& line) const;
  void begin(Asked request);
  void ended(const std::shared_ptr<Exchange>& exchange, const HttpReply& reply);
  void take_reply(const Exchange& exchange, Asked request, const HttpReply& reply);  // under the lock
  Status refuse_line(int64_t number, const std::string& custom_id, const BatchFault& fault);
  // The lock is held.
  void add(bool failed, const std::string& line);
  void flush_failures();

  Service& service_;
  LineSource& input_;
  const BatchDone& done_;
  const BatchOptions options_;
  std::unordered_map<std::string, int64_t> seen_;  // the line of each id
  bool at_end_ = false;                            // of the input
  mutable std::mutex mutex_;                       // guards the members below
  std::condition_variable changed_;
  BatchCounts counts_;
  std::map<std::shared_ptr<Exchange>, Asked> under_way_;
  std::deque<Asked> again_;            // the queue was full
  std::vector<std::string> failures_;  // lines of the machine's failures, until another request is answered
  Status status_;                      // of the files, or of the machine
  bool cancelled_ = false;
  bool given_up_ = false;  // requests without a line: the server began to end
};

// Invalid: a url that requests of a batch may not have.
Status check_batch_url(std::string_view url);

}  // namespace llada::serve
