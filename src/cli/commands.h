// The subcommands of `llada`, one file each. program.cc holds the table: a new command is one setup function
// declared here and one line there.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <string_view>

#include "base/error.h"

namespace llada::cli {

// The work of a command once its options are read. Returns the exit status: 0, or 128 + the signal that stopped
// it.
using Work = std::function<Result<int>()>;

struct Command {
  std::string_view name, summary;
  Work (*setup)(CLI::App& app);  // registers options and examples; nothing is opened or read yet
};

Work setup_run(CLI::App& app);
Work setup_chat(CLI::App& app);
Work setup_infill(CLI::App& app);
Work setup_serve(CLI::App& app);
Work setup_batch(CLI::App& app);
Work setup_eval(CLI::App& app);
Work setup_score(CLI::App& app);
Work setup_decide(CLI::App& app);
Work setup_tune(CLI::App& app);
Work setup_recommend(CLI::App& app);
Work setup_pull(CLI::App& app);
Work setup_pack(CLI::App& app);
Work setup_inspect(CLI::App& app);
Work setup_convert(CLI::App& app);
Work setup_imatrix(CLI::App& app);
Work setup_devices(CLI::App& app);
Work setup_doctor(CLI::App& app);

}  // namespace llada::cli
