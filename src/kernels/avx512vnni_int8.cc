// Products with weights whose group sums need 32 bits: each group's exact integer sum is converted and
// multiplied with its float scale (vcvtdq2ps + vfmadd). The lanes of the groups A and B stay apart until the
// end of the block.
//   Q8_0: q + 128 unsigned; F16 scale per group of 32.
//   expanded: any other type, expanded block by block; scale and offset per group of 32.
#include <immintrin.h>

#include "kernels/avx512vnni_tile.h"

namespace llada::kernels::avx512vnni {
namespace {

__m512i broadcast64(const void* p) {
  long long v;
  __builtin_memcpy(&v, p, 8);
  return _mm512_set1_epi64(v);
}

void prefetch(const uint8_t* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }

// sums[r] += scale * (A + B), columns in natural order. partial: rows x (X, Y) of 16 floats.
template <int R>
inline __attribute__((always_inline)) void finish_block(const float* partial, const float* scales,
                                                        float* sums, __m512 d) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const __m512 x = _mm512_load_ps(partial + 32 * r), y = _mm512_load_ps(partial + 32 * r + 16);
    const __m512 sum = _mm512_add_ps(_mm512_shuffle_ps(x, y, 0x88), _mm512_shuffle_ps(x, y, 0xdd));
    const __m512 scale = _mm512_mul_ps(_mm512_set1_ps(scales[r]), d);
    _mm512_storeu_ps(sums + 16 * r, _mm512_fmadd_ps(sum, scale, _mm512_loadu_ps(sums + 16 * r)));
  }
}

template <int R>
inline __attribute__((always_inline)) void accumulate(float* partial, const __m512i (&x)[R],
                                                      const __m512i (&y)[R], __m512 sx, __m512 sy,
                                                      bool first) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    float* p = partial + 32 * r;
    const __m512 fx = _mm512_cvtepi32_ps(x[r]), fy = _mm512_cvtepi32_ps(y[r]);
    _mm512_store_ps(p, first ? _mm512_mul_ps(fx, sx) : _mm512_fmadd_ps(fx, sx, _mm512_load_ps(p)));
    _mm512_store_ps(p + 16, first ? _mm512_mul_ps(fy, sy) : _mm512_fmadd_ps(fy, sy, _mm512_load_ps(p + 16)));
  }
}

// A chunk of quants stored as bytes.
template <int R>
inline __attribute__((always_inline)) void byte_steps(const uint8_t* w, const uint8_t* a, const uint8_t* next,
                                                      __m512i (&x)[R], __m512i (&y)[R]) {
#pragma GCC unroll 8
  for (int q = 0; q < 8; ++q) {
    const __m512i wx = _mm512_load_si512(w + 128 * q), wy = _mm512_load_si512(w + 128 * q + 64);
    prefetch(next + 64 * q);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512i act = broadcast64(a + 8 * R * q + 8 * r);
      x[r] = _mm512_dpbusd_epi32(x[r], wx, act);
      y[r] = _mm512_dpbusd_epi32(y[r], wy, act);
    }
  }
}

template <int R>
void q8_0(const Tile& t) {
  constexpr int64_t kChunkBytes = 1088, kRest = kChunkBytes - 576;
  alignas(64) float partial[R * 32];
  const uint8_t* w = t.weights;
  const uint8_t* next = t.next;
  const uint8_t* rest = t.rest;
  const uint8_t* a = t.main;
  const float* scales = t.scales;
  for (int64_t left = t.chunks; left > 0; left -= kBlockChunks, scales += R) {
    const int64_t chunks = left < kBlockChunks ? left : kBlockChunks;
    for (int64_t c = 0; c < chunks;
         ++c, w += kChunkBytes, next += kChunkBytes, a += ActivationLayout::kMain * R) {
      __m512i x[R], y[R];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        x[r] = y[r] = _mm512_slli_epi32(broadcast64(a + 64 * R + 8 * r), 4);  // -128 sum(a)
      byte_steps<R>(w, a, next, x, y);
      prefetch(next + 512);
      if (rest != nullptr) {
#pragma GCC unroll 8
        for (int line = 0; line < 8; ++line) prefetch(rest + 64 * line);
        rest += kRest;
      }
      const __m512 sx = _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(w + 1024)));
      const __m512 sy = _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(w + 1056)));
      if (c == 0) {
        accumulate<R>(partial, x, y, sx, sy, true);
      } else {
        accumulate<R>(partial, x, y, sx, sy, false);
      }
    }
    finish_block<R>(partial, scales, t.sums, _mm512_set1_ps(1.0f));
  }
}

template <int R>
void expanded(const Tile& t) {
  alignas(64) float partial[R * 32];
  const uint8_t* w = t.weights;
  const uint8_t* a = t.main;
  const float* scales = t.scales;
  for (int64_t left = t.chunks; left > 0; left -= kBlockChunks, scales += R) {
    const int64_t chunks = left < kBlockChunks ? left : kBlockChunks;
    for (int64_t c = 0; c < chunks; ++c, w += kExpandedChunk, a += ActivationLayout::kMain * R) {
      __m512i x[R], y[R];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) x[r] = y[r] = _mm512_setzero_si512();
      byte_steps<R>(w, a, w, x, y);
      const auto* constants = reinterpret_cast<const float*>(w + 1024);
      accumulate<R>(partial, x, y, _mm512_load_ps(constants), _mm512_load_ps(constants + 16), c == 0);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) x[r] = y[r] = broadcast64(a + 64 * R + 8 * r);
      accumulate<R>(partial, x, y, _mm512_load_ps(constants + 32), _mm512_load_ps(constants + 48), false);
    }
    finish_block<R>(partial, scales, t.sums, _mm512_set1_ps(1.0f));
  }
}

constexpr TileKernel kQ8_0[] = {q8_0<1>, q8_0<2>, q8_0<3>, q8_0<4>, q8_0<5>, q8_0<6>, q8_0<7>, q8_0<8>};
constexpr TileKernel kExpanded[] = {expanded<1>, expanded<2>, expanded<3>, expanded<4>,
                                    expanded<5>, expanded<6>, expanded<7>, expanded<8>};

}  // namespace

TileKernel q8_0_kernel(int64_t rows) { return kQ8_0[rows - 1]; }
TileKernel expanded_kernel(int64_t rows) { return kExpanded[rows - 1]; }

}  // namespace llada::kernels::avx512vnni
