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
}};

}  // namespace

const DTypeTraits& traits(DType type) { return kTraits[static_cast<size_t>(type)]; }

std::optional<DType> dtype_from_name(std::string_view name) {
  const auto same = [&](std::string_view known) {
    return std::ranges::equal(name, known, [](unsigned char a, unsigned char b) { return std::tolower(a) == b; });
  };
  for (int i = 0; i < kDTypeCount; ++i)
    if (same(kTraits[static_cast<size_t>(i)].name)) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace llada
