// The first byte chooses: a profile, a recording, or the text of --device. Seeds: profiles/*.json, see
// tools/fuzz.sh.
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "engine/device_spec.h"
#include "study/devices.h"
#include "study/sim/profile.h"
#include "study/simulate.h"

using namespace llada;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'r') {
    const auto trace = parse_replay(text, "fuzz", 0);
    if (trace && trace->passes.empty()) std::abort();
  } else if (data[0] == 'd') {
    // A path would read files.
    if (text.find('/') == std::string::npos && text.find("profile") == std::string::npos)
      (void)parse_device_spec(text, &study_devices());
  } else {
    const auto profile = parse_profile(text, "fuzz");
    if (!profile) return 0;
    for (const NamedNumber& named : numbers(*profile))
      if (!std::isfinite(named.number->value) || named.number->value < 0) std::abort();
  }
  return 0;
}
