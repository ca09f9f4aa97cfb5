#include "devices/hexagon/divided.h"

#include "devices/hexagon/pack.h"

namespace llada::hexagon {

WireOp empty_op() {
  WireOp w{};
  w.in[0] = w.in[1] = w.out[0] = w.out[1] = w.out[2] = kNoRef;
  for (WireWeight& weight : w.weight) weight.data = kNoRef;
  w.index = w.trial_index = w.table = w.spans = w.predictions = w.logits = w.out_of_softmax = w.never_sampled = kNoRef;
  w.kv.keys = w.kv.values = w.kv.trial = kNoRef;
  return w;
}

DividedProduct divide_product(WireOp& w, const HostTiles& tiles, uint32_t shown, uint32_t parts) {
  constexpr uint32_t kTile = 32;
  DividedProduct out{.show = empty_op(), .joins = {}, .part = {}};
  out.show.kind = WIRE_SHOW, out.show.layer = w.layer, out.show.rows = w.rows, out.show.columns = w.columns;
  out.show.in[0] = w.in[0], out.show.out[0] = {shown, 0};
  out.shown_bytes = int64_t{w.rows} * w.columns * 4;
  WireOp& part = out.part.op;
  part = empty_op();
  part.kind = WIRE_MATMUL, part.rows = w.rows, part.columns = w.columns, part.in[0] = {0, 0};
  for (size_t i = 0, n = 0; i < tiles.size(); ++i) {
    if (tiles[i] == 0) continue;
    WireWeight& weight = w.weight[i];
    const uint32_t all = weight.outputs, own = ((all + kTile - 1) / kTile - tiles[i]) * kTile, hosts = all - own;
    const auto at = static_cast<uint32_t>(out.parts_bytes);
    part.weight[n] = weight, part.weight[n].outputs = hosts;
    part.weight[n].data.offset +=
        own / kTile * static_cast<uint32_t>(layout_bytes(static_cast<WireLayout>(weight.layout), kTile, weight.inputs));
    part.out[n++] = {0, at};
    WireOp& join = out.joins.emplace_back(empty_op());
    join.kind = WIRE_JOIN, join.layer = w.layer, join.rows = w.rows, join.columns = hosts;
    join.in[0] = {parts, at};
    join.out[0] = {w.out[i].buffer, w.out[i].offset + own * 4}, join.pitch[0] = all;
    weight.outputs = own, w.pitch[i] = all;
    out.parts_bytes += (int64_t{w.rows} * hosts * 4 + 127) / 128 * 128;
  }
  return out;
}

}  // namespace llada::hexagon
