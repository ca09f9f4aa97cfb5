// The vector unit's types and the instructions that the DSP's kernels use, lane by lane in plain C++ from their public
// description: so that the very sources of src/devices/hexagon/dsp run on the host under sanitizers. Slow on purpose.
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
  uint8_t byte[128];
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
template <class R, class T, class F, class... Vectors>
HVX_Vector each(F f, const Vectors&... vectors) {
  Lanes<R> out;
  for (int i = 0; i < Lanes<R>::kCount; ++i) out.v[i] = static_cast<R>(f(Lanes<T>(vectors).v[i]...));
  return out.vector();
}
template <class T, class F>
HVX_VectorPred compare(F f, HVX_Vector a, HVX_Vector b) {
  HVX_VectorPred out;
  const Lanes<T> x(a), y(b);
  for (size_t i = 0; i < 128; ++i) out.byte[i] = f(x.v[i / sizeof(T)], y.v[i / sizeof(T)]);
  return out;
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
inline int64_t part(int32_t word, int half) { return static_cast<int16_t>(static_cast<uint32_t>(word) >> (16 * half)); }

}  // namespace hvx_host
