// The ceilings of this machine, measured: what every other figure is compared with.
#pragma once
#include <string>
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

// Medians of `repeats` runs of about three milliseconds on every thread of the pool.
double int8_peak(ThreadPool& pool, int repeats);
double float_peak(ThreadPool& pool, int repeats);

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
Result<Ceilings> measure_ceilings(ThreadPool& pool, int64_t read_bytes, int repeats);

}  // namespace llada::bench
