// The report of `llada bench`: one JSON object (docs/json.md), and lines for people that come as they are measured.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bench.h"

namespace llada::cli {

// Lines of at most 80 columns; each is given once.
class BenchPrinter {
 public:
  explicit BenchPrinter(int64_t stream_bytes) : stream_bytes_(stream_bytes) {}
  std::string update(const bench::BenchReport& report);  // what is new in it
  std::string finish(const bench::BenchReport& report, const bench::Parts& parts);

 private:
  template <class T>
  std::string rows(const std::vector<T>& list, size_t& shown, const std::function<std::string()>& head,
                   std::string (*row)(const T&), std::string_view notes);
  std::string end_table();  // the notes below the table that was shown last
  int64_t stream_bytes_;
  bool machine_ = false, model_ = false, moe_hybrid_ = false;
  size_t gemm_ = 0, moe_ = 0, forward_ = 0, attention_ = 0, end_to_end_ = 0, replayed_ = 0, shared_ = 0, sustained_ = 0;
  std::string_view notes_;
};

nlohmann::ordered_json bench_json(const bench::BenchReport& report);

}  // namespace llada::cli
