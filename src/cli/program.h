// llada: finds the command, reads its options, runs it. Exit status: 0 done, 1 the work failed, 2 the request
// or the input is wrong, 128 + n stopped by signal n. An error is one line on stderr.
#pragma once
#include <span>
#include <string_view>

namespace llada {
class DevicePlugin;
}

namespace llada::cli {

struct Command;

struct Build {
  const char* version;   // "0.1.0"
  const char* commit;    // "4313670abc-dirty" or "unknown"
  const char* compiler;  // name, version, processor and configuration
};

// Which program it is: llada, or one that has other commands and devices beside llada's.
struct Program {
  std::string_view name = "llada", about = "runs diffusion language models";
  std::span<const Command> commands = {};  // beside llada's, and before one of the same name
  const DevicePlugin* devices = nullptr;   // those of --device beside the engine's
};
int program(int argc, char** argv, const Build& build, const Program& which = {});

}  // namespace llada::cli
