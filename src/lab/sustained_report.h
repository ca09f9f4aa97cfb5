// The part of `llada bench`'s report that is about work without a pause.
#pragma once
#include <string>
#include <vector>

#include "json/parse.h"
#include "lab/bench/sustained.h"

namespace llada::cli {

// A heading, and a line for each minute.
std::string sustained_rows(const std::vector<bench::SustainedMinute>& minutes);
// The last minute beside the first; there is one.
std::string sustained_text(const std::vector<bench::SustainedMinute>& minutes);
Json sustained_json(const bench::SustainedMinute& minute);

}  // namespace llada::cli
