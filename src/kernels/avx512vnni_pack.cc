// Stored groups into the packed layouts of avx512vnni.h, one column tile at a time, and the expansion of
// blocks of the types that stay as stored. Columns beyond n are packed as zero.
#include <immintrin.h>

#include "kernels/avx512vnni_tile.h"

namespace llada::kernels::avx512vnni {
namespace {

constexpr float kScaleRange = 8192;  // 8 groups x 32512 x 8192 < 2^31
constexpr float kScaleLeast = 1024;  // half a unit of this is 2^-11

struct Source {
  DType type;
  const std::byte* data;
  int64_t stride, k, first, columns;  // columns of this tile that exist
};

__m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
__m256i load256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
uint16_t load16(const void* p) {
  uint16_t v;
  __builtin_memcpy(&v, p, 2);
  return v;
}
__m512i join(__m256i low, __m256i high) { return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1); }
__m256i join(__m128i low, __m128i high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

__m256i nibbles(const void* p) {  // 16 bytes: low nibbles, then high nibbles
  const __m128i bytes = load128(p), mask = _mm_set1_epi8(15);
  return join(_mm_and_si128(bytes, mask), _mm_and_si128(_mm_srli_epi16(bytes, 4), mask));
}

__m256i fifth_bits(const void* p) {  // 32 bits to 32 bytes of 0 or 16
  int bits;
  __builtin_memcpy(&bits, p, 4);
  return _mm256_maskz_set1_epi8(static_cast<__mmask32>(bits), 16);
}

// One group of 32 as unsigned quants.
__m256i group_quants(DType type, const std::byte* g) {
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
__m512i super_quants(DType type, const std::byte* g, int64_t c) {
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
void scale_and_min(const uint8_t* s, int64_t j, uint8_t& scale, uint8_t& min) {
  if (j < 4) {
    scale = s[j] & 63;
    min = s[j + 4] & 63;
  } else {
    scale = static_cast<uint8_t>((s[j + 4] & 15) | (s[j - 4] >> 6 << 4));
    min = static_cast<uint8_t>(s[j + 4] >> 4 | s[j] >> 6 << 4);
  }
}

int64_t group_bytes(DType type) {
  switch (type) {
    case DType::Q8_0:
      return sizeof(GroupQ8_0);
    case DType::Q4_0:
      return sizeof(GroupQ4_0);
    case DType::Q4_1:
      return sizeof(GroupQ4_1);
    case DType::Q5_0:
      return sizeof(GroupQ5_0);
    case DType::Q5_1:
      return sizeof(GroupQ5_1);
    case DType::Q4_K:
      return sizeof(GroupQ4_K);
    case DType::Q5_K:
      return sizeof(GroupQ5_K);
    default:
      return sizeof(GroupQ6_K);
  }
}

bool super_type(DType type) { return type == DType::Q4_K || type == DType::Q5_K || type == DType::Q6_K; }

int64_t stored_row(DType type, int64_t k) { return k / (super_type(type) ? 256 : 32) * group_bytes(type); }

// Group g of column c of the tile (a group of 32, or of 256), or null beyond the matrix.
const std::byte* group_at(const Source& s, int64_t column, int64_t group) {
  const int64_t elements = super_type(s.type) ? 256 : 32;
  if (column >= s.columns || group * elements >= s.k) return nullptr;
  return s.data + (s.first + column) * s.stride + group * group_bytes(s.type);
}

// The sixteen X and Y vectors of a chunk, still one byte per quant.
struct ChunkVectors {
  __m512i x[8], y[8];
};
void load_chunk(const Source& s, int64_t chunk, ChunkVectors& v) {
  alignas(64) uint8_t rows[16][64];
  for (int64_t c = 0; c < kColumnTile; ++c) {
    __m512i q = _mm512_setzero_si512();
    if (super_type(s.type)) {
      if (const std::byte* g = group_at(s, c, chunk / kBlockChunks))
        q = super_quants(s.type, g, chunk % kBlockChunks);
    } else if (const std::byte* a = group_at(s, c, 2 * chunk)) {
      const std::byte* b = group_at(s, c, 2 * chunk + 1);
      q = join(group_quants(s.type, a), b != nullptr ? group_quants(s.type, b) : _mm256_setzero_si256());
    }
    _mm512_store_si512(rows[c], q);
  }
  // In 32-bit words: lane 2i column kXColumn[i] (16 words each) group A, lane 2i+1 group B (8 words on).
  const __m512i x = _mm512_setr_epi32(0, 8, 16, 24, 64, 72, 80, 88, 128, 136, 144, 152, 192, 200, 208, 216);
  const __m512i y = _mm512_add_epi32(x, _mm512_set1_epi32(32));
  for (int q = 0; q < 8; ++q) {
    v.x[q] = _mm512_i32gather_epi32(x, rows[0] + 4 * q, 4);
    v.y[q] = _mm512_i32gather_epi32(y, rows[0] + 4 * q, 4);
  }
}

void store_nibbles(const ChunkVectors& v, uint8_t* out) {
  const __m512i nibble = _mm512_set1_epi8(15);
  for (int q = 0; q < 8; ++q) {
    const __m512i x = _mm512_and_si512(v.x[q], nibble), y = _mm512_and_si512(v.y[q], nibble);
    _mm512_store_si512(out + 64 * q, _mm512_or_si512(x, _mm512_slli_epi16(y, 4)));
  }
}

// F16 scales of group g (of 32) of the 16 columns, 0 where there is none.
void scales_of(const Source& s, int64_t group, uint16_t (&d)[16]) {
  for (int64_t c = 0; c < kColumnTile; ++c) {
    const std::byte* g = group_at(s, c, group);
    d[c] = g != nullptr ? load16(g) : 0;
  }
}

// (A, B) of each column in the lane order of X, then of Y.
template <class T>
void lanes(const T (&a)[16], const T (&b)[16], T* out) {
  for (int i = 0; i < 8; ++i)
    for (int v = 0; v < 2; ++v) {
      out[16 * v + 2 * i] = a[kXColumn[i] + 2 * v];
      out[16 * v + 2 * i + 1] = b[kXColumn[i] + 2 * v];
    }
}

// The scales of a block's groups, of Q4_0 and Q8_0: 14-bit integers relative to a float per column, or marked as exact.
struct BlockScales {
  alignas(64) uint16_t half[8][16];
  alignas(64) int32_t integer[8][16];
  alignas(64) float super[16];
  bool exact;
};

void load_scales(const Source& s, int64_t chunk, int64_t chunks, BlockScales& b) {
  __m512 largest = _mm512_setzero_ps();
  for (int64_t g = 0; g < 2 * chunks; ++g) {
    scales_of(s, 2 * chunk + g, b.half[g]);
    largest = _mm512_max_ps(largest, _mm512_abs_ps(_mm512_cvtph_ps(load256(b.half[g]))));
  }
  _mm512_store_ps(b.super, _mm512_div_ps(largest, _mm512_set1_ps(kScaleRange)));
  const __m512 inverse = _mm512_maskz_div_ps(_mm512_cmp_ps_mask(largest, _mm512_setzero_ps(), _CMP_GT_OQ),
                                             _mm512_set1_ps(kScaleRange), largest);
  b.exact = _mm512_cmp_ps_mask(largest, _mm512_set1_ps(65504.0f), _CMP_NLE_UQ) != 0;  // infinity or NaN
  for (int64_t g = 0; g < 2 * chunks; ++g) {
    const __m512 scale = _mm512_cvtph_ps(load256(b.half[g]));
    const __m512 scaled = _mm512_mul_ps(scale, inverse);
    const __mmask16 present = _mm512_cmp_ps_mask(scale, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    if (_mm512_mask_cmp_ps_mask(present, _mm512_abs_ps(scaled), _mm512_set1_ps(kScaleLeast), _CMP_NGE_UQ) !=
        0)
      b.exact = true;
    _mm512_store_si512(b.integer[g], _mm512_cvtps_epi32(scaled));
  }
}

// What stands before a block: the super-scales, or the mark.
void store_header(const BlockScales& b, uint8_t* out) {
  _mm512_store_ps(out, b.exact ? _mm512_set1_ps(-1.0f) : _mm512_load_ps(b.super));
}

// The 64 B of scales of chunk c of the block.
void store_scales(const BlockScales& b, int64_t c, uint8_t* out) {
  if (b.exact) {
    lanes(b.half[2 * c], b.half[2 * c + 1], reinterpret_cast<uint16_t*>(out));
    return;
  }
  const __m512i low = _mm512_and_si512(_mm512_load_si512(b.integer[2 * c]), _mm512_set1_epi32(0xffff));
  _mm512_store_si512(out, _mm512_or_si512(low, _mm512_slli_epi32(_mm512_load_si512(b.integer[2 * c + 1]), 16)));
}

uint8_t* pack_q4_0(const Source& s, int64_t chunk, int64_t chunks, uint8_t* out) {
  BlockScales scales;
  load_scales(s, chunk, chunks, scales);
  store_header(scales, out);
  out += 64;
  for (int64_t c = 0; c < chunks; ++c, out += 576) {
    ChunkVectors v;
    load_chunk(s, chunk + c, v);
    store_nibbles(v, out);
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
    ChunkVectors v;
    load_chunk(s, chunk + c, v);
    for (int q = 0; q < 8; ++q) {
      _mm512_store_si512(out + 128 * q, v.x[q]);
      _mm512_store_si512(out + 128 * q + 64, v.y[q]);
    }
    store_scales(scales, c, out + 1024);
  }
  return out;
}

uint8_t* pack_q4_k(const Source& s, int64_t chunk, int64_t chunks, uint8_t* out) {
  const std::byte* groups[16];
  for (int64_t c = 0; c < kColumnTile; ++c) {
    groups[c] = group_at(s, c, chunk / kBlockChunks);
    const uint16_t d = groups[c] != nullptr ? load16(groups[c]) : 0,
                   dmin = groups[c] != nullptr ? load16(groups[c] + 2) : 0;
    __builtin_memcpy(out + 2 * c, &d, 2);
    __builtin_memcpy(out + 32 + 2 * c, &dmin, 2);
  }
  out += 64;
  for (int64_t c = 0; c < chunks; ++c, out += 576) {
    ChunkVectors v;
    load_chunk(s, chunk + c, v);
    store_nibbles(v, out);
    for (int64_t column = 0; column < kColumnTile; ++column)
      for (int64_t g = 0; g < 2; ++g) {
        uint8_t scale = 0, min = 0;
        if (groups[column] != nullptr)
          scale_and_min(reinterpret_cast<const uint8_t*>(groups[column]) + 4, 2 * c + g, scale, min);
        out[512 + 2 * column + g] = scale;
        out[544 + 2 * column + g] = min;
      }
  }
  return out;
}

uint8_t* pack_q6_k(const Source& s, int64_t chunk, int64_t chunks, uint8_t* out) {
  const std::byte* groups[16];
  uint16_t d[16];
  for (int64_t c = 0; c < kColumnTile; ++c) {
    groups[c] = group_at(s, c, chunk / kBlockChunks);
    d[c] = groups[c] != nullptr ? load16(groups[c] + offsetof(GroupQ6_K, d)) : 0;
  }
  _mm512_store_ps(out, _mm512_cvtph_ps(load256(d)));
  out += 64;
  for (int64_t c = 0; c < chunks; ++c, out += 832) {
    ChunkVectors v;
    load_chunk(s, chunk + c, v);
    for (int p = 0; p < 4; ++p) {
      const __m512i three[3] = {v.x[2 * p], v.y[2 * p], v.x[2 * p + 1]};
      for (unsigned i = 0; i < 3; ++i) {  // bits 2i, 2i + 1 of the fourth to the top
        const __m512i two = _mm512_slli_epi16(_mm512_srli_epi16(v.y[2 * p + 1], 2 * i), 6);
        _mm512_store_si512(out + 192 * p + 64 * i,
                           _mm512_or_si512(three[i], _mm512_and_si512(two, _mm512_set1_epi8(-64))));
      }
    }
    for (int64_t half = 0; half < 2; ++half)
      for (int64_t column = 0; column < kColumnTile; ++column)
        for (int64_t g = 0; g < 2; ++g) {
          uint8_t scale = 0;
          if (groups[column] != nullptr)
            scale = static_cast<uint8_t>(
                groups[column][offsetof(GroupQ6_K, scales) + static_cast<size_t>(4 * c + half + 2 * g)]);
          out[768 + 32 * half + 2 * column + g] = scale;
        }
  }
  return out;
}

float half_to_float(uint16_t h) { return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(h))); }

// w = scale * q + offset of group `group` (of 32) of a column.
void constants_of(const Source& s, int64_t column, int64_t group, float& scale, float& offset) {
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

bool packs(DType type) {
  return type == DType::Q4_0 || type == DType::Q8_0 || type == DType::Q4_K || type == DType::Q6_K;
}

int64_t packed_tile_bytes(DType type, int64_t k) {
  switch (type) {
    case DType::Q4_0:
    case DType::Q4_K:
      return blocks_of(k) * 64 + chunks_of(k) * 576;
    case DType::Q8_0:
      return blocks_of(k) * 64 + chunks_of(k) * 1088;
    case DType::Q6_K:
      return blocks_of(k) * 64 + chunks_of(k) * 832;
    default:
      return 0;
  }
}

int64_t packed_bytes(DType type, int64_t n, int64_t k) {
  return (n + kColumnTile - 1) / kColumnTile * packed_tile_bytes(type, k);
}

void pack(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  const int64_t k = weight.shape.dims[0],
                n = weight.shape.dims[1] * weight.shape.dims[2] * weight.shape.dims[3];
  if (!packs(weight.type)) return;
  for (int64_t first = n0; first < n1; first += kColumnTile) {
    const int64_t columns = n - first < kColumnTile ? n - first : kColumnTile;
    const Source source{weight.type, weight.data, stored_row(weight.type, k), k, first, columns};
    auto* out = reinterpret_cast<uint8_t*>(packed) + first / kColumnTile * packed_tile_bytes(weight.type, k);
    for (int64_t chunk = 0; chunk < chunks_of(k); chunk += kBlockChunks) {
      const int64_t left = chunks_of(k) - chunk, chunks = left < kBlockChunks ? left : kBlockChunks;
      switch (weight.type) {
        case DType::Q4_0:
          out = pack_q4_0(source, chunk, chunks, out);
          break;
        case DType::Q8_0:
          out = pack_q8_0(source, chunk, chunks, out);
          break;
        case DType::Q4_K:
          out = pack_q4_k(source, chunk, chunks, out);
          break;
        default:
          out = pack_q6_k(source, chunk, chunks, out);
      }
    }
  }
}

void expand_block(DType type, const std::byte* stored, int64_t k, int64_t c0, int64_t columns, int64_t b,
                  uint8_t* out) {
  const Source source{type, stored, stored_row(type, k), k, c0, columns};
  const int64_t left = chunks_of(k) - b * kBlockChunks, chunks = left < kBlockChunks ? left : kBlockChunks;
  for (int64_t c = 0; c < chunks; ++c, out += kExpandedChunk) {
    const int64_t chunk = b * kBlockChunks + c;
    ChunkVectors v;
    load_chunk(source, chunk, v);
    for (int q = 0; q < 8; ++q) {
      _mm512_store_si512(out + 128 * q, v.x[q]);
      _mm512_store_si512(out + 128 * q + 64, v.y[q]);
    }
    float scale[2][16], offset[2][16];
    for (int64_t g = 0; g < 2; ++g)
      for (int64_t column = 0; column < kColumnTile; ++column) {
        constants_of(source, column, 2 * chunk + g, scale[g][column], offset[g][column]);
        offset[g][column] *= -0.125f;  // the activations bring -8 * sum
      }
    lanes(scale[0], scale[1], reinterpret_cast<float*>(out + 1024));
    lanes(offset[0], offset[1], reinterpret_cast<float*>(out + 1024 + 128));
  }
}

}  // namespace llada::kernels::avx512vnni
