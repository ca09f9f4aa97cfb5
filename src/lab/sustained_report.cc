#include "lab/sustained_report.h"

#include <fmt/format.h>

#include "json/parse.h"

namespace llada::cli {
namespace {

std::string told(double value, std::string_view unit) {
  return value > 0 ? fmt::format("{:.0f} {}", value, unit) : std::string("-");
}

std::string sustained_row(size_t minute, const bench::SustainedMinute& m) {
  return fmt::format("{:>6} {:>11.1f} {:>13.1f} {:>8} {:>8}\n", minute, m.tokens_per_minute(), m.forwards_per_minute(),
                     told(m.heat.celsius, "C"), told(m.heat.mhz, "MHz"));
}

}  // namespace

std::string sustained_rows(const std::vector<bench::SustainedMinute>& minutes) {
  std::string out = "\nwork without a pause:\nminute  tokens/min  forwards/min  hottest    clocks\n";
  for (size_t i = 0; i < minutes.size(); ++i) out += sustained_row(i + 1, minutes[i]);
  return out;
}

std::string sustained_text(const std::vector<bench::SustainedMinute>& minutes) {
  const bench::SustainedMinute &first = minutes.front(), &last = minutes.back();
  return fmt::format("minute {}: {:.1f} tokens and {:.1f} forwards a minute, {:.2f} of the first minute's {:.1f}\n",
                     minutes.size(), last.tokens_per_minute(), last.forwards_per_minute(),
                     last.forwards_per_minute() / first.forwards_per_minute(), first.tokens_per_minute());
}

Json sustained_json(const bench::SustainedMinute& m) {
  Json json = {{"seconds", m.seconds},
               {"tokens", m.tokens},
               {"forwards", m.forwards},
               {"tokens_per_minute", m.tokens_per_minute()},
               {"forwards_per_minute", m.forwards_per_minute()}};
  if (m.heat.celsius > 0) json["celsius"] = m.heat.celsius;
  if (m.heat.mhz > 0) json["mhz"] = m.heat.mhz;
  return json;
}

}  // namespace llada::cli
