// llada with the devices that fail on purpose.
#include "cli/program.h"
#include "failing/failing_device.h"

int main(int argc, char** argv) {
  return llada::cli::program(argc, argv, {.version = "0", .commit = "of a test", .compiler = "any"},
                             {.devices = &llada::failing_devices()});
}
