#include "tensor/dtype.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace llada {
namespace {

constexpr std::array<DTypeTraits, kDTypeCount> kTraits = {{
    {"f32", 1, 4, false},
    {"f16", 1, 2, false},
    {"bf16", 1, 2, false},
    {"q8_0", 32, sizeof(GroupQ8_0), true},
    {"q4_0", 32, sizeof(GroupQ4_0), true},
    {"q4_1", 32, sizeof(GroupQ4_1), true},
    {"q5_0", 32, sizeof(GroupQ5_0), true},
    {"q5_1", 32, sizeof(GroupQ5_1), true},
    {"q4_k", 256, sizeof(GroupQ4_K), true},
    {"q5_k", 256, sizeof(GroupQ5_K), true},
    {"q6_k", 256, sizeof(GroupQ6_K), true},
    {"q2_k", 256, 84, true},
    {"q3_k", 256, 110, true},
    {"iq4_nl", 32, 18, true},
    {"iq4_xs", 256, 136, true},
    {"iq2_xxs", 256, 66, true},
    {"iq2_xs", 256, 74, true},
    {"iq2_s", 256, 82, true},
    {"iq3_xxs", 256, 98, true},
    {"iq3_s", 256, 110, true},
    {"iq1_s", 256, 50, true},
    {"iq1_m", 256, 56, true},
    {"tq1_0", 256, 54, true},
    {"tq2_0", 256, 66, true},
    {"mxfp4", 32, 17, true},
    {"nvfp4", 64, 36, true},
    {"q8_m", 32, sizeof(GroupQ8_M), true},
}};

}  // namespace

const DTypeTraits& traits(DType type) { return kTraits[static_cast<size_t>(type)]; }

std::optional<DType> dtype_from_name(std::string_view name) {
  const auto same = [&](std::string_view known) {
    return std::ranges::equal(name, known, [](unsigned char a, unsigned char b) { return std::tolower(a) == b; });
  };
  for (int i = 0; i < kFileTypeCount; ++i)
    if (same(kTraits[static_cast<size_t>(i)].name)) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace llada
