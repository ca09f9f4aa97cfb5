// llada-study: llada with devices that are not here, and with the tools of studies beside it.
#include "cli/program.h"
#include "cli/version.h"
#include "lab/commands.h"
#include "study/devices.h"

int main(int argc, char** argv) {
  using namespace llada::cli;
  constexpr Command kCommands[] = {
      {"bench", "measure the machine, kernels, whole runs", setup_bench},
      {"logits", "one forward over token ids, to compare", setup_logits},
      {"simulate", "price a run on a simulated phone", setup_simulate},
      {"synth", "write a model file with random weights", setup_synth},
      {"doctor", "measure a phone's DSP", setup_dsp_doctor},
  };
  return program(argc, argv, {.version = LLADA_VERSION, .commit = kCommit, .compiler = kCompiler},
                 {.name = "llada-study",
                  .about = "llada with simulated devices (--device sim:PROFILE), and the tools of studies",
                  .commands = kCommands,
                  .devices = &llada::study_devices()});
}
