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
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "serve/batch_files.h"
#include "serve/service.h"

namespace llada::serve {

inline constexpr size_t kMostBatchLine = size_t{16} << 20;  // bytes of a request

struct BatchCounts {
  int64_t answered = 0, failed = 0;  // lines that were written; failed: with an error
  int64_t there = 0;                 // that the output had before
  bool over = false;                 // every request has its line
  int64_t read_bytes = 0;            // of the input so far
  int64_t skipped_bytes = 0;         // of these, of lines that were there
};

struct BatchOptions {
  std::string url = {};           // of all requests; empty: each has its own
  std::string salt = {};          // of ids, beside the custom_id
  int64_t shard = 1, shards = 1;  // the lines whose number less one, modulo shards, is shard - 1
  std::string refusal = {};       // why no further request is answered: all get this error, with the code
  std::string refusal_code = {};
  int64_t in_flight = 16;           // requests at a time, most of which the engine works on
  bool low_priority = false;        // to requests of others (serve/waiting_room.h)
  std::function<bool()> may_begin;  // asked before each request; none: it may
  // Asked at least ten times a second; false ends the batch, whose requests under way are given up.
  std::function<bool(const BatchCounts&)> proceed;
  // Writes a line with its end; by one thread at a time, any of them.
  std::function<Status(bool failed, std::string_view line)> write;
};

// Answers the requests that `done` does not have. Failed: a file could not be read or written, or the machine failed
// one request after the other; what was written stays.
Result<BatchCounts> run_batch(Service& service, LineSource& input, const BatchDone& done, const BatchOptions& options);

// Refuses what no request of a batch may have as its url.
Status check_batch_url(std::string_view url);

}  // namespace llada::serve
