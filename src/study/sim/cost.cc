#include "study/sim/cost.h"

#include <cmath>

#include "base/check.h"

namespace llada {

OpCost price_op(const UnitProfile& unit, const Program& program, const Op& op, std::span<const WeightInfo> infos,
                std::span<const WeightSize> sizes, double row_keys) {
  const OpRule& rule = rule_of(op.kind);
  const OpWork work = work_of(program, op, infos, row_keys, unit.row_tile.value);
  OpCost cost;
  if (rule.multiplies()) {
    cost.kernels = 0;
    cost.compute_s = 2 * work.multiply_adds / (unit.matmul_gflops.value * 1e9);
    for (const WeightId id : op.weight) {
      if (id == kNoWeight) continue;
      cost.kernels += static_cast<int>(std::ceil(work.weight_reads));
      cost.stream_bytes += work.weight_reads * static_cast<double>(sizes[static_cast<size_t>(id)].bytes);
    }
  } else if (rule.kv == KvUse::reads) {
    cost.compute_s = 2 * work.multiply_adds / (unit.attention_gflops.value * 1e9);
  } else {
    cost.compute_s = work.values * unit.activation_bytes.value / (unit.elementwise_gb_per_s.value * 1e9);
  }
  return cost;
}

ExpertCosts expert_costs(const Profile& p, std::string_view map_variant, std::array<double, 3> piece_bytes,
                         double flops_per_row) {
  LLADA_CHECK(p.experts.has_value());
  const ExpertProfile& e = *p.experts;
  const MapVariant& map = p.map(map_variant);
  ExpertCosts c;
  c.host_first_s = e.host_first_us.value * 1e-6;
  c.host_expert_s = e.host_expert_us.value * 1e-6;
  c.host_bytes_per_s = p.cpu.stream_gb_per_s.value * 1e9;
  c.host_row_s = flops_per_row / (p.cpu.matmul_gflops.value * 1e9);
  c.host_overlap = p.cpu.overlap;
  c.device_expert_s = e.device_expert_us.value * 1e-6;
  c.device_member_s = std::min(e.device_member_us.value * 1e-6, c.device_expert_s);
  c.grouped = e.grouped;
  c.device_bytes_per_s = p.npu.stream_gb_per_s.value * 1e9;
  c.device_row_s = flops_per_row / (p.npu.matmul_gflops.value * 1e9);
  c.device_row_tile = static_cast<int32_t>(p.npu.row_tile.value);
  c.device_shares_memory = !e.own_memory;
  c.piece_bytes = piece_bytes;
  c.link_reads_memory = e.copied;
  constexpr double kMb = 1e6;
  // An expert is mapped in one call; its pieces share the price.
  c.piece_s = (e.copied ? e.piece_us.value : map.us_per_call.value / 3) * 1e-6;
  const double free_link = 1e18;  // a price per byte of nothing
  const double per_mb = map.us_per_mb.value * 1e-6;
  c.link_bytes_per_s = e.copied ? e.link_gb_per_s.value * 1e9 : per_mb > 0 ? kMb / per_mb : free_link;
  c.memory_bytes_per_s = p.ddr_gb_per_s.value * 1e9;
  return c;
}

}  // namespace llada
