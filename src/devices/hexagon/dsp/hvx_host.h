// The vector unit's types and the instructions that the kernels here use, lane by lane in plain C++ from their public
// description. So the very same sources run on the host. There they are the oracle of the host's own kernels
// (devices/hexagon/host), and compute attention and all else that is no matrix product.
#pragma once
#include <stdint.h>
#include <string.h>

#include <algorithm>

typedef int32_t HVX_Vector __attribute__((vector_size(128), aligned(128)));
typedef int32_t HVX_UVector __attribute__((vector_size(128), aligned(2)));
struct HVX_VectorPair {
  HVX_Vector low, high;
};
struct HVX_VectorPred {
  HVX_Vector mask;  // all bits of a byte, or none
};

namespace hvx_host {

template <class T>
struct Lanes {
  static constexpr int kCount = 128 / static_cast<int>(sizeof(T));
  T v[kCount];
  Lanes() = default;
  explicit Lanes(const HVX_Vector& from) { memcpy(v, &from, 128); }
  HVX_Vector vector() const {
    HVX_Vector out;
    memcpy(&out, v, 128);
    return out;
  }
};

// R lanes of f(T lanes ...).
template <class R, class T, class F>
HVX_Vector each(F f, const HVX_Vector& a) {
  const Lanes<T> x(a);
  Lanes<R> out;
  for (int i = 0; i < Lanes<R>::kCount; ++i) out.v[i] = static_cast<R>(f(x.v[i]));
  return out.vector();
}
template <class R, class T, class F>
HVX_Vector each(F f, const HVX_Vector& a, const HVX_Vector& b) {
  const Lanes<T> x(a), y(b);
  Lanes<R> out;
  for (int i = 0; i < Lanes<R>::kCount; ++i) out.v[i] = static_cast<R>(f(x.v[i], y.v[i]));
  return out.vector();
}
template <class T, class F>
HVX_VectorPred compare(F f, const HVX_Vector& a, const HVX_Vector& b) {
  return {each<T, T>([f](T x, T y) { return f(x, y) ? -1 : 0; }, a, b)};
}
// Bits [0, bits) of a shift count, with its sign.
inline int64_t signed_count(int64_t count, int bits) {
  return static_cast<int64_t>(static_cast<uint64_t>(count) << (64 - bits)) >> (64 - bits);
}
inline int64_t shifted(int64_t value, int64_t left) {
  return left >= 0 ? static_cast<int64_t>(static_cast<uint64_t>(value) << left) : value >> -left;
}
template <class T>
T saturated(int64_t value) {
  constexpr int64_t kTop = (int64_t{1} << (8 * sizeof(T) - 1)) - 1;
  return static_cast<T>(std::clamp(value, -kTop - 1, kTop));
}
// floor((a * (upper half of b) + more) / 2^15), saturated: in two parts that have 32 bits each.
inline int32_t by_upper_half(int32_t a, int32_t b, int32_t more) {
  const int32_t factor = b >> 16;
  const auto upper = static_cast<uint32_t>((a >> 16) * factor) << 1;
  const auto lower = static_cast<uint32_t>(((a & 0xffff) * factor + more) >> 15);
  const bool over = a == INT32_MIN && factor == -32768;
  return over ? INT32_MAX : static_cast<int32_t>(upper + lower);
}
inline int64_t part(int32_t word, int half) { return static_cast<int16_t>(static_cast<uint32_t>(word) >> (16 * half)); }

}  // namespace hvx_host

inline HVX_Vector Q6_V_vzero() { return HVX_Vector{}; }
inline HVX_Vector Q6_V_vsplat_R(int32_t r) { return HVX_Vector{} + r; }
inline HVX_Vector Q6_V_lo_W(const HVX_VectorPair& w) { return w.low; }
inline HVX_Vector Q6_V_hi_W(const HVX_VectorPair& w) { return w.high; }
inline int32_t Q6_R_vextract_VR(HVX_Vector v, int32_t r) { return v[(r & 127) / 4]; }

// ---- Bits and bytes
inline HVX_Vector Q6_V_vand_VV(HVX_Vector a, HVX_Vector b) { return a & b; }
inline HVX_Vector Q6_V_vor_VV(HVX_Vector a, HVX_Vector b) { return a | b; }
inline HVX_Vector Q6_V_vxor_VV(HVX_Vector a, HVX_Vector b) { return a ^ b; }
inline HVX_VectorPred Q6_Q_vsetq_R(int32_t r) {
  hvx_host::Lanes<uint8_t> out;
  for (int i = 0; i < 128; ++i) out.v[i] = i < (r & 127) ? 255 : 0;
  return {out.vector()};
}
inline HVX_Vector Q6_V_vmux_QVV(const HVX_VectorPred& q, HVX_Vector a, HVX_Vector b) {
  return (a & q.mask) | (b & ~q.mask);
}
inline HVX_VectorPred Q6_Q_and_QQ(const HVX_VectorPred& a, const HVX_VectorPred& b) { return {a.mask & b.mask}; }
inline HVX_Vector Q6_V_vand_QV(const HVX_VectorPred& q, HVX_Vector a) { return a & q.mask; }
inline HVX_Vector Q6_V_valign_VVR(HVX_Vector high, HVX_Vector low, int32_t r) {
  uint8_t both[256];
  memcpy(both, &low, 128);
  memcpy(both + 128, &high, 128);
  HVX_Vector out;
  memcpy(&out, both + (r & 127), 128);
  return out;
}
inline HVX_Vector Q6_V_vror_VR(HVX_Vector v, int32_t r) { return Q6_V_valign_VVR(v, v, r); }
// Elements of -r bytes of v and u in turn: the meaning of r = -1, -2 and -4; the kernels use no others.
template <class T>
HVX_VectorPair hvx_host_shuffle(HVX_Vector u, HVX_Vector v) {
  constexpr int kHalf = hvx_host::Lanes<T>::kCount / 2;
  const hvx_host::Lanes<T> x(u), y(v);
  hvx_host::Lanes<T> low, high;
  for (int i = 0; i < kHalf; ++i) {
    low.v[2 * i] = y.v[i], low.v[2 * i + 1] = x.v[i];
    high.v[2 * i] = y.v[kHalf + i], high.v[2 * i + 1] = x.v[kHalf + i];
  }
  return {low.vector(), high.vector()};
}
inline HVX_VectorPair Q6_W_vshuff_VVR(HVX_Vector u, HVX_Vector v, int32_t r) {
  return r == -1   ? hvx_host_shuffle<uint8_t>(u, v)
         : r == -2 ? hvx_host_shuffle<uint16_t>(u, v)
                   : hvx_host_shuffle<uint32_t>(u, v);
}
template <class Narrow, class Wide>
HVX_Vector hvx_host_pack(HVX_Vector u, HVX_Vector v, int shift) {
  hvx_host::Lanes<Narrow> out;
  const hvx_host::Lanes<Wide> x(u), y(v);
  constexpr int kHalf = hvx_host::Lanes<Wide>::kCount;
  for (int i = 0; i < kHalf; ++i)
    out.v[i] = static_cast<Narrow>(y.v[i] >> shift), out.v[i + kHalf] = static_cast<Narrow>(x.v[i] >> shift);
  return out.vector();
}
inline HVX_Vector Q6_Vb_vpacke_VhVh(HVX_Vector u, HVX_Vector v) { return hvx_host_pack<uint8_t, uint16_t>(u, v, 0); }
inline HVX_Vector Q6_Vb_vpacko_VhVh(HVX_Vector u, HVX_Vector v) { return hvx_host_pack<uint8_t, uint16_t>(u, v, 8); }
inline HVX_Vector Q6_Vh_vpacke_VwVw(HVX_Vector u, HVX_Vector v) { return hvx_host_pack<uint16_t, uint32_t>(u, v, 0); }
inline HVX_Vector Q6_Vh_vshuffe_VhVh(HVX_Vector u, HVX_Vector v) {
  return hvx_host::each<uint32_t, uint32_t>([](uint32_t a, uint32_t b) { return a << 16 | (b & 0xffff); }, u, v);
}
inline HVX_Vector Q6_Vh_vshuffo_VhVh(HVX_Vector u, HVX_Vector v) {
  return hvx_host::each<uint32_t, uint32_t>([](uint32_t a, uint32_t b) { return (a & 0xffff0000u) | b >> 16; }, u, v);
}
inline HVX_Vector Q6_Vb_vshuffe_VbVb(HVX_Vector u, HVX_Vector v) {
  return hvx_host::each<uint16_t, uint16_t>([](uint16_t a, uint16_t b) { return a << 8 | (b & 0xff); }, u, v);
}
inline HVX_Vector Q6_Vb_vshuffo_VbVb(HVX_Vector u, HVX_Vector v) {
  return hvx_host::each<uint16_t, uint16_t>([](uint16_t a, uint16_t b) { return (a & 0xff00) | b >> 8; }, u, v);
}

// ---- Lanes. HVX_HOST_2(name, lane of the result, lane of the operands, value of a and b)
#define HVX_HOST_2(name, R, T, value)                                  \
  inline HVX_Vector name(HVX_Vector u, HVX_Vector v) {                 \
    return hvx_host::each<R, T>([](T a, T b) { return value; }, u, v); \
  }
#define HVX_HOST_R(name, T, value)                              \
  inline HVX_Vector name(HVX_Vector u, int32_t r) {             \
    return hvx_host::each<T, T>([r](T a) { return value; }, u); \
  }
HVX_HOST_2(Q6_Vh_vadd_VhVh, uint16_t, uint16_t, a + b)
HVX_HOST_2(Q6_Vh_vsub_VhVh, uint16_t, uint16_t, a - b)
HVX_HOST_2(Q6_Vh_vmax_VhVh, int16_t, int16_t, std::max(a, b))
HVX_HOST_2(Q6_Vh_vmin_VhVh, int16_t, int16_t, std::min(a, b))
HVX_HOST_2(Q6_Vw_vadd_VwVw, uint32_t, uint32_t, a + b)
HVX_HOST_2(Q6_Vw_vsub_VwVw, uint32_t, uint32_t, a - b)
HVX_HOST_2(Q6_Vw_vmax_VwVw, int32_t, int32_t, std::max(a, b))
HVX_HOST_2(Q6_Vw_vmin_VwVw, int32_t, int32_t, std::min(a, b))
HVX_HOST_2(Q6_Vuh_vavg_VuhVuh_rnd, uint16_t, uint16_t, (a + b + 1) >> 1)
HVX_HOST_2(Q6_Vh_vlsr_VhVh, uint16_t, uint16_t, (b & 16) != 0 ? uint32_t{a} << (32 - (b & 31)) : a >> (b & 15))
HVX_HOST_2(Q6_Vh_vasl_VhVh, int16_t, int16_t, hvx_host::shifted(a, hvx_host::signed_count(b, 5)))
HVX_HOST_2(Q6_Vh_vmpy_VhVh_s1_rnd_sat, int16_t, int16_t,
           hvx_host::saturated<int16_t>((int64_t{a} * b * 2 + 0x8000) >> 16))
HVX_HOST_2(Q6_Vw_vlsr_VwVw, uint32_t, uint32_t, hvx_host::shifted(a, -hvx_host::signed_count(b, 6)))
HVX_HOST_2(Q6_Vw_vasl_VwVw, int32_t, int32_t, hvx_host::shifted(a, hvx_host::signed_count(b, 6)))
HVX_HOST_2(Q6_Vw_vmpyo_VwVh_s1_sat, int32_t, int32_t, hvx_host::by_upper_half(a, b, 0))
HVX_HOST_2(Q6_Vw_vmpyo_VwVh_s1_rnd_sat, int32_t, int32_t, hvx_host::by_upper_half(a, b, 1 << 14))
HVX_HOST_R(Q6_Vh_vasl_VhR, uint16_t, a << (r & 15))
HVX_HOST_R(Q6_Vh_vasr_VhR, int16_t, a >> (r & 15))
HVX_HOST_R(Q6_Vuh_vlsr_VuhR, uint16_t, a >> (r & 15))
HVX_HOST_R(Q6_Vub_vlsr_VubR, uint8_t, a >> (r & 7))
HVX_HOST_R(Q6_Vw_vasl_VwR, uint32_t, a << (r & 31))
HVX_HOST_R(Q6_Vw_vasr_VwR, int32_t, a >> (r & 31))
HVX_HOST_R(Q6_Vuw_vlsr_VuwR, uint32_t, a >> (r & 31))
#undef HVX_HOST_2
#undef HVX_HOST_R
inline HVX_Vector Q6_Vw_vabs_Vw(HVX_Vector v) {
  return hvx_host::each<uint32_t, uint32_t>([](uint32_t a) { return a >> 31 != 0 ? 0u - a : a; }, v);
}
inline HVX_Vector Q6_Vuw_vcl0_Vuw(HVX_Vector v) {
  return hvx_host::each<uint32_t, uint32_t>([](uint32_t a) { return a == 0 ? 32 : __builtin_clz(a); }, v);
}
inline HVX_Vector Q6_Vw_vaslacc_VwVwR(HVX_Vector sum, HVX_Vector v, int32_t r) {
  return Q6_Vw_vadd_VwVw(sum, Q6_Vw_vasl_VwR(v, r));
}
inline HVX_Vector Q6_Vw_vasracc_VwVwR(HVX_Vector sum, HVX_Vector v, int32_t r) {
  return Q6_Vw_vadd_VwVw(sum, Q6_Vw_vasr_VwR(v, r));
}
inline HVX_Vector Q6_Vuh_vcl0_Vuh(HVX_Vector v) {
  return hvx_host::each<uint16_t, uint16_t>([](uint32_t a) { return a == 0 ? 16 : __builtin_clz(a) - 16; }, v);
}
inline HVX_VectorPred Q6_Q_vcmp_eq_VwVw(HVX_Vector a, HVX_Vector b) {
  return hvx_host::compare<int32_t>([](int32_t x, int32_t y) { return x == y; }, a, b);
}
inline HVX_VectorPred Q6_Q_vcmp_gt_VwVw(HVX_Vector a, HVX_Vector b) {
  return hvx_host::compare<int32_t>([](int32_t x, int32_t y) { return x > y; }, a, b);
}
inline HVX_VectorPred Q6_Q_vcmp_gt_VhVh(HVX_Vector a, HVX_Vector b) {
  return hvx_host::compare<int16_t>([](int16_t x, int16_t y) { return x > y; }, a, b);
}

inline HVX_VectorPair Q6_W_vdeal_VVR(HVX_Vector u, HVX_Vector v, int32_t r) {
  hvx_host::Lanes<uint8_t> high(u), low(v);
  for (int offset = 64; offset > 0; offset >>= 1)
    for (int k = 0; (r & offset) != 0 && k < 128; ++k)
      if ((k & offset) == 0) std::swap(high.v[k], low.v[k + offset]);
  return {low.vector(), high.vector()};
}

// ---- Products. By the low half of b, unsigned, or the high one, signed; 64 bits in a pair.
inline HVX_VectorPair Q6_W_vmpye_VwVuh(HVX_Vector a, HVX_Vector b) {
  const auto product = [](int32_t x, int32_t y) { return int64_t{x} * static_cast<uint16_t>(y); };
  return {hvx_host::each<uint32_t, int32_t>([&](int32_t x, int32_t y) { return product(x, y) << 16; }, a, b),
          hvx_host::each<int32_t, int32_t>([&](int32_t x, int32_t y) { return product(x, y) >> 16; }, a, b)};
}
inline HVX_VectorPair Q6_W_vmpyoacc_WVwVh(const HVX_VectorPair& sum, HVX_Vector a, HVX_Vector b) {
  hvx_host::Lanes<uint32_t> low(sum.low), high(sum.high);
  const hvx_host::Lanes<int32_t> x(a), y(b);
  for (int i = 0; i < 32; ++i) {
    const int64_t product = x.v[i] * hvx_host::part(y.v[i], 1) + static_cast<int32_t>(high.v[i]);
    high.v[i] = static_cast<uint32_t>(product >> 16);
    low.v[i] = low.v[i] >> 16 | static_cast<uint32_t>(product) << 16;
  }
  return {low.vector(), high.vector()};
}
inline HVX_Vector Q6_Vw_vmpye_VwVuh(HVX_Vector a, HVX_Vector b) {
  return hvx_host::each<int32_t, int32_t>(
      [](int32_t x, int32_t y) { return (int64_t{x} * static_cast<uint16_t>(y)) >> 16; }, a, b);
}
inline HVX_Vector Q6_Vw_vmpyoacc_VwVwVh_s1_rnd_sat_shift(HVX_Vector sum, HVX_Vector a, HVX_Vector b) {
  hvx_host::Lanes<int32_t> s(sum);
  const hvx_host::Lanes<int32_t> x(a), y(b);
  for (int i = 0; i < 32; ++i)
    s.v[i] = hvx_host::saturated<int32_t>((((s.v[i] + x.v[i] * hvx_host::part(y.v[i], 1)) >> 14) + 1) >> 1);
  return s.vector();
}
inline HVX_Vector Q6_Vw_vmpyieo_VhVh(HVX_Vector a, HVX_Vector b) {
  return hvx_host::each<uint32_t, int32_t>(
      [](int32_t x, int32_t y) { return hvx_host::part(x, 0) * hvx_host::part(y, 1) << 16; }, a, b);
}
inline HVX_Vector Q6_Vw_vmpyieacc_VwVwVuh(HVX_Vector sum, HVX_Vector a, HVX_Vector b) {
  return Q6_Vw_vadd_VwVw(sum, hvx_host::each<uint32_t, int32_t>(
                                  [](int32_t x, int32_t y) { return int64_t{x} * static_cast<uint16_t>(y); }, a, b));
}
inline HVX_Vector Q6_Vh_vmpy_VhRh_s1_rnd_sat(HVX_Vector v, int32_t r) {
  hvx_host::Lanes<int16_t> lanes(v);
  for (int i = 0; i < 64; ++i)
    lanes.v[i] = hvx_host::saturated<int16_t>((lanes.v[i] * hvx_host::part(r, i % 2) * 2 + 0x8000) >> 16);
  return lanes.vector();
}
inline HVX_VectorPair Q6_Ww_vmpy_VhVh(HVX_Vector u, HVX_Vector v) {
  const auto half = [&](int which) {
    return hvx_host::each<int32_t, int32_t>(
        [which](int32_t a, int32_t b) { return hvx_host::part(a, which) * hvx_host::part(b, which); }, u, v);
  };
  return {half(0), half(1)};
}
inline HVX_Vector Q6_Vw_vrmpy_VubRb(HVX_Vector v, int32_t r) {
  const hvx_host::Lanes<uint8_t> bytes(v);
  hvx_host::Lanes<int32_t> out;
  for (int i = 0; i < 32; ++i) {
    out.v[i] = 0;
    for (int j = 0; j < 4; ++j)
      out.v[i] += bytes.v[4 * i + j] * static_cast<int8_t>(static_cast<uint32_t>(r) >> (8 * j));
  }
  return out.vector();
}
inline HVX_Vector Q6_Vw_vrmpyacc_VwVubRb(HVX_Vector sum, HVX_Vector v, int32_t r) {
  return Q6_Vw_vadd_VwVw(sum, Q6_Vw_vrmpy_VubRb(v, r));
}
