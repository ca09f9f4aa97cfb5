#include "devices/hexagon/pack.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "tensor/half.h"
#include "tensor/quantize.h"

namespace llada::hexagon {
namespace {

constexpr int64_t kBlock = 32, kTile = 32, kVector = 128;

static_assert(sizeof(WireReply) == 120 && sizeof(WireInfo) == 64 && sizeof(WireMap) == 24 && sizeof(WireKv) == 52);
static_assert(sizeof(WireOp) == 268 && sizeof(WirePrediction) == 32 && sizeof(WireBatch) == 64);

bool is_tile(WireLayout layout) { return layout >= WIRE_TILE_Q4_0; }

int64_t vectors_of_block(WireLayout layout) { return layout == WIRE_TILE_Q4_0 ? 4 : layout == WIRE_TILE_Q8_0 ? 8 : 16; }
int64_t pairs_of(int64_t inputs) { return (inputs / kBlock + 1) / 2; }
int64_t bytes_of_tile(WireLayout layout, int64_t inputs) {
  return kVector * (1 + pairs_of(inputs) * (2 * vectors_of_block(layout) + 1));
}

constexpr int kNoExponent = -1000;  // of zero
constexpr int32_t kPaddingExponent = -1000;

// The exponent of which 2^exponent exceeds |value|.
int ceiling(double value) {
  int exponent = kNoExponent;
  if (value != 0) std::frexp(value, &exponent);
  return exponent;
}

// Where the blocks of one output lie in its tile.
struct Lane {
  WireLayout layout;
  uint8_t* tile;
  int64_t lane;

  uint8_t* block(int64_t b) const {  // of vector g byte 4 * lane + j at + g * kVector + j
    return pair(b) + b % 2 * vectors_of_block(layout) * kVector + 4 * lane;
  }
  void put_scale(int64_t b, int16_t scale) const {
    std::memcpy(pair(b) + 2 * vectors_of_block(layout) * kVector + (b % 2 * kTile + lane) * 2, &scale, 2);
  }
  void put_exponent(int32_t exponent) const { std::memcpy(tile + 4 * lane, &exponent, 4); }

 private:
  uint8_t* pair(int64_t b) const { return tile + kVector * (1 + b / 2 * (2 * vectors_of_block(layout) + 1)); }
};

void put_scales(const Lane& lane, std::span<const double> scales) {
  int exponent = kNoExponent;
  for (const double s : scales) exponent = std::max(exponent, ceiling(s));
  lane.put_exponent(exponent == kNoExponent ? kPaddingExponent : exponent);
  if (exponent == kNoExponent) return;
  const double unit = std::ldexp(1.0, 15 - exponent);
  for (size_t b = 0; b < scales.size(); ++b)
    lane.put_scale(static_cast<int64_t>(b),
                   static_cast<int16_t>(std::clamp(std::nearbyint(scales[b] * unit), -32767.0, 32767.0)));
}

// Input 8g + j is the low nibble of byte j of vector g, 8g + 4 + j the high one; a stored group has inputs 0 to 15
// in its low nibbles, 16 to 31 in the high ones, and the same zero point.
void lay(const GroupQ4_0& group, uint8_t* block) {
  for (int64_t g = 0; g < 4; ++g)
    for (int64_t j = 0; j < 4; ++j) {
      const int64_t at = g % 2 * 8 + j;
      const int shift = g < 2 ? 0 : 4;
      const int low = group.q[at] >> shift & 15, high = group.q[at + 4] >> shift & 15;
      block[g * kVector + j] = static_cast<uint8_t>(low | high << 4);
    }
}
void lay(const GroupQ8_0& group, uint8_t* block) {
  for (int64_t i = 0; i < kBlock; ++i) block[i / 4 * kVector + i % 4] = static_cast<uint8_t>(group.q[i] + 128);
}

// False where a scale is not finite.
template <class Group>
bool pack_groups(const std::byte* row, int64_t blocks, const Lane& lane, std::vector<double>& scales) {
  scales.clear();
  bool finite = true;
  for (int64_t b = 0; b < blocks; ++b) {
    Group group;  // copied: stored groups lie at any address
    std::memcpy(&group, row + b * static_cast<int64_t>(sizeof group), sizeof group);
    const float d = f16_to_float(group.d);
    finite &= std::isfinite(d);
    scales.push_back(std::isfinite(d) ? d : 0.0);
    lay(group, lane.block(b));
  }
  put_scales(lane, scales);
  return finite;
}

// Floats become 16-bit integers; the scale of a block is the power of two that its largest value needs, but not below
// 2^-13 of the output's largest: then the scale and its product with an activation's are exact in 16 bits. False where
// a value is not finite.
bool pack_floats(DType type, const std::byte* row, int64_t blocks, const Lane& lane, std::vector<double>& scales) {
  std::vector<float> values(static_cast<size_t>(blocks * kBlock));
  dequantize_row(type, row, values.data(), blocks * kBlock);
  std::vector<int> exponents;
  int top = kNoExponent;
  bool finite = true;
  for (int64_t b = 0; b < blocks; ++b) {
    float most = 0;
    for (int64_t i = b * kBlock; i < (b + 1) * kBlock; ++i) {
      float& v = values[static_cast<size_t>(i)];
      if (!std::isfinite(v)) v = 0, finite = false;
      most = std::max(most, std::fabs(v));
    }
    exponents.push_back(ceiling(most));
    top = std::max(top, exponents.back());
  }
  scales.assign(static_cast<size_t>(blocks), 0.0);
  for (int64_t b = 0; b < blocks; ++b) {
    const int exponent = std::max(exponents[static_cast<size_t>(b)], top - 13);
    const double unit = top == kNoExponent ? 0 : std::ldexp(1.0, 15 - exponent);
    if (top != kNoExponent) scales[static_cast<size_t>(b)] = std::ldexp(1.0, exponent - 15);
    uint8_t* block = lane.block(b);
    for (int64_t i = 0; i < kBlock; ++i) {
      const double scaled = static_cast<double>(values[static_cast<size_t>(b * kBlock + i)]) * unit;
      const int q = static_cast<int>(std::clamp(std::nearbyint(scaled), -32767.0, 32767.0));
      block[i / 4 * kVector + i % 4] = static_cast<uint8_t>((q >> 8) + 128);
      block[(8 + i / 4) * kVector + i % 4] = static_cast<uint8_t>(q & 255);
    }
  }
  put_scales(lane, scales);
  return finite;
}

bool finite_row(DType type, const std::byte* row, int64_t n, std::vector<float>& values) {
  values.resize(static_cast<size_t>(n));
  dequantize_row(type, row, values.data(), n);
  return std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
}

}  // namespace

std::optional<WireLayout> layout_for(DType type, bool vector) {
  if (type == DType::F32) return WIRE_STORED_F32;
  if (vector) return std::nullopt;
  switch (type) {
    case DType::F16:
    case DType::BF16:
      return WIRE_TILE_F16;
    case DType::Q8_0:
      return WIRE_TILE_Q8_0;
    case DType::Q4_0:
      return WIRE_TILE_Q4_0;
    default:
      return std::nullopt;
  }
}

int64_t layout_bytes(WireLayout layout, int64_t outputs, int64_t inputs) {
  if (is_tile(layout)) return (outputs + kTile - 1) / kTile * bytes_of_tile(layout, inputs);
  return (outputs * inputs * 4 + kVector - 1) / kVector * kVector;
}

std::optional<int64_t> pack(WireLayout layout, const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  const int64_t inputs = weight.shape.columns(), outputs = weight.shape.rows();
  LLADA_CHECK(n0 >= 0 && n0 <= n1 && n1 <= outputs);
  std::optional<int64_t> damaged;
  if (!is_tile(layout)) {
    std::memcpy(packed + n0 * weight.row_stride(), weight.row(n0),
                static_cast<size_t>((n1 - n0) * weight.row_stride()));
    std::vector<float> values;
    for (int64_t n = n0; n < n1 && !damaged; ++n)
      if (!finite_row(weight.type, weight.row(n), inputs, values)) damaged = n;
    return damaged;
  }
  LLADA_CHECK(n0 % kTile == 0 && (n1 % kTile == 0 || n1 == outputs) && inputs % kBlock == 0);
  const int64_t blocks = inputs / kBlock, bytes = bytes_of_tile(layout, inputs);
  std::vector<double> scales;
  const auto pack_output = [&](const std::byte* row, const Lane& lane) {
    if (layout == WIRE_TILE_Q4_0) return pack_groups<GroupQ4_0>(row, blocks, lane, scales);
    if (layout == WIRE_TILE_Q8_0) return pack_groups<GroupQ8_0>(row, blocks, lane, scales);
    return pack_floats(weight.type, row, blocks, lane, scales);
  };
  for (int64_t tile = n0 / kTile; tile * kTile < n1; ++tile) {
    auto* out = reinterpret_cast<uint8_t*>(packed + tile * bytes);
    std::memset(out, 0, static_cast<size_t>(bytes));
    for (int64_t i = 0; i < kTile; ++i) {
      const Lane lane = {layout, out, i};
      const int64_t n = tile * kTile + i;
      if (n >= outputs)
        lane.put_exponent(kPaddingExponent);
      else if (!pack_output(weight.row(n), lane) && !damaged)
        damaged = n;
    }
  }
  return damaged;
}

}  // namespace llada::hexagon
