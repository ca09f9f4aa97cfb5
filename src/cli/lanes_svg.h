// The lanes of a simulated run as a picture.
#pragma once
#include <span>
#include <string>

#include "study/simulate.h"

namespace llada::cli {

// A stand-alone SVG, light and dark: one row per lane, time from left to right, one colour per kind of work.
std::string lanes_svg(std::span<const SimulatedSpan> spans, const std::string& title);

}  // namespace llada::cli
