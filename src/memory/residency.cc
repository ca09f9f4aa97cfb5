#include "memory/residency.h"

#include <algorithm>

#include "base/check.h"

namespace llada {
namespace {

// Chooses k of m at equal distances, the first and the last included. The work after the last slab of a pass (a head on
// another unit, the host's turn) then maps the first two of the next pass. Between those two ends every mapping has a
// whole distance to hide behind. Equal distances around the cycle would leave the map lane idle during that tail.
std::vector<bool> spread(size_t m, size_t k) {
  std::vector<bool> chosen(m, false);
  if (k == 1) chosen[m / 2] = true;
  for (size_t i = 0; k > 1 && i < k; ++i) chosen[(2 * i * (m - 1) + (k - 1)) / (2 * (k - 1))] = true;
  return chosen;
}

// Slabs above the slot size are pinned; of the rest (`small`, indices) as many as `room` holds.
struct Choice {
  int64_t slot = 0, room = 0, streamed = 0;
};

// The slot size with the fewest streamed bytes; of equal ones the largest, which needs the fewest calls.
Choice choose_slot(std::span<const Slab> slabs, int64_t window, int slots) {
  std::vector<int64_t> sizes;
  for (const Slab& slab : slabs) sizes.push_back(slab.bytes);
  std::ranges::sort(sizes);
  Choice best;
  int64_t below = 0;
  const int64_t all = total_bytes(slabs);
  for (size_t i = 0; i < sizes.size(); ++i) {
    below += sizes[i];
    if (i + 1 < sizes.size() && sizes[i + 1] == sizes[i]) continue;
    const int64_t room = window - slots * sizes[i] - (all - below);
    if (room < 0) continue;
    const Choice choice{sizes[i], room, std::max<int64_t>(0, below - room)};
    if (best.slot == 0 || choice.streamed <= best.streamed) best = choice;
  }
  return best;
}

}  // namespace

Result<ResidencyPlan> plan_residency(std::span<const Slab> slabs, int64_t window_bytes,
                                     const ResidencyOptions& options) {
  LLADA_CHECK(options.slots >= 1);
  ResidencyPlan plan;
  plan.weight_bytes = total_bytes(slabs);
  plan.window_bytes = window_bytes < 0 ? kUnlimitedWindow : window_bytes / kPageBytes * kPageBytes;
  plan.slabs.assign(slabs.begin(), slabs.end());
  plan.pinned.assign(slabs.size(), true);
  plan.pinned_bytes = plan.weight_bytes;
  if (plan.window_bytes == kUnlimitedWindow || plan.weight_bytes <= plan.window_bytes) return plan;

  const Choice choice = choose_slot(slabs, plan.window_bytes, options.slots);
  if (choice.slot == 0) {
    int64_t needed = INT64_MAX, below = 0;  // the least window of any slot size
    std::vector<int64_t> sizes;
    for (const Slab& slab : slabs) sizes.push_back(slab.bytes);
    std::ranges::sort(sizes);
    for (const int64_t size : sizes) {
      below += size;
      needed = std::min(needed, plan.weight_bytes - below + options.slots * size);
    }
    return invalid("window: found {} bytes for weights, needed at least {} for {} slot{} of their slabs",
                   plan.window_bytes, needed, options.slots, options.slots == 1 ? "" : "s");
  }

  // Slabs far below the slot's size (a final norm without its head) are pinned: streaming them saves nothing,
  // and they would take a place in the even spread.
  const auto tiny = [&](const Slab& slab) { return slab.bytes <= choice.slot / 16; };
  int64_t tiny_bytes = 0;
  for (const Slab& slab : slabs)
    if (tiny(slab)) tiny_bytes += slab.bytes;
  const bool pin_tiny = tiny_bytes <= choice.room;
  const int64_t free = choice.room - (pin_tiny ? tiny_bytes : 0);
  std::vector<size_t> small;
  for (size_t i = 0; i < slabs.size(); ++i)
    if (slabs[i].bytes <= choice.slot && !(pin_tiny && tiny(slabs[i]))) small.push_back(i);
  std::vector<bool> streams;
  int64_t room = 0;
  for (size_t k = 1; k <= small.size(); ++k) {
    streams = spread(small.size(), k);
    room = free;
    for (size_t i = 0; i < small.size(); ++i)
      if (!streams[i]) room -= slabs[small[i]].bytes;
    if (room >= 0) break;
  }
  // Slabs of unequal size may leave room for whole ones.
  for (size_t i = 0; i < small.size(); ++i)
    if (streams[i] && slabs[small[i]].bytes <= room) room -= slabs[small[i]].bytes, streams[i] = false;
  for (size_t i = 0; i < small.size(); ++i) plan.pinned[small[i]] = !streams[i];

  // The rest of the window takes the first pages of one streamed slab.
  const auto cut = std::ranges::find(plan.pinned, false);
  if (options.cut && room >= kPageBytes && cut != plan.pinned.end()) {
    const auto at = cut - plan.pinned.begin();
    Slab& whole = plan.slabs[static_cast<size_t>(at)];
    // Both parts name all weights: an op needs both.
    Slab rest = whole;
    whole.bytes = room / kPageBytes * kPageBytes;
    rest.bytes -= whole.bytes;
    plan.slabs.insert(plan.slabs.begin() + at + 1, std::move(rest));
    plan.pinned.insert(plan.pinned.begin() + at, true);
  }

  plan.slots = options.slots;
  plan.pinned_bytes = 0;
  for (size_t i = 0; i < plan.slabs.size(); ++i) {
    if (plan.pinned[i]) {
      plan.pinned_bytes += plan.slabs[i].bytes;
    } else {
      plan.streamed.push_back(static_cast<int32_t>(i));
      plan.slot_bytes = std::max(plan.slot_bytes, plan.slabs[i].bytes);
    }
  }
  LLADA_CHECK(plan.pinned_bytes + plan.slots * plan.slot_bytes <= plan.window_bytes);
  return plan;
}

Result<std::vector<int32_t>> split_sessions(std::span<const Slab> slabs, int64_t window_bytes, int sessions) {
  std::vector<int32_t> session(slabs.size(), 0);
  if (window_bytes == kUnlimitedWindow) return session;
  int32_t current = 0;
  int64_t used = 0;
  for (size_t i = 0; i < slabs.size(); ++i) {
    if (used + slabs[i].bytes > window_bytes) ++current, used = 0;
    if (current >= sessions || slabs[i].bytes > window_bytes)
      return invalid("sessions: found {} windows of {} bytes, needed room for {} bytes of weights", sessions,
                     window_bytes, total_bytes(slabs));
    used += slabs[i].bytes;
    session[i] = current;
  }
  return session;
}

}  // namespace llada
