// The texts of profiles/*.json, put into the program when it is built (builtin_profiles.cc.in).
#pragma once
#include <span>
#include <string_view>
#include <utility>

namespace llada {

// File name and text.
extern const std::span<const std::pair<std::string_view, std::string_view>> kBuiltinProfiles;

}  // namespace llada
