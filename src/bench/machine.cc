#include "bench/machine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "bench/ceiling.h"

namespace llada::bench {
namespace {

double peak(ThreadPool& pool, int repeats, double (*loop)(int64_t)) {
  constexpr int64_t kRounds = 400'000;  // about 3 ms at 2 rounds of 16 instructions per 16 cycles
  std::vector<double> rates;
  for (int i = 0; i < repeats + 1; ++i) {  // the first one wakes the threads and the clock
    std::vector<double> operations(static_cast<size_t>(pool.size()));
    const double begin = now_s();
    pool.run(pool.size(),
             [&](int64_t index, int) { operations[static_cast<size_t>(index)] = loop(kRounds); });
    double sum = 0;
    for (const double o : operations) sum += o;
    if (i > 0) rates.push_back(sum / (now_s() - begin) / 1e9);
  }
  return median(rates);
}

}  // namespace

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double int8_peak(ThreadPool& pool, int repeats) { return peak(pool, repeats, int8_loop); }
double float_peak(ThreadPool& pool, int repeats) { return peak(pool, repeats, float_loop); }

Result<ReadTest> ReadTest::create(ThreadPool& pool, int64_t bytes) {
  ReadTest test;
  test.memory_ = allocate_aligned(bytes);
  if (test.memory_ == nullptr)
    return failed("bench: {} bytes for the read test could not be allocated", bytes);
  test.bytes_ = bytes;
  constexpr int64_t kPiece = int64_t{2} << 20;  // every piece gets pages of its own, not the shared zero page
  pool.run((bytes + kPiece - 1) / kPiece, [&](int64_t i, int) {
    std::memset(test.memory_.get() + i * kPiece, 1,
                static_cast<size_t>(std::min(kPiece, bytes - i * kPiece)));
  });
  return test;
}

double ReadTest::gb_per_s(ThreadPool& pool, int repeats) const {
  // Parts of 1 MiB are handed out as threads come free, so that one slow core does not set the pace.
  constexpr int64_t kPart = int64_t{1} << 20;
  const int64_t parts = bytes_ / kPart, run = std::max<int64_t>(1, parts / pool.size() / 8);
  std::vector<double> rates;
  std::atomic<uint64_t> sink = 0;
  for (int i = 0; i < repeats; ++i) {
    const double begin = now_s();
    pool.run(parts / run, [&](int64_t index, int) {
      const auto* at = memory_.get() + index * run * kPart;
      sink.fetch_add(read_loop({at, static_cast<size_t>(run * kPart)}), std::memory_order_relaxed);
    });
    rates.push_back(static_cast<double>(parts / run * run * kPart) / (now_s() - begin) / 1e9);
  }
  return median(rates);
}

Result<Ceilings> measure_ceilings(ThreadPool& pool, int64_t read_bytes, int repeats) {
  Ceilings c;
  c.int8_gop_per_s = int8_peak(pool, repeats);
  c.float_gflop_per_s = float_peak(pool, repeats);
  LLADA_TRY(const ReadTest test, ReadTest::create(pool, read_bytes));
  c.read_gb_per_s = test.gb_per_s(pool, repeats);
  return c;
}

}  // namespace llada::bench
