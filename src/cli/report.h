// The statistics of a run: one line for people, one object for programs (docs/json.md).
#pragma once
#include <string>
#include <string_view>

#include "base/figures.h"
#include "engine/inspect.h"
#include "engine/session.h"
#include "json/lines.h"

namespace llada::cli {

// "23 tokens in 7 forwards (balanced), 812 tokens/s (measured), seed 7": a line of at most 80 columns. Another one has
// modelled numbers, and a last one the numbers that only -v shows. Each ends with a newline.
std::string stats_lines(const GenerationStats& stats, std::string_view preset, bool verbose);

// The reason of the end, as a line for people; empty for "stop".
std::string unfinished_line(const Generation& generation);

Json stats_json(const GenerationStats& stats);

// [{type, tensors, parameters, bytes}]
Json types_json(const std::vector<TypeTotal>& types);

// "812", "4.6", "0.14": of tokens or rows, never 0 for a slow rate.
std::string rate_text(double per_second);

// "512 B", "38 MB", "1.5 GB": powers of 1000.
std::string bytes_text(double bytes);

}  // namespace llada::cli
