// Stored groups as the packing of avx512vnni_pack.cc reads them: unsigned quants of a group, and where the groups of a
// column tile lie.
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

// One group of 32 as unsigned quants.
inline __m256i group_quants(DType type, const std::byte* g) {
  if (type == DType::Q4_0) return nibbles(g + 2);
  const int64_t quants = type == DType::Q8_M ? offsetof(GroupQ8_M, q) : offsetof(GroupQ8_0, q);
  return _mm256_xor_si256(load256(g + quants), _mm256_set1_epi8(static_cast<char>(0x80)));
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
  const std::byte* q = g + 16 + 32 * c;
  return _mm512_and_si512(join(load256(q), _mm256_srli_epi16(load256(q), 4)), nibble);
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

}  // namespace
}  // namespace llada::kernels::avx512vnni
