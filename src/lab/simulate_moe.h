// llada-study simulate --moe: its options and its output. All times are modelled.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "study/moe_simulate.h"

namespace llada::cli {

struct MoeRequest {
  MoeSimulateOptions simulate;  // profile is taken from --profile
  std::string shares;           // --experts-on-device
};

// --moe and its companions, in a group of their own.
void add_moe_options(CLI::App& app, MoeRequest& request);

// Prints one setting; `trace` may be empty.
Result<int> run_moe(MoeRequest request, const std::string& trace, bool json);

// Both simulations': a text in the width of the terminal, later lines indented; lanes as a Chrome/Perfetto trace.
std::string paragraph(std::string_view text, size_t indent = 0);
Status write_spans(const std::vector<SimulatedSpan>& spans, const std::string& path);

}  // namespace llada::cli
