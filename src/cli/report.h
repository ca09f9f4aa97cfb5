// The statistics of a run: one line for people, one object for programs (docs/json.md).
#pragma once
#include <string>
#include <string_view>

#include "base/figures.h"
#include "engine/inspect.h"
#include "engine/session.h"
#include "json/lines.h"

namespace llada::cli {

// "23 tokens in 7 forwards (balanced), 812 tokens/s (measured), seed 7": a line of at most 80 columns. A simulated
// device adds a line of modelled time and energy, and `verbose` one of further figures. Each ends with a newline.
std::string stats_lines(const GenerationStats& stats, std::string_view preset, bool verbose);

// Why the answer ended early (interrupted, or cut at its length), as a line; empty where it ended by itself.
std::string unfinished_line(const Generation& generation);

Json stats_json(const GenerationStats& stats);

// [{type, tensors, parameters, bytes}]
Json types_json(const std::vector<TypeTotal>& types);

// "812", "4.6", "0.14": a rate of tokens or rows, with up to two decimals where it is slow.
std::string rate_text(double per_second);

// "512 B", "38 MB", "1.5 GB": powers of 1000.
std::string bytes_text(double bytes);

}  // namespace llada::cli
