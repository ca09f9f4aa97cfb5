// The commands of `llada-study` beside those of llada, one file each. main.cc holds the table.
#pragma once
#include "cli/commands.h"

namespace llada::cli {

Work setup_bench(CLI::App& app);
Work setup_dsp_doctor(CLI::App& app);
Work setup_logits(CLI::App& app);
Work setup_synth(CLI::App& app);
Work setup_simulate(CLI::App& app);

}  // namespace llada::cli
