#include "sched/memory_runtime.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace llada {
namespace {

constexpr std::array<std::string_view, std::size(kMemoryPolicies)> kPolicyNames = {"plan", "copy", "sessions"};

// The coarsest slabs that the window can work with: fewest calls first.
Result<ResidencyPlan> fitting_plan(std::span<const WeightUse> uses, const DeviceWindow& window,
                                   const std::optional<SlabGrain>& grain) {
  Result<ResidencyPlan> last = invalid("window: found no weights, needed some");
  for (const int slots : {2, 1})
    for (const SlabGrain g : {SlabGrain::layer, SlabGrain::half_layer, SlabGrain::op}) {
      if (grain && *grain != g) continue;
      last = plan_residency(group_slabs(uses, g, window.page_bytes), window.weight_bytes,
                            {.slots = slots, .cut = window.cuts_slabs});
      if (last) return last;
    }
  return last;
}

struct Layout {
  ResidencyPlan plan;
  std::vector<int32_t> session;  // by slab
};

Result<Layout> lay_out(Device& device, const Program& program, const MemoryOptions& options) {
  const DeviceWindow window = device.capabilities().window->window();
  const auto uses = weight_uses(program, device);
  const bool pages = options.pager != nullptr,
             sessions = !pages && options.policy == MemoryPolicy::sessions && window.sessions > 1;
  Layout layout;
  if (pages || sessions) {
    const SlabGrain grain = options.grain.value_or(SlabGrain::layer);
    LLADA_TRY(layout.plan, plan_residency(group_slabs(uses, grain, window.page_bytes), kUnlimitedWindow));
    layout.plan.window_bytes = window.weight_bytes;
  } else {
    LLADA_TRY(layout.plan, fitting_plan(uses, window, options.grain));
  }
  layout.session.assign(layout.plan.slabs.size(), 0);
  if (sessions) {
    LLADA_TRY(layout.session, split_sessions(layout.plan.slabs, window.weight_bytes, window.sessions));
  }
  return layout;
}

}  // namespace

std::string_view name(MemoryPolicy policy) { return kPolicyNames[static_cast<size_t>(policy)]; }

Result<MemoryPolicy> memory_policy_from_name(std::string_view text) {
  for (const MemoryPolicy policy : kMemoryPolicies)
    if (name(policy) == text) return policy;
  return invalid("memory policy: found '{}', needed one of {}", text, fmt::join(kPolicyNames, ", "));
}

std::vector<WeightUse> weight_uses(const Program& program, Device& device) {
  std::vector<WeightUse> uses;
  const Window* const window = device.capabilities().window;
  LLADA_CHECK(window != nullptr);
  const std::vector<int64_t> bytes = window->weight_sizes();
  std::vector<bool> seen(bytes.size(), false);
  int layer = -2, half = 0;
  for (const Op& op : program.ops) {
    // The first residual addition of a layer ends its attention half.
    if (op.layer >= 0 && op.layer != layer) layer = op.layer, half = 0;
    if (op.kind == OpKind::add) half = 1;
    if (device.place(op) == Unit::host) continue;
    for_each_weight(op, [&](WeightId w) {
      if (seen[static_cast<size_t>(w)]) return;
      seen[static_cast<size_t>(w)] = true;
      uses.push_back({.weight = w,
                      .bytes = bytes[static_cast<size_t>(w)],
                      .layer = op.layer,
                      .half = op.layer < 0 ? 0 : half,
                      .op = static_cast<int32_t>(&op - program.ops.data())});
    });
  }
  return uses;
}

Status MemoryRuntime::fits(Device& device, const Program& program, const MemoryOptions& options) {
  const auto layout = lay_out(device, program, options);
  return layout ? Status() : std::unexpected(layout.error());
}

Result<MemoryRuntime> MemoryRuntime::create(Device& device, const Program& program, const MemoryOptions& options) {
  MemoryRuntime runtime;
  runtime.options_ = options;
  runtime.window_ = device.capabilities().window;
  LLADA_CHECK(runtime.window_ != nullptr);
  const DeviceWindow window = runtime.window_->window();
  const bool pages = options.pager != nullptr;
  runtime.of_weight_.resize(runtime.window_->weight_sizes().size());
  LLADA_TRY(Layout layout, lay_out(device, program, options));
  ResidencyPlan& plan = runtime.plan_ = std::move(layout.plan);
  if (pages && window.weight_bytes != kUnlimitedWindow && plan.weight_bytes > window.weight_bytes) {
    std::vector<int64_t> sizes;
    for (const Slab& slab : plan.slabs) sizes.push_back(slab.bytes);
    LLADA_TRY(runtime.pager_, options.pager(std::move(sizes), window.weight_bytes));
    plan.pinned.assign(plan.slabs.size(), false);
    plan.pinned_bytes = 0;
  }

  std::vector<DeviceSlab> slabs;
  for (size_t i = 0; i < plan.slabs.size(); ++i) {
    slabs.push_back({plan.slabs[i].weights, plan.slabs[i].bytes, layout.session[i], !pages && plan.pinned[i]});
    for (const int32_t w : plan.slabs[i].weights)
      runtime.of_weight_[static_cast<size_t>(w)].push_back(static_cast<int>(i));
  }
  LLADA_TRY_STATUS(runtime.window_->define_slabs(std::move(slabs)));
  for (size_t i = 0; i < plan.slabs.size(); ++i)
    if (plan.pinned[i]) LLADA_TRY_STATUS(runtime.window_->map(static_cast<int>(i), MapMode::remap));
  if (!runtime.pager_) {
    runtime.slot_.assign(static_cast<size_t>(plan.slots), -1);
    for (size_t i = 0; i < runtime.slot_.size() && i < plan.streamed.size(); ++i)
      LLADA_TRY_STATUS(runtime.map_into_slot(plan.streamed[i], false));
  }
  return runtime;
}

std::vector<MemoryRuntime::Segment> MemoryRuntime::cut(const Device& device, const Program& program) const {
  std::vector<size_t> last_use(plan_.slabs.size(), 0);
  std::vector<std::vector<int>> needs(program.ops.size());
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (device.place(op) == Unit::host) continue;
    for_each_weight(op, [&](WeightId w) {
      for (const int slab : of_weight_[static_cast<size_t>(w)]) {
        if (plan_.pinned[static_cast<size_t>(slab)] || std::ranges::count(needs[i], slab) > 0) continue;
        needs[i].push_back(slab);
        last_use[static_cast<size_t>(slab)] = i;
      }
    });
    std::ranges::sort(needs[i]);  // ops read their weights in any order of slabs
  }
  std::vector<Segment> out;
  bool close = true;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Unit unit = device.place(program.ops[i]);
    if (!close &&
        (out.back().unit != unit || (!needs[i].empty() && !std::ranges::includes(out.back().slabs, needs[i]))))
      close = true;
    if (close) out.push_back({i, i, unit, needs[i], {}});
    out.back().last = i + 1;
    close = false;
    for (const int slab : needs[i])
      if (last_use[static_cast<size_t>(slab)] == i) out.back().releases.push_back(slab), close = true;
  }
  return out;
}

// Puts a streamed slab into a free slot; when it is demanded and none is free, the slot of the slab that the
// cycle needs last gives way.
Status MemoryRuntime::map_into_slot(int slab, bool demanded) {
  auto slot = std::ranges::find(slot_, -1);
  if (slot == slot_.end()) {
    if (!demanded) return {};
    const auto n = static_cast<int>(plan_.slabs.size());
    slot = std::ranges::max_element(slot_, {}, [&](int held) { return (held - slab + n) % n; });
    LLADA_TRY_STATUS(window_->unmap(*slot));
  }
  *slot = slab;
  return window_->map(slab, options_.policy == MemoryPolicy::copy ? MapMode::copy : MapMode::remap);
}

Status MemoryRuntime::before(Device& device, const Segment& segment, Ticket previous) {
  if (!pager_ && segment.slabs.size() > slot_.size())
    return failed("device memory: ops {} to {} need {} slabs at a time, the plan has slots for {}", segment.first,
                  segment.last, segment.slabs.size(), slot_.size());
  for (const int slab : segment.slabs) {
    if (pager_) {
      const DemandPager::Touch touch = pager_->touch(slab);
      if (!touch.map) continue;
      // Nobody looked ahead: the host learns of the need when the work before is done.
      if (previous > 0) LLADA_TRY_STATUS(device.wait(previous));
      for (const int32_t out : touch.evict) LLADA_TRY_STATUS(window_->unmap(out));
      LLADA_TRY_STATUS(window_->map(slab, MapMode::remap));
    } else if (std::ranges::count(slot_, slab) == 0) {
      LLADA_TRY_STATUS(map_into_slot(slab, true));
    }
  }
  return {};
}

Status MemoryRuntime::after(const Segment& segment) {
  if (pager_) return {};
  for (const int slab : segment.releases) {
    const auto slot = std::ranges::find(slot_, slab);
    if (slot == slot_.end())
      return failed("device memory: slab {}, which ops {} to {} have read, is in no slot", slab, segment.first,
                    segment.last);
    // The next one in the cycle that is in no slot yet.
    const auto at = static_cast<size_t>(std::ranges::find(plan_.streamed, slab) - plan_.streamed.begin());
    for (size_t step = 1; step < plan_.streamed.size(); ++step) {
      const int next = plan_.streamed[(at + step) % plan_.streamed.size()];
      if (std::ranges::count(slot_, next) > 0) continue;
      LLADA_TRY_STATUS(window_->unmap(slab));
      *slot = -1;
      LLADA_TRY_STATUS(map_into_slot(next, false));
      break;
    }
  }
  return {};
}

}  // namespace llada
