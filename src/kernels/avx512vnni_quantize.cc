// Activations to int8: one scale per row and block of 256 (max|x| / 127, round to nearest even), in the
// layout of avx512vnni.h. One scale for 256 values lets a product add eight groups of weights as integers
// before it touches a float; the K types of GGUF were designed for the same.
#include <immintrin.h>

#include "kernels/avx512vnni.h"

namespace llada::kernels::avx512vnni {
namespace {

// The quants of one chunk: [0] k 0..15 of A, [1] k 16..31 of A, [2] and [3] the same of B.
struct Quants {
  __m128i q[4];
};

int sum16(__m128i q) {  // of 16 int8
  const __m512i wide = _mm512_cvtepi8_epi32(q);
  return _mm512_reduce_add_epi32(wide);
}

}  // namespace

int64_t activation_bytes(int64_t rows, int64_t k) { return ActivationLayout(rows, k).bytes; }

void quantize_rows(const float* x, int64_t rows, int64_t k, int64_t r0, int64_t r1, std::byte* activations) {
  const ActivationLayout layout(rows, k);
  const int64_t chunks = chunks_of(k), blocks = blocks_of(k);
  for (int64_t r = r0; r < r1; ++r) {
    const int64_t tile = r / kRowTile, in_tile = r % kRowTile;
    const int64_t height = rows - tile * kRowTile < kRowTile ? rows - tile * kRowTile : kRowTile;
    std::byte* main = activations + tile * kRowTile * chunks * ActivationLayout::kMain;
    auto* scales = reinterpret_cast<float*>(activations + layout.scales) + tile * kRowTile * blocks;
    auto* halves = reinterpret_cast<int32_t*>(activations + layout.halves) + tile * kRowTile * chunks * 4;
    auto* pairs = reinterpret_cast<int16_t*>(activations + layout.pairs) + tile * kRowTile * chunks * 2;
    const float* row = x + r * k;
    for (int64_t b = 0; b < blocks; ++b) {
      const float* v = row + b * kBlock;
      const int64_t vectors = (k - b * kBlock < kBlock ? k - b * kBlock : kBlock) / 16;
      __m512 largest = _mm512_setzero_ps();
      for (int64_t i = 0; i < vectors; ++i)
        largest = _mm512_max_ps(largest, _mm512_abs_ps(_mm512_loadu_ps(v + 16 * i)));
      const float max = _mm512_reduce_max_ps(largest);
      const bool zero = !(max > 0x1p-120f);
      scales[b * height + in_tile] = zero ? 0.0f : max / 127.0f;
      const __m512 inverse = _mm512_set1_ps(zero ? 0.0f : 127.0f / max);
      for (int64_t c = 0; c < (vectors + 3) / 4; ++c) {
        Quants chunk;
        for (int64_t i = 0; i < 4; ++i) {
          chunk.q[i] = _mm_setzero_si128();
          if (4 * c + i < vectors)
            chunk.q[i] = _mm512_cvtsepi32_epi8(
                _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(v + 16 * (4 * c + i)), inverse)));
        }
        const int64_t index = b * kBlockChunks + c;
        std::byte* out = main + index * height * ActivationLayout::kMain;
        for (int half = 0; half < 2; ++half) {
          const __m128i low = _mm_unpacklo_epi32(chunk.q[half], chunk.q[half + 2]);
          const __m128i high = _mm_unpackhi_epi32(chunk.q[half], chunk.q[half + 2]);
          std::byte* at = out + (half * 4 * height + in_tile) * 8;
          _mm_storel_epi64(reinterpret_cast<__m128i*>(at), low);
          _mm_storel_epi64(reinterpret_cast<__m128i*>(at + height * 8), _mm_unpackhi_epi64(low, low));
          _mm_storel_epi64(reinterpret_cast<__m128i*>(at + height * 16), high);
          _mm_storel_epi64(reinterpret_cast<__m128i*>(at + height * 24), _mm_unpackhi_epi64(high, high));
        }
        const int a0 = sum16(chunk.q[0]), a1 = sum16(chunk.q[1]), b0 = sum16(chunk.q[2]),
                  b1 = sum16(chunk.q[3]);
        auto* sums = reinterpret_cast<int32_t*>(out + height * kChunk) + in_tile * 2;
        sums[0] = -8 * (a0 + a1);
        sums[1] = -8 * (b0 + b1);
        int32_t* first = halves + (index * 2 * height + in_tile) * 2;
        first[0] = -32 * a0;
        first[1] = -32 * b0;
        first[2 * height] = -32 * a1;
        first[2 * height + 1] = -32 * b1;
        int16_t* pair = pairs + (index * height + in_tile) * 2;
        pair[0] = static_cast<int16_t>(a0 + a1);
        pair[1] = static_cast<int16_t>(b0 + b1);
      }
    }
  }
}

}  // namespace llada::kernels::avx512vnni
