#include "bench/probe.h"

#include <algorithm>
#include <cmath>

#include "bench/gemm.h"
#include "bench/machine.h"
#include "devices/cpu/cpu_device.h"
#include "kernels/kernels.h"

namespace llada::bench {

double Probe::seconds_per_weight(double rows) const {
  const auto above = std::ranges::find_if(per_weight, [&](const auto& point) { return point.first >= rows; });
  if (above == per_weight.begin()) return per_weight.front().second;
  if (above == per_weight.end()) return per_weight.back().second * rows / per_weight.back().first;
  const auto& [r0, s0] = *(above - 1);
  const auto& [r1, s1] = *above;
  return s0 + (s1 - s0) * (rows - r0) / (r1 - r0);
}

double Probe::forward_seconds(const ProbedWeights& w, double rows) const {
  double seconds = w.dense * seconds_per_weight(rows);
  if (w.experts == 0) return seconds;
  // Rows that choose their experts independently meet so many of them.
  const double share = static_cast<double>(w.used) / w.experts;
  const double met = 1 - std::pow(1 - share, rows);
  return seconds + w.in_experts * met * seconds_per_weight(rows * share / met);
}

Result<Probe> probe_machine(int threads, const std::string& isa) {
  constexpr int64_t kWidth = 4096, kStreamBytes = int64_t{128} << 20;
  constexpr double kEnough = 2;  // seconds, after which no more rows are tried
  const double begin = now_s();
  LLADA_TRY(const auto* table, kernels::select(isa));
  LLADA_TRY(const auto info, describe_cpu({.threads = threads, .isa = isa, .exact_attention = false}));
  ThreadPool pool(threads);
  PeakWatch watch(pool, std::string(table->isa));
  Probe probe{.cpu = info.processor, .isa = std::string(table->isa), .threads = pool.size(), .per_weight = {}};
  for (const int64_t rows : {1, 4, 8, 32, 128}) {
    LLADA_TRY(const auto product,
              measure_gemm(*table, pool, watch, DType::Q4_0, kWidth, kWidth, rows, kStreamBytes, 1));
    probe.per_weight.emplace_back(rows, product.ms / 1e3 / (kWidth * kWidth));
    if (now_s() - begin > kEnough) break;
  }
  probe.seconds = now_s() - begin;
  return probe;
}

}  // namespace llada::bench
