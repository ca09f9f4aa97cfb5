// Stored groups as the packing of avx512vnni_pack.cc reads them: unsigned quants of a group, and where the groups of a
// column tile lie.
#pragma once
#include <immintrin.h>

#include "kernels/avx512vnni_tile.h"
#include "kernels/stored_groups.h"

namespace llada::kernels::avx512vnni {

struct Source {
  DType type;
  const std::byte* data;
  int64_t stride, k, first, columns;  // columns of this tile that exist
};

// Types with offsets: avx512vnni_pack_offsets.cc. A block of `chunks` chunks; returns where the next one goes.
uint8_t* pack_q4_1(const Source& source, int64_t chunk, int64_t chunks, uint8_t* out);
uint8_t* pack_q8_m(const Source& source, int64_t chunk, int64_t chunks, uint8_t* out);

namespace {

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
  if (type == DType::Q4_0) return nibbles(g + offsetof(GroupQ4_0, q));
  if (type == DType::Q4_1) return nibbles(g + offsetof(GroupQ4_1, q));
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

inline constexpr float kScaleRange = 8192;  // 8 groups x 32512 x 8192 < 2^31
inline constexpr float kScaleLeast = 1024;  // half a unit of this is 2^-11

// Writes bytes that nobody reads soon; pack() ends with a fence.
inline void store_past(uint8_t* out, __m512i v) { _mm512_stream_si512(reinterpret_cast<__m512i*>(out), v); }

// The sixteen X and Y vectors of a chunk, still one byte per quant.
struct ChunkVectors {
  __m512i x[8], y[8];
};

// 128-bit part p of out[j] is part j of in[p].
inline void transpose_parts(__m512i a, __m512i b, __m512i c, __m512i d, __m512i& w, __m512i& x, __m512i& y,
                            __m512i& z) {
  const __m512i ab = _mm512_shuffle_i64x2(a, b, 0x44), cd = _mm512_shuffle_i64x2(c, d, 0x44);
  const __m512i ab2 = _mm512_shuffle_i64x2(a, b, 0xee), cd2 = _mm512_shuffle_i64x2(c, d, 0xee);
  w = _mm512_shuffle_i64x2(ab, cd, 0x88);
  x = _mm512_shuffle_i64x2(ab, cd, 0xdd);
  y = _mm512_shuffle_i64x2(ab2, cd2, 0x88);
  z = _mm512_shuffle_i64x2(ab2, cd2, 0xdd);
}

inline void load_chunk(const Source& s, int64_t chunk, ChunkVectors& v) {
  // Per column: four k of A, four k of B, eight times.
  const __m512i pairs = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
  const auto row = [&](int64_t c) {
    __m512i q = _mm512_setzero_si512();
    if (super_type(s.type)) {
      if (const std::byte* g = group_at(s, c, chunk / kBlockChunks)) q = super_quants(s.type, g, chunk % kBlockChunks);
    } else if (const std::byte* a = group_at(s, c, 2 * chunk)) {
      const std::byte* b = group_at(s, c, 2 * chunk + 1);
      q = join(group_quants(s.type, a), b != nullptr ? group_quants(s.type, b) : _mm256_setzero_si256());
    }
    return _mm512_permutexvar_epi32(pairs, q);
  };
  // Part p of a vector holds columns 4p, 4p + 1 (X) or 4p + 2, 4p + 3 (Y).
  for (int y = 0; y < 2; ++y) {
    __m512i even[4], odd[4];
    for (int p = 0; p < 4; ++p) {
      const __m512i a = row(4 * p + 2 * y), b = row(4 * p + 2 * y + 1);
      even[p] = _mm512_unpacklo_epi64(a, b);
      odd[p] = _mm512_unpackhi_epi64(a, b);
    }
    __m512i* to = y == 0 ? v.x : v.y;
    transpose_parts(even[0], even[1], even[2], even[3], to[0], to[2], to[4], to[6]);
    transpose_parts(odd[0], odd[1], odd[2], odd[3], to[1], to[3], to[5], to[7]);
  }
}

// Whole tiles and blocks, the rule. 16 bytes of each of two sources per column (its groups A and B) in the lane order
// of X and of Y: word q of x[q] and y[q].
struct FourVectors {
  __m512i x[4], y[4];
};
inline __attribute__((always_inline)) FourVectors load_four(const std::byte* a, int64_t b_offset, int64_t stride) {
  FourVectors v;
#pragma GCC unroll 2
  for (int y = 0; y < 2; ++y) {
    const auto parts = [&](const std::byte* p) {  // of columns 4, 8 and 12 on, too
      __m512i z = _mm512_castsi128_si512(load128(p));
      z = _mm512_inserti32x4(z, load128(p + 4 * stride), 1);
      z = _mm512_inserti32x4(z, load128(p + 8 * stride), 2);
      return _mm512_inserti32x4(z, load128(p + 12 * stride), 3);
    };
    const std::byte* column = a + 2 * y * stride;
    const __m512i a0 = parts(column), b0 = b_offset == 0 ? a0 : parts(column + b_offset);
    column += stride;
    const __m512i a1 = parts(column), b1 = b_offset == 0 ? a1 : parts(column + b_offset);
    const __m512i low0 = _mm512_unpacklo_epi32(a0, b0), high0 = _mm512_unpackhi_epi32(a0, b0);
    const __m512i low1 = _mm512_unpacklo_epi32(a1, b1), high1 = _mm512_unpackhi_epi32(a1, b1);
    __m512i* to = y == 0 ? v.x : v.y;
    to[0] = _mm512_unpacklo_epi64(low0, low1);
    to[1] = _mm512_unpackhi_epi64(low0, low1);
    to[2] = _mm512_unpacklo_epi64(high0, high1);
    to[3] = _mm512_unpackhi_epi64(high0, high1);
  }
  return v;
}

// Whether all of a block's groups are there, in all columns. The last chunk of a row may have its group A alone.
inline bool whole(const Source& s, int64_t chunk, int64_t chunks) {
  return s.columns == kColumnTile && chunks == kBlockChunks && (chunk + chunks) * kChunk <= s.k;
}

// Group: of Q4_0 or Q4_1; a: the first column's group A of the chunk.
template <class Group>
inline void pack_chunk_q4(const std::byte* a, int64_t stride, uint8_t* out) {
  const __m512i nibble = _mm512_set1_epi8(15);
  const FourVectors v = load_four(a + offsetof(Group, q), sizeof(Group), stride);
  for (int q = 0; q < 4; ++q) {  // the low nibbles are k 0..15, the high ones 16..31
    store_past(out + 64 * q, _mm512_ternarylogic_epi32(nibble, v.x[q], _mm512_slli_epi32(v.y[q], 4), 0xca));
    store_past(out + 256 + 64 * q, _mm512_ternarylogic_epi32(nibble, _mm512_srli_epi32(v.x[q], 4), v.y[q], 0xca));
  }
}

inline void store_nibbles(const ChunkVectors& v, uint8_t* out) {
  const __m512i nibble = _mm512_set1_epi8(15);
  for (int q = 0; q < 8; ++q)
    store_past(out + 64 * q, _mm512_ternarylogic_epi32(nibble, v.x[q], _mm512_slli_epi16(v.y[q], 4), 0xca));
}

// (A, B) of each column in the lane order of X, then of Y.
template <class T>
inline void lanes(const T (&a)[16], const T (&b)[16], T* out) {
  for (int i = 0; i < 8; ++i)
    for (int v = 0; v < 2; ++v) {
      out[16 * v + 2 * i] = a[kXColumn[i] + 2 * v];
      out[16 * v + 2 * i + 1] = b[kXColumn[i] + 2 * v];
    }
}

// (A, B) of each column, of 16 bits.
inline __m512i pairs_of(__m512i a, __m512i b) {
  return _mm512_or_si512(_mm512_and_si512(a, _mm512_set1_epi32(0xffff)), _mm512_slli_epi32(b, 16));
}

}  // namespace
}  // namespace llada::kernels::avx512vnni
