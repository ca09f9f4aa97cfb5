#include "base/processors.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "base/system.h"

namespace llada {
namespace {

constexpr int kFullCapacity = 1024;

int read_int(const std::filesystem::path& path, int fallback) {
  std::ifstream file(path);
  int value = fallback;
  return file >> value ? value : fallback;
}

// Processors' worth of time per period, rounded up; 0: unlimited. Version 2: "max 100000" or "150000 100000".
int quota(const std::filesystem::path& cgroup) {
  std::ifstream limit(cgroup / "cpu.max");
  int64_t time = 0, period = 0;
  if (!(limit >> time >> period)) {
    std::ifstream time1(cgroup / "cpu/cpu.cfs_quota_us"), period1(cgroup / "cpu/cpu.cfs_period_us");  // version 1
    if (!(time1 >> time) || !(period1 >> period)) return 0;
  }
  if (time <= 0 || period <= 0) return 0;
  return static_cast<int>(std::min<int64_t>((time - 1) / period + 1, INT_MAX));
}

}  // namespace

Processors find_processors(const std::filesystem::path& sys, const std::vector<int>& allowed) {
  struct Candidate {
    int sibling;  // 0: the first hardware thread of its core that is allowed
    int capacity, cpu;
  };
  // (package, cluster, core): hardware threads so far. A device tree counts the cores of each cluster from 0.
  std::map<std::tuple<int, int, int>, int> seen;
  std::vector<Candidate> candidates;
  int greatest = 0;
  for (const int cpu : allowed) {
    const auto base = sys / "devices/system/cpu" / ("cpu" + std::to_string(cpu));
    const std::tuple core(read_int(base / "topology/physical_package_id", 0), read_int(base / "topology/cluster_id", 0),
                          read_int(base / "topology/core_id", cpu));
    const int capacity = read_int(base / "cpu_capacity", kFullCapacity);
    candidates.push_back({seen[core]++, capacity, cpu});
    greatest = std::max(greatest, capacity);
  }
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return std::tuple(a.sibling, -a.capacity, a.cpu) < std::tuple(b.sibling, -b.capacity, b.cpu);
  });
  Processors found;
  for (const Candidate& c : candidates) {
    found.order.push_back(c.cpu);
    if (c.sibling == 0 && 2 * c.capacity >= greatest) ++found.preferred;
  }
  const int limit = quota(sys / "fs/cgroup");
  found.threads = std::max(1, limit > 0 ? std::min(limit, found.preferred) : found.preferred);
  return found;
}

ProcessorMask mask_of(std::span<const int> processors) {
  ProcessorMask mask;
  for (const int cpu : processors) {
    const auto word = static_cast<size_t>(cpu) / 64;
    if (word >= mask.size()) mask.resize(word + 1);
    mask[word] |= uint64_t{1} << (cpu % 64);
  }
  return mask;
}

bool contains(const ProcessorMask& mask, int processor) {
  const auto word = static_cast<size_t>(processor) / 64;
  return word < mask.size() && (mask[word] >> (processor % 64) & 1) != 0;
}

ProcessorMask read_mask(const AffinityCall& get) {
  constexpr size_t kMostWords = 1 << 14;  // a million processors
  for (ProcessorMask mask(16); mask.size() <= kMostWords; mask.assign(2 * mask.size(), 0)) {
    const int error = get(mask.size() * sizeof mask[0], mask.data());
    if (error == 0) return mask;
    if (error != EINVAL) break;
  }
  return {};
}

std::vector<int> members(const ProcessorMask& mask) {
  std::vector<int> out;
  for (int cpu = 0; cpu < static_cast<int>(mask.size() * 64); ++cpu)
    if (contains(mask, cpu)) out.push_back(cpu);
  return out;
}

Processors usable_processors() { return find_processors("/sys", members(own_mask())); }

}  // namespace llada
