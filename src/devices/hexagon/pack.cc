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

static_assert(sizeof(WireReply) == 96 && sizeof(WireInfo) == 64 && sizeof(WireMap) == 24 && sizeof(WireKv) == 52);
static_assert(sizeof(WireOp) == 260 && sizeof(WirePrediction) == 32 && sizeof(WireBatch) == 40);

bool is_tile(WireLayout layout) { return layout >= WIRE_TILE_Q4_0; }

int64_t vectors_of_block(WireLayout layout) {
  return layout == WIRE_TILE_Q4_0 ? 4 : layout == WIRE_TILE_Q8_0 ? 8 : 16;
}
int64_t pairs_of(int64_t inputs) { return (inputs / kBlock + 1) / 2; }
int64_t bytes_of_tile(WireLayout layout, int64_t inputs) {
  return kVector * (1 + pairs_of(inputs) * (2 * vectors_of_block(layout) + 1));
}

constexpr int kNoExponent = -1000;  // of zero

// The exponent of which 2^exponent exceeds |value|.
int ceiling(double value) {
  int exponent = kNoExponent;
  if (value != 0) std::frexp(value, &exponent);
  return exponent;
}

// One output's blocks before they are laid out.
struct Output {
  int exponent = kNoExponent;                      // the tile's, of this output
  std::vector<int16_t> scales;                     // per block
  std::vector<std::array<int16_t, kBlock>> quants;  // per block
};

void set_scales(Output& out, std::span<const double> scales) {
  for (const double s : scales) out.exponent = std::max(out.exponent, ceiling(s));
  for (const double s : scales) {
    const double relative = out.exponent == kNoExponent ? 0 : std::ldexp(s, 15 - out.exponent);
    out.scales.push_back(static_cast<int16_t>(std::clamp(std::nearbyint(relative), -32767.0, 32767.0)));
  }
}

template <class Group>
Output from_groups(const std::byte* row, int64_t blocks, auto quant) {
  Output out;
  std::vector<double> scales;
  for (int64_t b = 0; b < blocks; ++b) {
    Group group;
    std::memcpy(&group, row + b * static_cast<int64_t>(sizeof group), sizeof group);
    const float d = f16_to_float(group.d);
    scales.push_back(std::isfinite(d) ? d : 0.0);
    auto& q = out.quants.emplace_back();
    for (int i = 0; i < kBlock; ++i) q[static_cast<size_t>(i)] = static_cast<int16_t>(quant(group, i));
  }
  set_scales(out, scales);
  return out;
}

// Floats become 16-bit integers; the scale of a block is the power of two that its largest value needs, but not below
// 2^-13 of the output's largest: then the scale and its product with an activation's are exact in 16 bits.
Output from_floats(DType type, const std::byte* row, int64_t blocks) {
  std::vector<float> values(static_cast<size_t>(blocks * kBlock));
  dequantize_row(type, row, values.data(), blocks * kBlock);
  for (float& v : values)
    if (!std::isfinite(v)) v = 0;
  Output out;
  std::vector<int> exponents;
  int top = kNoExponent;
  for (int64_t b = 0; b < blocks; ++b) {
    double most = 0;
    for (int64_t i = 0; i < kBlock; ++i)
      most = std::max(most, std::fabs(static_cast<double>(values[static_cast<size_t>(b * kBlock + i)])));
    exponents.push_back(ceiling(most));
    top = std::max(top, exponents.back());
  }
  std::vector<double> scales;
  for (int64_t b = 0; b < blocks; ++b) {
    auto& q = out.quants.emplace_back();
    if (top == kNoExponent) {
      scales.push_back(0);
      continue;
    }
    const int exponent = std::max(exponents[static_cast<size_t>(b)], top - 13);
    for (size_t i = 0; i < kBlock; ++i) {
      const double scaled = std::ldexp(static_cast<double>(values[static_cast<size_t>(b) * kBlock + i]), 15 - exponent);
      q[i] = static_cast<int16_t>(std::clamp(std::nearbyint(scaled), -32767.0, 32767.0));
    }
    scales.push_back(std::ldexp(1.0, exponent - 15));
  }
  set_scales(out, scales);
  return out;
}

Output read_output(WireLayout layout, const TensorView& w, int64_t n, int64_t blocks) {
  switch (layout) {
    case WIRE_TILE_Q4_0:
      return from_groups<GroupQ4_0>(w.row(n), blocks, [](const GroupQ4_0& g, int i) {
        return (i < 16 ? g.q[i] & 15 : g.q[i - 16] >> 4) - 8;
      });
    case WIRE_TILE_Q8_0:
      return from_groups<GroupQ8_0>(w.row(n), blocks, [](const GroupQ8_0& g, int i) { return g.q[i]; });
    default:
      return from_floats(w.type, w.row(n), blocks);
  }
}

// The bytes of one output's block: byte `at` of vector g is put(g, at).
void lay_block(WireLayout layout, const std::array<int16_t, kBlock>& q, int64_t lane, uint8_t* block) {
  const auto byte = [&](int64_t vector, int64_t j) -> uint8_t& { return block[vector * kVector + lane * 4 + j]; };
  for (int64_t i = 0; i < kBlock; ++i) {
    const int value = q[static_cast<size_t>(i)];
    switch (layout) {
      case WIRE_TILE_Q4_0: {
        uint8_t& b = byte(i / 8, i % 4);
        b = static_cast<uint8_t>(i % 8 < 4 ? (b & 0xf0) | (value + 8) : (b & 0x0f) | (value + 8) << 4);
        break;
      }
      case WIRE_TILE_Q8_0:
        byte(i / 4, i % 4) = static_cast<uint8_t>(value + 128);
        break;
      default:
        byte(i / 4, i % 4) = static_cast<uint8_t>((value >> 8) + 128);
        byte(8 + i / 4, i % 4) = static_cast<uint8_t>(value & 255);
    }
  }
}

}  // namespace

std::optional<WireLayout> layout_for(DType type, WeightUse use) {
  if (use == WeightUse::vector) return type == DType::F32 ? std::optional(WIRE_STORED_F32) : std::nullopt;
  const bool embedding = use == WeightUse::embedding;
  switch (type) {
    case DType::F32:
      return WIRE_STORED_F32;
    case DType::F16:
      return embedding ? WIRE_STORED_F16 : WIRE_TILE_F16;
    case DType::BF16:
      return embedding ? WIRE_STORED_BF16 : WIRE_TILE_F16;
    case DType::Q8_0:
      return embedding ? WIRE_STORED_Q8_0 : WIRE_TILE_Q8_0;
    case DType::Q4_0:
      return embedding ? WIRE_STORED_Q4_0 : WIRE_TILE_Q4_0;
    default:
      return std::nullopt;
  }
}

int64_t layout_bytes(WireLayout layout, int64_t outputs, int64_t inputs) {
  if (is_tile(layout)) return (outputs + kTile - 1) / kTile * bytes_of_tile(layout, inputs);
  const auto type = [&] {
    switch (layout) {
      case WIRE_STORED_F16:
        return DType::F16;
      case WIRE_STORED_BF16:
        return DType::BF16;
      case WIRE_STORED_Q8_0:
        return DType::Q8_0;
      case WIRE_STORED_Q4_0:
        return DType::Q4_0;
      default:
        return DType::F32;
    }
  }();
  return (outputs * row_bytes(type, inputs) + kVector - 1) / kVector * kVector;
}

void pack(WireLayout layout, const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  const int64_t inputs = weight.shape.columns(), outputs = weight.shape.rows();
  LLADA_CHECK(n0 >= 0 && n0 <= n1 && n1 <= outputs);
  if (!is_tile(layout)) {
    std::memcpy(packed + n0 * weight.row_stride(), weight.row(n0), static_cast<size_t>((n1 - n0) * weight.row_stride()));
    return;
  }
  LLADA_CHECK(n0 % kTile == 0 && (n1 % kTile == 0 || n1 == outputs) && inputs % kBlock == 0);
  const int64_t blocks = inputs / kBlock, vectors = vectors_of_block(layout), bytes = bytes_of_tile(layout, inputs);
  const int64_t pair_bytes = kVector * (2 * vectors + 1);
  for (int64_t tile = n0 / kTile; tile * kTile < n1; ++tile) {
    auto* out = reinterpret_cast<uint8_t*>(packed + tile * bytes);
    std::memset(out, 0, static_cast<size_t>(bytes));
    for (int64_t lane = 0; lane < kTile; ++lane) {
      const int64_t n = tile * kTile + lane;
      Output output;
      if (n < outputs) output = read_output(layout, weight, n, blocks);
      const int32_t exponent = output.exponent == kNoExponent ? -kVector * 8 : output.exponent;
      std::memcpy(out + lane * 4, &exponent, 4);
      for (int64_t b = 0; b < static_cast<int64_t>(output.scales.size()); ++b) {
        uint8_t* pair = out + kVector + b / 2 * pair_bytes;
        lay_block(layout, output.quants[static_cast<size_t>(b)], lane, pair + b % 2 * vectors * kVector);
        std::memcpy(pair + 2 * vectors * kVector + (b % 2 * kTile + lane) * 2, &output.scales[static_cast<size_t>(b)], 2);
      }
    }
  }
}

}  // namespace llada::hexagon
