// Which processors of a machine a compute thread should use, as the kernel describes them below /sys: one hardware
// thread of every physical core before any second one, fast cores before slow ones (arm64 publishes a capacity per
// core, 1024 for the fastest), nothing outside the affinity mask, no more threads than the quotas of the process's
// control group and of those above it pay for. Sources: Documentation/ABI/stable/sysfs-devices-system-cpu (topology,
// cpu_capacity), cgroup-v2.rst (cpu.max), cgroups(7) (/proc/self/cgroup).
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

namespace llada {

struct Processors {
  // Every allowed processor, best first. The first `preferred` are one hardware thread each of the cores that have at
  // least half of the greatest capacity: a slow core in a loop would make the fast ones wait for its last piece.
  std::vector<int> order;
  int preferred = 0;
  // Threads for an unspecified request: preferred, or less under a quota; at least 1.
  int threads = 1;
};

// root: of the file system ("/"), where sys and proc are. allowed: the affinity mask, ascending. What is not there
// counts as: every processor a core of its own, all of the same capacity, no quota.
Processors find_processors(const std::filesystem::path& root, const std::vector<int>& allowed);

// Of this process now.
Processors usable_processors();

// A set of processors as the scheduler's calls take it: bit i of word w is processor 64 w + i. cpu_set_t ends at 1,024.
using ProcessorMask = std::vector<uint64_t>;
ProcessorMask mask_of(std::span<const int> processors);
bool contains(const ProcessorMask& mask, int processor);

// What `get` (bytes and a mask to fill; 0 or an errno) tells of this thread, in a mask that grows until it is large
// enough (EINVAL: it is not). Empty where it fails.
using AffinityCall = std::function<int(size_t bytes, uint64_t* mask)>;
ProcessorMask read_mask(const AffinityCall& get);
std::vector<int> members(const ProcessorMask& mask);  // ascending

}  // namespace llada
