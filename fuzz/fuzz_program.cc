// Programs of random ops: whatever verify() lets through runs on the scalar cpu device, whole and op by op, with the
// same result, and without stopping the program. The bytes are read by tests/devices/random_program.h.
#include <cstdio>
#include <cstdlib>

#include "devices/cpu/cpu_device.h"
#include "devices/random_program.h"

using namespace llada;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto device = make_cpu_device({.threads = 1, .isa = "scalar"}, random_programs::world().infos,
                                             random_programs::world().views, {});
  random_programs::Bytes bytes(data, size);
  const random_programs::Made made = random_programs::Maker(bytes).make();
  const auto verdict = random_programs::judge(**device, made);
  if (!verdict.complaint.empty()) {
    std::fprintf(stderr, "%s\n", verdict.complaint.c_str());
    std::abort();
  }
  return 0;
}
