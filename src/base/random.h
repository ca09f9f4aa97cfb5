// Random numbers without a stream. Each is a function of a key and a counter, so a result depends neither on the number
// of threads nor on the order of positions and tokens. The mixer is SplitMix64's (Steele, Lea, Flood: "Fast splittable
// pseudorandom number generators", OOPSLA 2014). Deliberately absent: state, distributions, cryptographic strength.
#pragma once
#include <cstdint>

namespace llada {

inline constexpr uint64_t kRandomStep = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio, odd

constexpr uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The key of one row: take it once, then draw() per token costs one mix.
constexpr uint64_t random_key(uint64_t seed, uint64_t forward, uint64_t position) {
  uint64_t key = mix64(seed + kRandomStep);
  key = mix64(key + (forward + 1) * kRandomStep);
  return mix64(key + (position + 1) * kRandomStep);
}

// Strictly between 0 and 1 (both logarithms in -ln(-ln U) are finite): the middle of one of 2^52 equal cells.
constexpr double draw(uint64_t key, uint64_t token) {
  return (static_cast<double>(mix64(key + (token + 1) * kRandomStep) >> 12) + 0.5) * 0x1p-52;
}

// Gumbel noise at temperature > 0 takes the token id; decisions about a whole position take kPositionDraw,
// which is no id.
inline constexpr uint64_t kPositionDraw = 0xffffffff;

constexpr double uniform(uint64_t seed, uint64_t forward, uint64_t position, uint64_t token) {
  return draw(random_key(seed, forward, position), token);
}

}  // namespace llada
