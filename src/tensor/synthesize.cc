#include "tensor/synthesize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/random.h"
#include "tensor/half.h"

namespace llada {
namespace {

// Standard deviation of a uniform choice among n consecutive integers.
double deviation(int n) { return std::sqrt((n * static_cast<double>(n) - 1) / 12); }

// The random words of one group.
class Words {
 public:
  Words(uint64_t key, int64_t group) : state_(mix64(key + static_cast<uint64_t>(group) * kRandomStep)) {}
  uint64_t next() { return mix64(state_ += kRandomStep); }
  void fill(void* data, size_t bytes) {
    auto* out = static_cast<std::byte*>(data);
    for (; bytes >= 8; bytes -= 8, out += 8) {
      const uint64_t word = next();
      std::memcpy(out, &word, 8);
    }
    const uint64_t word = bytes > 0 ? next() : 0;
    std::memcpy(out, &word, bytes);
  }

 private:
  uint64_t state_;
};

// F16 scales from 0.75 to 1.25 of `middle`, positive and then negative: looked up, for rounding to F16 in
// portable code costs more than the rest of a group.
class Scales {
 public:
  explicit Scales(double middle) {
    for (size_t i = 0; i < kCount; ++i) {
      const double d = middle * (0.75 + 0.5 * static_cast<double>(i) / kCount);
      bits_[i] = float_to_f16(static_cast<float>(d));
      bits_[i + kCount] = float_to_f16(static_cast<float>(-d));
    }
  }
  // Half of the scales are negative, which makes the mean of an asymmetric integer range 0.
  uint16_t any(uint64_t word) const { return bits_[word % (2 * kCount)]; }
  uint16_t positive(uint64_t word) const { return bits_[word % kCount]; }

 private:
  static constexpr size_t kCount = 256;
  std::array<uint16_t, 2 * kCount> bits_{};
};

template <class Group, class Make>
void make_groups(uint64_t key, int64_t first, int64_t last, std::byte* dst, Make make) {
  for (int64_t i = first; i < last; ++i, dst += sizeof(Group)) {
    Words words(key, i);
    Group group;
    make(words, group);
    std::memcpy(dst, &group, sizeof group);
  }
}

// Uniform in +-spread * sqrt(3), four elements to a random word.
template <class T, class Round>
void make_floats(uint64_t key, double spread, int64_t first, int64_t last, std::byte* dst, Round round) {
  const auto step = static_cast<float>(spread * std::sqrt(3.0) / 32768);
  for (int64_t i = first; i < last; i += kSynthesisUnit) {
    const uint64_t word = Words(key, i / kSynthesisUnit).next();
    for (int64_t j = 0; j < std::min(kSynthesisUnit, last - i); ++j, dst += sizeof(T)) {
      const T value = round((static_cast<float>(static_cast<int16_t>(word >> (16 * j))) + 0.5f) * step);
      std::memcpy(dst, &value, sizeof value);
    }
  }
}

// Sub-group scales of Q4_K and Q5_K in 32..63, each equal to its min: with dmin = d * (the middle of the
// integers) every sub-group has mean 0. For the packing see GroupQ4_K in quantize.cc.
void equal_scales_and_mins(uint64_t word, uint8_t (&packed)[12]) {
  for (int j = 0; j < 4; ++j) {
    const auto low = static_cast<uint8_t>(32 + (word >> (8 * j)) % 32);
    const auto high = static_cast<uint8_t>(32 + (word >> (8 * j + 32)) % 32);
    packed[j] = packed[j + 4] = static_cast<uint8_t>(low | (high >> 4) << 6);
    packed[j + 8] = static_cast<uint8_t>((high & 15) * 17);
  }
}
constexpr double kMeanSubScale = 47.5;

}  // namespace

void synthesize_groups(DType type, uint64_t key, double spread, int64_t first, int64_t last, std::byte* dst) {
  LLADA_CHECK(first % kSynthesisUnit == 0 && first <= last);
  switch (type) {
    case DType::F32:
      make_floats<float>(key, spread, first, last, dst, [](float x) { return x; });
      break;
    case DType::F16:
      make_floats<uint16_t>(key, spread, first, last, dst, float_to_f16);
      break;
    case DType::BF16:
      make_floats<uint16_t>(key, spread, first, last, dst, float_to_bf16);
      break;
    case DType::Q8_0: {
      const Scales d(spread / deviation(255));
      make_groups<GroupQ8_0>(key, first, last, dst, [&](Words& words, GroupQ8_0& g) {
        g.d = d.any(words.next());
        words.fill(g.q, sizeof g.q);
        for (int8_t& q : g.q) q = std::max<int8_t>(q, -127);  // quantizers never write -128
      });
      break;
    }
    case DType::Q4_0: {
      const Scales d(spread / deviation(16));
      make_groups<GroupQ4_0>(key, first, last, dst, [&](Words& words, GroupQ4_0& g) {
        g.d = d.any(words.next());
        words.fill(g.q, sizeof g.q);
      });
      break;
    }
    case DType::Q5_0: {
      const Scales d(spread / deviation(32));
      make_groups<GroupQ5_0>(key, first, last, dst, [&](Words& words, GroupQ5_0& g) {
        g.d = d.any(words.next());
        words.fill(g.high, sizeof g.high);
        words.fill(g.q, sizeof g.q);
      });
      break;
    }
    case DType::Q4_1: {
      const double middle = spread / deviation(16);
      const Scales d(middle), m(-7.5 * middle);
      make_groups<GroupQ4_1>(key, first, last, dst, [&](Words& words, GroupQ4_1& g) {
        const uint64_t word = words.next();
        g.d = d.positive(word), g.m = m.positive(word);
        words.fill(g.q, sizeof g.q);
      });
      break;
    }
    case DType::Q5_1: {
      const double middle = spread / deviation(32);
      const Scales d(middle), m(-15.5 * middle);
      make_groups<GroupQ5_1>(key, first, last, dst, [&](Words& words, GroupQ5_1& g) {
        const uint64_t word = words.next();
        g.d = d.positive(word), g.m = m.positive(word);
        words.fill(g.high, sizeof g.high);
        words.fill(g.q, sizeof g.q);
      });
      break;
    }
    case DType::Q4_K: {
      const double middle = spread / deviation(16) / kMeanSubScale;
      const Scales d(middle), m(7.5 * middle);
      make_groups<GroupQ4_K>(key, first, last, dst, [&](Words& words, GroupQ4_K& g) {
        const uint64_t word = words.next();
        g.d = d.positive(word), g.dmin = m.positive(word);
        equal_scales_and_mins(words.next(), g.scales);
        words.fill(g.q, sizeof g.q);
      });
      break;
    }
    case DType::Q5_K: {
      const double middle = spread / deviation(32) / kMeanSubScale;
      const Scales d(middle), m(15.5 * middle);
      make_groups<GroupQ5_K>(key, first, last, dst, [&](Words& words, GroupQ5_K& g) {
        const uint64_t word = words.next();
        g.d = d.positive(word), g.dmin = m.positive(word);
        equal_scales_and_mins(words.next(), g.scales);
        words.fill(g.high, sizeof g.high);
        words.fill(g.q, sizeof g.q);
      });
      break;
    }
    case DType::Q6_K: {
      const Scales d(spread / deviation(64) / kMeanSubScale);
      make_groups<GroupQ6_K>(key, first, last, dst, [&](Words& words, GroupQ6_K& g) {
        words.fill(g.low, sizeof g.low);
        words.fill(g.high, sizeof g.high);
        words.fill(g.scales, sizeof g.scales);
        for (int8_t& s : g.scales) s = static_cast<int8_t>(s < 0 ? -32 - (s & 31) : 32 + (s & 31));
        g.d = d.positive(words.next());
      });
      break;
    }
  }
}

}  // namespace llada
