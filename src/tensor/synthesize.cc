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

// How groups of the other types are made: random bytes, of which some bits are set so that sub-scales are all large,
// and an F16 scale of either sign. deviation: of the values where that scale is one.
struct RandomGroup {
  DType type;
  int scale_at;
  double deviation;
  int set_at, set_end, set_step;  // bytes of `bits`
  int bits;
};
constexpr RandomGroup kRandomGroups[] = {
    {DType::Q3_K, 108, 57.29, 0, 0, 1, 0},        {DType::IQ4_NL, 0, 67.42, 0, 0, 1, 0},
    {DType::IQ4_XS, 0, 1649.0, 0, 0, 1, 0},       {DType::IQ2_XXS, 0, 70.63, 9, 66, 8, 0x80},
    {DType::IQ2_XS, 0, 73.92, 66, 74, 1, 0x88},   {DType::IQ2_S, 0, 74.60, 74, 82, 1, 0x88},
    {DType::IQ3_XXS, 0, 188.25, 69, 98, 4, 0x80}, {DType::IQ3_S, 0, 185.69, 106, 110, 1, 0x88},
    {DType::IQ1_S, 0, 9.525, 35, 50, 2, 0x40},    {DType::TQ1_0, 52, 0.8176, 0, 0, 1, 0},
    {DType::TQ2_0, 64, 1.2247, 0, 0, 1, 0},       {DType::IQ1_M, -1, 9.536, 0, 0, 1, 0},
};

// Both bits of each pair alike: the upper bits of signed 6-bit numbers, which so are far from zero.
void twin_bits(uint8_t* p, int count) {
  for (int i = 0; i < count; ++i) p[i] = static_cast<uint8_t>((p[i] & 0x55) * 3);
}

void make_random_groups(const RandomGroup& of, uint64_t key, double spread, int64_t first, int64_t last,
                        std::byte* dst) {
  const Scales d(spread / of.deviation);
  const int bytes = traits(of.type).bytes;
  for (int64_t g = first; g < last; ++g, dst += bytes) {
    Words words(key, g);
    const uint16_t scale = d.any(words.next());
    auto* p = reinterpret_cast<uint8_t*>(dst);
    words.fill(p, static_cast<size_t>(bytes));
    for (int at = of.set_at; at < of.set_end; at += of.set_step) p[at] = static_cast<uint8_t>(p[at] | of.bits);
    if (of.type == DType::Q3_K) twin_bits(p + 104, 4);
    if (of.type == DType::IQ4_XS) twin_bits(p + 2, 2);
    if (of.scale_at >= 0) std::memcpy(p + of.scale_at, &scale, 2);
    for (int i = 0; of.scale_at < 0 && i < 4;
         ++i) {  // IQ1_M: a nibble of the scale above four sub-scales of three bits
      uint16_t word;
      std::memcpy(&word, p + 48 + 2 * i, 2);
      word = static_cast<uint16_t>((word & 0x0fff) | 0x0924 | (scale >> 4 * i & 15) << 12);
      std::memcpy(p + 48 + 2 * i, &word, 2);
    }
  }
}

// The types of four-bit floats with a scale that is a small float: the two scales (places in `scales`, ascending) next
// to the one wanted, mixed such that the spread is met.
template <size_t Bytes, size_t ScaleBytes>
void make_small_floats(uint64_t key, double wanted, double (*scale_of)(int), int64_t first, int64_t last,
                       std::byte* dst) {
  int below = 0;
  while (below < 125 && scale_of(below + 1) <= wanted) ++below;
  const double low = scale_of(below), high = scale_of(below + 1);
  const double share = (wanted * wanted - low * low) / (high * high - low * low);
  for (int64_t g = first; g < last; ++g, dst += Bytes) {
    Words words(key, g);
    auto* p = reinterpret_cast<uint8_t*>(dst);
    words.fill(p, Bytes);
    for (size_t i = 0; i < ScaleBytes; ++i)
      p[i] = static_cast<uint8_t>(below + (static_cast<double>(words.next() >> 11) * 0x1p-53 < share ? 1 : 0));
  }
}
constexpr double kFloat4Deviation = 5.852;  // of E2M1's values, doubled

template <class Group>
void fill_quants(Words& words, Group& g) {
  if constexpr (requires { g.high; }) words.fill(g.high, sizeof g.high);
  words.fill(g.q, sizeof g.q);
}

// A scale of either sign.
template <class Group>
void make_scaled(int levels, uint64_t key, double spread, int64_t first, int64_t last, std::byte* dst) {
  const Scales d(spread / deviation(levels));
  make_groups<Group>(key, first, last, dst, [&](Words& words, Group& g) {
    g.d = d.any(words.next());
    fill_quants(words, g);
  });
}

// A scale and a minimum that puts zero into the middle.
template <class Group>
void make_with_min(int levels, uint64_t key, double spread, int64_t first, int64_t last, std::byte* dst) {
  const double middle = spread / deviation(levels);
  const Scales d(middle), m(-0.5 * (levels - 1) * middle);
  make_groups<Group>(key, first, last, dst, [&](Words& words, Group& g) {
    const uint64_t word = words.next();
    g.d = d.positive(word), g.m = m.positive(word);
    fill_quants(words, g);
  });
}

// The same with sub-scales, which equal their minima.
template <class Group>
void make_with_sub_scales(int levels, uint64_t key, double spread, int64_t first, int64_t last, std::byte* dst) {
  const double middle = spread / deviation(levels) / kMeanSubScale;
  const Scales d(middle), m(0.5 * (levels - 1) * middle);
  make_groups<Group>(key, first, last, dst, [&](Words& words, Group& g) {
    const uint64_t word = words.next();
    g.d = d.positive(word), g.dmin = m.positive(word);
    equal_scales_and_mins(words.next(), g.scales);
    fill_quants(words, g);
  });
}

}  // namespace

void synthesize_groups(DType type, uint64_t key, double spread, int64_t first, int64_t last, std::byte* dst) {
  LLADA_CHECK(first % kSynthesisUnit == 0 && first <= last);
  for (const RandomGroup& random : kRandomGroups)
    if (random.type == type) return make_random_groups(random, key, spread, first, last, dst);
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
    case DType::Q4_0:
      return make_scaled<GroupQ4_0>(16, key, spread, first, last, dst);
    case DType::Q5_0:
      return make_scaled<GroupQ5_0>(32, key, spread, first, last, dst);
    case DType::Q4_1:
      return make_with_min<GroupQ4_1>(16, key, spread, first, last, dst);
    case DType::Q5_1:
      return make_with_min<GroupQ5_1>(32, key, spread, first, last, dst);
    case DType::Q4_K:
      return make_with_sub_scales<GroupQ4_K>(16, key, spread, first, last, dst);
    case DType::Q5_K:
      return make_with_sub_scales<GroupQ5_K>(32, key, spread, first, last, dst);
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
    case DType::Q2_K: {  // sub-scales equal to their mins, as in Q4_K
      const double middle = spread / 13.112;
      const Scales d(middle), m(1.5 * middle);
      for (int64_t g = first; g < last; ++g, dst += 84) {
        Words words(key, g);
        auto* p = reinterpret_cast<uint8_t*>(dst);
        words.fill(p, 84);
        for (int i = 0; i < 16; ++i) p[i] = static_cast<uint8_t>(((p[i] & 7) | 8) * 17);
        const uint64_t word = words.next();
        const uint16_t both[2] = {d.positive(word), m.positive(word)};
        std::memcpy(p + 80, both, sizeof both);
      }
      break;
    }
    case DType::Q8_M: {
      const double middle = spread / deviation(255);
      make_groups<GroupQ8_M>(key, first, last, dst, [&](Words& words, GroupQ8_M& g) {
        const auto part = static_cast<float>(static_cast<double>(words.next() >> 11) * 0x1p-53);
        g.d = static_cast<float>(middle) * (0.75f + 0.5f * part);
        g.m = g.d * 0.25f;
        words.fill(g.q, sizeof g.q);
        for (int8_t& q : g.q) q = std::max<int8_t>(q, -127);
      });
      break;
    }
    case DType::MXFP4:
      make_small_floats<17, 1>(
          key, spread / kFloat4Deviation, [](int e) { return std::exp2(e - 128.0); }, first, last, dst);
      break;
    case DType::NVFP4:
      make_small_floats<36, 4>(
          key, spread / kFloat4Deviation,
          [](int x) { return x < 8 ? x * 0x1p-10 : (8 + x % 8) * std::exp2(x / 8 - 11.0); }, first, last, dst);
      break;
    default:
      break;
  }
}

}  // namespace llada
