// The part of `llada bench`'s report that is about work without a pause.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/sustained.h"

namespace llada::cli {

// The minutes from `first` on, a line each, with a heading before minute 0.
std::string sustained_rows(const std::vector<bench::SustainedMinute>& minutes, size_t first);
// The last minute beside the first; there is one.
std::string sustained_text(const std::vector<bench::SustainedMinute>& minutes);
nlohmann::ordered_json sustained_json(const bench::SustainedMinute& minute);

}  // namespace llada::cli
