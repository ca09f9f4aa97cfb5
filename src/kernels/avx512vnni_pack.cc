// Stored groups into the packed layouts of avx512vnni.h, one column tile at a time. Columns beyond n are packed as
// zero. Packing is to go at the speed of memory: the next column tile is fetched in order while this one is read along
// sixteen rows, and stores go past the caches.
#include <immintrin.h>

#include "kernels/avx512vnni_stored-inl.h"
#include "kernels/avx512vnni_tile.h"

namespace llada::kernels::avx512vnni {
namespace {

void prefetch(const std::byte* p) { asm volatile("prefetcht1 %0" : : "m"(*p)); }

// a: the first column's group A of the chunk, behind the scale.
void pack_chunk_q8_0(const std::byte* a, int64_t stride, uint8_t* out) {
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
  for (int half = 0; half < 2; ++half, out += 512) {
    const FourVectors v = load_four(a + 16 * half, sizeof(GroupQ8_0), stride);
    for (int q = 0; q < 4; ++q) {
      store_past(out + 128 * q, _mm512_xor_si512(v.x[q], sign));
      store_past(out + 128 * q + 64, _mm512_xor_si512(v.y[q], sign));
    }
  }
}

// a: the first column's 32 bytes of the chunk: group A in the low nibbles, B in the high ones.
void pack_chunk_q4_k(const std::byte* a, int64_t stride, uint8_t* out) {
  const __m512i nibble = _mm512_set1_epi8(15), x_shift = _mm512_set1_epi64(4ll << 32), y_shift = _mm512_set1_epi64(4);
  for (int half = 0; half < 2; ++half) {
    const FourVectors v = load_four(a + 16 * half, 0, stride);
    for (int q = 0; q < 4; ++q, out += 64)
      store_past(out, _mm512_ternarylogic_epi32(nibble, _mm512_srlv_epi32(v.x[q], x_shift),
                                                _mm512_sllv_epi32(v.y[q], y_shift), 0xca));
  }
}

// Chunks 2 * pair and 2 * pair + 1 of a group of 256: their low bits are the nibbles of the same 64 bytes (group A of
// the first 32), their upper two bits lie in the same 32 bytes, of A and B and of the second chunk's A and B from
// below.
void load_chunks_q6_k(const std::byte* group, int64_t pair, int64_t stride, ChunkVectors (&v)[2]) {
  const __m512i nibble = _mm512_set1_epi8(15), top = _mm512_set1_epi8(0x30);
  const __m512i left = _mm512_set1_epi64(2ll << 32 | 4), right = _mm512_set1_epi64(2ll << 32);
  constexpr int kOrMasked = 0xf8;  // a | (b & c)
  for (int half = 0; half < 2; ++half) {
    const FourVectors low = load_four(group + 64 * pair + 16 * half, 32, stride);
    const FourVectors high = load_four(group + offsetof(GroupQ6_K, high) + 32 * pair + 16 * half, 0, stride);
    const auto first = [&](__m512i l, __m512i h) {
      return _mm512_ternarylogic_epi32(_mm512_and_si512(l, nibble), _mm512_sllv_epi32(h, left), top, kOrMasked);
    };
    const auto second = [&](__m512i l, __m512i h) {
      const __m512i four = _mm512_and_si512(_mm512_srli_epi32(l, 4), nibble);
      return _mm512_ternarylogic_epi32(four, _mm512_srlv_epi32(h, right), top, kOrMasked);
    };
    for (int q = 0; q < 4; ++q) {
      v[0].x[4 * half + q] = first(low.x[q], high.x[q]);
      v[0].y[4 * half + q] = first(low.y[q], high.y[q]);
      v[1].x[4 * half + q] = second(low.x[q], high.x[q]);
      v[1].y[4 * half + q] = second(low.y[q], high.y[q]);
    }
  }
}

// The F16 scales that begin the eight groups of a block, [group][column]. Words: of a group.
template <int Words>
void load_block_scales(const std::byte* first, int64_t stride, uint16_t (&half)[8][16]) {
  alignas(64) int16_t columns[16][8];
  const __m512i numbers = _mm512_castsi128_si512(_mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7));
  const __m512i step = _mm512_mullo_epi16(_mm512_set1_epi16(Words), numbers);
  for (int64_t c = 0; c < kColumnTile; ++c, first += stride) {
    const __m512i low = _mm512_permutex2var_epi16(_mm512_loadu_si512(first), step, _mm512_loadu_si512(first + 64));
    __m128i words = _mm512_castsi512_si128(low);
    if constexpr (Words > 9) {  // the other four lie in the next 128 bytes
      const __m512i high =
          _mm512_permutex2var_epi16(_mm512_loadu_si512(first + 128), step, _mm512_loadu_si512(first + 192));
      words = _mm_mask_blend_epi16(0xf0, words, _mm512_castsi512_si128(high));
    }
    _mm_store_si128(reinterpret_cast<__m128i*>(columns[c]), words);
  }
  // Columns 0..7 of four groups from the first two vectors, 8..15 from the last two.
  alignas(64) int16_t order[32];
  for (int16_t i = 0; i < 32; ++i) order[i] = static_cast<int16_t>(i % 8 * 8 + i / 8);
  const __m512i low_groups = _mm512_load_si512(order), high_groups = _mm512_add_epi16(low_groups, _mm512_set1_epi16(4));
  __m512i v[4];
  for (int i = 0; i < 4; ++i) v[i] = _mm512_load_si512(columns[4 * i]);
  for (int h = 0; h < 2; ++h) {
    const __m512i groups = h == 0 ? low_groups : high_groups;
    const __m512i left = _mm512_permutex2var_epi16(v[0], groups, v[1]),
                  right = _mm512_permutex2var_epi16(v[2], groups, v[3]);
    const __m512i first_two = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i last_two = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    _mm512_store_si512(half[4 * h], _mm512_permutex2var_epi64(left, first_two, right));
    _mm512_store_si512(half[4 * h + 2], _mm512_permutex2var_epi64(left, last_two, right));
  }
}

// The scales of a block's groups, of Q4_0 and Q8_0: 14-bit integers relative to a float per column, or marked as exact.
struct BlockScales {
  alignas(64) uint16_t half[8][16];
  __m512i integer[8];
  __m512 super;
  bool exact;
};

void load_scales(const Source& s, int64_t chunk, int64_t chunks, BlockScales& b) {
  if (whole(s, chunk, chunks)) {
    (s.type == DType::Q4_0 ? load_block_scales<sizeof(GroupQ4_0) / 2>
                           : load_block_scales<sizeof(GroupQ8_0) / 2>)(group_at(s, 0, 2 * chunk), s.stride, b.half);
  } else {
    for (int64_t g = 0; g < 2 * chunks; ++g)
      _mm256_store_si256(reinterpret_cast<__m256i*>(b.half[g]), _mm512_cvtepi32_epi16(words_of(s, 2 * chunk + g, 0)));
  }
  __m512 largest = _mm512_setzero_ps();
  for (int64_t g = 0; g < 2 * chunks; ++g)
    largest = _mm512_max_ps(largest, _mm512_abs_ps(_mm512_cvtph_ps(load256(b.half[g]))));
  b.super = _mm512_div_ps(largest, _mm512_set1_ps(kScaleRange));
  const __m512 inverse = _mm512_maskz_div_ps(_mm512_cmp_ps_mask(largest, _mm512_setzero_ps(), _CMP_GT_OQ),
                                             _mm512_set1_ps(kScaleRange), largest);
  b.exact = _mm512_cmp_ps_mask(largest, _mm512_set1_ps(65504.0f), _CMP_NLE_UQ) != 0;  // infinity or NaN
  for (int64_t g = 0; g < 2 * chunks; ++g) {
    const __m512 scale = _mm512_cvtph_ps(load256(b.half[g]));
    const __m512 scaled = _mm512_mul_ps(scale, inverse);
    const __mmask16 present = _mm512_cmp_ps_mask(scale, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    if (_mm512_mask_cmp_ps_mask(present, _mm512_abs_ps(scaled), _mm512_set1_ps(kScaleLeast), _CMP_NGE_UQ) != 0)
      b.exact = true;
    b.integer[g] = _mm512_cvtps_epi32(scaled);
  }
}

// The header before a block: the super-scales, or the mark.
void store_header(const BlockScales& b, uint8_t* out) {
  store_past(out, _mm512_castps_si512(b.exact ? _mm512_set1_ps(-1.0f) : b.super));
}

// The 64 B of scales of chunk c of the block.
void store_scales(const BlockScales& b, int64_t c, uint8_t* out) {
  if (b.exact) {
    lanes(b.half[2 * c], b.half[2 * c + 1], reinterpret_cast<uint16_t*>(out));
    return;
  }
  store_past(out, pairs_of(b.integer[2 * c], b.integer[2 * c + 1]));
}

uint8_t* pack_q4_0(const Source& s, int64_t chunk, int64_t chunks, uint8_t* out) {
  BlockScales scales;
  load_scales(s, chunk, chunks, scales);
  store_header(scales, out);
  out += 64;
  for (int64_t c = 0; c < chunks; ++c, out += 576) {
    if (whole(s, chunk, chunks)) {
      pack_chunk_q4<GroupQ4_0>(group_at(s, 0, 2 * (chunk + c)), s.stride, out);
    } else {
      ChunkVectors v;
      load_chunk(s, chunk + c, v);
      store_nibbles(v, out);
    }
    store_scales(scales, c, out + 512);
  }
  return out;
}

uint8_t* pack_q8_0(const Source& s, int64_t chunk, int64_t chunks, uint8_t* out) {
  BlockScales scales;
  load_scales(s, chunk, chunks, scales);
  store_header(scales, out);
  out += 64;
  for (int64_t c = 0; c < chunks; ++c, out += 1088) {
    if (whole(s, chunk, chunks)) {
      pack_chunk_q8_0(group_at(s, 0, 2 * (chunk + c)) + offsetof(GroupQ8_0, q), s.stride, out);
    } else {
      ChunkVectors v;
      load_chunk(s, chunk + c, v);
      for (int q = 0; q < 8; ++q) {
        store_past(out + 128 * q, v.x[q]);
        store_past(out + 128 * q + 64, v.y[q]);
      }
    }
    store_scales(scales, c, out + 1024);
  }
  return out;
}

uint8_t* pack_q4_k(const Source& s, int64_t chunk, int64_t chunks, uint8_t* out) {
  // d and dmin, then 12 bytes of 6-bit scales and mins (see scale_and_min), for all columns at once.
  const int64_t group = chunk / kBlockChunks;
  const __m512i d = words_of(s, group, 0);
  store_past(out, join(_mm512_cvtepi32_epi16(d), _mm512_cvtepi32_epi16(_mm512_srli_epi32(d, 16))));
  out += 64;
  const __m512i a = words_of(s, group, 4), b = words_of(s, group, 8), c = words_of(s, group, 12);
  const __m512i six = _mm512_set1_epi8(63), four = _mm512_set1_epi8(15), top = _mm512_set1_epi8(0x30);
  const auto upper = [&](__m512i low, __m512i high) {
    return _mm512_or_si512(_mm512_and_si512(low, four), _mm512_and_si512(_mm512_srli_epi16(high, 2), top));
  };
  const __m512i scales[2] = {_mm512_and_si512(a, six), upper(c, a)};
  const __m512i mins[2] = {_mm512_and_si512(b, six), upper(_mm512_srli_epi16(c, 4), b)};
  for (int64_t i = 0; i < chunks; ++i, out += 576) {
    if (whole(s, chunk, chunks)) {
      pack_chunk_q4_k(group_at(s, 0, group) + offsetof(GroupQ4_K, q) + 32 * i, s.stride, out);
    } else {
      ChunkVectors v;
      load_chunk(s, chunk + i, v);
      store_nibbles(v, out);
    }
    const auto two = [&](__m512i x) { return _mm512_cvtepi32_epi16(i % 2 == 0 ? x : _mm512_srli_epi32(x, 16)); };
    store_past(out + 512, join(two(scales[i / 2]), two(mins[i / 2])));
  }
  return out;
}

uint8_t* pack_q6_k(const Source& s, int64_t chunk, int64_t chunks, uint8_t* out) {
  const int64_t group = chunk / kBlockChunks;
  constexpr int64_t kD = offsetof(GroupQ6_K, d), kScales = offsetof(GroupQ6_K, scales);
  const __m512i d = _mm512_srli_epi32(words_of(s, group, kD - 2), 16);  // the word that ends with the group
  store_past(out, _mm512_castps_si512(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(d))));
  out += 64;
  ChunkVectors two[2];
  for (int64_t c = 0; c < chunks; ++c, out += 832) {
    if (!whole(s, chunk, chunks)) {
      load_chunk(s, chunk + c, two[c % 2]);
    } else if (c % 2 == 0) {
      load_chunks_q6_k(group_at(s, 0, group), c / 2, s.stride, two);
    }
    const ChunkVectors& v = two[c % 2];
    for (int p = 0; p < 4; ++p) {
      const __m512i three[3] = {v.x[2 * p], v.y[2 * p], v.x[2 * p + 1]};
      for (unsigned i = 0; i < 3; ++i) {  // bits 2i, 2i + 1 of the fourth to the top
        const __m512i upper = _mm512_slli_epi16(_mm512_srli_epi16(v.y[2 * p + 1], 2 * i), 6);
        store_past(out + 192 * p + 64 * i, _mm512_or_si512(three[i], _mm512_and_si512(upper, _mm512_set1_epi8(-64))));
      }
    }
    // Scales of A's halves, then of B's: bytes 0 and 2 for the first halves, 1 and 3 for the second.
    const __m512i four = words_of(s, group, kScales + 4 * c);
    const auto pair = [](__m512i x) {
      return _mm512_cvtepi32_epi16(
          _mm512_ternarylogic_epi32(_mm512_set1_epi32(0xff), x, _mm512_srli_epi32(x, 8), 0xca));
    };
    store_past(out + 768, join(pair(four), pair(_mm512_srli_epi32(four, 8))));
  }
  return out;
}

}  // namespace

int64_t packed_tile_bytes(DType type, int64_t k) {
  switch (type) {
    case DType::Q4_0:
    case DType::Q4_K:
      return blocks_of(k) * 64 + chunks_of(k) * 576;
    case DType::Q4_1:
      return blocks_of(k) * 64 + chunks_of(k) * 640;
    case DType::Q8_0:
      return blocks_of(k) * 64 + chunks_of(k) * 1088;
    case DType::Q6_K:
      return blocks_of(k) * 64 + chunks_of(k) * 832;
    case DType::Q8_M:
      return blocks_of(k) * 128 + chunks_of(k) * 1280;
    default:
      return 0;
  }
}

int64_t packed_bytes(DType type, int64_t n, int64_t k) {
  return (n + kColumnTile - 1) / kColumnTile * packed_tile_bytes(type, k);
}

void pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  const int64_t k = weight.shape.dims[0], n = weight.shape.dims[1] * weight.shape.dims[2] * weight.shape.dims[3];
  for (int64_t first = n0; first < n1; first += kColumnTile) {
    const int64_t columns = n - first < kColumnTile ? n - first : kColumnTile;
    const Source source{weight.type, weight.data, stored_row_bytes(weight.type, k), k, first, columns};
    auto* out = reinterpret_cast<uint8_t*>(packed) + first / kColumnTile * packed_tile_bytes(weight.type, k);
    const std::byte* next = source.data + (first + kColumnTile) * source.stride;
    const int64_t share = kColumnTile * source.stride / blocks_of(k);
    for (int64_t chunk = 0; chunk < chunks_of(k); chunk += kBlockChunks, next += share) {
      for (int64_t at = 0; at < share; at += 64) prefetch(next + at);
      const int64_t left = chunks_of(k) - chunk, chunks = left < kBlockChunks ? left : kBlockChunks;
      switch (weight.type) {
        case DType::Q4_0:
          out = pack_q4_0(source, chunk, chunks, out);
          break;
        case DType::Q4_1:
          out = pack_q4_1(source, chunk, chunks, out);
          break;
        case DType::Q8_0:
          out = pack_q8_0(source, chunk, chunks, out);
          break;
        case DType::Q4_K:
          out = pack_q4_k(source, chunk, chunks, out);
          break;
        case DType::Q8_M:
          out = pack_q8_m(source, chunk, chunks, out);
          break;
        default:
          out = pack_q6_k(source, chunk, chunks, out);
      }
    }
  }
  _mm_sfence();
}

}  // namespace llada::kernels::avx512vnni
