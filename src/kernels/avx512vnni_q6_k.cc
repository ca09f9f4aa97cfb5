// Q6_K. The quants are q + 32 in 6 bits, so a sub-group of 16 sums up to at most 16 * 32 * 127, which takes one bit
// more than 16. (Activations use their eight bits everywhere, since each group has a scale, so sums come near that.)
// Sums are rounded to their upper 16 bits (kHalfShift) and then treated like those of the 4-bit types
// (avx512vnni_int16.cc), with sub-groups of 16. That rounding is a thirtieth of the rounding of the activations. The
// 8-bit scales are multiplied by 32 before a row's ratios make them 13-bit integers: |total| <= 16 * 4096 * 32512 <
// 2^31.
#include "kernels/avx512vnni_tile.h"
#include "kernels/avx512vnni_vector-inl.h"

namespace llada::kernels::avx512vnni {
namespace {

constexpr int64_t kHeader = 64, kChunkBytes = 832, kScales = 768, kPairBytes = 192;
constexpr int64_t kHalfBytes = 576;  // unpacked
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

// X, Y, X, Y of two steps from their 192 bytes.
struct StepPair {
  __m512i x, y, next_x, next_y;
};
inline __attribute__((always_inline)) StepPair unpacked(const uint8_t* w) {
  constexpr int kChoose = 0xca;  // bits of b where a is set, of c elsewhere
  const __m512i six = _mm512_set1_epi8(63);
  const __m512i first = _mm512_load_si512(w), second = _mm512_load_si512(w + 64), third = _mm512_load_si512(w + 128);
  const __m512i low = _mm512_ternarylogic_epi32(_mm512_set1_epi8(3), _mm512_srli_epi32(first, 6),
                                                _mm512_srli_epi32(second, 4), kChoose);
  const __m512i fourth = _mm512_ternarylogic_epi32(_mm512_set1_epi8(15), low, _mm512_srli_epi32(third, 2), kChoose);
  return {_mm512_and_si512(first, six), _mm512_and_si512(second, six), _mm512_and_si512(third, six),
          _mm512_and_si512(fourth, six)};
}

// Scales of half a chunk, times 32.
inline __attribute__((always_inline)) __m512i wide_scales(const uint8_t* bytes) {
  return _mm512_slli_epi16(_mm512_cvtepi8_epi16(load256(bytes)), kScaleBits);
}

// The sums of half a chunk of a row times their scales.
inline __attribute__((always_inline)) void add_half(__m512i& total, __m512i x, __m512i y, __m512i scale,
                                                    const int16_t* ratios) {
  const __m512i sums = _mm512_packs_epi32(_mm512_srai_epi32(x, kHalfShift), _mm512_srai_epi32(y, kHalfShift));
  add_scaled_pair(total, sums, scaled_by(scale, ratios));
}

// The float of a block that its total is multiplied by.
inline __m512 block_scale(const uint8_t* header) {
  return _mm512_mul_ps(_mm512_load_ps(header), _mm512_set1_ps(static_cast<float>(1 << kHalfShift) / kScaleFactor));
}

// Two steps of a chunk. follow(row) is called one row behind, so that the work after the products is spread over them.
template <int R, class Follow>
inline __attribute__((always_inline)) void step_pair(const StepPair& w, const uint8_t* a, __m512i (&x)[R],
                                                     __m512i (&y)[R], Follow follow) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const __m512i act = broadcast64(a + 8 * r), next_act = broadcast64(a + 8 * R + 8 * r);
    add_products(x[r], w.x, act);
    add_products(y[r], w.y, act);
    add_products(x[r], w.next_x, next_act);
    add_products(y[r], w.next_y, next_act);
    if (r > 0) follow(r - 1);
  }
  follow(R - 1);
}

template <int R, bool Second>
void q6_k(const Tile& t) {
  constexpr Fetch F = kFetch<R, Second>;
  const uint8_t* w = t.weights;
  const uint8_t* next = t.next;
  const uint8_t* a = t.main;
  const int16_t* ratios = t.ratios;
  const int32_t* halves = t.halves;
  const float* values = t.block_values;
  for (int64_t left = t.chunks; left > 0; left -= kBlockChunks, values += ActivationLayout::kBlockValues * R) {
    prefetch<F>(next + kBlockChunks * kChunkBytes);
    const __m512 d = block_scale(w);
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
        for (int line = 0; line < 4; ++line) prefetch<F>(next + 64 * (4 * half + line));
        const uint8_t* const pairs = w + 2 * kPairBytes * half;
        step_pair<R>(unpacked(pairs), a + 32 * R * half, x, y, [](int) {});
        step_pair<R>(
            unpacked(pairs + kPairBytes), a + 32 * R * half + 16 * R, x, y, [&](int r) __attribute__((always_inline)) {
              add_half(total[r], x[r], y[r], wide_scales(w + kScales + 32 * half), ratios + 2 * r);
            });
      }
      prefetch<F>(next + 512);
      if (t.step > kPrefetched) {
#pragma GCC unroll 4
        for (int line = 0; line < 4; ++line) prefetch<F>(next + kPrefetched + 64 * line);
      }
    }
    next += t.skip;
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) add_scaled(t.sums + 16 * r, total[r], d, values[r]);
  }
}

// The same from unpack_q6_k().
template <int R>
void unpacked_q6_k(const Tile& t) {
  constexpr Fetch F = kFetch<R, (R < kRowTile)>;
  const uint8_t* w = t.weights;
  const uint8_t* next = t.next;
  const uint8_t* a = t.main;
  const int16_t* ratios = t.ratios;
  const int32_t* halves = t.halves;
  const float* values = t.block_values;
  for (int64_t left = t.chunks; left > 0; left -= kBlockChunks, values += ActivationLayout::kBlockValues * R) {
    const __m512 d = block_scale(w);
    w += kHeader;
    __m512i total[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) total[r] = _mm512_setzero_si512();
    for (int h = 0; h < 2 * kBlockChunks; ++h, halves += 2 * R, w += kHalfBytes, next += t.step / 2) {
      __m512i x[R], y[R];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) x[r] = y[r] = broadcast64(halves + 2 * r);
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) {
        const __m512i wx = _mm512_load_si512(w + 128 * q), wy = _mm512_load_si512(w + 128 * q + 64);
        prefetch<F>(next + 64 * q);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          const __m512i act = broadcast64(a + 8 * R * q + 8 * r);
          add_products(x[r], wx, act);
          add_products(y[r], wy, act);
          if (q == 3 && r > 0)
            add_half(total[r - 1], x[r - 1], y[r - 1], _mm512_load_si512(w + 512), ratios + 2 * (r - 1));
        }
      }
      prefetch<F>(next + 256);
      add_half(total[R - 1], x[R - 1], y[R - 1], _mm512_load_si512(w + 512), ratios + 2 * (R - 1));
      a += 32 * R;
      if (h % 2 == 1) a += 8 * R, ratios += 2 * R;
    }
    next += t.skip;
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) add_scaled(t.sums + 16 * r, total[r], d, values[r]);
  }
}

template <bool Second>
constexpr TileKernel kQ6_K[] = {q6_k<1, Second>, q6_k<2, Second>, q6_k<3, Second>, q6_k<4, Second>,
                                q6_k<5, Second>, q6_k<6, Second>, q6_k<7, Second>, q6_k<8, Second>};
constexpr TileKernel kUnpacked[] = {unpacked_q6_k<1>, unpacked_q6_k<2>, unpacked_q6_k<3>, unpacked_q6_k<4>,
                                    unpacked_q6_k<5>, unpacked_q6_k<6>, unpacked_q6_k<7>, unpacked_q6_k<8>};

}  // namespace

TileKernel q6_k_kernel(int64_t rows, bool second) { return (second ? kQ6_K<true> : kQ6_K<false>)[rows - 1]; }
TileKernel unpacked_q6_k_kernel(int64_t rows) { return kUnpacked[rows - 1]; }

void unpack_q6_k(const uint8_t* w, int64_t chunks, uint8_t* out) {
  for (int64_t c = 0; c < chunks; ++c, w += kChunkBytes) {
    if (c % kBlockChunks == 0) {
      _mm512_store_si512(out, _mm512_load_si512(w));
      w += kHeader, out += kHeader;
    }
    for (int half = 0; half < 2; ++half, out += kHalfBytes) {
      for (int pair = 0; pair < 2; ++pair) {
        const StepPair steps = unpacked(w + kPairBytes * (2 * half + pair));
        _mm512_store_si512(out + 256 * pair, steps.x);
        _mm512_store_si512(out + 256 * pair + 64, steps.y);
        _mm512_store_si512(out + 256 * pair + 128, steps.next_x);
        _mm512_store_si512(out + 256 * pair + 192, steps.next_y);
      }
      _mm512_store_si512(out + 512, wide_scales(w + kScales + 32 * half));
    }
  }
}

}  // namespace llada::kernels::avx512vnni
