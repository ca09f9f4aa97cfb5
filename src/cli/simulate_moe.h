// llada simulate --moe: its options and what it prints. All times are modelled.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "study/moe_simulate.h"

namespace llada::cli {

struct MoeRequest {
  MoeSimulateOptions simulate;  // profile is taken from --profile
  std::string shares;           // --experts-on-device
  bool sensitivity = false;     // print how the headline moves instead
};

// --moe and what goes with it, in a group of their own.
void add_moe_options(CLI::App& app, MoeRequest& request);

// Prints one setting; `trace` and `svg` may be empty.
Result<int> run_moe(MoeRequest request, const std::string& trace, const std::string& svg, bool json);

}  // namespace llada::cli
