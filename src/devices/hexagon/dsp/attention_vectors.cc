// Attention on the vector unit, all in integers, so that an emulator without float vectors runs the very code of a
// phone. Per chunk of keys: keys and values become tiles of the F16 matrix kernel (key_tiles.h), and scores are its
// products with the queries. Weights 2^-t, t = (largest - score) * log2(e) / sqrt(head_dim), come from a polynomial in
// fixed point. The mix is the kernel's product of the values with the weights.
//
// Errors: a score is off by the rounding to 15 bits of the largest query and to 16 bits of the largest key of 32, and
// by the floors of its kernel. A weight is off by 2^-14 of the largest weight of its 32 keys, by a relative 2^-15 t and
// 2^-15.5. A value is off by 2^-15 of the largest of its 32 keys' (or by 2^-13 of the chunk's). The sum of weights is
// off by 2^-26 per key. tests/hexagon_dsp/attention_oracle.h carries them through the softmax.
#include "devices/hexagon/dsp/attention.h"
#include "devices/hexagon/dsp/fixed_vectors.h"
#include "devices/hexagon/dsp/float_math.h"
#include "devices/hexagon/dsp/key_tiles.h"
#include "devices/hexagon/dsp/matmul.h"
#include "devices/hexagon/dsp/rows.h"

namespace dsp {
namespace {

constexpr uint32_t kGroupRows = 4;
constexpr float kLog2E = 1.44269504f;

uint32_t align(uint32_t bytes) { return (bytes + 127) & ~127u; }

// Scratch of a job, in order.
struct Areas {
  uint8_t *work, *key_tile, *value_tiles, *queries, *weights;
  int32_t* row;                 // weights of a row
  float *scores, *mix, *state;  // kAttentionRows x kChunkKeys; heads x rows x head_dim; heads x rows x {largest, sum}
  float* chunk_mix;             // rows x head_dim
  uint32_t bytes;
};
Areas areas(uint8_t* base, uint32_t d, uint32_t heads) {
  uint32_t at = 0;
  const auto take = [&](uint32_t bytes) {
    uint8_t* here = base == nullptr ? nullptr : base + at;  // without memory only the size is asked for
    at += align(bytes);
    return here;
  };
  Areas a;
  a.work = take(96 * kVector);
  a.key_tile = take(tile_bytes(Format::f16, d));
  a.value_tiles = take(d / 32 * tile_bytes(Format::f16, kChunkKeys));
  a.queries = take(kAttentionRows / kGroupRows * align(group_bytes(Format::f16, kGroupRows, d)));
  a.weights = take(align(group_bytes(Format::f16, kGroupRows, kChunkKeys)));
  a.row = reinterpret_cast<int32_t*>(take(kChunkKeys * 4));
  a.scores = reinterpret_cast<float*>(take(kAttentionRows * kChunkKeys * 4));
  a.mix = reinterpret_cast<float*>(take(heads * kAttentionRows * d * 4));
  a.state = reinterpret_cast<float*>(take(heads * kAttentionRows * 2 * 4));
  a.chunk_mix = reinterpret_cast<float*>(take(kGroupRows * d * 4));
  a.bytes = at;
  return a;
}

// Floats as integers that are ordered alike.
inline __attribute__((always_inline)) HVX_Vector ordered(HVX_Vector bits) {
  return Q6_V_vxor_VV(bits, Q6_V_vand_VV(Q6_Vw_vasr_VwR(bits, 31), Q6_V_vsplat_R(0x7fffffff)));
}
// Float bits as value * 2^(28 + 127 - field), for values whose exponent field is at most `field`; |result| < 2^29.
inline __attribute__((always_inline)) HVX_Vector fixed(HVX_Vector bits, int32_t field) {
  const HVX_Vector magnitude = Q6_V_vand_VV(bits, Q6_V_vsplat_R(0x7fffffff));
  const HVX_Vector own = Q6_Vuw_vlsr_VuwR(magnitude, 23);
  const HVX_Vector mantissa = Q6_V_vor_VV(Q6_V_vand_VV(magnitude, Q6_V_vsplat_R(0x7fffff)), Q6_V_vsplat_R(0x800000));
  const HVX_Vector behind = Q6_Vw_vmin_VwVw(Q6_Vw_vsub_VwVw(Q6_V_vsplat_R(field), own), Q6_V_vsplat_R(31));
  const HVX_Vector q = Q6_Vw_vlsr_VwVw(Q6_Vw_vasl_VwR(mantissa, 5), behind);
  const HVX_Vector sign = Q6_Vw_vasr_VwR(bits, 31);
  return Q6_Vw_vsub_VwVw(Q6_V_vxor_VV(q, sign), sign);
}

// 2^-t of t with 24 digits behind the point, t >= 0: a polynomial for the fraction, off by 2^-15 at most.
inline __attribute__((always_inline)) HVX_Vector power(HVX_Vector t) {
  // 2^-f on [0, 1] through six Chebyshev nodes: off by 6e-8 before rounding.
  constexpr int32_t kC[6] = {1073741764, -744256774, 257890191, -59375904, 9888282, -1016701};
  const HVX_Vector f = Q6_V_vand_VV(Q6_Vw_vasl_VwR(t, 7), Q6_V_vsplat_R(0x7fffffff));  // its high half is read
  HVX_Vector p = Q6_V_vsplat_R(kC[5]);
#pragma clang loop unroll(full)
  for (int k = 4; k >= 0; --k) p = Q6_Vw_vadd_VwVw(Q6_Vw_vmpyo_VwVh_s1_rnd_sat(p, f), Q6_V_vsplat_R(kC[k]));
  return Q6_Vw_vlsr_VwVw(p, Q6_Vw_vmin_VwVw(Q6_Vuw_vlsr_VuwR(t, 24), Q6_V_vsplat_R(31)));
}

// Weights have 30 digits behind the point.
//
// The weights of one row of a group, as activations of the value tiles. scores: count floats, the rest of the last
// vector anything.
Softmax weigh(const float* scores, uint32_t count, float scale, uint32_t row, int32_t* work, uint8_t* group) {
  const uint32_t vectors = (count + kLanes - 1) / kLanes, tail = count % kLanes;
  const auto* s = reinterpret_cast<const HVX_Vector*>(scores);
  auto* w = reinterpret_cast<HVX_Vector*>(work);
  const HVX_VectorPred in_tail = Q6_Q_vsetq_R(static_cast<int32_t>(tail * 4));  // all of a whole vector is not needed
  const auto masked = [&](uint32_t i, HVX_Vector v, HVX_Vector absent) {
    return tail != 0 && i + 1 == vectors ? Q6_V_vmux_QVV(in_tail, v, absent) : v;
  };
  HVX_Vector top = Q6_V_vsplat_R(static_cast<int32_t>(0x80000000u)), size = Q6_V_vzero();
  for (uint32_t i = 0; i < vectors; ++i) {
    top = Q6_Vw_vmax_VwVw(top, masked(i, ordered(s[i]), Q6_V_vsplat_R(static_cast<int32_t>(0x80000000u))));
    size = Q6_Vw_vmax_VwVw(size, masked(i, Q6_V_vand_VV(s[i], Q6_V_vsplat_R(0x7fffffff)), Q6_V_vzero()));
  }
  const int32_t top_ordered = reduce_max(top), field = reduce_max(size) >> 23;
  const float largest = float_of(static_cast<uint32_t>(top_ordered ^ (top_ordered >> 31 & 0x7fffffff)));
  if (field == 255) return {kInfinity, 0};

  // t = difference * factor, the factor as 15-bit mantissa and exponent. Below 2^-100 a weight is zero anyway.
  const float unit = field > 4 ? float_of(static_cast<uint32_t>(field - 4) << 23) : 0;  // 2^(field - 155 + 24)
  const float factor = scale * kLog2E * unit;
  const uint32_t bits = bits_of(factor);
  const int32_t rounded = static_cast<int32_t>(((bits & 0x7fffffu) | 0x800000u) + 256) >> 9;
  const int32_t mantissa = factor > 0 ? (rounded < 0x7fff ? rounded : 0x7fff) : 0;
  const int32_t exponent = static_cast<int32_t>(bits >> 23) - 126;
  const float limit = factor > 0 ? 100.0f * 0x1p24f / factor : 0x1p30f;
  const HVX_Vector most = Q6_V_vsplat_R(limit < 0x1p30f ? static_cast<int32_t>(limit) : 1 << 30);
  const HVX_Vector factors = Q6_V_vsplat_R(mantissa << 16), zero = Q6_V_vzero();
  const HVX_Vector reference = fixed(Q6_V_vsplat_R(static_cast<int32_t>(bits_of(largest))), field);
  HVX_Vector sums = zero;
  int32_t shifts[kChunkKeys / kLanes], highest = -1000;
  for (uint32_t i = 0; i < vectors; ++i) {
    const HVX_Vector difference = Q6_Vw_vmin_VwVw(Q6_Vw_vsub_VwVw(reference, fixed(s[i], field)), most);
    const HVX_Vector product = Q6_Vw_vmpyo_VwVh_s1_rnd_sat(Q6_Vw_vmax_VwVw(difference, zero), factors);
    const HVX_Vector t =
        exponent >= 0 ? Q6_Vw_vasl_VwR(product, exponent) : Q6_Vw_vasr_VwR(product, exponent < -31 ? 31 : -exponent);
    w[i] = masked(i, power(t), zero);
    sums = Q6_Vw_vadd_VwVw(sums, Q6_Vw_vasr_VwR(w[i], 4));
    // Digits of the block's largest weight beyond 14.
    const int32_t digits = 32 - __builtin_clz(static_cast<uint32_t>(reduce_max(w[i])) | 1);
    shifts[i] = digits > 14 ? digits - 14 : 0;
    highest = shifts[i] > highest ? shifts[i] : highest;
  }
  // 32 lanes of up to 2^30 each: added in two halves.
  const auto low = static_cast<uint32_t>(reduce_sum(Q6_V_vand_VV(sums, Q6_V_vsplat_R(0xffff))));
  const auto high = static_cast<uint32_t>(reduce_sum(Q6_Vuw_vlsr_VuwR(sums, 16)));
  const float sum = fma(static_cast<float>(high), 0x1p-10f, static_cast<float>(low) * 0x1p-26f);

  auto& head = *reinterpret_cast<RowGroup*>(group);
  auto* blocks = reinterpret_cast<BlockF16*>(group + sizeof(RowGroup));
  const uint32_t padded = blocks_of(vectors * kLanes);
  const int32_t base = base_shift(padded);
  // A weight is q * 2^(shift - 30) = q * (2^14 / 2^15) * 2^(shift - 29).
  for (uint32_t i = 0; i < padded; ++i) {
    BlockF16& block = blocks[i];
    const uint32_t half = row % 2 * 32;
    const uint64_t word = uint64_t{0xffffffffu} << half, mantissa_bits = uint64_t{0xffff} << (row * 16);
    const bool present = i < vectors;
    const int32_t shift = present ? shifts[i] : 0;
    const HVX_Vector up = Q6_V_vsplat_R(shift > 0 ? 1 << (shift - 1) : 0);
    const HVX_Vector q = present ? Q6_Vw_vasr_VwR(Q6_Vw_vadd_VwVw(w[i], up), shift) : zero;
    const int32_t correction = present ? -128 * reduce_sum(q) : 0;
    // Bytes: the high one of q + 128, so that the low one is signed, and the low one of q.
    const HVX_Vector halves = Q6_Vh_vpacke_VwVw(q, Q6_Vw_vadd_VwVw(q, Q6_V_vsplat_R(128)));
    alignas(128) uint64_t odd[16], even[16];
    *reinterpret_cast<HVX_Vector*>(odd) = Q6_Vb_vpacko_VhVh(halves, halves);
    *reinterpret_cast<HVX_Vector*>(even) = Q6_Vb_vpacke_VhVh(halves, halves);
    for (uint32_t g = 0; g < 4; ++g) {
      block.high[g][row].both = static_cast<int64_t>(odd[g]);
      block.low[g][row].both = static_cast<int64_t>(even[4 + g]);
    }
    const auto put = [](Words& words, uint64_t mask, uint32_t at, int32_t value) {
      words.both = static_cast<int64_t>((static_cast<uint64_t>(words.both) & ~mask) |
                                        ((static_cast<uint64_t>(static_cast<uint32_t>(value)) << at) & mask));
    };
    put(block.correction[row / 2], word, half, correction);
    put(block.mantissa[0], mantissa_bits, row * 16, present ? 1 << 14 : 0);
    put(block.shift[row / 2], word, half, present ? base + highest - shift : 0);
  }
  head.bias[row] = static_cast<int32_t>(vectors / 2);
  head.exponent[row] = base + highest - 29 + 4;
  return {largest, sum};
}

}  // namespace

void join(const Softmax& chunk, float* chunk_mix, float scale, uint32_t d, bool first, float* state, float* mix) {
  if (first) {
    state[0] = chunk.largest, state[1] = chunk.sum;
    return copy(chunk_mix, d, mix);
  }
  const bool grows = chunk.largest > state[0];
  const float factor = exponential((grows ? state[0] - chunk.largest : chunk.largest - state[0]) * scale);
  state[1] = grows ? fma(state[1], factor, chunk.sum) : fma(chunk.sum, factor, state[1]);
  float* smaller = grows ? mix : chunk_mix;
  dsp::scale(smaller, factor, d, smaller);
  add(chunk_mix, d, mix);
  if (grows) state[0] = chunk.largest;
}

uint32_t vector_attention_bytes(uint32_t head_dim, uint32_t heads) { return areas(nullptr, head_dim, heads).bytes; }

bool attend_vectors(const AttentionJob& job) {
  const uint32_t d = job.head_dim;
  const Areas a = areas(job.scratch, d, job.heads);
  const auto* keys = static_cast<const uint16_t*>(job.keys);
  const auto* values = static_cast<const uint16_t*>(job.values);
  for (uint32_t first = 0; first < job.count; first += kKeyTile) {
    const uint32_t n = job.count - first < kKeyTile ? job.count - first : kKeyTile;
    if (largest_exponent(keys + first * d, n, d) == 31 || largest_exponent(values + first * d, n, d) == 31)
      return false;
  }
  const float scale = job.scale;
  const uint32_t groups = (job.rows + kGroupRows - 1) / kGroupRows;
  const uint32_t query_bytes = align(group_bytes(Format::f16, kGroupRows, d));
  const uint32_t value_bytes = tile_bytes(Format::f16, kChunkKeys);

  for (uint32_t chunk = 0; chunk < job.count; chunk += kChunkKeys) {
    const uint32_t count = job.count - chunk < kChunkKeys ? job.count - chunk : kChunkKeys;
    const uint32_t tiles = (count + kKeyTile - 1) / kKeyTile;
    const auto in_tile = [&](uint32_t t) { return count - t * kKeyTile < kKeyTile ? count - t * kKeyTile : kKeyTile; };
    const uint16_t* chunk_keys = keys + chunk * d;
    const uint16_t* chunk_values = values + chunk * d;
    int32_t exponents[kChunkKeys / kKeyTile], top = 1;
    for (uint32_t t = 0; t < tiles; ++t) {
      exponents[t] = largest_exponent(chunk_values + t * kKeyTile * d, in_tile(t), d);
      top = exponents[t] > top ? exponents[t] : top;
    }
    for (uint32_t t = 0; t < tiles; ++t)
      pack_values(chunk_values + t * kKeyTile * d, in_tile(t), d, t, kChunkKeys, exponents[t], top, a.value_tiles);
    if (tiles % 2 != 0) pack_values(chunk_values, 0, d, tiles, kChunkKeys, top, top, a.value_tiles);

    for (uint32_t head = 0; head < job.heads; ++head) {
      for (uint32_t g = 0; g < groups; ++g)
        quantize_group(Format::f16, job.q + head * d, job.stride, job.rows, d, g * kGroupRows,
                       reinterpret_cast<uint32_t*>(a.work), a.queries + g * query_bytes);
      for (uint32_t t = 0; t < tiles; ++t) {
        const uint16_t* from = chunk_keys + t * kKeyTile * d;
        pack_keys(from, in_tile(t), d, largest_exponent(from, in_tile(t), d), a.work, a.key_tile);
        for (uint32_t g = 0; g < groups; ++g) {
          const uint32_t first = g * kGroupRows, left = job.rows - first;
          multiply(Format::f16, {.tile = a.key_tile,
                                 .group = a.queries + g * query_bytes,
                                 .rows = left < kGroupRows ? left : kGroupRows,
                                 .capacity = kGroupRows,
                                 .inputs = d,
                                 .y = a.scores + first * kChunkKeys + t * kKeyTile,
                                 .stride = kChunkKeys,
                                 .columns = kKeyTile});
        }
      }
      for (uint32_t g = 0; g < groups; ++g) {
        const uint32_t first = g * kGroupRows, left = job.rows - first, rows = left < kGroupRows ? left : kGroupRows;
        Softmax softmax[kGroupRows];
        for (uint32_t r = 0; r < rows; ++r)
          softmax[r] = weigh(a.scores + (first + r) * kChunkKeys, count, scale, r, a.row, a.weights);
        for (uint32_t t = 0; t < d / 32; ++t)
          multiply(Format::f16, {.tile = a.value_tiles + t * value_bytes,
                                 .group = a.weights,
                                 .rows = rows,
                                 .capacity = kGroupRows,
                                 .inputs = tiles * kKeyTile,
                                 .y = a.chunk_mix + t * 32,
                                 .stride = d,
                                 .columns = 32});
        for (uint32_t r = 0; r < rows; ++r) {
          const uint32_t at = head * kAttentionRows + first + r;
          join(softmax[r], a.chunk_mix + r * d, scale, d, chunk == 0, a.state + 2 * at, a.mix + at * d);
        }
      }
    }
  }
  for (uint32_t head = 0; head < job.heads; ++head)
    for (uint32_t r = 0; r < job.rows; ++r) {
      const uint32_t at = head * kAttentionRows + r;
      const float largest = a.state[2 * at], inverse = 1.0f / a.state[2 * at + 1];
      float* out = job.out + static_cast<uint64_t>(r) * job.stride + head * d;
      // Scores that are not finite make a row that is not.
      if (finite(largest))
        dsp::scale(a.mix + at * d, inverse, d, out);
      else
        for (uint32_t i = 0; i < d; ++i) out[i] = kInfinity;
    }
  return true;
}

}  // namespace dsp
