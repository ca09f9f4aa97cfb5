// A matrix that other software has rounded: its parts as a file has them, and its rows as one of the engine's types.
//   integers     value = scale * (q - zero) or scale * q + bias; scale and zero for a group of inputs
//   symmetric    Q4_0 up to 4 bits, Q8_0 above: the same numbers
//   with offset  Q4_1 up to 4 bits, Q5_1 of 5, Q8_M above: the same, but for zero * scale, which rounds to F16
//   FP4          MXFP4 where a scale is a power of two: the same; else Q8_0, which rounds
//   FP8          Q8_0, which rounds
// Scales of BF16 and F32 become F16 in the first types, which keeps BF16's from 2^-17 on. Private to formats/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/rounded_scheme.h"
#include "formats/safetensors.h"
#include "tensor/view.h"

namespace llada {

// The parts of one module by the last word of their names ("scales", "weight_packed").
using RoundedParts = std::map<std::string, SafetensorsTensor, std::less<>>;

struct RoundedMatrix {
  // Where the codes of a row lie. rows: in its own bytes, lowest bits first; columns (GPTQ): in a column of words, each
  // along the inputs; awq: in words of eight outputs.
  enum class Layout { rows, columns, awq };
  enum class Code { integer, signed_byte, fp4, fp8 };
  // Numbers of a file at steps along experts, blocks of outputs, and groups of inputs.
  struct Numbers {
    const std::byte* data = nullptr;  // null: none
    std::string_view type = {};       // "F32", "F16", "BF16", "F8_E4M3", "E8M0", "I8", "I32"
    int64_t expert_step = 0, output_step = 0, group_step = 0;
    int64_t outputs = 1;  // so many share a number
  };

  Layout layout = Layout::rows;
  Code code = Code::integer;
  int bits = 4;
  DType type = DType::Q4_0;
  int64_t in = 0, out = 0, count = 1;  // count: matrices one behind another, one for each expert
  int64_t group = 0;                   // inputs that share a scale
  std::string name;                    // for errors: its module's
  const std::byte* codes = nullptr;
  Numbers scales = {};
  Numbers biases = {};  // of values
  Numbers zeros = {};   // of codes: integers of `bits` bits, eight outputs in a word or one behind another
  bool zeros_less_one = false;
  Numbers global = {};  // times the scales, or where it divides, below them
  bool global_divides = false;
  bool exact = true;

  int64_t row_bytes() const { return llada::row_bytes(type, in); }
  int64_t rows() const { return out * count; }
  Shape shape() const { return {{in, out, count, 1}, count > 1 ? 3 : 2}; }
};

// Whether a tensor's last word is that of a part that this reads, or passes over (scales of activations and of K/V).
bool is_rounded_part(std::string_view last_word);
bool is_unused_scale(std::string_view last_word);

// Invalid: parts that are missing or have shapes that do not fit each other; groups of inputs out of order (desc_act).
Result<RoundedMatrix> rounded_matrix(const RoundedScheme& scheme, const std::string& module, const RoundedParts& parts,
                                     std::string_view file);

}  // namespace llada
