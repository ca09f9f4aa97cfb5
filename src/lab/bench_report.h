// The report of `llada bench`: one JSON object (docs/json.md), and lines for people that come as they are measured.
#pragma once
#include <string>

#include "json/parse.h"
#include "lab/bench/bench.h"

namespace llada::cli {

// Lines of at most 80 columns; each is given once. Every later report's text begins with the lines given before.
class BenchPrinter {
 public:
  explicit BenchPrinter(int64_t stream_bytes) : stream_bytes_(stream_bytes) {}
  std::string update(const bench::BenchReport& report);  // the new lines in it
  std::string finish(const bench::BenchReport& report, const bench::Parts& parts);

 private:
  int64_t stream_bytes_;
  size_t given_ = 0;  // bytes
};

Json bench_json(const bench::BenchReport& report);

}  // namespace llada::cli
