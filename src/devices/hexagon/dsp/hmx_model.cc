#include "devices/hexagon/dsp/hmx_model.h"

#include "devices/hexagon/dsp/float_math.h"

namespace {

constexpr int kTile = 32, kGroup = 8, kTileBytes = 2048;
constexpr uint32_t kRegion = 256 << 10;  // which no operand may leave
constexpr int32_t kNothing = -100, kPoint = 22, kWidth = 30, kLeftMost = 3;

struct Sum {
  int32_t significand, exponent;  // significand * 2^(exponent - 22)
};
struct Half {
  int32_t significand, exponent;  // significand * 2^(exponent - 10)
};
struct Unit {
  const uint8_t* memory;
  uint32_t bytes;
  bool adds;
  uint32_t fault, period, stored;
  Half rows[kTile][kTile], weights[kTile][kTile];  // of the tiles that are being multiplied
  Sum sums[kTile][kTile];
  uint16_t scales[kTile], results[kTile][kTile];
};
// The unit belongs to the thread that multiplies: on a DSP there is one of both.
#ifdef __hexagon__
constinit Unit unit = {};
#else
constinit thread_local Unit unit = {};
#endif

uintptr_t number(const void* at) { return reinterpret_cast<uintptr_t>(at); }
void check(bool allowed) {
  if (!allowed) __builtin_trap();
}
// last: of the operand's bytes.
void check_operand(const uint8_t* at, uint32_t last, uint32_t alignment) {
  const uintptr_t first = number(at);
  check(first % alignment == 0 && first / kRegion == (first + last) / kRegion);
  check(first >= number(unit.memory) && first + last - number(unit.memory) < unit.bytes);
}
int32_t element(int i, int j) { return 64 * (i / 2) + 2 * j + i % 2; }

int32_t jammed(int32_t value, int32_t right) {
  if (right <= 0) return value;
  if (right > 31) right = 31;
  const auto lost = static_cast<uint32_t>(value) & ((1u << right) - 1);
  return (value >> right) | (lost != 0 ? 1 : 0);
}

Half split(uint16_t half) {
  const int32_t field = half >> 10 & 31, digits = (half & 0x3ff) | (field != 0 ? 0x400 : 0);
  if (digits == 0) return {0, 10 * kNothing};
  return {(half & 0x8000) != 0 ? -digits : digits, (field != 0 ? field : 1) - 15};
}
void split(const uint8_t* tile, Half (&to)[kTile][kTile]) {
  for (int i = 0; i < kTile; ++i)
    for (int j = 0; j < kTile; ++j) to[i][j] = split(reinterpret_cast<const uint16_t*>(tile)[element(i, j)]);
}

// Adds eight products, of inputs from k on.
void add_group(Sum& sum, int r, int k, int c) {
  int32_t products[kGroup], exponents[kGroup], top = kNothing;
  for (int i = 0; i < kGroup; ++i) {
    const Half &a = unit.rows[r][k + i], &b = unit.weights[k + i][c];
    products[i] = a.significand * b.significand * 4;
    exponents[i] = a.exponent + b.exponent;
    top = exponents[i] > top ? exponents[i] : top;
  }
  if (top == kNothing) return;
  int32_t group = 0;
  for (int i = 0; i < kGroup; ++i) group += jammed(products[i], top - exponents[i]);
  int32_t exponent = sum.significand != 0 && sum.exponent > top ? sum.exponent : top;
  int32_t total = jammed(group, exponent - top);
  if (sum.significand != 0) total += jammed(sum.significand, exponent - sum.exponent);
  constexpr int32_t kMost = 1 << kWidth >> 1;
  if (total >= kMost || total < -kMost) total = jammed(total, 1), ++exponent;
  for (int left = 0; left < kLeftMost && total != 0 && total < kMost / 2 && total >= -kMost / 2; ++left)
    total *= 2, --exponent;
  sum = {total, exponent};
}

// significand * 2^exponent as FP16: nearest, ties to even, the largest number instead of infinity.
uint16_t to_half(int64_t significand, int32_t exponent) {
  if (significand == 0) return 0;
  const uint16_t sign = significand < 0 ? 0x8000 : 0;
  const auto magnitude = static_cast<uint64_t>(significand < 0 ? -significand : significand);
  const int32_t top = 63 - __builtin_clzll(magnitude) + exponent, field = top < -14 ? 0 : top + 14;
  const int32_t drop = (top < -14 ? -14 : top) - 10 - exponent;  // bits below the last digit
  uint64_t digits = drop <= 0 ? magnitude << (drop < -40 ? 40 : -drop) : drop > 62 ? 0 : magnitude >> drop;
  if (drop > 0 && drop <= 62) {
    const uint64_t rest = magnitude & ((uint64_t{1} << drop) - 1), half = uint64_t{1} << (drop - 1);
    digits += rest > half || (rest == half && (digits & 1) != 0) ? 1 : 0;
  }
  const uint64_t bits = (static_cast<uint64_t>(field) << 10) + digits;  // a leading one adds 1 to the field
  return static_cast<uint16_t>(sign | (bits > 0x7bff ? 0x7bff : bits));
}

}  // namespace

void hmx_model_memory(const uint8_t* memory, uint32_t bytes, uint32_t fault, uint32_t period) {
  unit.memory = memory, unit.bytes = bytes, unit.adds = fault != HMX_NO_SUMS;
  unit.fault = fault, unit.period = period;
}

void hmx_model_table(const uint8_t* table) {
  if (!unit.adds) return;
  check_operand(table, 255, 256);
  const auto* words = reinterpret_cast<const uint32_t*>(table);
  for (int c = 0; c < kTile; ++c) {
    check(words[c] >> 16 == 0 && words[kTile + c] == 0);  // biases and shapes are not modelled
    unit.scales[c] = static_cast<uint16_t>(words[c]);
  }
}

void hmx_model_clear() {
  if (!unit.adds) return;
  for (auto& row : unit.sums)
    for (Sum& sum : row) sum = {0, 0};
}

void hmx_model_pair(const uint8_t* rows, uint32_t rows_last, const uint8_t* weights, uint32_t weights_last) {
  if (!unit.adds) return;
  check(rows_last == weights_last && rows_last % kTileBytes == kTileBytes - 1 && rows_last < kTile * kTileBytes);
  check_operand(rows, rows_last, kTileBytes);
  check_operand(weights, weights_last, 128);
  for (uint32_t at = 0; at <= rows_last; at += kTileBytes) {
    split(rows + at, unit.rows);
    split(weights + at, unit.weights);
    for (int r = 0; r < kTile; ++r)
      for (int k = 0; k < kTile; k += kGroup) {
        bool any = false;
        for (int i = 0; i < kGroup; ++i) any = any || unit.rows[r][k + i].significand != 0;
        for (int c = 0; any && c < kTile; ++c) add_group(unit.sums[r][c], r, k, c);
      }
  }
}

void hmx_model_convert(uint32_t control) {
  if (!unit.adds) return;
  check(control == 2);
  for (int r = 0; r < kTile; ++r)
    for (int c = 0; c < kTile; ++c) {
      const Half scale = split(unit.scales[c]);
      const Sum& sum = unit.sums[r][c];
      unit.results[r][c] =
          to_half(int64_t{sum.significand} * scale.significand, sum.exponent - kPoint + scale.exponent - 10);
    }
  hmx_model_clear();
}

void hmx_model_store(uint8_t* results, uint32_t range) {
  if (!unit.adds) return;
  check(range == 0);
  check_operand(results, kTileBytes - 1, kTileBytes);
  const bool now = unit.period > 0 && ++unit.stored % unit.period == 0;
  while (now && unit.fault == HMX_HANGS) asm volatile("");
  const uint32_t flipped = now && unit.fault == HMX_LIES ? 0x8000 : now && unit.fault == HMX_DRIFTS ? 3 : 0;
  for (int r = 0; r < kTile; ++r)
    for (int c = 0; c < kTile; ++c)
      reinterpret_cast<uint16_t*>(results)[unit.fault == HMX_SWAPS ? element(c, r) : element(r, c)] =
          static_cast<uint16_t>(unit.results[r][c] ^ flipped);
}
