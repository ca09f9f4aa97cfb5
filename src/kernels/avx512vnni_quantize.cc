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

// Sums of the low and the high eight of 16 int8.
struct Sums {
  int low, high;
};
Sums sums_of(__m128i q) {
  const __m128i sad =
      _mm_sad_epu8(_mm_xor_si128(q, _mm_set1_epi8(static_cast<char>(0x80))), _mm_setzero_si128());
  return {_mm_cvtsi128_si32(sad) - 8 * 128, _mm_extract_epi32(sad, 2) - 8 * 128};
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
    auto* quarters = reinterpret_cast<int32_t*>(activations + layout.quarters) + tile * kRowTile * chunks * 8;
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
        const Sums part[4] = {sums_of(chunk.q[0]), sums_of(chunk.q[1]), sums_of(chunk.q[2]),
                              sums_of(chunk.q[3])};
        const int sum_a = part[0].low + part[0].high + part[1].low + part[1].high;
        const int sum_b = part[2].low + part[2].high + part[3].low + part[3].high;
        auto* sums = reinterpret_cast<int32_t*>(out + height * kChunk) + in_tile * 2;
        sums[0] = -8 * sum_a;
        sums[1] = -8 * sum_b;
        int32_t* quarter = quarters + (index * 4 * height + in_tile) * 2;
        for (int half = 0; half < 2; ++half, quarter += 4 * height) {
          quarter[0] = -32 * part[half].low;
          quarter[1] = -32 * part[half + 2].low;
          quarter[2 * height] = -32 * part[half].high;
          quarter[2 * height + 1] = -32 * part[half + 2].high;
        }
        int16_t* pair = pairs + (index * height + in_tile) * 2;
        pair[0] = static_cast<int16_t>(sum_a);
        pair[1] = static_cast<int16_t>(sum_b);
      }
    }
  }
}

}  // namespace llada::kernels::avx512vnni
