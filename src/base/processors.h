// Which processors of a machine compute threads should use, as the kernel describes them below /sys. One hardware
// thread of every physical core comes before any second one, and fast cores before slow ones. arm64 publishes a
// capacity per core, 1024 for the fastest; a limit of its clock reduces it in proportion. Processors outside the
// affinity mask are not used, and there are no more threads than the quotas of the process's control groups pay for.
// Sources: Documentation/ABI/stable/sysfs-devices-system-cpu (topology, cpu_capacity), cpufreq.rst (scaling_max_freq,
// to which the kernel's and the vendors' thermal governors write), cgroup-v2.rst (cpu.max).
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace llada {

struct Processors {
  // Every allowed processor, best first. The first `preferred` are one hardware thread of each core that has at least
  // half of the greatest capacity. A slow core in a loop would make the fast ones wait for its last piece.
  std::vector<int> order;
  int preferred = 0;
  // The capacity of each processor in `order`, as the kernel says it; less where its clock is limited now.
  std::vector<int> capacity = {};
  // Threads for an unspecified request: preferred, or less under a quota; at least 1.
  int threads = 1;

  std::vector<int> used() const;  // the preferred ones, ascending
  bool operator==(const Processors&) const = default;
};

// root: of the file system ("/"), where sys and proc are. allowed: the affinity mask, ascending. Defaults for missing
// files: every processor a core of its own, all of the same capacity, no quota.
Processors find_processors(const std::filesystem::path& root, const std::vector<int>& allowed);

// The processors of this process now.
Processors usable_processors();

// A set of processors as the scheduler's calls take it: bit i of word w is processor 64 w + i. cpu_set_t ends at 1,024.
using ProcessorMask = std::vector<uint64_t>;
ProcessorMask mask_of(std::span<const int> processors);
bool contains(const ProcessorMask& mask, int processor);

// The affinity mask of this thread as `get` fills it (given bytes and a mask; returns 0 or an errno). The mask grows
// until it is large enough (EINVAL: it is not). Empty where it fails.
using AffinityCall = std::function<int(size_t bytes, uint64_t* mask)>;
ProcessorMask read_mask(const AffinityCall& get);
std::vector<int> members(const ProcessorMask& mask);  // ascending

// Tells when the processors of this process change: cores are taken or given back (its mask, a cpuset, a quota), or
// slowed (a limit of the clock, as heat brings). Cheap enough to be asked before every step.
class ProcessorWatch {
 public:
  // mask: those that are allowed; empty: own_mask().
  using Clock = std::chrono::steady_clock;
  explicit ProcessorWatch(std::filesystem::path root = "/", std::function<ProcessorMask()> mask = {});
  // The present processors where they differ from `present`; nothing before a pause after the last look has passed. The
  // pause is at least kLeastPause, and so long that looking takes a 2,000th of the time: a server's thousand files take
  // longer.
  std::optional<Processors> changed(Clock::time_point now, const Processors& present);

  static constexpr std::chrono::seconds kLeastPause{3};
  static constexpr int kCostShare = 2000;

 private:
  std::filesystem::path root_;
  std::function<ProcessorMask()> mask_;
  Clock::time_point next_ = Clock::now() + kLeastPause;
};

}  // namespace llada
