// The static plan of the swap-optimized memory runtime: which slabs stay mapped and which stream through two
// slots. Steps read the slabs in a fixed cycle, so the plan is made once per geometry and serves steps of any
// row count.
//
// A cycle over W bytes of slabs through a window of V bytes has to map at least W - V bytes per pass. At its start at
// most V are there, and all W are needed. Least-recently-used, first-in-first-out and dropping everything on overflow
// map all of W (paging.h). Pinning all but two slots maps W - V + 2 slots, and two slots are needed to map one slab
// while another computes. Streamed slabs are spread evenly, so that every mapping has pinned slabs' compute to hide
// behind: streaming them back to back would line up the mappings instead. Source: Swap-Optimized Memory Runtime of
// arXiv 2606.13740; the bound is elementary.
#pragma once
#include <span>
#include <vector>

#include "base/error.h"
#include "memory/slabs.h"

namespace llada {

inline constexpr int64_t kUnlimitedWindow = -1;

struct ResidencyOptions {
  int slots = 2;    // 1: nothing can be mapped while a streamed slab computes
  bool cut = true;  // one slab may be cut at a page; false where a slab is a buffer
};

struct ResidencyPlan {
  // First-use order. One slab may have been cut at a page: its first part pinned, the rest streamed, so that
  // the window is filled to the last page.
  std::vector<Slab> slabs;
  std::vector<bool> pinned;       // per slab
  std::vector<int32_t> streamed;  // indices of the slabs that are not pinned, ascending
  int slots = 0;                  // 0: everything is pinned
  int64_t slot_bytes = 0;         // of one slot: the largest streamed slab
  int64_t weight_bytes = 0, pinned_bytes = 0;
  int64_t window_bytes = kUnlimitedWindow;

  int64_t bytes_per_pass() const { return weight_bytes - pinned_bytes; }
  int64_t lower_bound() const {
    return window_bytes == kUnlimitedWindow || weight_bytes <= window_bytes ? 0 : weight_bytes - window_bytes;
  }
};

// window_bytes is the part of the window for weights: the device's window without its reserve; kUnlimitedWindow plans
// no work. Fails (invalid input) when not even the slots fit; the message names the window that would do.
Result<ResidencyPlan> plan_residency(std::span<const Slab> slabs, int64_t window_bytes,
                                     const ResidencyOptions& options = {});

// The rival without any plan: every session of the device has a window of its own and keeps a contiguous
// share of the slabs. The value is each slab's session; fails where the windows together are too small.
Result<std::vector<int32_t>> split_sessions(std::span<const Slab> slabs, int64_t window_bytes, int sessions);

}  // namespace llada
