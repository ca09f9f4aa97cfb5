// Stored weights as the tensor cores take them: integers, exact as halves, and what they are to be multiplied with
// afterwards. A chunk is 256 inputs of one output in shared memory; of a group of 32 of them lane t of four reads the
// inputs 4t to 4t + 3 and 16 + 4t to 16 + 4t + 3. Layouts: tensor/dtype.h; scalar definition: tensor/quantize.cc.
#pragma once
#include "devices/cuda/formats.cuh"

namespace llada::cuda {

constexpr int kChunkInputs = 256, kGroupInputs = 32;

// weight = scale[i / 4] * half i - minimum.
struct Eight {
  uint32_t halves[4];  // two each, in the order of the inputs
  float scale[2];
  float minimum;
};

// Two neighbouring halves of 1024 + byte, from the low or the high bytes of four.
template <bool High>
LLADA_DEVICE uint32_t biased_halves(uint32_t bytes) {
  return pick_bytes(bytes, 0x64646464u, High ? 0x4342u : 0x4140u);
}
// Eight halves of byte - Offset.
template <int Offset>
LLADA_DEVICE Eight eight(uint32_t first, uint32_t second, float scale, float second_scale, float minimum = 0) {
  constexpr uint32_t kBias = 0x6400u + Offset, kBoth = kBias | kBias << 16;  // the half 1024 + Offset
  return {{halves_minus(biased_halves<false>(first), kBoth), halves_minus(biased_halves<true>(first), kBoth),
           halves_minus(biased_halves<false>(second), kBoth), halves_minus(biased_halves<true>(second), kBoth)},
          {scale, second_scale},
          minimum};
}

// kStride: bytes between chunks in shared memory: a chunk that begins anywhere in 16 bytes, and eight of them one below
// the other in different banks. kScaleInputs: that share a scale. left: inputs from the chunk's first to the row's end.

// A format of groups of 32 inputs with their scale in front: `Stored` says how lane t's eight lie behind it, as bytes
// that are Stored::kOffset too large.
template <class Stored>
struct TensorGroups {
  using Format = typename Stored::Format;
  static constexpr int kChunkBytes = kChunkInputs / kGroupInputs * Stored::kGroupBytes, kStride = kChunkBytes + 32,
                       kScaleInputs = kGroupInputs;
  static constexpr bool kMinimum = false;
  LLADA_DEVICE static Eight load(const uint8_t* chunk, int group, int t, int) {
    const uint8_t* at = chunk + group * Stored::kGroupBytes;
    uint32_t first = 0, second = 0;
    Stored::read(at + 2 + 4 * t, first, second);
    const float d = half_at(at);
    return eight<Stored::kOffset>(first, second, d, d);
  }
};
struct StoredQ4_0 {
  using Format = FormatQ4_0;
  static constexpr int kGroupBytes = 18, kOffset = 8;
  LLADA_DEVICE static void read(const uint8_t* four, uint32_t& first, uint32_t& second) {
    const uint32_t q = two_halves(four);
    first = q & 0x0f0f0f0fu, second = q >> 4 & 0x0f0f0f0fu;
  }
};
struct StoredQ8_0 {
  using Format = FormatQ8_0;
  static constexpr int kGroupBytes = 34, kOffset = 128;
  LLADA_DEVICE static void read(const uint8_t* four, uint32_t& first, uint32_t& second) {
    first = two_halves(four) ^ 0x80808080u, second = two_halves(four + 16) ^ 0x80808080u;
  }
};
using TensorQ4_0 = TensorGroups<StoredQ4_0>;
using TensorQ8_0 = TensorGroups<StoredQ8_0>;

struct TensorQ4_K {
  using Format = FormatQ4_K;
  static constexpr int kChunkBytes = 144, kStride = 176, kScaleInputs = 32;
  static constexpr bool kMinimum = true;
  LLADA_DEVICE static Eight load(const uint8_t* chunk, int group, int t, int) {
    const uint8_t* packed = chunk + 4;
    const int low = group < 4 ? packed[group] & 63 : (packed[group + 4] & 15) | packed[group - 4] >> 6 << 4;
    const int min = group < 4 ? packed[group + 4] & 63 : packed[group + 4] >> 4 | packed[group] >> 6 << 4;
    const float d = half_at(chunk) * static_cast<float>(low), m = half_at(chunk + 2) * static_cast<float>(min);
    const uint8_t* q = chunk + 16 + group / 2 * 32 + 4 * t;
    const int shift = group % 2 * 4;
    return eight<0>(two_halves(q) >> shift & 0x0f0f0f0fu, two_halves(q + 16) >> shift & 0x0f0f0f0fu, d, d, m);
  }
};

struct TensorQ6_K {
  using Format = FormatQ6_K;
  static constexpr int kChunkBytes = 210, kStride = 240, kScaleInputs = 16;
  static constexpr bool kMinimum = false;
  LLADA_DEVICE static Eight load(const uint8_t* chunk, int group, int t, int) {
    const int half = group / 4, quarter = group % 4;
    const uint8_t* low = chunk + half * 64 + quarter % 2 * 32 + 4 * t;
    const uint8_t* high = chunk + 128 + half * 32 + 4 * t;
    const auto six = [&](int from) {
      return (two_halves(low + from) >> (quarter < 2 ? 0 : 4) & 0x0f0f0f0fu) |
             (two_halves(high + from) >> 2 * quarter & 0x03030303u) << 4;
    };
    const float d = half_at(chunk + 208);
    const uint8_t* scale = chunk + 192 + half * 8 + quarter * 2;
    return eight<32>(six(0), six(16), d * static_cast<float>(static_cast<int8_t>(scale[0])),
                     d * static_cast<float>(static_cast<int8_t>(scale[1])));
  }
};

struct TensorF16 {
  using Format = FormatF16;
  static constexpr int kChunkBytes = 512, kStride = 528, kScaleInputs = 32;
  static constexpr bool kMinimum = false;
  LLADA_DEVICE static Eight load(const uint8_t* chunk, int group, int t, int left) {
    Eight e{{0, 0, 0, 0}, {1, 1}, 0};
    const int first = group * 32 + 4 * t, second = first + 16;
    if (first < left) e.halves[0] = two_halves(chunk + 2 * first), e.halves[1] = two_halves(chunk + 2 * first + 4);
    if (second < left) e.halves[2] = two_halves(chunk + 2 * second), e.halves[3] = two_halves(chunk + 2 * second + 4);
    return e;
  }
};

// Calls visit with the format of `type`; false where there is none.
template <class Visit>
bool with_tensor_format(DType type, Visit visit) {
  switch (type) {
    case DType::F16:
      return visit(TensorF16{}), true;
    case DType::Q8_0:
      return visit(TensorQ8_0{}), true;
    case DType::Q4_0:
      return visit(TensorQ4_0{}), true;
    case DType::Q4_K:
      return visit(TensorQ4_K{}), true;
    case DType::Q6_K:
      return visit(TensorQ6_K{}), true;
    default:
      return false;
  }
}

}  // namespace llada::cuda
