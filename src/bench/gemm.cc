#include "bench/gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/pages.h"
#include "base/random.h"
#include "bench/machine.h"
#include "tensor/quantize.h"
#include "tensor/synthesize.h"

namespace llada::bench {
namespace {

constexpr int64_t kStreamBytes = int64_t{256} << 20;    // of equal matrices in turn: far beyond any cache
constexpr int64_t kErrorColumns = 64, kErrorRows = 16;  // sampled

// Normal numbers by the sum of twelve uniform ones.
void fill_normal(float* x, int64_t count, uint64_t seed) {
  const uint64_t key = random_key(seed, 0, 0);
  for (int64_t i = 0; i < count; ++i) {
    double sum = -6;
    for (int64_t j = 0; j < 12; ++j) sum += draw(key, static_cast<uint64_t>(i * 12 + j));
    x[i] = static_cast<float>(sum);
  }
}

// Whole numbers with the extreme in every group of 32: quantized to 8 bits without error. The others are
// normal with a deviation of 40, as the activations of a model are beside their group's largest.
void fill_exact(float* x, int64_t count, uint64_t seed) {
  fill_normal(x, count, seed);
  for (int64_t i = 0; i < count; ++i) x[i] = i % 32 == 0 ? 127.0f : std::round(std::clamp(40 * x[i], -127.0f, 127.0f));
}

constexpr int64_t kOutlierSpacing = 256;  // channels to one outlier
constexpr float kOutlier = 32;

void fill_outliers(float* x, int64_t rows, int64_t k, uint64_t seed) {
  fill_normal(x, rows * k, seed);
  const uint64_t key = random_key(seed, 1, 0);
  for (int64_t first = 0; first < k; first += kOutlierSpacing) {
    const int64_t width = std::min(kOutlierSpacing, k - first);
    const double place = draw(key, static_cast<uint64_t>(first));
    const int64_t channel = first + static_cast<int64_t>(place * static_cast<double>(width));
    for (int64_t r = 0; r < rows; ++r) x[r * k + channel] *= kOutlier;
  }
}

class Case {
 public:
  Case(const kernels::KernelTable& table, ThreadPool& pool, DType type, int64_t k, int64_t n, int64_t rows,
       int64_t stream_bytes)
      : table_(table), pool_(pool), type_(type), k_(k), n_(n), rows_(rows), stream_bytes_(stream_bytes) {}

  Status prepare() {
    stored_bytes_ = n_ * row_bytes(type_, k_);
    const int64_t packed = table_.packed_bytes(type_, n_, k_);
    used_bytes_ = packed > 0 ? packed : stored_bytes_;
    stride_ = (used_bytes_ + 4095) / 4096 * 4096;
    copies_ = stream_bytes_ / stride_ + 1;
    stored_ = allocate_aligned(stored_bytes_);
    weights_ = allocate_aligned(stride_ * copies_);
    x_ = allocate_aligned(rows_ * k_ * 4);
    y_ = allocate_aligned(rows_ * n_ * 4);
    activations_ = allocate_aligned(table_.activation_bytes(rows_, k_));
    if (!stored_ || !weights_ || !x_ || !y_ || !activations_)
      return failed("bench: memory for a {} x {} product of {} rows could not be allocated", k_, n_, rows_);
    const int64_t groups = n_ * k_ / traits(type_).elements;
    synthesize_groups(type_, 1, 1 / std::sqrt(static_cast<double>(k_)), 0, groups, stored_.get());
    if (packed > 0) {
      const TensorView view{stored_.get(), type_, {{k_, n_, 1, 1}, 2}};
      const int64_t tile = table_.column_tile(type_);
      const auto pack = [&] {
        pool_.run((n_ + tile - 1) / tile,
                  [&](int64_t t, int) { table_.pack(view, t * tile, std::min(n_, (t + 1) * tile), weights_.get()); });
      };
      pack();  // the first time pays for the pages
      const double begin = now_s();
      pack();
      pack_seconds_ = now_s() - begin;
    } else {
      std::memcpy(weights_.get(), stored_.get(), static_cast<size_t>(stored_bytes_));
    }
    pool_.run(copies_ - 1, [&](int64_t i, int) {
      std::memcpy(weights_.get() + (i + 1) * stride_, weights_.get(), static_cast<size_t>(used_bytes_));
    });
    return {};
  }

  Result<GemmResult> measure(PeakWatch& watch, int repeats) {
    GemmResult r{.k = k_, .n = n_, .rows = rows_, .type = type_};
    r.packed_ratio = static_cast<double>(used_bytes_) / static_cast<double>(stored_bytes_);
    r.pack_gb_per_s = pack_seconds_ > 0 ? static_cast<double>(stored_bytes_) / pack_seconds_ / 1e9 : 0;
    fill_exact(inputs(), rows_ * k_, 3);
    quantize();
    multiply(0);
    r.relative_error = error();
    fill_outliers(inputs(), rows_, k_, 7);
    quantize();
    multiply(0);
    r.outlier_error = error();
    fill_normal(inputs(), rows_ * k_, 5);
    const double quantize_begin = now_s();
    quantize();
    r.quantize_ms = (now_s() - quantize_begin) * 1e3;
    multiply(0);
    r.activation_error = error();

    const auto timing = [&]() -> Result<double> {
      std::vector<double> times;
      for (int repeat = 0; repeat < repeats; ++repeat) {
        const double begin = now_s();
        for (int64_t copy = 0; copy < copies_; ++copy) multiply(copy);
        times.push_back((now_s() - begin) / static_cast<double>(copies_));
      }
      return median(times);
    };
    const auto unit = table_.integer_path(type_) ? PeakWatch::Unit::int8 : PeakWatch::Unit::floats;
    LLADA_TRY(const auto timed, watch.time<double>(unit, timing));
    const double top = timed.peak, seconds = timed.value;
    r.timings = timed.timings;
    r.ms = seconds * 1e3;
    r.gop_per_s = 2.0 * static_cast<double>(rows_ * k_) * static_cast<double>(n_) / seconds / 1e9;
    r.percent_of_peak = top > 0 ? 100 * r.gop_per_s / top : 0;
    r.gb_per_s = static_cast<double>(used_bytes_) / seconds / 1e9;
    return r;
  }

 private:
  float* inputs() const { return reinterpret_cast<float*>(x_.get()); }
  float* outputs() const { return reinterpret_cast<float*>(y_.get()); }

  void quantize() {
    if (table_.integer_path(type_))
      table_.quantize_rows(inputs(), rows_, k_, 0, rows_, kernels::type_bit(type_), activations_.get());
  }

  // Columns are shared out as the cpu device does it.
  void multiply(int64_t copy) {
    const int64_t tile = table_.column_tile(type_), tiles = (n_ + tile - 1) / tile;
    const int64_t step = tile * std::max<int64_t>(1, tiles / (8 * pool_.size()));
    pool_.run((n_ + step - 1) / step, [&](int64_t i, int) {
      table_.matmul({.type = type_,
                     .n = n_,
                     .k = k_,
                     .weights = weights_.get() + copy * stride_,
                     .x = inputs(),
                     .activations = activations_.get(),
                     .rows = rows_,
                     .n0 = i * step,
                     .n1 = std::min(n_, (i + 1) * step),
                     .y = outputs(),
                     .y_stride = n_});
    });
  }

  double error() const {
    std::vector<float> w(static_cast<size_t>(k_));
    double differences = 0, exact = 0;
    const int64_t step = std::max<int64_t>(1, n_ / kErrorColumns);
    const int64_t row_step = std::max<int64_t>(1, rows_ / kErrorRows);
    for (int64_t c = 0; c < n_; c += step) {
      dequantize_row(type_, stored_.get() + c * row_bytes(type_, k_), w.data(), k_);
      for (int64_t r = 0; r < rows_; r += row_step) {
        double want = 0;
        for (int64_t i = 0; i < k_; ++i) want += static_cast<double>(w[static_cast<size_t>(i)]) * inputs()[r * k_ + i];
        const double difference = outputs()[r * n_ + c] - want;
        differences += difference * difference;
        exact += want * want;
      }
    }
    return exact > 0 ? std::sqrt(differences / exact) : 0;
  }

  const kernels::KernelTable& table_;
  ThreadPool& pool_;
  const DType type_;
  const int64_t k_, n_, rows_, stream_bytes_;
  double pack_seconds_ = 0;
  int64_t stored_bytes_ = 0, used_bytes_ = 0, stride_ = 0, copies_ = 0;
  AlignedBytes stored_, weights_, x_, y_, activations_;
};

}  // namespace

Result<GemmResult> measure_gemm(const kernels::KernelTable& table, ThreadPool& pool, PeakWatch& watch, DType type,
                                int64_t k, int64_t n, int64_t rows, int64_t stream_bytes, int repeats) {
  if (k % traits(type).elements != 0)
    return invalid("bench: rows of {} values do not fit {}, multiples of {} needed", k, traits(type).name,
                   traits(type).elements);
  Case one(table, pool, type, k, n, rows, stream_bytes);
  LLADA_TRY_STATUS(one.prepare());
  return one.measure(watch, repeats);
}

std::vector<std::pair<int64_t, int64_t>> layer_shapes(std::span<const WeightInfo> weights) {
  std::vector<std::pair<int64_t, int64_t>> shapes;
  for (const WeightInfo& w : weights) {
    const std::pair shape{w.dims[0], w.dims[1]};
    if (w.layer < 0 || w.dims[1] == 1 || w.name.ends_with("ffn_gate_inp.weight") ||
        std::ranges::count(shapes, shape) > 0)
      continue;
    shapes.push_back(shape);
  }
  return shapes;
}

}  // namespace llada::bench
