// Products with 8-bit weights, whose group sums need more than 16 bits.
//
//   Q8_0      |sum| <= 128 * 32 * 127, 20 bits. Sums are rounded to 16 of them (kWideShift) and treated as in
//             avx512vnni_int16.cc. That loses at most half a unit of 2^-15 of the largest possible sum; rounding the
//             activations has cost some twenty times as much, so one shift for all is enough (one fitted to each row
//             and block would mostly be 3). A block whose scales do not fit 14 bits (see Q4_0) keeps F16 scales, in
//             float and without shift.
//   Q8_M      the same, and the offsets of a block added up behind its chunks: 13-bit integers, multiplied with a row's
//             ratios as scales are. A marked block keeps its numbers as floats.
#include "kernels/avx512vnni_tile.h"
#include "kernels/avx512vnni_vector-inl.h"

namespace llada::kernels::avx512vnni {
namespace {

constexpr int64_t kHeader = 64, kChunkBytes = 1088;          // Q8_0
constexpr int64_t kOffsetHeader = 128, kOffsetChunk = 1280;  // Q8_M

// A chunk of quants stored as bytes.
template <int R, Fetch F>
inline __attribute__((always_inline)) void byte_steps(const uint8_t* w, const uint8_t* a, const uint8_t* next,
                                                      __m512i (&x)[R], __m512i (&y)[R]) {
#pragma GCC unroll 8
  for (int q = 0; q < 8; ++q) {
    const __m512i wx = _mm512_load_si512(w + 128 * q), wy = _mm512_load_si512(w + 128 * q + 64);
    prefetch<F>(next + 64 * q);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m512i act = broadcast64(a + 8 * R * q + 8 * r);
      add_fours(x[r], wx, act);
      add_fours(y[r], wy, act);
    }
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

// -128 * sum(a) of a chunk: the excess of w + 128.
template <int R>
inline void start_at_centre(const uint8_t* quants, __m512i (&x)[R], __m512i (&y)[R]) {
  for (int r = 0; r < R; ++r) x[r] = y[r] = _mm512_slli_epi32(broadcast64(quants + 64 * R + 8 * r), 4);
}

// A block with float scales and offsets.
template <int R>
__attribute__((noinline)) void exact_offset_block(const uint8_t* w, const uint8_t* a, const float* scales,
                                                  int64_t chunks, float* sums) {
  alignas(64) float partial[R * 32];
  for (int64_t c = 0; c < chunks; ++c, w += kOffsetChunk, a += ActivationLayout::kMain * R, scales += 2 * R) {
    __m512i x[R], y[R];
    start_at_centre<R>(a, x, y);
    byte_steps<R, Fetch::second>(w, a, w, x, y);
    const auto* constants = reinterpret_cast<const float*>(w + 1024);
    accumulate<R>(partial, x, y, constants, scales, c == 0);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) x[r] = y[r] = broadcast64(a + 64 * R + 8 * r);
    accumulate<R>(partial, x, y, constants + 32, scales, false);
  }
  for (int r = 0; r < R; ++r)
    add_lanes(sums + 16 * r, _mm512_load_ps(partial + 32 * r), _mm512_load_ps(partial + 32 * r + 16));
}

template <int R, bool Second, bool kOffsets>
void q8(const Tile& t) {
  constexpr Fetch F = kFetch<R, Second>;
  constexpr int64_t kBlockHeader = kOffsets ? kOffsetHeader : kHeader, kBytes = kOffsets ? kOffsetChunk : kChunkBytes;
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
    prefetch<F>(next + kBlockChunks * kBytes);
    int32_t mark;
    __builtin_memcpy(&mark, w, 4);
    if (__builtin_expect(mark < 0, 0)) {
      if constexpr (kOffsets)
        exact_offset_block<R>(w + kBlockHeader, a, scales, chunks, t.sums);
      else
        exact_block<R, kBytes>(w + kBlockHeader, a, scales, chunks, t.sums,
                               [](const uint8_t* chunk, const uint8_t* quants, __m512i(&x)[R], __m512i(&y)[R]) {
                                 start_at_centre<R>(quants, x, y);
                                 byte_steps<R, F>(chunk, quants, chunk, x, y);
                               });
      w += kBlockHeader + chunks * kBytes;
      next += chunks * t.step;
      a += chunks * ActivationLayout::kMain * R;
      wide += 2 * chunks * R;
      ratios += 2 * chunks * R;
      continue;
    }
    const __m512 super = _mm512_mul_ps(_mm512_load_ps(w), _mm512_set1_ps(1 << kWideShift));
    const uint8_t* const header = w;
    w += kBlockHeader;
    __m512i total[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) total[r] = _mm512_setzero_si512();
    for (int64_t c = 0; c < chunks;
         ++c, w += kBytes, next += t.step, a += ActivationLayout::kMain * R, wide += 2 * R, ratios += 2 * R) {
      __m512i x[R], y[R];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) x[r] = y[r] = broadcast64(wide + 2 * r);
      byte_steps<R, F>(w, a, next, x, y);
      prefetch<F>(next + 512);
      constexpr int64_t kAhead = kPrefetched + (kOffsets ? 64 : 0);
      if constexpr (kOffsets) prefetch<F>(next + kPrefetched);
      if (t.step > kAhead) {
#pragma GCC unroll 8
        for (int line = 0; line < 8; ++line) prefetch<F>(next + kAhead + 64 * line);
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
    if constexpr (kOffsets) {
      const __m512 super_offset = _mm512_mul_ps(_mm512_load_ps(header + 64), _mm512_set1_ps(-1.0f / 8));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) total[r] = _mm512_setzero_si512();
      for (int64_t c = chunks; c > 0; --c) {
        const __m512i offset = _mm512_load_si512(w - c * kBytes + 1024 + 64);
        const uint8_t* sums = a - c * ActivationLayout::kMain * R + 64 * R;  // times -8, which fits 16 bits
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          const __m512i both = broadcast64(sums + 8 * r);
          add_pairs(total[r], _mm512_packs_epi32(both, both), scaled_by(offset, ratios - c * 2 * R + 2 * r));
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) add_scaled(t.sums + 16 * r, total[r], super_offset, values[r]);
    }
  }
}

template <bool Second, bool kOffsets>
constexpr TileKernel kQ8[] = {q8<1, Second, kOffsets>, q8<2, Second, kOffsets>, q8<3, Second, kOffsets>,
                              q8<4, Second, kOffsets>, q8<5, Second, kOffsets>, q8<6, Second, kOffsets>,
                              q8<7, Second, kOffsets>, q8<8, Second, kOffsets>};

}  // namespace

TileKernel q8_0_kernel(int64_t rows, bool second) { return (second ? kQ8<true, false> : kQ8<false, false>)[rows - 1]; }
TileKernel q8_m_kernel(int64_t rows, bool second) { return (second ? kQ8<true, true> : kQ8<false, true>)[rows - 1]; }

}  // namespace llada::kernels::avx512vnni
