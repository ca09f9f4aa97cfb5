// Element types of stored tensors and the byte layout of their quantization groups. A group is the unit of
// quantization: `elements` consecutive values of a row that share scales (the K types hold several sub-groups in one
// group of 256 elements). Layouts are those of GGUF (ggml), little-endian, packed without padding.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace llada {

// Q8_M is no type of files: others are computed as it (tensor/computed.h).
// clang-format off
enum class DType : uint8_t {
  F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K, Q2_K, Q3_K, IQ4_NL, IQ4_XS, IQ2_XXS, IQ2_XS, IQ2_S,
  IQ3_XXS, IQ3_S, IQ1_S, IQ1_M, TQ1_0, TQ2_0, MXFP4, NVFP4, Q8_M
};
// clang-format on
inline constexpr int kDTypeCount = 27;
inline constexpr int kFileTypeCount = kDTypeCount - 1;

struct DTypeTraits {
  std::string_view name;  // lower case, as on the command line: "q4_0"
  int elements;           // values per group (1 for float types)
  int bytes;              // bytes per group
  bool quantized;
};

const DTypeTraits& traits(DType type);
std::optional<DType> dtype_from_name(std::string_view name);  // of files; case-insensitive

// Bytes of a row of `columns` values; columns must be a multiple of the group.
inline int64_t row_bytes(DType type, int64_t columns) { return columns / traits(type).elements * traits(type).bytes; }

#pragma pack(push, 1)
struct GroupQ8_0 {
  uint16_t d;
  int8_t q[32];
};  // x = d*q
struct GroupQ4_0 {
  uint16_t d;
  uint8_t q[16];
};  // x = d*(q-8); low nibbles 0..15, high 16..31
struct GroupQ4_1 {
  uint16_t d, m;
  uint8_t q[16];
};  // x = d*q + m
struct GroupQ5_0 {
  uint16_t d;
  uint8_t high[4];
  uint8_t q[16];
};  // x = d*(q-16), 5th bits in `high`
struct GroupQ5_1 {
  uint16_t d, m;
  uint8_t high[4];
  uint8_t q[16];
};  // x = d*q + m
struct GroupQ4_K {
  uint16_t d, dmin;
  uint8_t scales[12];
  uint8_t q[128];
};  // 8 sub-groups of 32: x = d*sc*q - dmin*mn
struct GroupQ5_K {
  uint16_t d, dmin;
  uint8_t scales[12];
  uint8_t high[32];
  uint8_t q[128];
};
struct GroupQ6_K {
  uint8_t low[128];
  uint8_t high[64];
  int8_t scales[16];
  uint16_t d;
};  // 16 sub-groups of 16: x = d*sc*(q-32)
struct GroupQ8_M {
  float d, m;
  int8_t q[32];
};  // x = d*q + m
#pragma pack(pop)

static_assert(sizeof(GroupQ8_0) == 34 && sizeof(GroupQ4_0) == 18 && sizeof(GroupQ4_1) == 20);
static_assert(sizeof(GroupQ8_M) == 40 && sizeof(GroupQ5_0) == 22 && sizeof(GroupQ5_1) == 24);
static_assert(sizeof(GroupQ4_K) == 144 && sizeof(GroupQ5_K) == 176 && sizeof(GroupQ6_K) == 210);

}  // namespace llada
