// The vector unit's part of the matrix unit's attention (attention_unit.h), in lanes of 16 bits: two queries share a
// vector of 32 keys.
#include "devices/hexagon/dsp/attention_unit.h"
#include "devices/hexagon/dsp/fixed_vectors.h"
#include "devices/hexagon/dsp/hmx.h"

namespace dsp {
namespace {

// 2^(1 - f) - 2 = f (p0 + f (p1 + f p2)) in Q14, for f in [0, 1) in Q15: 2^(1 - f) is off by 2^-12 of itself at most.
constexpr int32_t kPowers[3] = {-22689, 7657, -1355};
constexpr int32_t kTopWeight = 25 << 10;  // 2^10 as FP16

inline __attribute__((always_inline)) HVX_Vector splat_half(int32_t v) {
  return Q6_V_vsplat_R(static_cast<int32_t>((static_cast<uint32_t>(v) & 0xffff) * 0x10001u));
}
inline __attribute__((always_inline)) HVX_Vector splat_both(int32_t even, int32_t odd) {
  return Q6_V_vsplat_R(static_cast<int32_t>(static_cast<uint32_t>(odd) << 16 | (static_cast<uint32_t>(even) & 0xffff)));
}

bool all_seen(const Seen& seen, int32_t first) {
  const auto by = [&](int i) { return seen.first[i] <= first && seen.last[i] >= first + 32; };
  return by(0) && by(1);
}
// All ones in the halves of keys that are seen; first: of the vector's.
HVX_Vector seen_halves(const Seen& seen, int32_t first) {
  const HVX_Vector at = Q6_Vw_vadd_VwVw(lane_numbers(), splat(first));
  const auto of = [&](int i) {
    const HVX_VectorPred in =
        Q6_Q_and_QQ(Q6_Q_vcmp_gt_VwVw(at, splat(seen.first[i] - 1)), Q6_Q_vcmp_gt_VwVw(splat(seen.last[i]), at));
    return Q6_V_vand_QV(in, splat(-1));
  };
  return Q6_Vh_vshuffe_VhVh(of(1), of(0));
}

}  // namespace

void unit_largest(const uint8_t* scores, uint32_t tiles, const Seen& seen, uint32_t largest[2]) {
  HVX_Vector most = splat_half(-32768);
  for (uint32_t j = 0; j < tiles; ++j) {
    const HVX_Vector halves = *reinterpret_cast<const HVX_Vector*>(scores + j * kUnitTileBytes);
    const HVX_Vector sign = Q6_V_vand_VV(Q6_Vh_vasr_VhR(halves, 15), splat_half(0x7fff));
    HVX_Vector ordered = Q6_V_vxor_VV(halves, sign);
    if (const auto first = static_cast<int32_t>(j * kUnitTile); !all_seen(seen, first)) {
      const HVX_Vector kept = seen_halves(seen, first);
      const HVX_Vector none = Q6_V_vand_VV(Q6_V_vxor_VV(kept, splat(-1)), splat_half(-32768));
      ordered = Q6_V_vor_VV(Q6_V_vand_VV(ordered, kept), none);
    }
    most = Q6_Vh_vmax_VhVh(most, ordered);
  }
  for (int32_t step = 64; step >= 4; step /= 2) most = Q6_Vh_vmax_VhVh(most, Q6_V_vror_VR(most, step));
  const auto both = static_cast<uint32_t>(Q6_R_vextract_VR(most, 0));
  for (uint32_t i = 0; i < 2; ++i) {
    const int32_t ordered = static_cast<int16_t>(both >> (16 * i));
    const int32_t next = ordered + 1;
    largest[i] = ordered == -32768 ? kNoScore : static_cast<uint32_t>(next < 0 ? next ^ 0x7fff : next) & 0xffff;
  }
}

void unit_weights_of(uint8_t* distances, uint32_t tiles, const Seen& seen, const int32_t shift[2]) {
  const HVX_Vector behind = splat_both(shift[0], shift[1]);
#pragma clang loop unroll_count(2)  // one's latencies hide behind the other
  for (uint32_t j = 0; j < tiles; ++j) {
    auto* const at = reinterpret_cast<HVX_Vector*>(distances + j * kUnitTileBytes);
    const HVX_Vector halves = *at;
    const HVX_Vector digits = Q6_V_vor_VV(Q6_Vh_vasl_VhR(halves, 5), splat_half(0x8000));
    const HVX_Vector field = Q6_Vuh_vlsr_VuhR(Q6_Vh_vasl_VhR(halves, 1), 11);
    const HVX_Vector right = Q6_Vh_vsub_VhVh(behind, field);
    const HVX_Vector t = Q6_Vh_vlsr_VhVh(digits, Q6_Vh_vmin_VhVh(right, splat_half(15)));
    const HVX_Vector f = Q6_V_vand_VV(Q6_Vh_vasl_VhR(t, 4), splat_half(0x7fff));
    HVX_Vector p = Q6_Vh_vadd_VhVh(Q6_Vh_vmpy_VhVh_s1_rnd_sat(f, splat_half(kPowers[2])), splat_half(kPowers[1]));
    p = Q6_Vh_vadd_VhVh(Q6_Vh_vmpy_VhVh_s1_rnd_sat(f, p), splat_half(kPowers[0]));
    p = Q6_Vh_vasr_VhR(Q6_Vh_vadd_VhVh(Q6_Vh_vmpy_VhVh_s1_rnd_sat(f, p), splat_half(8)), 4);
    const HVX_Vector whole = Q6_V_vand_VV(Q6_Vuh_vlsr_VuhR(t, 1), splat_half(0x7c00));
    const HVX_Vector weight = Q6_Vh_vsub_VhVh(Q6_Vh_vadd_VhVh(p, splat_half(kTopWeight)), whole);
    const HVX_VectorPred kept =
        Q6_Q_and_QQ(Q6_Q_vcmp_gt_VhVh(weight, splat_half(1023)), Q6_Q_vcmp_gt_VhVh(right, splat_half(-1)));
    HVX_Vector out = Q6_V_vand_QV(kept, weight);
    if (const auto first = static_cast<int32_t>(j * kUnitTile); !all_seen(seen, first))
      out = Q6_V_vand_VV(out, seen_halves(seen, first));
    *at = out;
  }
}

namespace {

// All vectors step by step, so that one's latencies hide behind the others' work.
template <uint32_t kTiles>
void mix(const uint8_t* results, bool odd, int32_t factor, HVX_Vector exponent, float* out) {
  HVX_Vector floats[kTiles];
#pragma clang loop unroll(full)
  for (uint32_t e = 0; e < kTiles; ++e) {
    const HVX_Vector both = *reinterpret_cast<const HVX_Vector*>(results + e * kUnitTileBytes);
    floats[e] = floats_of_halves(odd ? Q6_Vuw_vlsr_VuwR(both, 16) : both, factor, exponent);
  }
#pragma clang loop unroll(full)
  for (uint32_t e = 0; e < kTiles; ++e) reinterpret_cast<HVX_Vector*>(out)[e] = floats[e];
}

}  // namespace

void unit_mix(const uint8_t* results, bool odd, uint32_t head_dim, int32_t factor, int32_t exponent, float* out) {
  const auto kernel = head_dim == 32 ? mix<1> : head_dim == 64 ? mix<2> : mix<4>;
  kernel(results, odd, factor, splat(exponent - 25), out);
}

}  // namespace dsp
