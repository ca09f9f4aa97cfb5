// Text that changes with every commit is here alone, so that a commit compiles nothing else again.
#include "base/name_lookup.h"
#include "cli/program.h"
#include "cli/version.h"

int main(int argc, char** argv) {
  if (LLADA_IS_STATIC) llada::look_up_names_alone();
  return llada::cli::program(argc, argv, {.version = LLADA_VERSION, .commit = kCommit, .compiler = kCompiler});
}
