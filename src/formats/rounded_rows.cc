#include "formats/rounded_rows.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tensor/computed.h"
#include "tensor/half.h"
#include "tensor/quantize.h"

namespace llada {
namespace {

using Layout = RoundedMatrix::Layout;
using Code = RoundedMatrix::Code;
using Numbers = RoundedMatrix::Numbers;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int kAwqPlace[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // of an output among the eight of a word

// A sign, four bits of exponent (bias 7), three of mantissa; no infinities.
float e4m3(uint8_t x) {
  const uint32_t exponent = x >> 3 & 15u, mantissa = x & 7u, sign = static_cast<uint32_t>(x & 0x80u) << 24;
  if ((x & 0x7fu) == 0x7fu) return kNan;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 127 - 7) << 23 | mantissa << 20);
}

// 2^(x - 127).
float e8m0(uint8_t x) { return x == 255 ? kNan : std::bit_cast<float>(x == 0 ? 0x00400000u : uint32_t{x} << 23); }

float number(const Numbers& n, int64_t expert, int64_t output, int64_t group) {
  const int64_t i = expert * n.expert_step + output / n.outputs * n.output_step + group * n.group_step;
  if (n.type == "F32") return number_at<float>(n.data + 4 * i);
  if (n.type == "F16") return f16_to_float(number_at<uint16_t>(n.data + 2 * i));
  if (n.type == "BF16") return bf16_to_float(number_at<uint16_t>(n.data + 2 * i));
  if (n.type == "F8_E4M3") return e4m3(number_at<uint8_t>(n.data + i));
  return e8m0(number_at<uint8_t>(n.data + i));
}

// A code of `bits` bits from words of a stream; `step` bytes lie between two of its words.
int64_t code_at(const std::byte* words, int64_t index, int bits, int64_t step) {
  const int64_t bit = index * bits, shift = bit % 32;
  uint64_t word = number_at<uint32_t>(words + bit / 32 * step);
  if (shift + bits > 32) word |= static_cast<uint64_t>(number_at<uint32_t>(words + (bit / 32 + 1) * step)) << 32;
  return static_cast<int64_t>(word >> shift & ((1u << bits) - 1));
}

// The codes of a row from its bytes, lowest bits first.
void unpack(const std::byte* bytes, int bits, int64_t count, uint8_t* codes) {
  if (bits == 8) {
    std::memcpy(codes, bytes, static_cast<size_t>(count));
    return;
  }
  if (bits == 4) {
    for (int64_t i = 0; i < count / 2; ++i) {
      const auto both = static_cast<uint8_t>(bytes[i]);
      codes[2 * i] = both & 15;
      codes[2 * i + 1] = both >> 4;
    }
    return;
  }
  uint32_t kept = 0;
  int there = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (there < bits) {
      kept |= static_cast<uint32_t>(*bytes++) << there;
      there += 8;
    }
    codes[i] = static_cast<uint8_t>(kept & ((1u << bits) - 1));
    kept >>= bits;
    there -= bits;
  }
}

class RowWriter {
 public:
  explicit RowWriter(const RoundedMatrix& m) : m_(m), codes_(static_cast<size_t>(m.in)) {
    if (m.layout == Layout::columns) words_.resize(static_cast<size_t>(m.in * m.bits / 8));
    if (m.code == Code::fp8) values_.resize(static_cast<size_t>(m.in));
  }

  bool write(int64_t row, std::byte* to) {
    expert_ = row / m_.out, output_ = row % m_.out;
    read_codes(row);
    finite_ = true;
    if (m_.code == Code::fp8) {
      float8(to);
    } else {
      for (int64_t i = 0; i < m_.in / 32; ++i) to = group(i, to);
    }
    return finite_;
  }

 private:
  void read_codes(int64_t row) {
    if (m_.layout == Layout::awq) {
      const std::byte* word = m_.codes + output_ / 8 * 4;
      const int shift = 4 * kAwqPlace[output_ % 8];
      for (int64_t i = 0; i < m_.in; ++i, word += m_.out / 2)
        codes_[static_cast<size_t>(i)] = static_cast<uint8_t>(number_at<uint32_t>(word) >> shift & 15);
    } else if (m_.layout == Layout::columns) {
      const std::byte* word = m_.codes + output_ * 4;
      for (size_t i = 0; i < words_.size(); i += 4, word += m_.out * 4) std::memcpy(words_.data() + i, word, 4);
      unpack(words_.data(), m_.bits, m_.in, codes_.data());
    } else {
      unpack(m_.codes + row * (m_.in * m_.bits / 8), m_.bits, m_.in, codes_.data());
    }
  }

  float scale(int64_t group) {
    float s = number(m_.scales, expert_, output_, group);
    if (m_.global.data != nullptr) {
      const float global = number(m_.global, expert_, 0, 0);
      s = m_.global_divides ? s / global : s * global;
    }
    finite_ = finite_ && std::isfinite(s);
    return s;
  }

  uint16_t half(float value) {
    const uint16_t bits = float_to_f16(value);
    finite_ = finite_ && std::isfinite(f16_to_float(bits));
    return bits;
  }

  void float8(std::byte* to) {
    float s = 0;
    for (int64_t i = 0; i < m_.in; ++i) {
      if (i % m_.group == 0) s = scale(i / m_.group);
      values_[static_cast<size_t>(i)] = e4m3(codes_[static_cast<size_t>(i)]) * s;
      finite_ = finite_ && std::fabs(values_[static_cast<size_t>(i)]) <= 127.0f * 65504.0f;
    }
    quantize_row(DType::Q8_0, values_.data(), to, m_.in);
  }

  template <typename Group>
  static std::byte* put(const Group& group, std::byte* to) {
    std::memcpy(to, &group, sizeof group);
    return to + sizeof group;
  }

  // 32 inputs from 32 * i on.
  std::byte* group(int64_t i, std::byte* to) {
    const uint8_t* q = codes_.data() + 32 * i;
    if (m_.type == DType::MXFP4) {
      finite_ = finite_ && std::isfinite(scale(i));
      *to =
          m_.scales.data[expert_ * m_.scales.expert_step + output_ * m_.scales.output_step + i * m_.scales.group_step];
      for (int j = 0; j < 16; ++j) to[1 + j] = static_cast<std::byte>(q[j] | q[j + 16] << 4);
      return to + 17;
    }
    if (m_.code == Code::fp4) {
      const float first = scale(32 * i / m_.group), second = scale((32 * i + 16) / m_.group);
      const GroupQ8_0 g = q8_0_of_float4(q, first, second);
      finite_ = finite_ && std::isfinite(f16_to_float(g.d));
      return put(g, to);
    }
    const int64_t at = 32 * i / m_.group;
    if (at != group_ || i == 0) {
      group_ = at;
      scale_ = scale(at);
      offset_ = offset(at);
    }
    return integers(q, to);
  }

  // What is added to scale * q.
  float offset(int64_t group) {
    if (m_.biases.data != nullptr) {
      const float bias = number(m_.biases, expert_, output_, group);
      finite_ = finite_ && std::isfinite(bias);
      return bias;
    }
    if (m_.zeros.data == nullptr) return 0;
    return -scale_ * static_cast<float>(zero_of(m_, expert_, output_, group));
  }

  std::byte* integers(const uint8_t* q, std::byte* to) {
    const int middle = m_.code == Code::signed_byte ? 0 : 1 << (m_.bits - 1);
    const auto nibbles = [&](int less, uint8_t* out) {
      for (int j = 0; j < 16; ++j) out[j] = static_cast<uint8_t>(((q[j] - less) & 15) | ((q[j + 16] - less) & 15) << 4);
    };
    switch (m_.type) {
      case DType::Q4_0: {
        GroupQ4_0 g{half(scale_), {}};
        nibbles(middle - 8, g.q);
        return put(g, to);
      }
      case DType::Q4_1: {
        GroupQ4_1 g{half(scale_), half(offset_), {}};
        nibbles(0, g.q);
        return put(g, to);
      }
      case DType::Q5_1: {
        GroupQ5_1 g{half(scale_), half(offset_), {}, {}};
        nibbles(0, g.q);
        for (int j = 0; j < 32; ++j) g.high[j / 8] |= static_cast<uint8_t>((q[j] >> 4 & 1) << j % 8);
        return put(g, to);
      }
      case DType::Q8_0: {
        GroupQ8_0 g{half(scale_), {}};
        for (int j = 0; j < 32; ++j) g.q[j] = static_cast<int8_t>(q[j] - middle);
        return put(g, to);
      }
      default: {
        // Kernels may round sums of eight bits, so that 6 bits are multiplied by an odd number (tensor/computed.cc).
        const int factor = m_.bits == 6 ? 3 : 1;
        GroupQ8_M g{scale_ / static_cast<float>(factor), offset_ + scale_ * static_cast<float>(middle), {}};
        finite_ = finite_ && std::isfinite(g.m);
        for (int j = 0; j < 32; ++j) g.q[j] = static_cast<int8_t>((q[j] - middle) * factor);
        return put(g, to);
      }
    }
  }

  const RoundedMatrix& m_;
  std::vector<uint8_t> codes_;
  std::vector<std::byte> words_;
  std::vector<float> values_;
  int64_t expert_ = 0, output_ = 0, group_ = 0;
  float scale_ = 0, offset_ = 0;
  bool finite_ = true;
};

}  // namespace

int64_t zero_of(const RoundedMatrix& m, int64_t expert, int64_t output, int64_t group) {
  const Numbers& z = m.zeros;
  if (z.type == "I8")
    return number_at<int8_t>(z.data + expert * z.expert_step + output * z.output_step + group * z.group_step);
  const std::byte* words = z.data + (expert * z.expert_step + group * z.group_step) * 4;
  if (m.layout == Layout::awq) return number_at<uint32_t>(words + output / 8 * 4) >> 4 * kAwqPlace[output % 8] & 15;
  // GPTQ's first format has words from which a one in each place was taken at once: a zero of 0 borrows from its
  // neighbour, and gets it back only where the whole word is added to. 3 bits cross words, each value is taken alone.
  if (m.zeros_less_one && 32 % m.bits == 0) {
    const uint32_t ones = ~uint32_t{0} / ((1u << m.bits) - 1);
    const uint32_t word = number_at<uint32_t>(words + output * m.bits / 32 * 4) + ones;
    return word >> (output * m.bits % 32) & ((1u << m.bits) - 1);
  }
  return code_at(words, output, m.bits, m.layout == Layout::columns ? 4 : z.output_step * 4) +
         (m.zeros_less_one ? 1 : 0);
}

bool write_rows(const RoundedMatrix& matrix, int64_t first, int64_t count, std::byte* to) {
  RowWriter writer(matrix);
  bool finite = true;
  for (int64_t i = 0; i < count; ++i) finite = writer.write(first + i, to + i * matrix.row_bytes()) && finite;
  return finite;
}

}  // namespace llada
