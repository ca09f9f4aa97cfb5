// Stored groups as the packing of avx512vnni_pack.cc reads them: unsigned quants, scales and offsets of a group, and
// where the groups of a column tile lie.
#pragma once
#include <immintrin.h>

#include "kernels/avx512vnni_tile.h"
#include "kernels/stored_groups.h"

namespace llada::kernels::avx512vnni {
namespace {

struct Source {
  DType type;
  const std::byte* data;
  int64_t stride, k, first, columns;  // columns of this tile that exist
};

inline __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline __m256i load256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline uint16_t load16(const void* p) {
  uint16_t v;
  __builtin_memcpy(&v, p, 2);
  return v;
}
inline __m512i join(__m256i low, __m256i high) { return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1); }
inline __m256i join(__m128i low, __m128i high) { return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1); }

inline __m256i nibbles(const void* p) {  // 16 bytes: low nibbles, then high nibbles
  const __m128i bytes = load128(p), mask = _mm_set1_epi8(15);
  return join(_mm_and_si128(bytes, mask), _mm_and_si128(_mm_srli_epi16(bytes, 4), mask));
}

inline __m256i fifth_bits(const void* p) {  // 32 bits to 32 bytes of 0 or 16
  int bits;
  __builtin_memcpy(&bits, p, 4);
  return _mm256_maskz_set1_epi8(static_cast<__mmask32>(bits), 16);
}

// One group of 32 as unsigned quants.
inline __m256i group_quants(DType type, const std::byte* g) {
  switch (type) {
    case DType::Q8_0:
      return _mm256_xor_si256(load256(g + 2), _mm256_set1_epi8(static_cast<char>(0x80)));
    case DType::Q4_0:
      return nibbles(g + 2);
    case DType::Q4_1:
      return nibbles(g + 4);
    case DType::Q5_0:
      return _mm256_or_si256(nibbles(g + 6), fifth_bits(g + 2));
    default:
      return _mm256_or_si256(nibbles(g + 8), fifth_bits(g + 4));  // Q5_1
  }
}

// Chunk c of a 256-element group as unsigned quants.
inline __m512i super_quants(DType type, const std::byte* g, int64_t c) {
  const __m512i nibble = _mm512_set1_epi8(15);
  if (type == DType::Q6_K) {
    const __m512i low = _mm512_loadu_si512(g + 64 * (c / 2));
    const __m256i high = load256(g + 128 + 32 * (c / 2));
    const __m512i four = _mm512_and_si512(c % 2 == 0 ? low : _mm512_srli_epi16(low, 4), nibble);
    const __m512i two = c % 2 == 0 ? join(high, _mm256_srli_epi16(high, 2))
                                   : join(_mm256_srli_epi16(high, 4), _mm256_srli_epi16(high, 6));
    return _mm512_or_si512(four, _mm512_slli_epi16(_mm512_and_si512(two, _mm512_set1_epi8(3)), 4));
  }
  const std::byte* q = g + (type == DType::Q4_K ? 16 : 48) + 32 * c;
  const __m512i four = _mm512_and_si512(join(load256(q), _mm256_srli_epi16(load256(q), 4)), nibble);
  if (type == DType::Q4_K) return four;
  const __m256i high = load256(g + 16);
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(2 * c)),
                shift1 = _mm_cvtsi32_si128(static_cast<int>(2 * c + 1));
  const __m512i fifth = join(_mm256_srl_epi16(high, shift), _mm256_srl_epi16(high, shift1));
  return _mm512_or_si512(four, _mm512_slli_epi16(_mm512_and_si512(fifth, _mm512_set1_epi8(1)), 4));
}

// The 6-bit scale and min of sub-group j of Q4_K and Q5_K.
inline void scale_and_min(const uint8_t* s, int64_t j, uint8_t& scale, uint8_t& min) {
  if (j < 4) {
    scale = s[j] & 63;
    min = s[j + 4] & 63;
  } else {
    scale = static_cast<uint8_t>((s[j + 4] & 15) | (s[j - 4] >> 6 << 4));
    min = static_cast<uint8_t>(s[j + 4] >> 4 | s[j] >> 6 << 4);
  }
}

// Group g of column c of the tile (a group of 32, or of 256), or null beyond the matrix.
inline const std::byte* group_at(const Source& s, int64_t column, int64_t group) {
  const int64_t elements = super_type(s.type) ? 256 : 32;
  if (column >= s.columns || group * elements >= s.k) return nullptr;
  return s.data + (s.first + column) * s.stride + group * stored_group_bytes(s.type);
}

// Four bytes at `offset` of that group of the 16 columns; 0 where there is none.
inline __m512i words_of(const Source& s, int64_t group, int64_t offset) {
  const __mmask16 there =
      group_at(s, 0, group) == nullptr ? __mmask16{0} : static_cast<__mmask16>((1u << s.columns) - 1);
  const __m512i column = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i at = _mm512_mullo_epi32(column, _mm512_set1_epi32(static_cast<int>(s.stride)));
  const std::byte* first = s.data + s.first * s.stride + group * stored_group_bytes(s.type) + offset;
  return _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), there, at, first, 1);
}

inline float half_to_float(uint16_t h) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h))); }

// w = scale * q + offset of group `group` (of 32) of a column.
inline void constants_of(const Source& s, int64_t column, int64_t group, float& scale, float& offset) {
  scale = offset = 0;
  if (super_type(s.type)) {
    const std::byte* g = group_at(s, column, group / 8);
    if (g == nullptr) return;
    uint8_t sc, mn;
    scale_and_min(reinterpret_cast<const uint8_t*>(g) + 4, group % 8, sc, mn);
    scale = half_to_float(load16(g)) * static_cast<float>(sc);
    offset = -half_to_float(load16(g + 2)) * static_cast<float>(mn);
    return;
  }
  const std::byte* g = group_at(s, column, group);
  if (g == nullptr) return;
  scale = half_to_float(load16(g));
  offset = s.type == DType::Q5_0 ? -16 * scale : half_to_float(load16(g + 2));
}

}  // namespace
}  // namespace llada::kernels::avx512vnni
