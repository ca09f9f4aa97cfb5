// Text that changes with every commit is here alone, so that a commit compiles nothing else again.
#include "cli/program.h"
#include "cli/version.h"

int main(int argc, char** argv) {
  return llada::cli::program(argc, argv, {.version = LLADA_VERSION, .commit = kCommit, .compiler = kCompiler});
}
