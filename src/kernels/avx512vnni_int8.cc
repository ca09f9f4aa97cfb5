// Products with 8-bit weights, whose group sums need more than 16 bits.
//
//   Q8_0      |sum| <= 128 * 32 * 127, 20 bits. Sums are rounded to 16 of them (kWideShift) and treated as in
//             avx512vnni_int16.cc. That loses at most half a unit of 2^-15 of the largest possible sum; rounding the
//             activations has cost some twenty times as much, so one shift for all is enough (one fitted to each row
//             and block would mostly be 3). A block whose scales do not fit 14 bits (see Q4_0) keeps F16 scales, in
//             float and without shift.
//   expanded  any other type, expanded block by block; float scale and offset per group of 32.
#include "kernels/avx512vnni_tile.h"
#include "kernels/avx512vnni_vector-inl.h"

namespace llada::kernels::avx512vnni {
namespace {

constexpr int64_t kHeader = 64, kChunkBytes = 1088;  // Q8_0

// A chunk of quants stored as bytes.
template <int R>
inline __attribute__((always_inline)) void byte_steps(const uint8_t* w, const uint8_t* a, const uint8_t* next,
                                                      __m512i (&x)[R], __m512i (&y)[R]) {
#pragma GCC unroll 8
  for (int q = 0; q < 8; ++q) {
    const __m512i wx = _mm512_load_si512(w + 128 * q), wy = _mm512_load_si512(w + 128 * q + 64);
    prefetch<R>(next + 64 * q);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512i act = broadcast64(a + 8 * R * q + 8 * r);
      add_fours(x[r], wx, act);
      add_fours(y[r], wy, act);
    }
  }
}

template <int R>
void q8_0(const Tile& t) {
  const uint8_t* w = t.weights;
  const uint8_t* next = t.next;
  const uint8_t* a = t.main;
  const int32_t* wide = t.wide;
  const int16_t* ratios = t.ratios;
  const float* scales = t.scales;
  const float* values = t.block_values;
  for (int64_t left = t.chunks; left > 0; left -= kBlockChunks, values += ActivationLayout::kBlockValues * R,
               scales += 2 * kBlockChunks * R, next += t.skip) {
    const int64_t chunks = left < kBlockChunks ? left : kBlockChunks;
    prefetch<R>(next + kBlockChunks * kChunkBytes);
    int32_t mark;
    __builtin_memcpy(&mark, w, 4);
    if (__builtin_expect(mark < 0, 0)) {
      exact_block<R, kChunkBytes>(w + kHeader, a, scales, chunks, t.sums,
                                  [](const uint8_t* chunk, const uint8_t* quants, __m512i(&x)[R], __m512i(&y)[R]) {
                                    for (int r = 0; r < R; ++r)  // -128 sum(a)
                                      x[r] = y[r] = _mm512_slli_epi32(broadcast64(quants + 64 * R + 8 * r), 4);
                                    byte_steps<R>(chunk, quants, chunk, x, y);
                                  });
      w += kHeader + chunks * kChunkBytes;
      next += chunks * t.step;
      a += chunks * ActivationLayout::kMain * R;
      wide += 2 * chunks * R;
      ratios += 2 * chunks * R;
      continue;
    }
    const __m512 super = _mm512_mul_ps(_mm512_load_ps(w), _mm512_set1_ps(1 << kWideShift));
    w += kHeader;
    __m512i total[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) total[r] = _mm512_setzero_si512();
    for (int64_t c = 0; c < chunks;
         ++c, w += kChunkBytes, next += t.step, a += ActivationLayout::kMain * R, wide += 2 * R, ratios += 2 * R) {
      __m512i x[R], y[R];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) x[r] = y[r] = broadcast64(wide + 2 * r);
      byte_steps<R>(w, a, next, x, y);
      prefetch<R>(next + 512);
      if (t.step > kPrefetched) {
#pragma GCC unroll 8
        for (int line = 0; line < 8; ++line) prefetch<R>(next + kPrefetched + 64 * line);
      }
      const __m512i scale = _mm512_load_si512(w + 1024);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const __m512i sums =
            _mm512_packs_epi32(_mm512_srai_epi32(x[r], kWideShift), _mm512_srai_epi32(y[r], kWideShift));
        add_pairs(total[r], sums, scaled_by(scale, ratios + 2 * r));
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) add_scaled(t.sums + 16 * r, total[r], super, values[r]);
  }
}

template <int R>
inline __attribute__((always_inline)) void accumulate(float* partial, const __m512i (&x)[R], const __m512i (&y)[R],
                                                      const float* scales, const float* row_scales, bool first) {
  const __m512 sx = _mm512_load_ps(scales), sy = _mm512_load_ps(scales + 16);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    float* p = partial + 32 * r;
    const __m512 row = scale_lanes(row_scales + 2 * r);
    const __m512 fx = _mm512_mul_ps(_mm512_cvtepi32_ps(x[r]), row), fy = _mm512_mul_ps(_mm512_cvtepi32_ps(y[r]), row);
    _mm512_store_ps(p, first ? _mm512_mul_ps(fx, sx) : _mm512_fmadd_ps(fx, sx, _mm512_load_ps(p)));
    _mm512_store_ps(p + 16, first ? _mm512_mul_ps(fy, sy) : _mm512_fmadd_ps(fy, sy, _mm512_load_ps(p + 16)));
  }
}

template <int R>
void expanded(const Tile& t) {
  alignas(64) float partial[R * 32];
  const uint8_t* w = t.weights;
  const uint8_t* a = t.main;
  const float* scales = t.scales;
  for (int64_t left = t.chunks; left > 0; left -= kBlockChunks) {
    const int64_t chunks = left < kBlockChunks ? left : kBlockChunks;
    for (int64_t c = 0; c < chunks; ++c, w += kExpandedChunk, a += ActivationLayout::kMain * R, scales += 2 * R) {
      __m512i x[R], y[R];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) x[r] = y[r] = _mm512_setzero_si512();
      byte_steps<R>(w, a, w, x, y);
      const auto* constants = reinterpret_cast<const float*>(w + 1024);
      accumulate<R>(partial, x, y, constants, scales, c == 0);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) x[r] = y[r] = broadcast64(a + 64 * R + 8 * r);
      accumulate<R>(partial, x, y, constants + 32, scales, false);
    }
    for (int r = 0; r < R; ++r)
      add_lanes(t.sums + 16 * r, _mm512_load_ps(partial + 32 * r), _mm512_load_ps(partial + 32 * r + 16));
  }
}

constexpr TileKernel kQ8_0[] = {q8_0<1>, q8_0<2>, q8_0<3>, q8_0<4>, q8_0<5>, q8_0<6>, q8_0<7>, q8_0<8>};
constexpr TileKernel kExpanded[] = {expanded<1>, expanded<2>, expanded<3>, expanded<4>,
                                    expanded<5>, expanded<6>, expanded<7>, expanded<8>};

}  // namespace

TileKernel q8_0_kernel(int64_t rows) { return kQ8_0[rows - 1]; }
TileKernel expanded_kernel(int64_t rows) { return kExpanded[rows - 1]; }

}  // namespace llada::kernels::avx512vnni
