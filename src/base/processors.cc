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

// Processors' worth of time per period that a control group has, rounded up; INT_MAX: unlimited, or no such group.
// Version 2: "max 100000" or "150000 100000" in one file; version 1: a file each.
int quota(const std::filesystem::path& group) {
  std::ifstream limit(group / "cpu.max");
  int64_t time = 0, period = 0;
  if (!(limit >> time >> period)) {
    std::ifstream time1(group / "cpu.cfs_quota_us"), period1(group / "cpu.cfs_period_us");
    if (!(time1 >> time) || !(period1 >> period)) return INT_MAX;
  }
  if (time <= 0 || period <= 0) return INT_MAX;
  return static_cast<int>(std::min<int64_t>((time - 1) / period + 1, INT_MAX));
}

// The smallest quota of a group and those above it, up to `mount`. In a container that shows its own group as the
// mount's root, a group that stands outside is not there, and the root is what counts.
int smallest_quota(const std::filesystem::path& mount, const std::string& group) {
  int smallest = INT_MAX;
  std::filesystem::path at = mount;
  for (const auto& part : std::filesystem::path(group).relative_path()) {
    smallest = std::min(smallest, quota(at));
    if (part == "..") return smallest;  // above what a namespace shows
    at /= part;
  }
  return std::min(smallest, quota(at));
}

// A line of /proc/self/cgroup is "0::/GROUP" of version 2 or "4:cpu,cpuacct:/GROUP" of version 1. Where there is none,
// the mounts' roots count.
int own_quota(const std::filesystem::path& root) {
  const std::filesystem::path mounts = root / "sys/fs/cgroup";
  int smallest = std::min(quota(mounts), quota(mounts / "cpu"));
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t names = line.find(':'), group = line.find(':', names + 1);
    if (names == std::string::npos || group == std::string::npos) continue;
    const std::string controllers = line.substr(names + 1, group - names - 1), path = line.substr(group + 1);
    if (controllers.empty())
      smallest = std::min({smallest, smallest_quota(mounts, path), smallest_quota(mounts / "unified", path)});
    else if (("," + controllers + ",").find(",cpu,") != std::string::npos)
      smallest = std::min({smallest, smallest_quota(mounts / "cpu", path), smallest_quota(mounts / controllers, path)});
  }
  return smallest;
}

}  // namespace

Processors find_processors(const std::filesystem::path& root, const std::vector<int>& allowed) {
  struct Candidate {
    int sibling;  // 0: the first hardware thread of its core that is allowed
    int capacity, cpu;
  };
  // (package, cluster, core): hardware threads so far. A device tree counts the cores of each cluster from 0.
  std::map<std::tuple<int, int, int>, int> seen;
  std::vector<Candidate> candidates;
  int greatest = 0;
  for (const int cpu : allowed) {
    const auto base = root / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu));
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
  found.threads = std::max(1, std::min(own_quota(root), found.preferred));
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

Processors usable_processors() { return find_processors("/", members(own_mask())); }

}  // namespace llada
