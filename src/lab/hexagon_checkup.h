// The facts about a phone's DSP, found out step by step. There is one finding per step: a value and, where it is less
// than it could be, the remedy. The numbers become a profile, which the device hexagon and `llada-study simulate` read.
// A step that fails ends the steps that depend on it and nothing else; nothing is left open.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/doctor.h"
#include "study/sim/profile.h"

namespace llada::lab {

using cli::Finding;

struct CheckupOptions {
  std::string library = {};                        // libcdsprpc; empty: as the device finds it
  std::string cache = {};                          // folder where the window is kept for later runs; empty: it is not
  int64_t space_step = int64_t{256} << 20;         // of the buffers that the address space is filled with
  int64_t space_bytes = int64_t{7} << 29;          // of an emulated session
  int64_t large_map = int64_t{64} << 20;           // bytes of the larger of two mappings
  int64_t outputs = 4096;                          // of the product
  int calls = 50, repeats = 5;                     // of an empty call, of a product
  double deadline_s = 30;                          // of each call
  std::function<void(const Finding&)> found = {};  // as soon as it is; may be empty
};

struct Checkup {
  std::vector<Finding> findings;
  std::optional<Profile> profile;  // none: the DSP could not be used
};
Checkup check_hexagon(const CheckupOptions& options);

}  // namespace llada::lab
