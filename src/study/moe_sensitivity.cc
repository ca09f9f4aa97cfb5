#include "study/moe_sensitivity.h"

#include <algorithm>

#include "study/sim/profile.h"

namespace llada {
namespace {

constexpr double kLower = 2.0 / 3, kHigher = 1.5;     // of a number without a range
constexpr double kGuessNoise[] = {4, 2, 1, 0.25, 0};  // of the synthetic routers

Result<std::vector<MoeHeadline>> headlines(const MoeSimulateOptions& options, double* guessed = nullptr) {
  LLADA_TRY(const MoeSimulation s, simulate_moe(options));
  std::vector<MoeHeadline> list;
  for (const MoePhase& phase : s.phases) {
    if (list.empty() || list.back().phase != phase.phase) list.push_back({phase.phase});
    const double count = static_cast<double>(options.shares.size());
    list.back().over_static += phase.speed_up("hybrid", "static") / count;
    list.back().over_tide += phase.speed_up("hybrid", "TIDE") / count;
    if (guessed != nullptr) *guessed = 100 * phase.statistics.guessed[0];
  }
  return list;
}

}  // namespace

Result<std::vector<MoeSensitivityRow>> moe_sensitivity(const MoeSimulateOptions& given) {
  MoeSimulateOptions o = given;
  o.headline = true;
  std::vector<MoeSensitivityRow> rows;
  LLADA_TRY(auto as_it_is, headlines(o));
  rows.push_back({.number = "as it stands", .unit = {}, .source = {}, .headlines = std::move(as_it_is)});
  LLADA_TRY(const Profile profile, load_profile(o.profile));
  const bool copied = profile.experts && profile.experts->copied;
  const std::string link =
      copied ? "experts.link_gb_per_s" : fmt::format("map.variants.{}.us_per_mb", profile.map(o.map_variant).name);
  for (const std::string& path : {link, std::string("cpu.stream_gb_per_s")}) {
    const auto all = numbers(profile);
    const auto named = std::ranges::find(all, path, &NamedNumber::path);
    const Number& n = *named->number;
    for (const double value : {n.low.value_or(kLower * n.value), n.high.value_or(kHigher * n.value)}) {
      if (value == n.value) continue;
      o.numbers = given.numbers;
      o.numbers.emplace_back(path, value);
      LLADA_TRY(auto list, headlines(o));
      rows.push_back({.number = path,
                      .unit = std::string(named->unit),
                      .source = n.source,
                      .trust = n.trust,
                      .value = value,
                      .headlines = std::move(list)});
    }
  }
  o.numbers = given.numbers;
  if (!o.routing.empty()) return rows;
  for (const double noise : kGuessNoise) {
    o.guess_noise = noise;
    double guessed = 0;
    LLADA_TRY(auto list, headlines(o, &guessed));
    rows.push_back({.number = "guesses",
                    .unit = "% named right",
                    .source = "assumed: no source measures it for these models",
                    .value = guessed,
                    .headlines = std::move(list)});
  }
  return rows;
}

}  // namespace llada
