#include "bench/machine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "bench/ceiling.h"

namespace llada::bench {
namespace {

double peak(ThreadPool& pool, std::string_view isa, int repeats, double (*loop)(std::string_view, int64_t)) {
  constexpr double kSeconds = 0.003;  // of one run: far above a barrier, far below a scheduler's patience
  constexpr int64_t kProbe = 20'000, kMostRounds = 400'000;
  int64_t rounds = kProbe;
  std::vector<double> rates;
  // The first wakes the threads and the clock, the second sets the length. Where another program interrupted that one,
  // it is far too short and would measure the barrier: then it is set again.
  for (int i = 0; static_cast<int>(rates.size()) < repeats; ++i) {
    std::vector<double> operations(static_cast<size_t>(pool.size()));
    const double begin = now_s();
    pool.run(pool.size(), [&](int64_t index, int) { operations[static_cast<size_t>(index)] = loop(isa, rounds); });
    double sum = 0;
    for (const double o : operations) sum += o;
    const double taken = std::max(now_s() - begin, 1e-9);
    if (i == 0) continue;
    if (i > 1 && (taken > kSeconds / 4 || rounds == kMostRounds)) {
      rates.push_back(sum / taken / 1e9);
    } else {
      const double longer = static_cast<double>(rounds) * kSeconds / taken;
      rounds = static_cast<int64_t>(std::clamp(longer, 1.0, static_cast<double>(kMostRounds)));
    }
  }
  return median(rates);
}

}  // namespace

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double int8_peak(ThreadPool& pool, std::string_view isa, int repeats) { return peak(pool, isa, repeats, int8_loop); }
double float_peak(ThreadPool& pool, std::string_view isa, int repeats) { return peak(pool, isa, repeats, float_loop); }

double barrier_us(ThreadPool& pool, int repeats) {
  constexpr int kLoops = 1000;
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const double begin = now_s();
    for (int j = 0; j < kLoops; ++j) pool.run(pool.size(), [](int64_t, int) {});
    times.push_back((now_s() - begin) / kLoops * 1e6);
  }
  return median(times);
}

Result<ReadTest> ReadTest::create(ThreadPool& pool, int64_t bytes) {
  ReadTest test;
  test.memory_ = allocate_aligned(bytes);
  if (test.memory_ == nullptr) return failed("bench: {} bytes for the read test could not be allocated", bytes);
  test.bytes_ = bytes;
  constexpr int64_t kPiece = int64_t{2} << 20;  // every piece gets pages of its own, not the shared zero page
  pool.run((bytes + kPiece - 1) / kPiece, [&](int64_t i, int) {
    std::memset(test.memory_.get() + i * kPiece, 1, static_cast<size_t>(std::min(kPiece, bytes - i * kPiece)));
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

Result<Ceilings> measure_ceilings(ThreadPool& pool, std::string_view isa, int64_t read_bytes, int repeats) {
  Ceilings c;
  c.int8_gop_per_s = int8_peak(pool, isa, repeats);
  c.float_gflop_per_s = float_peak(pool, isa, repeats);
  LLADA_TRY(const ReadTest test, ReadTest::create(pool, read_bytes));
  c.read_gb_per_s = test.gb_per_s(pool, repeats);
  return c;
}

}  // namespace llada::bench
