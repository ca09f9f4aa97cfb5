// Attention over digests with vectors of 8 floats: the names that digest-inl.h asks for, as AVX2 and AVX-VNNI share
// them. The including file first defines `step`, and the constants beside it.
#pragma once
#include "kernels/avx2_vector-inl.h"
#include "kernels/kernels.h"

namespace llada::kernels::LLADA_VECTOR_NAMESPACE {
namespace {

inline constexpr bool kPairs = false, kValuesByWord = false, kSkipsHalf = false;

inline Ints load(const int32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const Ints*>(p)); }
inline Vec to_float(Ints x) { return _mm256_cvtepi32_ps(x); }
inline Vec power(Vec x) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x), 23)); }

template <int h>
inline Vec swap_lanes(Vec x) {
  if constexpr (h == 1) return _mm256_permute_ps(x, 0xb1);
  if constexpr (h == 2) return _mm256_permute_ps(x, 0x4e);
  return _mm256_permute2f128_ps(x, x, 1);
}

// Adding 1.5 * 2^23 leaves a rounded number in the low bits.
inline Ints bytes(Vec a, Vec b, Vec c, Vec d, Vec sa, Vec sb, Vec sc, Vec sd) {
  const Vec magic = fill(12582912.0f);
  const Ints low = fill_int(0xff);
  const auto pair = [&](Vec x, Vec sx, Vec y, Vec sy) {
    return _mm256_or_si256(_mm256_and_si256(_mm256_castps_si256(fma(x, sx, magic)), low),
                           _mm256_slli_epi32(_mm256_castps_si256(fma(y, sy, magic)), 8));
  };
  return _mm256_blend_epi16(pair(a, sa, b, sb), _mm256_slli_epi32(pair(c, sc, d, sd), 16), 0xaa);
}

// Values are signed here.
inline Ints add_bytes(Ints sum, Ints) { return sum; }
inline Ints times_minus_128(Ints x) { return x; }

inline void store_weights(int32_t* at, int t, Ints w0, Ints w1) {
  store(at + 8 * t, w0);
  store(at + 16 + 8 * t, w1);
}

// Four columns of 16 rows: eight sums.
template <bool kMix, class Put>
inline __attribute__((always_inline)) void products(const int32_t* rows, const int32_t* columns, int64_t count,
                                                    int words, int, const Ints (&start)[2], const Put& put) {
  for (int64_t c = 0; c < count; c += 4) {
    Ints x[4], y[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) x[j] = start[0], y[j] = start[1];
    const int32_t *row = rows, *column = columns + c * words;
#pragma GCC unroll 8
    for (int i = 0; i < words; ++i, row += 16, ++column) {  // unrolled: GCC 12 copies every sum once a turn
      const Ints a0 = load(row), a1 = load(row + 8);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const Ints b = fill_int(column[j * words]);
        x[j] = step<kMix>(x[j], a0, b);
        y[j] = step<kMix>(y[j], a1, b);
      }
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      put(c + j, 0, x[j]);
      put(c + j, 1, y[j]);
    }
  }
}

}  // namespace
}  // namespace llada::kernels::LLADA_VECTOR_NAMESPACE

#include "kernels/digest-inl.h"
