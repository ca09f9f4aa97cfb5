// Q6_K. The quants are q + 32 in 6 bits, so a sub-group of 16 sums up to at most 16 * 32 * 127, which takes one bit
// more than 16. (Activations use their eight bits everywhere, since each group has a scale, so sums come near that.)
// Sums are rounded to their upper 16 bits (kHalfShift) and then treated like those of the 4-bit types
// (avx512vnni_int16.cc), with sub-groups of 16. That rounding is a thirtieth of what rounding the activations costs.
// The 8-bit scales are multiplied by 32 before a row's ratios make them 13-bit integers: |total| <= 16 * 4096 * 32512 <
// 2^31.
#include "kernels/avx512vnni_tile.h"
#include "kernels/avx512vnni_vector-inl.h"

namespace llada::kernels::avx512vnni {
namespace {

constexpr int64_t kHeader = 64, kChunkBytes = 832, kScales = 768, kPairBytes = 192;
constexpr int kScaleBits = 5;
constexpr float kScaleFactor = 1 << kScaleBits;

// add_fours() and add_pairs() for clang (avx512vnni_vector-inl.h). GCC 12 makes a faster loop from the
// intrinsics.
inline __attribute__((always_inline)) void add_products(__m512i& sum, __m512i a, __m512i b) {
#ifdef __clang__
  add_fours(sum, a, b);
#else
  sum = _mm512_dpbusd_epi32(sum, a, b);
#endif
}
inline __attribute__((always_inline)) void add_scaled_pair(__m512i& sum, __m512i pair, __m512i scale) {
#ifdef __clang__
  add_pairs(sum, pair, scale);
#else
  sum = _mm512_dpwssd_epi32(sum, pair, scale);
#endif
}

// Two steps of a chunk from their 192 bytes. follow(row) is called one row behind, so that what follows the products is
// spread over them.
template <int R, class Follow>
inline __attribute__((always_inline)) void step_pair(const uint8_t* w, const uint8_t* a, __m512i (&x)[R],
                                                     __m512i (&y)[R], Follow follow) {
  constexpr int kChoose = 0xca;  // bits of b where a is set, of c elsewhere
  const __m512i six = _mm512_set1_epi8(63);
  const __m512i first = _mm512_load_si512(w), second = _mm512_load_si512(w + 64), third = _mm512_load_si512(w + 128);
  const __m512i low = _mm512_ternarylogic_epi32(_mm512_set1_epi8(3), _mm512_srli_epi32(first, 6),
                                                _mm512_srli_epi32(second, 4), kChoose);
  const __m512i fourth = _mm512_ternarylogic_epi32(_mm512_set1_epi8(15), low, _mm512_srli_epi32(third, 2), kChoose);
  const __m512i wx = _mm512_and_si512(first, six), wy = _mm512_and_si512(second, six);
  const __m512i next_wx = _mm512_and_si512(third, six), next_wy = _mm512_and_si512(fourth, six);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const __m512i act = broadcast64(a + 8 * r), next_act = broadcast64(a + 8 * R + 8 * r);
    add_products(x[r], wx, act);
    add_products(y[r], wy, act);
    add_products(x[r], next_wx, next_act);
    add_products(y[r], next_wy, next_act);
    if (r > 0) follow(r - 1);
  }
  follow(R - 1);
}

template <int R>
void q6_k(const Tile& t) {
  const uint8_t* w = t.weights;
  const uint8_t* next = t.next;
  const uint8_t* a = t.main;
  const int16_t* ratios = t.ratios;
  const int32_t* halves = t.halves;
  const float* values = t.block_values;
  for (int64_t left = t.chunks; left > 0; left -= kBlockChunks, values += ActivationLayout::kBlockValues * R) {
    prefetch<R>(next + kBlockChunks * kChunkBytes);
    const __m512 d =
        _mm512_mul_ps(_mm512_load_ps(w), _mm512_set1_ps(static_cast<float>(1 << kHalfShift) / kScaleFactor));
    w += kHeader;
    __m512i total[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) total[r] = _mm512_setzero_si512();
    for (int c = 0; c < kBlockChunks;
         ++c, w += kChunkBytes, next += t.step, a += ActivationLayout::kMain * R, ratios += 2 * R) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half, halves += 2 * R) {
        __m512i x[R], y[R];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) x[r] = y[r] = broadcast64(halves + 2 * r);
#pragma GCC unroll 4
        for (int line = 0; line < 4; ++line) prefetch<R>(next + 64 * (4 * half + line));
        step_pair<R>(w + 2 * kPairBytes * half, a + 32 * R * half, x, y, [](int) {});
        step_pair<R>(
            w + 2 * kPairBytes * half + kPairBytes, a + 32 * R * half + 16 * R, x,
            y, [&](int r) __attribute__((always_inline)) {
              const __m512i bytes = _mm512_cvtepi8_epi16(load256(w + kScales + 32 * half));
              const __m512i scale = _mm512_slli_epi16(bytes, kScaleBits);
              const __m512i sums =
                  _mm512_packs_epi32(_mm512_srai_epi32(x[r], kHalfShift), _mm512_srai_epi32(y[r], kHalfShift));
              add_scaled_pair(total[r], sums, scaled_by(scale, ratios + 2 * r));
            });
      }
      prefetch<R>(next + 512);
      if (t.step > kPrefetched) {
#pragma GCC unroll 4
        for (int line = 0; line < 4; ++line) prefetch<R>(next + kPrefetched + 64 * line);
      }
    }
    next += t.skip;
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) add_scaled(t.sums + 16 * r, total[r], d, values[r]);
  }
}

constexpr TileKernel kQ6_K[] = {q6_k<1>, q6_k<2>, q6_k<3>, q6_k<4>, q6_k<5>, q6_k<6>, q6_k<7>, q6_k<8>};

}  // namespace

TileKernel q6_k_kernel(int64_t rows) { return kQ6_K[rows - 1]; }

}  // namespace llada::kernels::avx512vnni
