#include "devices/hexagon/dsp/activations.h"

#include "devices/hexagon/dsp/float_math.h"

namespace dsp {
namespace {

// A scale as 15-bit mantissa and exponent: s = mantissa / 2^15 * 2^exponent, mantissa in [2^14, 2^15).
struct Scale {
  int32_t mantissa = 0, exponent = -1000;
};
Scale split(float s) {
  const uint32_t bits = bits_of(s);
  if (bits == 0) return {};
  Scale out = {static_cast<int32_t>(((bits & 0x7fffffu) | 0x800000u) + 256) >> 9,
               static_cast<int32_t>(bits >> 23) - 126};
  if (out.mantissa == 1 << 15) out.mantissa >>= 1, ++out.exponent;
  return out;
}

float largest(const float* x) {
  uint32_t max = 0;  // the bits of positive floats are ordered like the floats
  for (uint32_t i = 0; i < kBlock; ++i) {
    const uint32_t magnitude = bits_of(x[i]) & 0x7fffffffu;
    max = magnitude > max ? magnitude : max;
  }
  return float_of(max);
}

// Makes infinity of a sum of 1 with any weights: an output of zeros has the exponent -1000 (pack.h).
constexpr int32_t kNotFinite = 4000;
constexpr float kSmallest = 0x1p-120f;  // below it 127 / max is not finite

// The scale of a block, as the format wants it.
float block_scale(Format format, const float* x) {
  const float max = largest(x);
  if (!finite(max)) return kInfinity;
  if (!(max > kSmallest)) return 0;
  if (format != Format::f16) return max / 127.0f;
  // The power of two for which max / s lies in (2^13, 2^14].
  const uint32_t bits = bits_of(max);
  const uint32_t ceiling = (bits >> 23) + ((bits & 0x7fffffu) != 0 ? 1 : 0);
  return ceiling < 15 ? 0 : float_of((ceiling - 14) << 23);
}

uint32_t byte(int32_t value, uint32_t at) { return (static_cast<uint32_t>(value) & 0xffu) << (8 * at); }

// One row's values of a block, as the format's words.
struct Quantized {
  uint32_t words[8] = {}, low[8] = {};
  int32_t sum = 0;
};
Quantized quantize(Format format, const float* x, float inverse) {
  Quantized out;
  for (uint32_t i = 0; i < kBlock; ++i) {
    const int32_t q = round_to_int(x[i] * inverse);
    out.sum += q;
    if (format != Format::f16) {
      out.words[i / 4] |= byte(q, i % 4);
    } else {
      const int32_t high = (q + 128) >> 8;
      out.words[i / 4] |= byte(high, i % 4);
      out.low[i / 4] |= byte(q - high * 256, i % 4);
    }
  }
  return out;
}

// Bits [at, at + width) of a pair of words.
void put_bits(Words& words, uint32_t at, uint32_t width, int32_t value) {
  const uint64_t mask = ((uint64_t{1} << width) - 1) << at;
  const uint64_t bits = static_cast<uint64_t>(static_cast<uint32_t>(value)) << at;
  words.both = static_cast<int64_t>((static_cast<uint64_t>(words.both) & ~mask) | (bits & mask));
}
template <class Target>
void put_inputs(const uint32_t* words, Target& q, uint32_t row) {
  for (uint32_t g = 0; g < 4; ++g)
    q[g][row].both = static_cast<int64_t>(static_cast<uint64_t>(words[2 * g + 1]) << 32 | words[2 * g]);
}

template <int R>
void put(BlockQ4<R>& block, uint32_t row, const Quantized& q, int32_t mantissa, int32_t shift) {
  put_inputs(q.words, block.q, row);
  put_bits(block.pair[row / 2], row % 2 * 16, 16, -8 * q.sum);
  put_bits(block.pair[row / 2], 32 + row % 2 * 16, 16, mantissa);
  put_bits(block.shift[row / 2], row % 2 * 32, 32, shift);
}
template <class Block>
void put_rest(Block& block, uint32_t row, const Quantized& q, int32_t mantissa, int32_t shift) {
  put_bits(block.correction[row / 2], row % 2 * 32, 32, -128 * q.sum);
  put_bits(block.mantissa[row / 4], row % 4 * 16, 16, mantissa);
  put_bits(block.shift[row / 2], row % 2 * 32, 32, shift);
}
template <int R>
void put(BlockQ8<R>& block, uint32_t row, const Quantized& q, int32_t mantissa, int32_t shift) {
  put_inputs(q.words, block.q, row);
  put_rest(block, row, q, mantissa, shift);
}
void put(BlockF16& block, uint32_t row, const Quantized& q, int32_t mantissa, int32_t shift) {
  put_inputs(q.words, block.high, row);
  put_inputs(q.low, block.low, row);
  put_rest(block, row, q, mantissa, shift);
}

// One row of the group.
template <class Block>
void fill_row(Format format, const float* row, uint32_t r, uint32_t inputs, uint32_t* work, RowGroup& head,
              Block* blocks) {
  const uint32_t padded = blocks_of(inputs), real = inputs / kBlock;
  const int32_t base = base_shift(padded);
  int32_t top = -1000;
  for (uint32_t b = 0; b < padded; ++b) {
    const float s = b < real ? block_scale(format, row + b * kBlock) : 0;
    work[b] = bits_of(s);
    const Scale scale = split(s);
    top = scale.exponent > top ? scale.exponent : top;
  }
  if (top > 126) {  // not finite: so are all results of the row, which the head reports
    for (uint32_t b = 0; b < padded; ++b) put(blocks[b], r, {}, 0, 0);
    head.bias[r] = 1, head.exponent[r] = kNotFinite;
    return;
  }
  uint32_t floored = 0;
  for (uint32_t b = 0; b < padded; ++b) {
    const float s = float_of(work[b]);
    const Scale scale = split(s);
    const int32_t shift = base + top - scale.exponent;
    if (s == 0 || shift > 31) {
      put(blocks[b], r, {}, 0, 0);
      continue;
    }
    const float inverse = format == Format::f16 ? 1.0f / s : 127.0f / largest(row + b * kBlock);
    put(blocks[b], r, quantize(format, row + b * kBlock, inverse), scale.mantissa, shift);
    floored += shift > 0 || format != Format::q4 ? 1 : 0;
  }
  head.bias[r] = static_cast<int32_t>(floored / 2);
  head.exponent[r] = base + top + unit_exponent(format);
}

uint32_t block_bytes(Format format, uint32_t rows_in_group) {
  if (format == Format::f16) return sizeof(BlockF16);
  if (format == Format::q8) return rows_in_group == 8 ? sizeof(BlockQ8<8>) : sizeof(BlockQ8<4>);
  return rows_in_group == 8 ? sizeof(BlockQ4<8>) : sizeof(BlockQ4<4>);
}

}  // namespace

int32_t unit_exponent(Format format) {
  return format == Format::q4 ? -15 : format == Format::q8 ? 4 - 15 : 8 + 11 - 15;
}

int32_t base_shift(uint32_t blocks) {  // a block's product is below 2^30
  int32_t shift = 0;
  while (blocks > 2u << shift) ++shift;
  return shift;
}

uint32_t group_rows(Format format, uint32_t rows, uint32_t first) {
  return most_rows(format) == 8 && rows - first > 4 ? 8 : 4;
}

uint32_t groups_of(Format format, uint32_t rows) { return (rows + most_rows(format) - 1) / most_rows(format); }

uint32_t group_bytes(Format format, uint32_t rows_in_group, uint32_t inputs) {
  return sizeof(RowGroup) + blocks_of(inputs) * block_bytes(format, rows_in_group);
}

uint32_t activation_bytes(Format format, uint32_t rows, uint32_t inputs) {
  return groups_of(format, rows) * group_bytes(format, most_rows(format), inputs);
}

namespace plain {

void quantize_row(Format format, const float* row, uint32_t inputs, uint32_t r, uint32_t rows_in_group, uint32_t* work,
                  uint8_t* group) {
  auto& head = *reinterpret_cast<RowGroup*>(group);
  uint8_t* blocks = group + sizeof(RowGroup);
  if (format == Format::f16)
    fill_row(format, row, r, inputs, work, head, reinterpret_cast<BlockF16*>(blocks));
  else if (format == Format::q8 && rows_in_group == 8)
    fill_row(format, row, r, inputs, work, head, reinterpret_cast<BlockQ8<8>*>(blocks));
  else if (format == Format::q8)
    fill_row(format, row, r, inputs, work, head, reinterpret_cast<BlockQ8<4>*>(blocks));
  else if (rows_in_group == 8)
    fill_row(format, row, r, inputs, work, head, reinterpret_cast<BlockQ4<8>*>(blocks));
  else
    fill_row(format, row, r, inputs, work, head, reinterpret_cast<BlockQ4<4>*>(blocks));
}

}  // namespace plain
}  // namespace dsp
