// Keeps the slabs mapped that the next ops need. It follows the residency plan (pin and stream, one slab ahead), or
// keeps one window per session. A study may compare the plan with a pager that maps on demand. Made once from any
// program of a model; steps of every row count use it. A device whose window is unlimited, or holds everything, gives
// it nothing to do after the first mapping.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "devices/device.h"
#include "memory/residency.h"

namespace llada {

enum class MemoryPolicy {
  plan,      // pin and stream by remapping (residency.h)
  copy,      // the same plan, streamed slabs copied into slots that stay mapped
  sessions,  // no plan: as many windows as the device has; the plan where it has one
};
inline constexpr MemoryPolicy kMemoryPolicies[] = {MemoryPolicy::plan, MemoryPolicy::copy, MemoryPolicy::sessions};
std::string_view name(MemoryPolicy policy);
Result<MemoryPolicy> memory_policy_from_name(std::string_view text);

// Maps a slab when it is needed.
class DemandPager {
 public:
  struct Touch {
    bool map = false;            // the slab was not there
    std::vector<int32_t> evict;  // evicted first
  };
  virtual ~DemandPager() = default;
  virtual Touch touch(int32_t slab) = 0;
};
using MakePager =
    std::function<Result<std::unique_ptr<DemandPager>>(std::vector<int64_t> slab_bytes, int64_t window_bytes)>;

struct MemoryOptions {
  MemoryPolicy policy = MemoryPolicy::plan;
  // Absent: whole layers, or where those do not fit half layers, then single ops, then one slot.
  std::optional<SlabGrain> grain = {};
  MakePager pager = {};  // in place of the policy
};

// The weights that the accelerator of a device with a window reads, in first-use order, with their layer and half.
std::vector<WeightUse> weight_uses(const Program& program, Device& device);

class MemoryRuntime {
 public:
  // Defines the slabs of a device with a window and maps those that stay. The program must read every weight that later
  // ones read (a step with wanted rows does).
  static Result<MemoryRuntime> create(Device& device, const Program& program, const MemoryOptions& options);
  // Fails where the window has no room for the slabs that create() would map.
  static Status fits(Device& device, const Program& program, const MemoryOptions& options);

  // Ops of a program that can be submitted once `slabs` are mapped.
  struct Segment {
    size_t first = 0, last = 0;  // ops [first, last)
    Unit unit = Unit::accelerator;
    std::vector<int> slabs;     // that are not pinned
    std::vector<int> releases;  // of them those that no later op of the program reads
  };
  std::vector<Segment> cut(const Device& device, const Program& program) const;

  // Called before a segment is submitted, with the ticket of the work before it or 0; and after it is submitted.
  Status before(Device& device, const Segment& segment, Ticket previous);
  Status after(const Segment& segment);

  const ResidencyPlan& plan() const { return plan_; }

 private:
  MemoryRuntime() = default;
  Status map_into_slot(int slab, bool demanded);

  Window* window_ = nullptr;
  MemoryOptions options_;
  ResidencyPlan plan_;  // of a pager: only slabs and sizes
  std::vector<std::vector<int>> of_weight_;
  std::vector<int> slot_;  // streamed slab in each slot, -1: free
  std::unique_ptr<DemandPager> pager_;
};

}  // namespace llada
