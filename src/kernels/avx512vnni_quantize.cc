// Activations to int8 in the layout of avx512vnni.h: one scale per group of 32 (max|x| / 127, round to nearest even),
// the same quants and scales as in every other table.
//
// One scale per 256 would save a multiplication per product of eight rows and a chunk of weights. But one value many
// times the rest, as large models have them, then makes the step of the rounding coarse for 255 others.
#include <immintrin.h>

#include "kernels/avx512vnni.h"

namespace llada::kernels::avx512vnni {
namespace {

void store64(void* p, __m128i v) { _mm_storel_epi64(static_cast<__m128i*>(p), v); }
void store_high64(void* p, __m128i v) { _mm_storeh_pd(static_cast<double*>(p), _mm_castsi128_pd(v)); }

// Sums of eight consecutive quants of a chunk as A B A B A B A B, from those of four: in each 128 bits A B of step q
// and A B of step q + 4.
__m256i eights(__m512i fours) {
  const __m512i pairs = _mm512_add_epi32(fours, _mm512_shuffle_i64x2(fours, fours, 0xb1));
  return _mm512_castsi512_si256(_mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 0, 4, 1, 5), pairs));
}

// (A, B) of both halves of a chunk: k 0..15 in the low, 16..31 in the high 128 bits; each pair twice.
__m256i sixteens(__m256i eight) { return _mm256_add_epi32(eight, _mm256_shuffle_epi32(eight, 0x4e)); }

// (A, B) of the chunk, twice.
__m128i whole(__m512i fours) {
  const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(fours), _mm512_extracti64x4_epi64(fours, 1));
  const __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  return _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
}

// The larger one of each pair of elements: of a in the even 32-bit (64-bit) lanes, of b in the odd ones, within 128
// bits.
__m512i larger_of_words(__m512i a, __m512i b) {
  return _mm512_max_epu32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}
__m512i larger_of_doubles(__m512i a, __m512i b) {
  return _mm512_max_epu32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

// The largest magnitude of each group, as the bits of a float. As integers they are ordered as the floats are, with
// infinity and then NaN above all others, which a maximum of floats would drop.
__m256i largest_of_groups(const float* v) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  __m512i m[8];
  for (int64_t g = 0; g < 8; ++g)
    m[g] = _mm512_max_epu32(_mm512_and_si512(_mm512_loadu_si512(v + 32 * g), magnitude),
                            _mm512_and_si512(_mm512_loadu_si512(v + 32 * g + 16), magnitude));
  const __m512i low = larger_of_doubles(larger_of_words(m[0], m[1]), larger_of_words(m[2], m[3]));
  const __m512i high = larger_of_doubles(larger_of_words(m[4], m[5]), larger_of_words(m[6], m[7]));
  const __m512i halves = _mm512_max_epu32(_mm512_shuffle_i64x2(low, high, 0x44), _mm512_shuffle_i64x2(low, high, 0xee));
  const __m512i wholes = _mm512_max_epu32(halves, _mm512_shuffle_i64x2(halves, halves, 0xb1));
  return _mm512_castsi512_si256(_mm512_permutexvar_epi64(_mm512_setr_epi64(0, 1, 4, 5, 0, 1, 4, 5), wholes));
}

// The factors that make quants of the groups of a block, and the scales that undo it.
struct GroupScales {
  alignas(32) float inverse[8], scale[8];
  alignas(16) int16_t ratio[8];
  __m256i ratios;  // the same as 32 bits
  float block;
  bool finite;
};

void find_scales(const float* v, GroupScales& s) {
  const __m256i bits = largest_of_groups(v);
  const __m256 largest = _mm256_castsi256_ps(bits), levels = _mm256_set1_ps(127.0f);
  s.finite = _mm256_cmp_epu32_mask(bits, _mm256_set1_epi32(0x7f800000), _MM_CMPINT_NLT) == 0;
  // So small a group that 127 / max would not be finite counts as zero.
  const __mmask8 counts = _mm256_cmp_ps_mask(largest, _mm256_set1_ps(0x1p-120f), _CMP_GT_OQ);
  __m256 most = _mm256_maskz_mov_ps(counts, largest);
  most = _mm256_max_ps(most, _mm256_permute2f128_ps(most, most, 1));
  most = _mm256_max_ps(most, _mm256_permute_ps(most, 0x4e));
  most = _mm256_max_ps(most, _mm256_permute_ps(most, 0xb1));
  const __m256 scale = _mm256_maskz_div_ps(counts, largest, levels), share = _mm256_maskz_div_ps(counts, largest, most);
  _mm256_store_ps(s.inverse, _mm256_maskz_div_ps(counts, levels, largest));
  _mm256_store_ps(s.scale, scale);
  s.ratios = _mm256_cvtps_epi32(_mm256_mul_ps(share, _mm256_set1_ps(-32768.0f)));
  _mm_store_si128(reinterpret_cast<__m128i*>(s.ratio), _mm256_cvtepi32_epi16(s.ratios));
  s.block = _mm256_cvtss_f32(most) / -127.0f;
}

// A row whose block has a value that is not finite: quants of zero and scales that make every product NaN.
alignas(64) constexpr float kZeros[kBlock] = {};
void make_undefined(GroupScales& s) {
  const float nan = __builtin_nanf("");
  find_scales(kZeros, s);
  for (float& scale : s.scale) scale = nan;
  s.block = nan;
}

// Where a row's values lie within its row tile.
struct RowPlace {
  std::byte* main;
  float* values;
  int16_t* ratios;
  float* scales;
  int32_t *halves, *wide;
  int16_t* pairs;
  int64_t height, in_tile;
};

// The data that the weights' kernels need beside the quants, their sums, the ratios and the block's values.
struct Parts {
  bool scales, halves, wide, pairs;
  explicit Parts(TypeSet readers)
      : scales((readers & ~kIntegerScales) != 0),
        halves((readers & kHalves) != 0),
        wide((readers & kWide) != 0),
        pairs((readers & kPairs) != 0) {}
  // As constants, so that no code of type_bit() is made here (see avx512vnni_vector-inl.h).
  static constexpr TypeSet kHalves = type_bit(DType::Q6_K), kPairs = type_bit(DType::Q4_K) | type_bit(DType::Q4_1),
                           kWide = type_bit(DType::Q8_0) | type_bit(DType::Q8_M);
  // The types of which no block keeps float scales.
  static constexpr TypeSet kIntegerScales = kHalves | type_bit(DType::Q4_K);
};

// The chunk's sums, of four quants each, as the weights that `parts` stands for want them; ratio: of A and B; carried:
// what the rounding of pairs has left of the block's groups so far.
void store_parts(__m512i fours, __m128i sum, __m128i ratio, int64_t index, const RowPlace& p, const Parts& parts,
                 int32_t& carried) {
  const int64_t at = index * p.height + p.in_tile;
  if (parts.halves) {
    const __m256i half = _mm256_slli_epi32(sixteens(eights(fours)), 5);
    const __m256i rounded = _mm256_sub_epi32(_mm256_set1_epi32(1 << kHalfShift >> 1), half);
    int32_t* halves = p.halves + (index * 2 * p.height + p.in_tile) * 2;
    store64(halves, _mm256_castsi256_si128(rounded));
    store64(halves + 2 * p.height, _mm256_extracti128_si256(rounded, 1));
  }
  if (parts.wide) store64(p.wide + at * 2, _mm_sub_epi32(_mm_set1_epi32(1 << kWideShift >> 1), _mm_slli_epi32(sum, 7)));
  if (parts.pairs) {  // 8 * sum * ratio / 2^15, |.| <= 8 * 4064
    const __m128i product = _mm_mullo_epi32(sum, ratio);
    // All columns meet the same pairs, and their offsets may be alike: so what rounding takes from one group the next
    // one gets.
    const auto rounded = [&carried](int32_t value) {
      carried += value;
      const int32_t whole = (carried + (1 << 11)) >> 12;
      carried -= whole << 12;
      return static_cast<int16_t>(whole);
    };
    p.pairs[at * 2] = rounded(_mm_cvtsi128_si32(product));
    p.pairs[at * 2 + 1] = rounded(_mm_extract_epi32(product, 1));
  }
}

// Block b of a row, of which `chunks` exist, from 256 floats.
void quantize_block(const float* v, int64_t chunks, int64_t b, const RowPlace& p, const Parts& parts) {
  const int64_t height = p.height;
  GroupScales scales;
  find_scales(v, scales);
  if (__builtin_expect(!scales.finite, 0)) {
    make_undefined(scales);
    v = kZeros;
  }
  const __m512i ones = _mm512_set1_epi8(1), none = _mm512_setzero_si512();
  __m128i most = _mm_setzero_si128();
  int32_t carried = 0;
  for (int64_t c = 0; c < chunks; ++c) {
    __m512i q[4];  // k 0..15 and 16..31 of A, the same of B
    for (int64_t i = 0; i < 4; ++i) {
      const __m512 inverse = _mm512_set1_ps(scales.inverse[2 * c + i / 2]);
      q[i] = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(v + 64 * c + 16 * i), inverse));
    }
    // Each 128 bits: step q of A, of B, step q + 4 of A, of B.
    const __m512i bytes = _mm512_packs_epi16(_mm512_packs_epi32(q[0], q[2]), _mm512_packs_epi32(q[1], q[3]));
    const int64_t index = b * kBlockChunks + c, at = index * height + p.in_tile;
    std::byte* out = p.main + index * height * ActivationLayout::kMain + p.in_tile * 8;
    const __m128i steps[4] = {_mm512_castsi512_si128(bytes), _mm512_extracti32x4_epi32(bytes, 1),
                              _mm512_extracti32x4_epi32(bytes, 2), _mm512_extracti32x4_epi32(bytes, 3)};
    for (int step = 0; step < 4; ++step) {
      store64(out + step * height * 8, steps[step]);
      store_high64(out + (step + 4) * height * 8, steps[step]);
    }
    const __m512i fours = _mm512_dpbusd_epi32(none, ones, bytes);
    const __m128i sum = whole(fours);
    store64(out + height * kChunk, _mm_sub_epi32(_mm_setzero_si128(), _mm_slli_epi32(sum, 3)));
    __builtin_memcpy(p.ratios + at * 2, scales.ratio + 2 * c, 4);
    if (parts.scales) __builtin_memcpy(p.scales + at * 2, scales.scale + 2 * c, 8);
    if (parts.halves || parts.wide || parts.pairs) {
      alignas(32) int32_t ratio[8];
      _mm256_store_si256(reinterpret_cast<__m256i*>(ratio), scales.ratios);
      store_parts(fours, sum, _mm_loadl_epi64(reinterpret_cast<const __m128i*>(ratio + 2 * c)), index, p, parts,
                  carried);
    }
    if (parts.pairs) {  // |sum| + sum of magnitudes: twice the sum of the positive quants or of the negative ones
      const __m128i magnitudes = whole(_mm512_dpbusd_epi32(none, _mm512_abs_epi8(bytes), ones));
      most = _mm_max_epi32(most, _mm_add_epi32(magnitudes, _mm_abs_epi32(sum)));
    }
  }
  const __m128i larger = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0xb1));
  const int32_t steep = _mm_cvtsi128_si32(larger) > 2 * kSteep;
  float* values = p.values + b * height * ActivationLayout::kBlockValues + p.in_tile;
  values[0] = scales.block;
  __builtin_memcpy(values + height, &steep, 4);
}

RowPlace place_of(const ActivationLayout& layout, std::byte* activations, int64_t rows, int64_t k, int64_t first) {
  const int64_t chunks = chunks_of(k), blocks = blocks_of(k);
  return {activations + first * chunks * ActivationLayout::kMain,
          reinterpret_cast<float*>(activations + layout.block_values) + first * blocks * ActivationLayout::kBlockValues,
          reinterpret_cast<int16_t*>(activations + layout.ratios) + first * chunks * 2,
          reinterpret_cast<float*>(activations + layout.scales) + first * chunks * 2,
          reinterpret_cast<int32_t*>(activations + layout.halves) + first * chunks * 4,
          reinterpret_cast<int32_t*>(activations + layout.wide) + first * chunks * 2,
          reinterpret_cast<int16_t*>(activations + layout.pairs) + first * chunks * 2,
          rows - first < kRowTile ? rows - first : kRowTile,
          0};
}

// The `Count` units of `Bytes` that a row has in a chunk or block of an area; `index`: which chunk or block.
template <int64_t Bytes, int64_t Count, class T>
inline void copy_units(const T* from, const RowPlace& f, T* to, const RowPlace& t, int64_t index) {
  const auto* source = reinterpret_cast<const std::byte*>(from) + (index * Count * f.height + f.in_tile) * Bytes;
  auto* target = reinterpret_cast<std::byte*>(to) + (index * Count * t.height + t.in_tile) * Bytes;
#pragma GCC unroll 9
  for (int64_t i = 0; i < Count; ++i)
    __builtin_memcpy(target + i * t.height * Bytes, source + i * f.height * Bytes, Bytes);
}

}  // namespace

int64_t activation_bytes(int64_t rows, int64_t k) { return ActivationLayout(rows, k).bytes; }

void quantize_rows(const float* x, int64_t rows, int64_t k, int64_t r0, int64_t r1, TypeSet readers,
                   std::byte* activations) {
  const Parts parts(readers);
  const ActivationLayout layout(rows, k);
  const int64_t blocks = blocks_of(k);
  // Block by block of a row tile, since its rows share cache lines: row by row they left L1 in between, and took three
  // times as long.
  for (int64_t begin = r0, end; begin < r1; begin = end) {
    const int64_t first = begin / kRowTile * kRowTile;
    RowPlace place = place_of(layout, activations, rows, k, first);
    end = r1 < first + place.height ? r1 : first + place.height;
    for (int64_t b = 0; b < blocks; ++b)
      for (int64_t r = begin; r < end; ++r) {
        place.in_tile = r - first;
        const float* v = x + r * k + b * kBlock;
        const int64_t values = k - b * kBlock < kBlock ? k - b * kBlock : kBlock;
        alignas(64) float padded[kBlock];
        if (values < kBlock) {
          for (int64_t i = 0; i < kBlock; i += 16)
            _mm512_store_ps(padded + i, i < values ? _mm512_loadu_ps(v + i) : _mm512_setzero_ps());
          v = padded;
        }
        quantize_block(v, chunks_of(values), b, place, parts);
      }
  }
}

void pick_rows(const PickArgs& a) {
  const Parts parts(a.readers);
  const ActivationLayout from(a.rows, a.k), to(a.count, a.k);
  const int64_t chunks = chunks_of(a.k), blocks = blocks_of(a.k);
  auto* source = const_cast<std::byte*>(a.activations);  // only read
  for (int64_t first = 0; first < a.count; first += kRowTile) {
    RowPlace target = place_of(to, a.out, a.count, a.k, first);
    RowPlace sources[kRowTile];
    for (int64_t r = 0; r < target.height; ++r) {
      const int64_t row = a.picked[first + r];
      sources[r] = place_of(from, source, a.rows, a.k, row / kRowTile * kRowTile);
      sources[r].in_tile = row % kRowTile;
    }
    for (int64_t c = 0; c < chunks; ++c)
      for (int64_t r = 0; r < target.height; ++r) {
        const RowPlace& f = sources[r];
        target.in_tile = r;
        copy_units<8, 9>(f.main, f, target.main, target, c);
        copy_units<4, 1>(f.ratios, f, target.ratios, target, c);
        if (parts.scales) copy_units<8, 1>(f.scales, f, target.scales, target, c);
        if (parts.halves) copy_units<8, 2>(f.halves, f, target.halves, target, c);
        if (parts.wide) copy_units<8, 1>(f.wide, f, target.wide, target, c);
        if (parts.pairs) copy_units<4, 1>(f.pairs, f, target.pairs, target, c);
      }
    for (int64_t b = 0; b < blocks; ++b)
      for (int64_t r = 0; r < target.height; ++r) {
        target.in_tile = r;
        copy_units<4, ActivationLayout::kBlockValues>(sources[r].values, sources[r], target.values, target, b);
      }
  }
}

}  // namespace llada::kernels::avx512vnni
