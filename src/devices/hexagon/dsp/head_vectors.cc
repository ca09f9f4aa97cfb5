// A chunk's numbers on the vector unit.
#include "devices/hexagon/dsp/fixed_vectors.h"
#include "devices/hexagon/dsp/head.h"

namespace dsp {
namespace {

constexpr uint32_t kVectors = kChunk / kLanes;

// Lanes of vector v that are not there.
inline __attribute__((always_inline)) HVX_VectorPred absent(uint32_t v, uint32_t n) {
  return Q6_Q_vcmp_gt_VwVw(lane_numbers(), splat(static_cast<int32_t>(n - v * kLanes) - 1));
}

// The lowest place among those that have the largest number.
int32_t place_of(HVX_Vector numbers, int32_t largest, HVX_Vector places) {
  return reduce_min(Q6_V_vmux_QVV(Q6_Q_vcmp_eq_VwVw(numbers, splat(largest)), places, splat(INT32_MAX)));
}

// By lane first: its best and second number, each with its place.
Two two_largest(const float* numbers, uint32_t n) {
  HVX_Vector best = splat(INT32_MIN), second = best, best_at = splat(0), second_at = best_at, at = lane_numbers();
  for (uint32_t v = 0; v * kLanes < n; ++v, at = Q6_Vw_vadd_VwVw(at, splat(int32_t{kLanes}))) {
    const HVX_Vector number = Q6_V_vmux_QVV(absent(v, n), splat(INT32_MIN), ordered_bits(load(numbers + v * kLanes)));
    const HVX_VectorPred over_best = Q6_Q_vcmp_gt_VwVw(number, best), over_second = Q6_Q_vcmp_gt_VwVw(number, second);
    second_at = Q6_V_vmux_QVV(over_best, best_at, Q6_V_vmux_QVV(over_second, at, second_at));
    second = Q6_V_vmux_QVV(over_best, best, Q6_Vw_vmax_VwVw(number, second));
    best_at = Q6_V_vmux_QVV(over_best, at, best_at);
    best = Q6_Vw_vmax_VwVw(number, best);
  }
  const int32_t largest = reduce_max(best);
  if (largest <= kOrderedNothing) return {-1, -1};
  const int32_t place = place_of(best, largest, best_at);
  const HVX_VectorPred its_lane = Q6_Q_vcmp_eq_VwVw(best_at, splat(place));
  best = Q6_V_vmux_QVV(its_lane, second, best), best_at = Q6_V_vmux_QVV(its_lane, second_at, best_at);
  const int32_t next = reduce_max(best);
  return {place, next <= kOrderedNothing ? -1 : place_of(best, next, best_at)};
}

uint64_t sum_of(HVX_Vector high, HVX_Vector low) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(reduce_sum(high))) << 16) +
         static_cast<uint32_t>(reduce_sum(low));
}

Terms softmax_terms(const float* numbers, uint32_t n, uint32_t top) {
  const HVX_Vector infinity = splat(static_cast<int32_t>(kInfinityBits)), zero = splat(0);
  const uint32_t vectors = (n + kLanes - 1) / kLanes;
  HVX_Vector largest = zero;
  for (uint32_t v = 0; v < vectors; ++v) {
    const HVX_Vector magnitude = magnitude_of(load(numbers + v * kLanes));
    const HVX_Vector counted = Q6_V_vmux_QVV(Q6_Q_vcmp_gt_VwVw(infinity, magnitude), magnitude, zero);
    largest = Q6_Vw_vmax_VwVw(largest, Q6_V_vmux_QVV(absent(v, n), zero, counted));
  }
  const int32_t exponent = exponent_of(static_cast<uint32_t>(reduce_max(largest)));
  const int32_t reference = fixed_q(numbers[top], exponent);
  // As in distance_q24(): shifted left up to the farthest, or right, rounded.
  const int32_t left = exponent - 131 < 30 ? exponent - 131 : 30, right = left < -31 ? 31 : -left;
  const int32_t limit = left > 0 ? kFarthest >> left : INT32_MAX;
  HVX_Vector d[kVectors], t[kVectors], lowest = splat(INT32_MAX);
#pragma clang loop unroll_count(2)
  for (uint32_t v = 0; v < vectors; ++v) {
    const HVX_Vector bits = load(numbers + v * kLanes);
    const HVX_Vector difference = Q6_Vw_vsub_VwVw(splat(reference), fixed_q(bits, splat(exponent)));
    HVX_Vector distance = difference;
    if (left > 0)
      distance = Q6_V_vmux_QVV(Q6_Q_vcmp_gt_VwVw(difference, splat(limit)), splat(kFarthest),
                               Q6_Vw_vasl_VwR(difference, left));
    else if (left < 0)
      distance = Q6_Vw_vasr_VwR(Q6_Vw_vadd_VwVw(Q6_Vw_vasr_VwR(difference, right - 1), splat(1)), 1);
    d[v] = distance;
    const HVX_Vector at = Q6_Vw_vadd_VwVw(lane_numbers(), splat(static_cast<int32_t>(v * kLanes)));
    const HVX_Vector none = splat(INT32_MAX);
    HVX_Vector own = multiply_q31(distance, splat(kHalfLog2E));
    own = Q6_V_vmux_QVV(Q6_Q_vcmp_gt_VwVw(infinity, magnitude_of(bits)), own, none);
    own = Q6_V_vmux_QVV(Q6_Q_vcmp_eq_VwVw(at, splat(static_cast<int32_t>(top))), none, own);
    t[v] = Q6_V_vmux_QVV(absent(v, n), none, own);
    lowest = Q6_Vw_vmin_VwVw(lowest, t[v]);
  }
  Terms out = {0, 0, reduce_min(lowest) >> 23};
  HVX_Vector high = zero, low = zero, weighted_high = zero, weighted_low = zero;
#pragma clang loop unroll_count(2)  // one's latencies hide behind the other
  for (uint32_t v = 0; v < vectors; ++v) {
    const HVX_Vector behind = Q6_Vw_vsub_VwVw(Q6_Vuw_vlsr_VuwR(t[v], 23), splat(out.lowest));
    HVX_Vector weight = Q6_Vw_vlsr_VwVw(power_of_fraction(t[v]), Q6_Vw_vmin_VwVw(behind, splat(31)));
    weight = Q6_V_vmux_QVV(Q6_Q_vcmp_eq_VwVw(t[v], splat(INT32_MAX)), zero, weight);
    const HVX_Vector weighted = multiply_q31(weight, d[v]);
    high = Q6_Vw_vadd_VwVw(high, Q6_Vuw_vlsr_VuwR(weight, 16));
    low = Q6_Vw_vadd_VwVw(low, Q6_V_vand_VV(weight, splat(0xffff)));
    weighted_high = Q6_Vw_vadd_VwVw(weighted_high, Q6_Vuw_vlsr_VuwR(weighted, 16));
    weighted_low = Q6_Vw_vadd_VwVw(weighted_low, Q6_V_vand_VV(weighted, splat(0xffff)));
  }
  out.sum = sum_of(high, low), out.weighted = sum_of(weighted_high, weighted_low);
  return out;
}

}  // namespace

const ChunkKernels kVectorChunk = {two_largest, softmax_terms};

}  // namespace dsp
