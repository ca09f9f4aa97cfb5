#include "study/sim/cost.h"

#include <cmath>

#include "base/check.h"

namespace llada {

OpCost price_op(const UnitProfile& unit, const Program& program, const Op& op, std::span<const WeightInfo> infos,
                std::span<const WeightSize> sizes, double row_keys) {
  OpCost cost;
  const double rows = program.shape.count(op.rows);
  const double padded = std::ceil(rows / unit.row_tile.value) * unit.row_tile.value;
  switch (op.kind) {
    case OpKind::matmul:
    case OpKind::head: {
      cost.kernels = 0;
      for (const WeightId id : op.weight) {
        if (id == kNoWeight) continue;
        const WeightInfo& w = infos[static_cast<size_t>(id)];
        cost.kernels += 1;
        cost.compute_s += 2 * static_cast<double>(w.dims[0]) * static_cast<double>(w.dims[1]) * padded /
                          (unit.matmul_gflops.value * 1e9);
        cost.stream_bytes += static_cast<double>(sizes[static_cast<size_t>(id)].bytes);
      }
      return cost;
    }
    case OpKind::experts: {
      // Every row goes to experts_used of them; of all experts those are read that some row chose, taken to
      // be chosen evenly. Rows of one expert are few, so each expert's are padded.
      const double share = static_cast<double>(op.experts_used) / op.experts;
      const double touched = op.experts * (1 - std::pow(1 - share, rows));
      const double each = std::ceil(rows * share / unit.row_tile.value) * unit.row_tile.value;
      cost.kernels = 3 * static_cast<int>(std::ceil(touched));
      for (const WeightId id : op.weight) {
        const WeightInfo& w = infos[static_cast<size_t>(id)];
        cost.compute_s += touched * each * 2 * static_cast<double>(w.dims[0]) * static_cast<double>(w.dims[1]) /
                          (unit.matmul_gflops.value * 1e9);
        cost.stream_bytes += touched * static_cast<double>(sizes[static_cast<size_t>(id)].bytes);
      }
      return cost;
    }
    case OpKind::attention:
      cost.compute_s = 4 * row_keys * program.attention(op).heads * program.attention(op).head_dim /
                       (unit.attention_gflops.value * 1e9);
      return cost;
    default: {
      double values = 0;
      for (const auto& list : {op.in, op.out})
        for (const ValueId id : list)
          if (id != kNoValue) {
            const Value& v = program.values[static_cast<size_t>(id)];
            values += static_cast<double>(program.shape.count(v.rows)) * v.columns;
          }
      cost.compute_s = values * unit.activation_bytes.value / (unit.elementwise_gb_per_s.value * 1e9);
      return cost;
    }
  }
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
