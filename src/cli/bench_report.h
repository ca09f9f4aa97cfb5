// What a benchmark found: tables for people, one object for programs (docs/json.md).
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/bench.h"

namespace llada::cli {

std::string bench_text(const bench::BenchReport& report, const bench::Parts& parts);

nlohmann::ordered_json bench_json(const bench::BenchReport& report);

}  // namespace llada::cli
