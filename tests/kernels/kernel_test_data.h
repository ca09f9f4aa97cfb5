// Shared test data for the kernel tests: deterministic random numbers, matrices made of raw groups of any
// type (so that no writer is needed and every bit pattern that a foreign file may hold can be tried), and one
// call that packs, quantizes and multiplies.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/tables.h"
#include "tensor/half.h"
#include "tensor/quantize.h"
#include "tensor/view.h"

namespace llada::kernels::testing {

// What a row that sees the first n keys sees.
inline KeyRange prefix(int64_t n) { return {0, static_cast<int32_t>(n)}; }

inline constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint64_t bits() {  // splitmix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  float uniform() { return static_cast<float>(bits() >> 40) * 0x1p-24f; }                // [0, 1)
  float normal() { return (uniform() + uniform() + uniform() + uniform() - 2) * 1.7f; }  // near enough
  int64_t below(int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); }

 private:
  uint64_t state_;
};

// Exactly `size` bytes, 64-byte aligned and zeroed, so that a sanitizer sees every read past the end.
class Bytes {
 public:
  explicit Bytes(int64_t size) : size_(size), data_(::operator new(static_cast<size_t>(size), std::align_val_t{64})) {
    std::memset(data_, 0, static_cast<size_t>(size));
  }
  Bytes(Bytes&& other) noexcept : size_(other.size_), data_(std::exchange(other.data_, nullptr)) {}
  Bytes& operator=(Bytes&&) = delete;
  ~Bytes() { ::operator delete(data_, std::align_val_t{64}); }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  int64_t size() const { return size_; }

 private:
  int64_t size_;
  void* data_;
};

enum class Fill {
  random,  // random quants, scales of one magnitude
  wide,    // the same with scales over four decades, some zero, some negative
  low,
  high,       // every quant at its lowest / highest value, integer scales at their extremes
  alternate,  // quants alternate between the extremes
};

inline uint8_t quant_byte(Fill fill, Random& random, int64_t index) {
  switch (fill) {
    case Fill::low:
      return 0x00;
    case Fill::high:
      return 0xff;
    case Fill::alternate:
      return index % 2 == 0 ? 0x00 : 0xff;
    default:
      return static_cast<uint8_t>(random.bits());
  }
}

inline uint16_t scale_bits(Fill fill, Random& random) {
  if (fill == Fill::random) return float_to_f16(0.005f + 0.01f * random.uniform());
  if (fill != Fill::wide) return float_to_f16(0.0078125f);
  if (random.below(11) == 0) return 0;
  const float magnitude = std::exp2(-13.0f * random.uniform());
  return float_to_f16(random.below(2) == 0 ? magnitude : -magnitude);
}

// Stored bytes of an n x k matrix.
inline Bytes make_weights(DType type, int64_t n, int64_t k, Fill fill, uint64_t seed) {
  Random random(seed);
  Bytes bytes(n * row_bytes(type, k));
  const int64_t groups = bytes.size() / traits(type).bytes;
  for (int64_t g = 0; g < groups; ++g) {
    auto* p = reinterpret_cast<uint8_t*>(bytes.data() + g * traits(type).bytes);
    const auto put = [&](size_t at, uint16_t bits) { std::memcpy(p + at, &bits, 2); };
    if (type == DType::F32) {
      const float value = random.normal() * 0.05f;
      std::memcpy(p, &value, 4);
    } else if (type == DType::F16) {
      put(0, float_to_f16(random.normal() * 0.05f));
    } else if (type == DType::BF16) {
      put(0, float_to_bf16(random.normal() * 0.05f));
    } else {
      for (int i = 0; i < traits(type).bytes; ++i) p[i] = quant_byte(fill, random, i);
      switch (type) {
        case DType::IQ4_NL:
        case DType::IQ2_XXS:
        case DType::IQ2_XS:
        case DType::IQ2_S:
        case DType::IQ3_XXS:
        case DType::IQ3_S:
        case DType::IQ1_S:
          put(0, scale_bits(fill, random));
          break;
        case DType::IQ4_XS:
          put(0, float_to_f16(f16_to_float(scale_bits(fill, random)) * 0x1p-5f));
          break;
        case DType::Q2_K:
          put(80, scale_bits(fill, random));
          put(82, scale_bits(fill, random));
          break;
        case DType::Q3_K:
          put(108, scale_bits(fill, random));
          break;
        case DType::TQ1_0:
          put(52, scale_bits(fill, random));
          break;
        case DType::TQ2_0:
          put(64, scale_bits(fill, random));
          break;
        case DType::IQ1_M:
          for (const size_t at : {49u, 51u, 53u, 55u})  // 2^-7 in its scale's nibbles
            p[at] = static_cast<uint8_t>((p[at] & 15) | (at == 55 ? 0x20 : 0));
          break;
        case DType::MXFP4:
          p[0] = static_cast<uint8_t>(120 - random.below(fill == Fill::wide ? 10 : 2));
          break;
        case DType::NVFP4:
          for (int i = 0; i < 4; ++i) p[i] = static_cast<uint8_t>(fill == Fill::wide ? p[i] & 63 : 16 + (p[i] & 15));
          break;
        case DType::Q8_M: {
          const float d = f16_to_float(scale_bits(fill, random)), m = 8 * f16_to_float(scale_bits(fill, random));
          std::memcpy(p, &d, 4), std::memcpy(p + 4, &m, 4);
          break;
        }
        case DType::Q8_0:
          if (fill != Fill::random && fill != Fill::wide)
            for (int i = 0; i < 32; ++i) {
              const bool lowest = fill == Fill::low || (fill == Fill::alternate && i % 2 == 0);
              p[offsetof(GroupQ8_0, q) + static_cast<size_t>(i)] = lowest ? 0x80 : 0x7f;
            }
          [[fallthrough]];
        case DType::Q4_0:
        case DType::Q5_0:
          put(0, scale_bits(fill, random));
          break;
        case DType::Q6_K: {
          if (fill != Fill::random && fill != Fill::wide)
            for (int i = 0; i < 16; ++i)
              p[offsetof(GroupQ6_K, scales) + static_cast<size_t>(i)] = fill == Fill::low ? 0x80 : 0x7f;
          put(offsetof(GroupQ6_K, d), float_to_f16(f16_to_float(scale_bits(fill, random)) * 0x1p-5f));
          break;
        }
        case DType::Q4_K:
        case DType::Q5_K:
          put(0, float_to_f16(f16_to_float(scale_bits(fill, random)) * 0x1p-5f));
          put(2, float_to_f16(f16_to_float(scale_bits(fill, random)) * 0x1p-2f));
          break;
        default:
          put(0, scale_bits(fill, random));
          put(2, float_to_f16(f16_to_float(scale_bits(fill, random)) * 8));
      }
    }
  }
  return bytes;
}

// Integers in [-127, 127] times a power of two, with +-127 in each group of 32: int8 quantization over any
// groups of at least 32 values reproduces them exactly, so that only the arithmetic of the product is under
// test.
inline std::vector<float> exact_rows(int64_t rows, int64_t k, uint64_t seed) {
  Random random(seed);
  std::vector<float> x(static_cast<size_t>(rows * k));
  for (int64_t r = 0; r < rows; ++r) {
    const float unit = std::exp2(static_cast<float>(random.below(12)) - 10);
    for (int64_t i = 0; i < k; ++i)
      x[static_cast<size_t>(r * k + i)] = unit * static_cast<float>(random.below(255) - 127);
    for (int64_t g = 0; g < k; g += 32)
      x[static_cast<size_t>(r * k + g + random.below(32))] = unit * (random.below(2) == 0 ? 127 : -127);
  }
  return x;
}

inline std::vector<float> normal_rows(int64_t rows, int64_t k, uint64_t seed) {
  Random random(seed);
  std::vector<float> x(static_cast<size_t>(rows * k));
  for (float& v : x) v = random.normal();
  return x;
}

inline TensorView view(DType type, const Bytes& bytes, int64_t n, int64_t k) {
  return {bytes.data(), type, {{k, n, 1, 1}, 2}};
}

// A matrix as a table wants it, packed where it packs.
class Weights {
 public:
  Weights(const KernelTable& table, DType type, const Bytes& stored, int64_t n, int64_t k)
      : packed_(table.packed_bytes(type, n, k)), stored_(stored.data()) {
    if (packed_.size() > 0) table.pack(view(type, stored, n, k), 0, n, packed_.data());
  }
  const std::byte* data() const { return packed_.size() > 0 ? packed_.data() : stored_; }

 private:
  Bytes packed_;
  const std::byte* stored_;
};

struct Problem {
  DType type;
  int64_t n, k, rows;
};

// Quantizes (where the type wants it) and multiplies; columns outside [n0, n1) stay at the poison value.
inline constexpr float kPoison = -12345.5f;
inline std::vector<float> multiply(const KernelTable& table, const Problem& p, const std::byte* weights,
                                   const std::vector<float>& x, int64_t n0 = 0, int64_t n1 = -1) {
  const bool integer = table.integer_path(p.type);
  Bytes activations(integer ? table.activation_bytes(p.rows, p.k) : 0);
  if (integer) {
    std::memset(activations.data(), 0x5a, static_cast<size_t>(activations.size()));  // nothing but what is made is read
    table.quantize_rows(x.data(), p.rows, p.k, 0, p.rows, type_bit(p.type), activations.data());
  }
  std::vector<float> y(static_cast<size_t>(p.rows * p.n), kPoison);
  MatmulArgs args{};
  args.type = p.type;
  args.n = p.n;
  args.k = p.k;
  args.weights = weights;
  args.x = x.data();
  args.activations = activations.data();
  args.rows = p.rows;
  args.n0 = n0;
  args.n1 = n1 < 0 ? p.n : n1;
  args.y = y.data();
  args.y_stride = p.n;
  table.matmul(args);
  return y;
}

// For every element of a product what `sum` makes of its terms w[i] * x[i], which it is given in order.
template <class Sum>
std::vector<double> of_terms(const Problem& p, const Bytes& stored, const std::vector<float>& x, const Sum& sum) {
  std::vector<double> out(static_cast<size_t>(p.rows * p.n)), terms(static_cast<size_t>(p.k));
  std::vector<float> w(static_cast<size_t>(p.k));
  for (int64_t c = 0; c < p.n; ++c) {
    dequantize_row(p.type, stored.data() + c * row_bytes(p.type, p.k), w.data(), p.k);
    for (int64_t r = 0; r < p.rows; ++r) {
      for (size_t i = 0; i < terms.size(); ++i) terms[i] = double{w[i]} * x[static_cast<size_t>(r * p.k) + i];
      out[static_cast<size_t>(r * p.n + c)] = sum(std::span<const double>(terms));
    }
  }
  return out;
}

inline double sum_of_magnitudes(std::span<const double> terms) {
  double sum = 0;
  for (const double term : terms) sum += std::fabs(term);
  return sum;
}

// sum_k |w| |x| for every element: the scale that rounding errors of a product are measured on.
inline std::vector<double> magnitudes(const Problem& p, const Bytes& stored, const std::vector<float>& x) {
  return of_terms(p, stored, x, sum_of_magnitudes);
}

inline std::string name_of(const KernelTable& table, const Problem& p) {
  return fmt::format("{} {} n={} k={} rows={}", table.isa, traits(p.type).name, p.n, p.k, p.rows);
}

inline std::vector<DType> all_types() {
  std::vector<DType> types;
  for (int i = 0; i < kDTypeCount; ++i) types.push_back(static_cast<DType>(i));
  return types;
}

}  // namespace llada::kernels::testing
