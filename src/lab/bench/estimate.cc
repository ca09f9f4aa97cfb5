#include "lab/bench/estimate.h"

#include <algorithm>
#include <cmath>

#include "lab/bench/bench.h"

namespace llada::bench {
namespace {

// Shares of the ceilings that products reach in the middle of the table, and the pace at which random weights are made
// or a file is packed; measured on machines with AVX-512 VNNI and with AVX2 (docs/benchmarks.md), rounded down.
constexpr double kShareOfPeak = 0.5;
constexpr double kMadePerSecondAndThread = 60e6, kPackedBytesPerSecond = 4e9;
// making, packing and copying the bytes that one product goes through
constexpr double kProductSetupBytesPerSecond = 1e9;
constexpr int kWays = 3;

}  // namespace

Estimate::Estimate(const BenchOptions& options, const Ceilings& ceilings, const ModelConfig& config,
                   std::span<const WeightInfo> weights, bool preset)
    : read_bytes_per_s_(std::max(ceilings.read_gb_per_s, 0.1) * 1e9),
      operations_per_s_(std::max(ceilings.int8_gop_per_s, 1.0) * 1e9 * kShareOfPeak),
      repeats_(options.repeats),
      stream_bytes_(static_cast<double>(options.stream_bytes)),
      prompt_(static_cast<double>(options.prompt_tokens)),
      gen_(static_cast<double>(options.gen_length)),
      block_(static_cast<double>(options.block_length)),
      per_step_(static_cast<double>(options.tokens_per_step)) {
  const DType type = options.types.empty() ? DType::Q4_0 : options.types.front();
  const double bytes_per_weight = static_cast<double>(traits(type).bytes) / static_cast<double>(traits(type).elements);
  for (const WeightInfo& w : weights) {
    const double size = static_cast<double>(w.dims[0]) * static_cast<double>(w.dims[1]);
    const double used = w.expert >= 0 && config.experts > 0
                            ? static_cast<double>(config.experts_used) / static_cast<double>(config.experts)
                            : 1;
    parameters_ += size;
    multiply_adds_ += size * used;
  }
  weight_bytes_ = multiply_adds_ * bytes_per_weight;
  if (preset) parameters_ *= kPackedBytesPerSecond / kMadePerSecondAndThread / std::max(options.load.threads, 2);

  const Parts& p = options.parts;
  if (p.gemm)
    for (const DType each : options.types)
      for (const auto& [k, n] : layer_shapes(weights))
        for (const int64_t rows : options.rows)
          if (k % traits(each).elements == 0) all_expected_s_ += product_s(k, n, rows, each);
  if (p.forward)
    for (const int64_t rows : options.rows) all_expected_s_ += forwards_s(rows);
  if (p.attention) all_expected_s_ += forwards_s(options.attention_rows);
  if (p.end_to_end) all_expected_s_ += run_s() * (options.one_run || config.attention_block > 0 ? 1 : kWays);
  if (p.shared)
    for (const int64_t requests : options.requests) all_expected_s_ += static_cast<double>(requests) * run_s();
  if (p.sustained) all_expected_s_ += 60 * static_cast<double>(options.minutes);
  if (p.forward || p.attention || p.end_to_end || p.shared || p.sustained) all_expected_s_ += load_s();
}

double Estimate::forward_s(double rows) const {
  return std::max(weight_bytes_ / read_bytes_per_s_, 2 * multiply_adds_ * rows / operations_per_s_);
}

double Estimate::product_s(int64_t k, int64_t n, int64_t rows, DType type) const {
  const double weights = static_cast<double>(k) * static_cast<double>(n);
  const double bytes = weights * static_cast<double>(traits(type).bytes) / static_cast<double>(traits(type).elements);
  const double once = std::max(bytes / read_bytes_per_s_, 2 * weights * static_cast<double>(rows) / operations_per_s_);
  const double copies = std::ceil(stream_bytes_ / bytes);
  return once * (copies * repeats_ + 3) + stream_bytes_ / kProductSetupBytesPerSecond;
}

double Estimate::forwards_s(int64_t rows) const {
  return (1 + repeats_) * forward_s(static_cast<double>(rows)) + repeats_ * stream_bytes_ / read_bytes_per_s_;
}

double Estimate::run_s() const {
  const double steps = std::ceil(gen_ / per_step_), blocks = std::ceil(gen_ / block_);
  return repeats_ * ((steps - blocks) * forward_s(block_) + blocks * forward_s(prompt_ + gen_));
}

double Estimate::load_s() const { return parameters_ / kPackedBytesPerSecond; }

void Estimate::measured(double expected_s, double taken_s) {
  done_expected_s_ += expected_s;
  taken_s_ += taken_s;
}

double Estimate::all_s() const {
  const double left = std::max(all_expected_s_ - done_expected_s_, 0.0);
  return taken_s_ + (done_expected_s_ > 0 ? left * taken_s_ / done_expected_s_ : left);
}

}  // namespace llada::bench
