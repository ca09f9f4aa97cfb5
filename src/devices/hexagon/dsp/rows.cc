// The kernels of a row on the vector unit. Parts of vectors, and stretches with a number that is not ordinary
// (fixed_vectors.h), are computed by the plain kernels, to the same bits.
#include "devices/hexagon/dsp/rows.h"

#include "devices/hexagon/dsp/fixed_vectors.h"
#include "devices/hexagon/dsp/rows_plain.h"

namespace dsp {
namespace {

constexpr uint32_t kStretch = 16;  // vectors that are checked for Odd together

// y[i] = vectors(i, odd) of elements i to i + 31, or plainly(first, count) for elements that are done one by one.
template <class Vectors, class Plainly>
inline __attribute__((always_inline)) void by_vectors(uint32_t n, float* y, const Vectors& vectors,
                                                      const Plainly& plainly) {
  HVX_Vector done[kStretch];
  const uint32_t whole = n / kLanes;
  for (uint32_t first = 0; first < whole; first += kStretch) {
    const uint32_t count = whole - first < kStretch ? whole - first : kStretch;
    Odd odd;
    for (uint32_t v = 0; v < count; ++v) done[v] = vectors((first + v) * kLanes, odd);
    if (odd.any())
      plainly(first * kLanes, count * kLanes);
    else
      for (uint32_t v = 0; v < count; ++v) store(y + (first + v) * kLanes, done[v]);
  }
  if (n % kLanes != 0) plainly(whole * kLanes, n % kLanes);
}

uint32_t top_magnitude(const float* x, uint32_t n) {
  HVX_Vector top = splat(0);
  uint32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) top = Q6_Vw_vmax_VwVw(top, magnitude_of(load(x + i)));
  auto most = static_cast<uint32_t>(reduce_max(top));
  for (; i < n; ++i) most = (bits_of(x[i]) & kMagnitude) > most ? bits_of(x[i]) & kMagnitude : most;
  return most;
}

// Sums of 32 lanes of less than 2^32 each.
uint64_t lane_sum(HVX_Vector v) {
  return static_cast<uint32_t>(reduce_sum(Q6_V_vand_VV(v, splat(0xffff)))) +
         (static_cast<uint64_t>(static_cast<uint32_t>(reduce_sum(Q6_Vuw_vlsr_VuwR(v, 16)))) << 16);
}

uint64_t squares(const float* x, uint32_t n, int32_t exponent) {
  constexpr uint32_t kTogether = 32;  // a square's high word has 26 bits
  const uint32_t whole = n / kLanes;
  uint64_t sum = plain::squares(x + whole * kLanes, n % kLanes, exponent);
  for (uint32_t first = 0; first < whole; first += kTogether) {
    HVX_Vector high = splat(0), low = splat(0);
    for (uint32_t v = first; v < whole && v < first + kTogether; ++v) {
      const HVX_Vector q = fixed_q(load(x + v * kLanes), splat(exponent));
      const HVX_VectorPair square = Q6_W_vmpyoacc_WVwVh(Q6_W_vmpye_VwVuh(q, q), q, q);
      high = Q6_Vw_vadd_VwVw(high, Q6_V_hi_W(square));
      low = Q6_Vw_vadd_VwVw(low, Q6_Vuw_vlsr_VuwR(Q6_V_lo_W(square), 16));
    }
    sum += (lane_sum(high) << 16) + lane_sum(low);
  }
  return sum;
}

}  // namespace

void rms_norm(const float* x, const float* weight, float epsilon, uint32_t n, float* y) {
  const uint32_t top = top_magnitude(x, n);
  if (top >= kInfinityBits) return plain::rms_norm(x, weight, epsilon, n, y);
  const int32_t exponent = exponent_of(top);
  const float scale = plain::rms_scale(squares(x, n, exponent), exponent, epsilon, n);
  by_vectors(
      n, y,
      [&](uint32_t i, Odd & odd) __attribute__((always_inline)) {
        return product(product(load(x + i), splat(scale), odd), load(weight + i), odd);
      },
      [&](uint32_t i, uint32_t count) { plain::apply_norm(x + i, weight + i, scale, count, y + i); });
}

void rope(float* x, const float* table, uint32_t heads, uint32_t head_dim, uint32_t rotary, bool adjacent) {
  constexpr uint32_t kMost = 8;  // pairs of vectors of a head
  const uint32_t half = rotary / 2, count = half / kLanes;
  if (half % kLanes != 0 || count > kMost) return plain::rope(x, table, heads, head_dim, rotary, adjacent);
  for (uint32_t h = 0; h < heads; ++h, x += head_dim) {
    HVX_Vector done[2 * kMost];
    Odd odd;
    for (uint32_t v = 0; v < count; ++v) {
      const HVX_Vector c = load(table + v * kLanes), s = load(table + half + v * kLanes);
      HVX_Vector p = load(x + (adjacent ? 2 * v : v) * kLanes);
      HVX_Vector q = load(adjacent ? x + (2 * v + 1) * kLanes : x + half + v * kLanes);
      if (adjacent) {
        const HVX_VectorPair apart = Q6_W_vdeal_VVR(q, p, -4);
        p = Q6_V_lo_W(apart), q = Q6_V_hi_W(apart);
      }
      HVX_Vector first = difference(product(p, c, odd), product(q, s, odd), odd);
      HVX_Vector second = sum(product(q, c, odd), product(p, s, odd), odd);
      if (adjacent) {
        const HVX_VectorPair together = Q6_W_vshuff_VVR(second, first, -4);
        first = Q6_V_lo_W(together), second = Q6_V_hi_W(together);
      }
      done[adjacent ? 2 * v : v] = first, done[adjacent ? 2 * v + 1 : count + v] = second;
    }
    if (odd.any())
      plain::rope(x, table, 1, head_dim, rotary, adjacent);
    else
      for (uint32_t v = 0; v < 2 * count; ++v) store(x + v * kLanes, done[v]);
  }
}

void swiglu(const float* gate, const float* up, uint32_t n, float* y) {
  by_vectors(
      n, y,
      [&](uint32_t i, Odd & odd) __attribute__((always_inline)) {
        const HVX_Vector g = load(gate + i);
        return product(product(sigmoid(g, odd), g, odd), load(up + i), odd);
      },
      [&](uint32_t i, uint32_t count) { plain::swiglu(gate + i, up + i, count, y + i); });
}

void add(const float* x, uint32_t n, float* y) {
  by_vectors(
      n, y, [&](uint32_t i, Odd & odd) __attribute__((always_inline)) { return sum(load(y + i), load(x + i), odd); },
      [&](uint32_t i, uint32_t count) { plain::add(x + i, count, y + i); });
}

void guide(const float* conditional, const float* unconditional, float scale, uint32_t n, float* y) {
  by_vectors(
      n, y,
      [&](uint32_t i, Odd & odd) __attribute__((always_inline)) {
        const HVX_Vector u = load(unconditional + i);
        return sum(u, product(splat(scale), difference(load(conditional + i), u, odd), odd), odd);
      },
      [&](uint32_t i, uint32_t count) { plain::guide(conditional + i, unconditional + i, scale, count, y + i); });
}

void scale(const float* x, float factor, uint32_t n, float* y) {
  by_vectors(
      n,
      y, [&](uint32_t i, Odd & odd) __attribute__((always_inline)) { return product(load(x + i), splat(factor), odd); },
      [&](uint32_t i, uint32_t count) { plain::scale(x + i, factor, count, y + i); });
}

void copy(const float* x, uint32_t n, float* y) {
  uint32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, load(x + i));
  for (; i < n; ++i) y[i] = x[i];
}

namespace {

// Floats as halves in the low bits of words: nearest, ties to even.
inline __attribute__((always_inline)) HVX_Vector halves(HVX_Vector bits) {
  const HVX_Vector magnitude = magnitude_of(bits), one = splat(1), field = Q6_Vuw_vlsr_VuwR(magnitude, 23);
  const HVX_Vector odd = Q6_V_vand_VV(Q6_Vuw_vlsr_VuwR(magnitude, 13), one);
  const HVX_Vector normal =
      Q6_Vuw_vlsr_VuwR(Q6_Vw_vadd_VwVw(Q6_Vw_vsub_VwVw(magnitude, splat(0x38000000 - 0xfff)), odd), 13);
  // Below normal halves: multiples of 2^-24.
  const HVX_Vector mantissa = Q6_V_vor_VV(Q6_V_vand_VV(magnitude, splat(0x7fffff)), splat(0x800000));
  const HVX_Vector right = Q6_Vw_vmax_VwVw(Q6_Vw_vmin_VwVw(Q6_Vw_vsub_VwVw(splat(126), field), splat(30)), one);
  const HVX_Vector odd_small = Q6_V_vand_VV(Q6_Vw_vlsr_VwVw(mantissa, right), one);
  const HVX_Vector half = Q6_Vw_vasl_VwVw(one, Q6_Vw_vsub_VwVw(right, one));
  const HVX_Vector small =
      Q6_Vw_vlsr_VwVw(Q6_Vw_vadd_VwVw(Q6_Vw_vadd_VwVw(mantissa, Q6_Vw_vsub_VwVw(half, one)), odd_small), right);
  HVX_Vector h = Q6_V_vmux_QVV(Q6_Q_vcmp_gt_VwVw(splat(0x38800000), magnitude), small, normal);
  h = Q6_V_vmux_QVV(Q6_Q_vcmp_gt_VwVw(magnitude, splat(0x477fefff)), splat(0x7c00), h);
  h = Q6_V_vmux_QVV(Q6_Q_vcmp_gt_VwVw(magnitude, splat(static_cast<int32_t>(kInfinityBits))), splat(0x7e00), h);
  return Q6_V_vor_VV(h, Q6_V_vand_VV(Q6_Vuw_vlsr_VuwR(bits, 16), splat(0x8000)));
}

}  // namespace

void store_half(const float* x, uint32_t n, uint16_t* y) {
  uint32_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes)
    *reinterpret_cast<HVX_UVector*>(y + i) = Q6_Vh_vpacke_VwVw(halves(load(x + i + kLanes)), halves(load(x + i)));
  if (i + kLanes <= n) {
    alignas(128) uint16_t lanes[2 * kLanes];
    const HVX_Vector low = halves(load(x + i));
    *reinterpret_cast<HVX_Vector*>(lanes) = Q6_Vh_vpacke_VwVw(low, low);
    for (uint32_t j = 0; j < kLanes; ++j) y[i + j] = lanes[j];
    i += kLanes;
  }
  plain::store_half(x + i, n - i, y + i);
}

void load_half(const uint16_t* x, uint32_t n, float* y) {
  for (uint32_t i = 0; i < n; ++i) y[i] = half_to_float(x[i]);
}

}  // namespace dsp
