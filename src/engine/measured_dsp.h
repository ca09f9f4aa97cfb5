// A measured profile of a phone's DSP (`--device hexagon:profile=FILE`). Such a profile is one of a simulated phone too
// (study/sim/profile.h), whose other numbers are not read here.
#pragma once
#include <string>
#include <string_view>

#include "base/error.h"
#include "json/parse.h"

namespace llada {

struct MeasuredDsp {
  int arch = 0, threads = 0;  // 73, 79, ...; threads with a vector unit
  std::string module;         // the file that the DSP has loaded
  std::string unit = {};      // the finding about the matrix unit, for people; empty: none
  double host_share = 0;      // of each product's columns, by the rates of both; 0: not measured, or none
  double window_gib = 0;      // of a session, with the reserve beside weights; 0: the file does not say
};

// The object `dsp` of a profile, without a window. origin: of the profile, for errors.
Result<MeasuredDsp> parse_measured_dsp(const Json& dsp, std::string_view origin);
Result<MeasuredDsp> read_measured_dsp(const std::string& path);

}  // namespace llada
