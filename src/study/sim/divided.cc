#include "study/sim/divided.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace llada {
namespace {

constexpr double kTile = 32;  // columns

OpCost part_of(OpCost whole, double share, double rate) {
  whole.compute_s *= share / rate;
  whole.stream_bytes *= share;
  return whole;
}

// Alone on its unit, without its start.
double seconds(const OpCost& cost, const UnitProfile& unit) {
  const double streams = cost.stream_bytes / (unit.stream_gb_per_s.value * 1e9);
  return unit.overlap ? std::max(cost.compute_s, streams) : cost.compute_s + streams;
}

}  // namespace

DividedOp divide_op(const Profile& profile, const Program& program, const Op& op, std::span<const WeightInfo> infos,
                    std::span<const WeightSize> sizes, double share) {
  LLADA_CHECK(profile.divide.has_value());
  const DivideProfile& d = *profile.divide;
  DividedOp out;
  out.accelerator = part_of(price_op(profile.npu, program, op, infos, sizes, 0), 1 - share, 1);
  out.host = part_of(price_op(profile.cpu, program, op, infos, sizes, 0), share, d.host_rate.value);
  out.meet_s = d.meet_us.value * 1e-6;
  const double rows = program.shape.count(op.rows), per_value = 4 / (d.exchange_gb_per_s.value * 1e9);
  double columns = 0;
  for (const WeightId w : op.weight)
    if (w != kNoWeight) columns += static_cast<double>(infos[static_cast<size_t>(w)].dims[1]);
  out.show_s = rows * program.values[static_cast<size_t>(op.in[0])].columns * per_value;
  out.join_s = rows * columns * share * per_value;
  return out;
}

std::vector<double> host_shares(const Profile& profile, std::span<const Program> programs,
                                std::span<const WeightInfo> infos, std::span<const WeightSize> sizes,
                                const std::function<bool(const Op&)>& on_accelerator) {
  constexpr size_t kSteps = 64;
  if (!profile.divide) return std::vector<double>(infos.size(), 0);
  std::vector<std::array<double, kSteps>> taken(infos.size());  // by weight and share: of the programs' ops with it
  for (const Program& program : programs)
    for (const Op& op : program.ops) {
      if (op.kind != OpKind::matmul || !on_accelerator(op)) continue;
      for (size_t i = 0; i < kSteps; ++i) {
        const DividedOp d = divide_op(profile, program, op, infos, sizes, static_cast<double>(i) / kSteps);
        const double own = seconds(d.accelerator, profile.npu), host = d.meet_s + seconds(d.host, profile.cpu);
        const double s = i == 0 ? own : d.show_s + std::max(own, host) + d.meet_s + d.join_s;
        for (const WeightId id : op.weight)
          if (id != kNoWeight) taken[static_cast<size_t>(id)][i] += s;
      }
    }
  std::vector<double> shares;
  for (size_t w = 0; w < infos.size(); ++w) {
    const auto best = std::ranges::min_element(taken[w]) - taken[w].begin();  // the first: 0 of what no op has
    const double tiles = std::ceil(static_cast<double>(infos[w].dims[1]) / kTile);
    shares.push_back(std::floor(static_cast<double>(best) / kSteps * tiles) / tiles);
  }
  return shares;
}

}  // namespace llada
