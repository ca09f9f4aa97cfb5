// Packing of Q4_1 and Q8_M (avx512vnni_pack.cc): groups with a scale and an offset.
#include <immintrin.h>

#include "kernels/avx512vnni_stored-inl.h"
#include "kernels/avx512vnni_tile.h"

namespace llada::kernels::avx512vnni {

// w = d (q - 8) + (m + 8 d): scales d in units of a float per column, offsets in eight of them. The unit is 2^-19 of
// the sum over the groups of each one's largest |w|. So a block's products w a with |a| <= 127 add up to 2^19 * 32 *
// 127 units at most, which with all roundings is below 2^31. It is 1 / 240000 of the largest of these at least, so that
// both fit 16 bits. Where that moves a group's values by more than 2^-11 of the largest, the block's numbers stay F16.
uint8_t* pack_q4_1(const Source& s, int64_t chunk, int64_t chunks, uint8_t* out) {
  __m512i both[8];  // d, and m in the upper half
  __m512 d[8], offset[8], largest[8], sum = _mm512_setzero_ps(), most = _mm512_setzero_ps();
  for (int64_t g = 0; g < 2 * chunks; ++g) {
    both[g] = words_of(s, 2 * chunk + g, 0);
    d[g] = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(both[g]));
    const __m512 m = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(both[g], 16)));
    offset[g] = _mm512_fmadd_ps(d[g], _mm512_set1_ps(8), m);
    const __m512 last = _mm512_fmadd_ps(d[g], _mm512_set1_ps(15), m);
    largest[g] = _mm512_max_ps(_mm512_abs_ps(m), _mm512_abs_ps(last));  // NaN where one is, as `last` then is
    sum = _mm512_add_ps(sum, largest[g]), most = _mm512_max_ps(most, largest[g]);
  }
  const __m512 unit =
      _mm512_max_ps(_mm512_mul_ps(sum, _mm512_set1_ps(0x1p-19f)), _mm512_div_ps(most, _mm512_set1_ps(240000)));
  const __m512 inverse =
      _mm512_maskz_div_ps(_mm512_cmp_ps_mask(unit, _mm512_setzero_ps(), _CMP_GT_OQ), _mm512_set1_ps(1), unit);
  const __m512 least = _mm512_mul_ps(unit, _mm512_set1_ps(0x1p14f));  // 2 halves of 8 units are 2^-11 of this
  bool exact = _mm512_cmp_ps_mask(sum, _mm512_set1_ps(1e30f), _CMP_NLE_UQ) != 0;  // infinity or NaN
  for (int64_t g = 0; g < 2 * chunks; ++g) {
    const __mmask16 present = _mm512_cmp_ps_mask(largest[g], _mm512_setzero_ps(), _CMP_NEQ_UQ);
    if (_mm512_mask_cmp_ps_mask(present, largest[g], least, _CMP_LT_OQ) != 0) exact = true;
  }
  store_past(out, _mm512_castps_si512(exact ? _mm512_set1_ps(-1.0f) : unit));
  out += 64;
  for (int64_t c = 0; c < chunks; ++c, out += 640) {
    if (whole(s, chunk, chunks)) {
      pack_chunk_q4<GroupQ4_1>(group_at(s, 0, 2 * (chunk + c)), s.stride, out);
    } else {
      ChunkVectors v;
      load_chunk(s, chunk + c, v);
      store_nibbles(v, out);
    }
    if (exact) {
      alignas(64) uint32_t a[16], b[16], lane[32];
      _mm512_store_si512(a, both[2 * c]), _mm512_store_si512(b, both[2 * c + 1]);
      lanes(a, b, lane);
      for (int v = 0; v < 2; ++v) {
        const __m512i words = _mm512_load_si512(lane + 16 * v);
        _mm256_store_si256(reinterpret_cast<__m256i*>(out + 512 + 32 * v), _mm512_cvtepi32_epi16(words));
        _mm256_store_si256(reinterpret_cast<__m256i*>(out + 576 + 32 * v),
                           _mm512_cvtepi32_epi16(_mm512_srli_epi32(words, 16)));
      }
      continue;
    }
    const auto integers = [](const __m512* values, __m512 factor) {
      return pairs_of(_mm512_cvtps_epi32(_mm512_mul_ps(values[0], factor)),
                      _mm512_cvtps_epi32(_mm512_mul_ps(values[1], factor)));
    };
    store_past(out + 512, integers(d + 2 * c, inverse));
    store_past(out + 576, integers(offset + 2 * c, _mm512_mul_ps(inverse, _mm512_set1_ps(0.125f))));
  }
  return out;
}

// Offsets are whole numbers up to kScaleRange of one of a block's columns, as scales are. Where that moves a group's
// values by more than 2^-11 of them, or a scale is too small for it, the block's numbers stay floats.
uint8_t* pack_q8_m(const Source& s, int64_t chunk, int64_t chunks, uint8_t* out) {
  alignas(64) float scale[8][16] = {}, offset[8][16] = {};
  __m512 most_scale = _mm512_setzero_ps(), most_offset = _mm512_setzero_ps();
  const auto larger = [](__m512 most, const float* values) {
    return _mm512_max_ps(most, _mm512_abs_ps(_mm512_load_ps(values)));
  };
  for (int64_t g = 0; g < 2 * chunks; ++g) {
    for (int64_t c = 0; c < kColumnTile; ++c)
      if (const std::byte* group = group_at(s, c, 2 * chunk + g)) {
        __builtin_memcpy(&scale[g][c], group, 4);
        __builtin_memcpy(&offset[g][c], group + 4, 4);
      }
    most_scale = larger(most_scale, scale[g]), most_offset = larger(most_offset, offset[g]);
  }
  const __m512 range = _mm512_set1_ps(kScaleRange);
  const auto inverse = [&](__m512 most) {
    return _mm512_maskz_div_ps(_mm512_cmp_ps_mask(most, _mm512_setzero_ps(), _CMP_NEQ_UQ), range, most);
  };
  const __m512 per_scale = inverse(most_scale), per_offset = inverse(most_offset);
  const __m512 half_unit = _mm512_mul_ps(most_offset, _mm512_set1_ps(0.5f / kScaleRange));
  __mmask16 exact = 0;
  __m512i scales[8], offsets[8];
  for (int64_t g = 0; g < 2 * chunks; ++g) {
    const __m512 d = _mm512_load_ps(scale[g]), m = _mm512_load_ps(offset[g]), scaled = _mm512_mul_ps(d, per_scale);
    const __mmask16 present = _mm512_cmp_ps_mask(d, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    exact |= _mm512_mask_cmp_ps_mask(present, _mm512_abs_ps(scaled), _mm512_set1_ps(2 * kScaleLeast), _CMP_NGE_UQ);
    const __m512 size = _mm512_fmadd_ps(_mm512_abs_ps(d), _mm512_set1_ps(64.0f), _mm512_abs_ps(m));
    exact |= _mm512_cmp_ps_mask(half_unit, _mm512_mul_ps(size, _mm512_set1_ps(0x1p-11f)), _CMP_NLE_UQ);
    exact |= _mm512_cmp_ps_mask(size, _mm512_set1_ps(1e30f), _CMP_NLE_UQ);  // infinity or NaN, too
    scales[g] = _mm512_cvtps_epi32(scaled), offsets[g] = _mm512_cvtps_epi32(_mm512_mul_ps(m, per_offset));
  }
  const __m512 unit = _mm512_set1_ps(1 / kScaleRange);
  store_past(out, _mm512_castps_si512(exact != 0 ? _mm512_set1_ps(-1.0f) : _mm512_mul_ps(most_scale, unit)));
  store_past(out + 64, _mm512_castps_si512(_mm512_mul_ps(most_offset, unit)));
  out += 128;
  for (int64_t c = 0; c < chunks; ++c, out += 1280) {
    ChunkVectors v;
    load_chunk(s, chunk + c, v);
    for (int q = 0; q < 8; ++q) {
      store_past(out + 128 * q, v.x[q]);
      store_past(out + 128 * q + 64, v.y[q]);
    }
    if (exact != 0) {
      for (float& value : offset[2 * c]) value *= -0.125f;  // the activations bring -8 * sum
      for (float& value : offset[2 * c + 1]) value *= -0.125f;
      lanes(scale[2 * c], scale[2 * c + 1], reinterpret_cast<float*>(out + 1024));
      lanes(offset[2 * c], offset[2 * c + 1], reinterpret_cast<float*>(out + 1024 + 128));
      continue;
    }
    store_past(out + 1024, pairs_of(scales[2 * c], scales[2 * c + 1]));
    store_past(out + 1024 + 64, pairs_of(offsets[2 * c], offsets[2 * c + 1]));
    for (int64_t at = 1152; at < 1280; at += 64) store_past(out + at, _mm512_setzero_si512());
  }
  return out;
}

}  // namespace llada::kernels::avx512vnni
