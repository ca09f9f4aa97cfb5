// llada: finds the command, reads its options, runs it. Exit status: 0 done, 1 the work failed, 2 the request
// or the input is wrong, 128 + n stopped by signal n. An error is one line on stderr.
#pragma once

namespace llada {
class DevicePlugin;
}

namespace llada::cli {

struct Build {
  const char* version;   // "0.1.0"
  const char* commit;    // "4313670abc-dirty" or "unknown"
  const char* compiler;  // name, version, processor and configuration
};

// devices: that --device offers beside the engine's own.
int program(int argc, char** argv, const Build& build, const DevicePlugin& devices);

}  // namespace llada::cli
