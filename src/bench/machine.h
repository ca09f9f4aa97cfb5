// The measured ceilings of this machine, with which every other figure is compared.
#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/pages.h"
#include "base/threads.h"

namespace llada::bench {

double now_s();  // monotonic clock, seconds

double median(std::vector<double> values);  // of an even number the upper middle; 0 of none

struct Ceilings {
  double read_gb_per_s = 0, int8_gop_per_s = 0, float_gflop_per_s = 0;
};

struct Machine {
  std::string cpu, isa;  // processor; instruction set of the kernels in use
  int threads = 0;
  std::string int8_instruction, float_instruction;
  Ceilings one = {}, all = {};  // one thread; every thread, before anything else ran
  double barrier_us = 0;        // microseconds of a loop over the threads with nothing in it
  Ceilings all_after = {};      // every thread, after everything else: the drift of a shared machine
};

// Medians of `repeats` runs of about three milliseconds on every thread of the pool, with the instructions of the set
// `isa` (ceiling.h).
double int8_peak(ThreadPool& pool, std::string_view isa, int repeats);
double float_peak(ThreadPool& pool, std::string_view isa, int repeats);

// Times things between two readings of the peak. Where a reading is far below the best one so far, something else had a
// core (another program, another guest of the host), and the timing is taken again. The timing between the best
// readings counts.
class PeakWatch {
 public:
  enum class Unit { int8, floats };
  static constexpr double kDisturbed = 0.92;  // of the best reading: half where two threads shared a core
  static constexpr int kTimings = 3;          // at most

  PeakWatch(ThreadPool& pool, std::string isa)
      : PeakWatch([&pool, isa = std::move(isa)](Unit unit) {
          return unit == Unit::int8 ? int8_peak(pool, isa, 5) : float_peak(pool, isa, 5);
        }) {}
  explicit PeakWatch(std::function<double(Unit)> read) : read_(std::move(read)) {}
  void saw(const Ceilings& c) {  // readings that were taken elsewhere
    best_[0] = std::max(best_[0], c.int8_gop_per_s), best_[1] = std::max(best_[1], c.float_gflop_per_s);
  }

  template <class T>
  struct Timed {
    T value{};
    double peak = 0;  // mean of the two readings; 0 where no loop for this processor is built in
    int timings = 0;  // taken, of which this is one
  };
  template <class T>
  Result<Timed<T>> time(Unit unit, const std::function<Result<T>()>& timing) {
    Timed<T> kept;
    double kept_lower = -1;
    double& best = best_[static_cast<size_t>(unit)];
    const auto read = [&] {
      const double peak = read_(unit);
      best = std::max(best, peak);
      return peak;
    };
    for (int i = 1; i <= kTimings && (i == 1 || kept_lower < kDisturbed * best); ++i) {
      const double before = read();
      LLADA_TRY(T value, timing());
      const double after = read(), lower = std::min(before, after);
      if (lower > kept_lower) kept.value = std::move(value), kept.peak = (before + after) / 2, kept_lower = lower;
      kept.timings = i;
    }
    return kept;
  }

 private:
  std::function<double(Unit)> read_;
  double best_[2] = {};
};

double barrier_us(ThreadPool& pool, int repeats);

// Memory that is read front to back, shared out among the threads.
class ReadTest {
 public:
  static Result<ReadTest> create(ThreadPool& pool, int64_t bytes);  // at least 1 MiB
  double gb_per_s(ThreadPool& pool, int repeats) const;

 private:
  AlignedBytes memory_;
  int64_t bytes_ = 0;
};

// read_bytes: far beyond any cache, or the rate is the cache's.
Result<Ceilings> measure_ceilings(ThreadPool& pool, std::string_view isa, int64_t read_bytes, int repeats);

}  // namespace llada::bench
