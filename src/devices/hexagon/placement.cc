#include "devices/hexagon/placement.h"

#include <algorithm>

#include "devices/hexagon/batch.h"

namespace llada::hexagon {

Unit Placement::place(const Op& op) const {
  if (!on_dsp(op) || (op.kind == OpKind::head && !head_on_dsp)) return Unit::host;
  Unit unit = Unit::accelerator;
  for_each_weight(op, [&](WeightId w) {
    const auto i = static_cast<size_t>(w);
    // F32 matrices are routers, whose next ops are the host's; the DSP would multiply floats one by one.
    const bool floats = weights->layouts()[i] == WIRE_STORED_F32 && !is_vector(weights->infos()[i]);
    if (floats || weights->layouts()[i] == WIRE_NO_LAYOUT) unit = Unit::host;
  });
  return unit;
}

bool Placement::needs_host(const Run& run, const Op& op) const {
  if (run.program->shape.rows > WIRE_MAX_ROWS || !on_dsp(op)) return true;
  // Keys of a trial wait for their attention on the unit that stored them, so both go together.
  if (rule_of(op.kind).kv == KvUse::none) return false;
  const bool capped = std::ranges::any_of(run.program->attentions, [](const Attention& a) { return a.cap > 0; });
  return capped || std::ranges::any_of(run.inputs->streams,
                                       [&](const Stream& s) { return library->find(s.kv->memory()) == nullptr; });
}

Status Placement::check_stores(const Run& run) const {
  int64_t seen = 0;
  for (const Stream& s : run.inputs->streams) seen += s.kv != nullptr && library->find(s.kv->memory()) != nullptr;
  if (seen > 0 && seen < std::ssize(run.inputs->streams))
    return failed("hexagon: the DSP sees {} of {} K/V stores, needed all or none", seen, run.inputs->streams.size());
  return {};
}

}  // namespace llada::hexagon
