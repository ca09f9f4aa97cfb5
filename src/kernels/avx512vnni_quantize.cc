// Activations to int8: one scale per row and block of 256 (max|x| / 127, round to nearest even), in the
// layout of avx512vnni.h. One scale for 256 values lets a product add eight groups of weights as integers
// before it touches a float; the K types of GGUF were designed for the same.
#include <immintrin.h>

#include "kernels/avx512vnni.h"

namespace llada::kernels::avx512vnni {
namespace {

void store64(void* p, __m128i v) { _mm_storel_epi64(static_cast<__m128i*>(p), v); }
void store_high64(void* p, __m128i v) { _mm_storeh_pd(static_cast<double*>(p), _mm_castsi128_pd(v)); }

// Sums of eight consecutive quants of a chunk as A B A B A B A B, from those of four: in each 128 bits A B of step q and A B
// of step q + 4.
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

int greatest(__m256i v) {
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
  return _mm_cvtsi128_si32(m);
}

// The smallest shift after which 128 * sum, rounded, fits 16 bits.
int shift_of(int sum) {
  int shift = 0;
  while (((128 * sum + (1 << shift >> 1)) >> shift) > 32767) ++shift;
  return shift;
}

// Where a row's values lie within its row tile.
struct RowPlace {
  std::byte* main;
  float* values;
  int32_t *quarters, *halves, *wide;
  int16_t* pairs;
  int64_t height, in_tile;
};

// What the weights that will read the activations need beside the main area.
struct Parts {
  bool sixteens, wide, pairs;
  explicit Parts(TypeSet readers)
      : sixteens((readers & kSixteens) != 0), wide((readers & kWide) != 0), pairs((readers & kPairs) != 0) {}
  // As constants, so that no code of type_bit() is made here (see avx512vnni_vector-inl.h).
  static constexpr TypeSet kSixteens = type_bit(DType::Q6_K), kWide = type_bit(DType::Q8_0), kPairs = type_bit(DType::Q4_K);
};

// Block b of a row from its first `vectors` x 16 floats.
void quantize_block(const float* v, int64_t vectors, int64_t b, const RowPlace& p, const Parts& parts) {
  const int64_t height = p.height, chunks = (vectors + 3) / 4;
  __m512 largest[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
  for (int64_t i = 0; i < vectors; i += 2)
    for (int64_t j = 0; j < 2; ++j)
      largest[j] = _mm512_max_ps(largest[j], _mm512_abs_ps(_mm512_loadu_ps(v + 16 * (i + j))));
  const float max = _mm512_reduce_max_ps(_mm512_max_ps(largest[0], largest[1]));
  const bool zero = !(max > 0x1p-120f);
  const float scale = zero ? 0.0f : max / 127.0f;
  const __m512 inverse = _mm512_set1_ps(zero ? 0.0f : 127.0f / max);
  const __m512i ones = _mm512_set1_epi8(1), none = _mm512_setzero_si512();
  __m128i sums[kBlockChunks];
  __m256i most16 = _mm256_setzero_si256();
  __m128i most32 = _mm_setzero_si128();
  for (int64_t c = 0; c < chunks; ++c) {
    __m512i q[4];  // k 0..15 and 16..31 of A, the same of B
    for (int64_t i = 0; i < 4; ++i)
      q[i] = 4 * c + i < vectors ? _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(v + 16 * (4 * c + i)), inverse)) : none;
    // Each 128 bits: step q of A, of B, step q + 4 of A, of B.
    const __m512i bytes = _mm512_packs_epi16(_mm512_packs_epi32(q[0], q[2]), _mm512_packs_epi32(q[1], q[3]));
    const int64_t index = b * kBlockChunks + c;
    std::byte* out = p.main + index * height * ActivationLayout::kMain + p.in_tile * 8;
    const __m128i steps[4] = {_mm512_castsi512_si128(bytes), _mm512_extracti32x4_epi32(bytes, 1),
                              _mm512_extracti32x4_epi32(bytes, 2), _mm512_extracti32x4_epi32(bytes, 3)};
    for (int step = 0; step < 4; ++step) {
      store64(out + step * height * 8, steps[step]);
      store_high64(out + (step + 4) * height * 8, steps[step]);
    }
    const __m512i fours = _mm512_dpbusd_epi32(none, ones, bytes);
    const __m128i sum = sums[c] = whole(fours);
    store64(out + height * kChunk, _mm_sub_epi32(_mm_setzero_si128(), _mm_slli_epi32(sum, 3)));
    if (parts.sixteens || parts.wide || parts.pairs) {
      const __m512i magnitudes = _mm512_dpbusd_epi32(none, _mm512_abs_epi8(bytes), ones);
      most16 = _mm256_max_epi32(most16, sixteens(eights(magnitudes)));
      most32 = _mm_max_epi32(most32, whole(magnitudes));
    }
    if (parts.sixteens) {
      const __m256i eight = eights(fours), zero256 = _mm256_setzero_si256();
      const __m256i quarter = _mm256_sub_epi32(zero256, _mm256_slli_epi32(eight, 5));
      const __m256i half = _mm256_sub_epi32(zero256, _mm256_slli_epi32(sixteens(eight), 5));
      int32_t* quarters = p.quarters + (index * 4 * height + p.in_tile) * 2;
      store64(quarters, _mm256_castsi256_si128(quarter));
      store_high64(quarters + 2 * height, _mm256_castsi256_si128(quarter));
      store64(quarters + 4 * height, _mm256_extracti128_si256(quarter, 1));
      store_high64(quarters + 6 * height, _mm256_extracti128_si256(quarter, 1));
      int32_t* halves = p.halves + (index * 2 * height + p.in_tile) * 2;
      store64(halves, _mm256_castsi256_si128(half));
      store64(halves + 2 * height, _mm256_extracti128_si256(half, 1));
    }
    if (parts.pairs) {
      const int pair = _mm_cvtsi128_si32(_mm_packs_epi32(sum, sum));
      __builtin_memcpy(p.pairs + (index * height + p.in_tile) * 2, &pair, 4);
    }
  }
  const int shift = parts.wide ? shift_of(greatest(_mm256_castsi128_si256(most32))) : 0;
  const int32_t steep = greatest(most16) > 1023;
  float* values = p.values + b * height * ActivationLayout::kBlockValues + p.in_tile;
  values[0] = scale;
  values[height] = scale * static_cast<float>(1 << shift);
  __builtin_memcpy(values + 2 * height, &shift, 4);
  __builtin_memcpy(values + 3 * height, &steep, 4);
  if (!parts.wide) return;
  for (int64_t c = 0; c < chunks; ++c)
    store64(p.wide + ((b * kBlockChunks + c) * height + p.in_tile) * 2,
            _mm_sub_epi32(_mm_set1_epi32(1 << shift >> 1), _mm_slli_epi32(sums[c], 7)));
}

RowPlace place_of(const ActivationLayout& layout, std::byte* activations, int64_t rows, int64_t k, int64_t first) {
  const int64_t chunks = chunks_of(k), blocks = blocks_of(k);
  return {activations + first * chunks * ActivationLayout::kMain,
          reinterpret_cast<float*>(activations + layout.block_values) + first * blocks * ActivationLayout::kBlockValues,
          reinterpret_cast<int32_t*>(activations + layout.quarters) + first * chunks * 8,
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
        quantize_block(x + r * k + b * kBlock, (k - b * kBlock < kBlock ? k - b * kBlock : kBlock) / 16, b, place, parts);
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
        if (parts.sixteens) copy_units<8, 4>(f.quarters, f, target.quarters, target, c);
        if (parts.sixteens) copy_units<8, 2>(f.halves, f, target.halves, target, c);
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
