// Stored groups, activations and packed copies in the layouts of x86_int8-inl.h, which includes this.
#pragma once
#include "kernels/avx2.h"
#include "kernels/stored_groups.h"

namespace llada::kernels::LLADA_VECTOR_NAMESPACE {
namespace {

inline constexpr int64_t kTile = 16, kGroup = 32, kBlockGroups = 8;

// One group of a row of activations.
struct ActivationGroup {
  int8_t q[kGroup];
  float scale, weighted;  // weighted: scale * sum(q)
  int16_t starts[3][2];   // -8 times sums of q over k % 4 < 2 and over the others: first half, second half, all
};
static_assert(sizeof(ActivationGroup) == avx2::kActivationGroupBytes);
inline constexpr int kScaleAt = avx2::kActivationScaleAt, kWeightedAt = kScaleAt + 4, kStartsAt = kScaleAt + 8;

// Up to six rows of activations at their present group. The address of any of them is one instruction's, in no
// register: first, first + stride, first + 2 stride, and the same from the fourth.
struct TileRows {
  const uint8_t *first, *fourth;
  int64_t stride;
};

// After the groups: rows x k activations in 16 bits.
inline constexpr int64_t words_at(int64_t rows, int64_t k) {
  return rows * (k / kGroup) * static_cast<int64_t>(sizeof(ActivationGroup));
}
inline constexpr int64_t activation_size(int64_t rows, int64_t k) { return words_at(rows, k) + rows * k * 2; }

inline __m256i load_256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline __m128i load_128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline void store_256(void* p, __m256i x) { _mm256_storeu_si256(static_cast<__m256i*>(p), x); }
inline int load_32(const void* p) {
  int v;
  __builtin_memcpy(&v, p, 4);
  return v;
}
inline __m256i broadcast_32(const void* p) { return _mm256_set1_epi32(load_32(p)); }
inline __m256i join(__m128i low, __m128i high) { return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1); }
inline __m256i bytes_of(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }
inline uint16_t load_16(const void* p) {
  uint16_t v;
  __builtin_memcpy(&v, p, 2);
  return v;
}

inline __m256i nibbles(const void* p) {  // 16 bytes: the low nibbles, then the high ones
  const __m128i bytes = load_128(p);
  return _mm256_and_si256(join(bytes, _mm_srli_epi16(bytes, 4)), bytes_of(15));
}
// The 6-bit scale and min of group j of Q4_K; the last four borrow bits from the first four.
struct ScaleAndMin {
  int scale, min;
};
inline ScaleAndMin scale_and_min(const std::byte* s, int j) {
  const auto* packed = reinterpret_cast<const uint8_t*>(s) + 4;
  if (j < 4) return {packed[j] & 63, packed[j + 4] & 63};
  return {(packed[j + 4] & 15) | (packed[j - 4] >> 6 << 4), packed[j + 4] >> 4 | (packed[j] >> 6 << 4)};
}

// Group g of a stored row: unsigned quants, those of eight bits as stored.
template <DType type>
inline __m256i group_quants(const std::byte* row, int64_t g) {
  const std::byte* s = row + (super_type(type) ? g / 8 : g) * stored_group_bytes(type);
  const int j = static_cast<int>(g % 8);
  if constexpr (type == DType::Q8_0) return load_256(s + 2);
  if constexpr (type == DType::Q8_M) return load_256(s + 8);
  if constexpr (type == DType::Q4_0) return nibbles(s + 2);
  if constexpr (type == DType::Q4_1) return nibbles(s + 4);
  if constexpr (type == DType::Q4_K) {
    const __m256i low = load_256(s + 16 + 32 * (j / 2));
    return _mm256_and_si256(j % 2 == 0 ? low : _mm256_srli_epi16(low, 4), bytes_of(15));
  }
  const __m256i low = load_256(s + 64 * (j / 4) + 32 * (j % 2)), high = load_256(s + 128 + 32 * (j / 4));
  const __m256i four = _mm256_and_si256(j % 4 < 2 ? low : _mm256_srli_epi16(low, 4), bytes_of(15));
  const __m256i two = _mm256_and_si256(_mm256_srl_epi16(high, _mm_cvtsi32_si128(2 * (j % 4))), bytes_of(3));
  return _mm256_or_si256(four, _mm256_slli_epi16(two, 4));
}

// Rows of eight 32-bit words become columns.
inline void transpose(__m256i (&v)[8]) {
  __m256i t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm256_unpackhi_epi32(v[i], v[i + 1]);
  }
  __m256i u[8];
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; ++j) {
      u[i + 2 * j] = _mm256_unpacklo_epi64(t[i + j], t[i + j + 2]);
      u[i + 2 * j + 1] = _mm256_unpackhi_epi64(t[i + j], t[i + j + 2]);
    }
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x20);
    v[i + 4] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x31);
  }
}

struct Source {
  const std::byte* data;
  int64_t stride;          // bytes of a stored row
  int64_t first, columns;  // columns of this tile that exist; the others are zero
};

// Steps of eight columns: v[s] holds step s of all of them.
template <DType type>
inline void load_columns(const Source& s, int64_t g, int first, __m256i (&v)[8]) {
  for (int c = 0; c < 8; ++c)
    v[c] = first + c < s.columns ? group_quants<type>(s.data + (s.first + first + c) * s.stride, g)
                                 : _mm256_setzero_si256();
  transpose(v);
}

constexpr bool packs(DType type) {
  return type == DType::Q4_0 || type == DType::Q4_1 || type == DType::Q8_0 || type == DType::Q8_M ||
         type == DType::Q4_K || type == DType::Q6_K;
}
constexpr bool wide_type(DType type) { return type == DType::Q8_0 || type == DType::Q8_M; }
// Bytes of a group, and of the header before eight of them.
constexpr int64_t packed_group_bytes(DType type) {
  switch (type) {
    case DType::Q8_0:
      return 544;
    case DType::Q8_M:
      return 640;
    case DType::Q6_K:
      return 416;
    case DType::Q4_1:
      return 320;
    default:
      return 288;
  }
}
constexpr int64_t packed_header_bytes(DType type) { return type == DType::Q4_K ? 64 : type == DType::Q6_K ? 32 : 0; }
// Bytes of the first `groups` of a column tile; a multiple of eight where the type has headers.
constexpr int64_t packed_tile_bytes(DType type, int64_t groups) {
  return groups * packed_group_bytes(type) + groups / kBlockGroups * packed_header_bytes(type);
}

inline int64_t packed_size(DType type, int64_t n, int64_t k) {
  return packs(type) ? (n + kTile - 1) / kTile * packed_tile_bytes(type, k / kGroup) : 0;
}

// Two bits of each of four vectors of 6-bit quants into one.
inline __m256i upper_bits(__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i two = bytes_of(0x30);
  const __m256i low =
      _mm256_or_si256(_mm256_srli_epi16(_mm256_and_si256(a, two), 4), _mm256_srli_epi16(_mm256_and_si256(b, two), 2));
  const __m256i high = _mm256_or_si256(_mm256_and_si256(c, two), _mm256_slli_epi16(_mm256_and_si256(d, two), 2));
  return _mm256_or_si256(low, high);
}

// Eight columns' four bytes: first the columns' first two, then their last two.
inline __m256i pairs_apart(__m256i v) {
  const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12, 13,
                                         2, 3, 6, 7, 10, 11, 14, 15);
  return _mm256_permute4x64_epi64(_mm256_shuffle_epi8(v, order), 0xd8);
}

// flip: the mask that quants of eight bits are xored with; words: their steps have two k instead of four.
template <DType type>
inline void pack_type(const TensorView& weight, int64_t n0, int64_t n1, int flip, bool words, std::byte* packed) {
  const int64_t k = weight.shape.dims[0], n = weight.shape.dims[1], groups = k / kGroup;
  for (int64_t c0 = n0; c0 < n1; c0 += kTile) {
    const Source s{weight.data, stored_row_bytes(type, k), c0, n - c0 < kTile ? n - c0 : kTile};
    auto* out = reinterpret_cast<uint8_t*>(packed) + c0 / kTile * packed_tile_bytes(type, groups);
    // The stored group of a column, or null beyond the matrix.
    const auto stored = [&](int64_t c, int64_t g) -> const std::byte* {
      if (c >= s.columns) return nullptr;
      return s.data + (s.first + c) * s.stride + (super_type(type) ? g / 8 : g) * stored_group_bytes(type);
    };
    const auto put_halves = [&](int64_t g, int64_t at) {
      for (int64_t c = 0; c < kTile; ++c, out += 2) {
        const std::byte* group = stored(c, g);
        const uint16_t d = group != nullptr ? load_16(group + at) : uint16_t{0};
        __builtin_memcpy(out, &d, 2);
      }
    };
    for (int64_t g = 0; g < groups; ++g) {
      if (super_type(type) && g % kBlockGroups == 0) {
        put_halves(g, type == DType::Q6_K ? 208 : 0);
        if (type == DType::Q4_K) put_halves(g, 2);
      }
      __m256i x[8], y[8];
      load_columns<type>(s, g, 0, x);
      load_columns<type>(s, g, 8, y);
      for (int step = 0; step < 8; ++step) {
        if (wide_type(type)) {
          const __m256i a = _mm256_xor_si256(x[step], bytes_of(flip)), b = _mm256_xor_si256(y[step], bytes_of(flip));
          store_256(out + 64 * step, words ? _mm256_permute2x128_si256(pairs_apart(a), pairs_apart(b), 0x20) : a);
          store_256(out + 64 * step + 32, words ? _mm256_permute2x128_si256(pairs_apart(a), pairs_apart(b), 0x31) : b);
        } else {
          const __m256i low = _mm256_and_si256(x[step], bytes_of(15));
          store_256(out + 32 * step,
                    _mm256_or_si256(low, _mm256_slli_epi16(_mm256_and_si256(y[step], bytes_of(15)), 4)));
        }
      }
      out += wide_type(type) ? 512 : 256;
      if (type == DType::Q6_K) {
        for (int step = 0; step < 8; step += 2, out += 32)
          store_256(out, upper_bits(x[step], y[step], x[step + 1], y[step + 1]));
        for (int half = 0; half < 2; ++half)
          for (int64_t c = 0; c < kTile; ++c) {
            const std::byte* group = stored(c, g);
            *out++ = group != nullptr ? static_cast<uint8_t>(group[192 + g % 8 * 2 + half]) : uint8_t{0};
          }
      } else if (type == DType::Q4_K) {
        for (int which = 0; which < 2; ++which)
          for (int64_t c = 0; c < kTile; ++c) {
            const std::byte* group = stored(c, g);
            const ScaleAndMin both =
                group != nullptr ? scale_and_min(group, static_cast<int>(g % 8)) : ScaleAndMin{0, 0};
            *out++ = static_cast<uint8_t>(which == 0 ? both.scale : both.min);
          }
      } else if (type == DType::Q8_M) {
        for (int at = 0; at < 8; at += 4)
          for (int64_t c = 0; c < kTile; ++c, out += 4) {
            const std::byte* group = stored(c, g);
            const int bits = group != nullptr ? load_32(group + at) : 0;
            __builtin_memcpy(out, &bits, 4);
          }
      } else {
        put_halves(g, 0);
        if (type == DType::Q4_1) put_halves(g, 2);
      }
    }
  }
}

inline void pack_tiles(const TensorView& weight, int64_t n0, int64_t n1, int flip, bool words, std::byte* packed) {
  if (weight.type == DType::Q4_0) pack_type<DType::Q4_0>(weight, n0, n1, flip, words, packed);
  if (weight.type == DType::Q4_1) pack_type<DType::Q4_1>(weight, n0, n1, flip, words, packed);
  if (weight.type == DType::Q8_0) pack_type<DType::Q8_0>(weight, n0, n1, flip, words, packed);
  if (weight.type == DType::Q8_M) pack_type<DType::Q8_M>(weight, n0, n1, flip, words, packed);
  if (weight.type == DType::Q4_K) pack_type<DType::Q4_K>(weight, n0, n1, flip, words, packed);
  if (weight.type == DType::Q6_K) pack_type<DType::Q6_K>(weight, n0, n1, flip, words, packed);
}

// Magnitudes are compared as integers, whose order is that of floats, and NaN is greater than all: the float maximum
// would lose it.
inline float largest_magnitude(const float* v) {
  const __m256i sign_off = _mm256_set1_epi32(0x7fffffff);
  __m256i m = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i) {
    const __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(v + 8 * i));
    m = _mm256_max_epi32(m, _mm256_and_si256(bits, sign_off));
  }
  __m128i x = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
  x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0x4e));
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_max_epi32(x, _mm_shuffle_epi32(x, 0xb1))));
}

inline __m256i rounded(const float* v, __m256 inverse) {
  return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(v), inverse));
}

inline void quantize_range(const float* x, int64_t k, int64_t r0, int64_t r1, std::byte* activations) {
  auto* groups = reinterpret_cast<ActivationGroup*>(activations);
  for (int64_t at = r0 * (k / kGroup); at < r1 * (k / kGroup); ++at) {
    const float* v = x + at * kGroup;
    const float largest = largest_magnitude(v);
    const bool nothing = !(largest > 0x1p-120f), finite = largest < __builtin_inff();
    const float scale = !finite ? __builtin_nanf("") : nothing ? 0.0f : largest / 127.0f;
    const __m256 inverse = _mm256_set1_ps(nothing ? 0.0f : 127.0f / largest);
    const __m256i low = _mm256_packs_epi32(rounded(v, inverse), rounded(v + 8, inverse));
    const __m256i high = _mm256_packs_epi32(rounded(v + 16, inverse), rounded(v + 24, inverse));
    const __m256i q =
        _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    ActivationGroup& group = groups[at];
    store_256(group.q, q);
    __m256i sums = _mm256_maddubs_epi16(bytes_of(1), q);  // each 128 bits: (even, odd) of four steps
    sums = _mm256_add_epi16(sums, _mm256_shuffle_epi32(sums, 0x4e));
    sums = _mm256_add_epi16(sums, _mm256_shuffle_epi32(sums, 0xb1));
    const __m128i first = _mm256_castsi256_si128(sums), second = _mm256_extracti128_si256(sums, 1);
    const __m128i both = _mm_add_epi16(first, second);
    const auto start = [](__m128i pair) { return _mm_cvtsi128_si32(_mm_mullo_epi16(pair, _mm_set1_epi16(-8))); };
    const int three[3] = {start(first), start(second), start(both)};
    __builtin_memcpy(group.starts, three, sizeof three);
    const int total = _mm_cvtsi128_si32(_mm_madd_epi16(both, _mm_set1_epi16(1)));
    group.scale = scale;
    group.weighted = scale * static_cast<float>(total);
  }
}

// Whose readers read words.
inline constexpr TypeSet kWideTypes = type_bit(DType::Q8_0) | type_bit(DType::Q8_M);

inline void widen_range(int64_t rows, int64_t k, int64_t r0, int64_t r1, std::byte* activations) {
  const auto* groups = reinterpret_cast<const ActivationGroup*>(activations);
  std::byte* out = activations + words_at(rows, k);
  for (int64_t at = r0 * (k / kGroup); at < r1 * (k / kGroup); ++at)
    for (int64_t half = 0; half < 2; ++half)
      store_256(out + at * 64 + half * 32, _mm256_cvtepi8_epi16(load_128(groups[at].q + half * 16)));
}

inline void pick_range(const PickArgs& a) {
  const auto area = [&](int64_t source, int64_t target, int64_t bytes) {
    for (int64_t i = 0; i < a.count; ++i)
      __builtin_memcpy(a.out + target + i * bytes, a.activations + source + a.picked[i] * bytes,
                       static_cast<unsigned long>(bytes));
  };
  area(0, 0, words_at(1, a.k));
  if ((a.readers & kWideTypes) != 0) area(words_at(a.rows, a.k), words_at(a.count, a.k), a.k * 2);
}

}  // namespace
}  // namespace llada::kernels::LLADA_VECTOR_NAMESPACE
