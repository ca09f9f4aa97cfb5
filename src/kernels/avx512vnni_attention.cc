// Attention over digests with vectors of 16 floats and vpdpbusd: keys are unsigned, 128 more than they mean.
#include "kernels/avx512vnni.h"

#define LLADA_VECTOR_NAMESPACE avx512vnni::digests
#include "kernels/avx512vnni_lanes-inl.h"
#include "kernels/avx512vnni_vector-inl.h"

#define LLADA_OWN_MATH
namespace llada::kernels::avx512vnni::digests {
namespace {

inline constexpr bool kPairs = false, kValuesByWord = true, kSkipsHalf = true;
inline constexpr float kMostWeight = 255;
inline constexpr int32_t kKeyFlip = static_cast<int32_t>(0x80808080), kValueFlip = 0;

inline Ints load(const int32_t* p) { return _mm512_loadu_si512(p); }
inline Vec to_float(Ints x) { return _mm512_cvtepi32_ps(x); }

template <int h>
inline Vec swap_lanes(Vec x) {
  if constexpr (h == 1) return _mm512_permute_ps(x, 0xb1);
  if constexpr (h == 2) return _mm512_permute_ps(x, 0x4e);
  if constexpr (h == 4) return _mm512_shuffle_f32x4(x, x, 0xb1);
  return _mm512_shuffle_f32x4(x, x, 0x4e);
}

// 2^x within 3.5e-6 relative; 0 for large negative x.
inline Vec exp2(Vec x) {
  const Vec n = round(x), f = sub(x, n);
  Vec p = fma(fill(0.009666368515f), f, fill(0.055921975842f));
  p = fma(p, f, fill(0.240223490380f));
  p = fma(p, f, fill(0.693121045203f));
  p = fma(p, f, fill(1.0f));
  return scale_by_power(p, n);
}

// log2 of x / 127, 0.6 to 2.2 % above the exact one: a parabola over the mantissa.
inline float log_of(float x) {
  const Vec all = fill(x), m = _mm512_getmant_ps(all, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
  const Vec log = fma(fma(fill(-0.3333333f), m, fill(2.0f)), m, fill(-1.6506667f - 6.9886847f));
  return _mm512_cvtss_f32(add(log, _mm512_getexp_ps(all)));
}

inline float largest_lane(Vec x) { return _mm512_reduce_max_ps(x); }
inline float sum_of_lanes(Vec x) { return _mm512_reduce_add_ps(x); }

template <int Words>
inline int32_t sum_of_bytes(const int32_t (&words)[Words]) {
  Ints sum = fill_int(0);
  for (int i = 0; i < Words; i += kLanes) add_fours(sum, fill_int(0x01010101), load(words + i));
  return _mm512_reduce_add_epi32(sum);
}

// Adding 1.5 * 2^23 leaves a rounded number in the low bits. The odd ones are computed 256 times as large, in place,
// and half a unit more for the cut; all stay far below 2^22.
inline Ints bytes(Vec a, Vec b, Vec c, Vec d, Vec sa, Vec sb, Vec sc, Vec sd) {
  const Vec even = fill(12582912.0f), odd = fill(12582912.0f + 128), up = fill(256);
  const auto merged = [](int32_t mask, Ints yes, Ints no) {  // bits of yes where mask is set
    return _mm512_ternarylogic_epi32(fill_int(mask), yes, no, 0xca);
  };
  const Ints ab = merged(0xff, _mm512_castps_si512(fma(a, sa, even)), _mm512_castps_si512(fma(b, mul(sb, up), odd)));
  const Ints cd = merged(0xff, _mm512_castps_si512(fma(c, sc, even)), _mm512_castps_si512(fma(d, mul(sd, up), odd)));
  return merged(0xffff, ab, _mm512_slli_epi32(cd, 16));
}

// Values are signed here.
inline Ints add_bytes(Ints sum, Ints) { return sum; }
inline Ints times_minus_128(Ints x) { return x; }

inline void store_weights(int32_t* at, int t, Ints w0, Ints w1) {
  store(at + 16 * t, w0);
  store(at + 32 + 16 * t, w1);
}

// Sixteen sums: of both halves with eight columns, or of the first with sixteen.
template <bool kMix, int Halves, class Put>
inline __attribute__((always_inline)) void products_of(const int32_t* rows, const int32_t* columns, int64_t count,
                                                       int words, const Ints (&start)[2], const Put& put) {
  const int64_t next_column = kMix ? 1 : words, next_word = kMix ? count : 1;
  for (int64_t c = 0; c < count; c += 16 / Halves) {
    Ints x[8], y[8];
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) x[j] = start[0], y[j] = start[Halves - 1];
    const int32_t *row = rows, *column = columns + c * next_column;
    for (int i = 0; i < words; ++i, row += 32, column += next_word) {
      const Ints a0 = load(row), a1 = Halves == 2 ? load(row + 16) : a0;
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) {
        const Ints b0 = fill_int(column[j * next_column]);
        const Ints b1 = Halves == 2 ? b0 : fill_int(column[(j + 8) * next_column]);
        add_fours(x[j], kMix ? a0 : b0, kMix ? b0 : a0);
        add_fours(y[j], kMix ? a1 : b1, kMix ? b1 : a1);
      }
    }
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      put(c + j, 0, x[j]);
      put(Halves == 2 ? c + j : c + j + 8, Halves - 1, y[j]);
    }
  }
}

template <bool kMix, class Put>
inline __attribute__((always_inline)) void products(const int32_t* rows, const int32_t* columns, int64_t count,
                                                    int words, int halves, const Ints (&start)[2], const Put& put) {
  if (halves == 2)
    products_of<kMix, 2>(rows, columns, count, words, start, put);
  else
    products_of<kMix, 1>(rows, columns, count, words, start, put);
}

}  // namespace
}  // namespace llada::kernels::avx512vnni::digests

#include "kernels/digest-inl.h"

namespace llada::kernels::avx512vnni {

void use_digests(KernelTable& table) { digests::set_digest_kernels<float_attention>(table); }

}  // namespace llada::kernels::avx512vnni
