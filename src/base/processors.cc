#include "base/processors.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "base/control_groups.h"
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

int own_quota(const std::filesystem::path& root) {
  int smallest = INT_MAX;
  for_each_own_group(root, "cpu",
                     [&](const std::filesystem::path& group) { smallest = std::min(smallest, quota(group)); });
  return smallest;
}

// A processor's capacity beside its neighbours': the kernel's, of which a limit of its clock (the user's, or that of
// thermal pressure) leaves a part.
int capacity_now(const std::filesystem::path& cpu) {
  const int64_t capacity = read_int(cpu / "cpu_capacity", kFullCapacity);
  const int64_t limit = read_int(cpu / "cpufreq/scaling_max_freq", 0),
                most = read_int(cpu / "cpufreq/cpuinfo_max_freq", 0);
  if (limit <= 0 || most <= 0 || limit >= most) return static_cast<int>(capacity);
  return static_cast<int>(std::max<int64_t>(1, capacity * limit / most));
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
    const int capacity = capacity_now(base);
    candidates.push_back({seen[core]++, capacity, cpu});
    greatest = std::max(greatest, capacity);
  }
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return std::tuple(a.sibling, -a.capacity, a.cpu) < std::tuple(b.sibling, -b.capacity, b.cpu);
  });
  Processors found;
  for (const Candidate& c : candidates) {
    found.order.push_back(c.cpu);
    found.capacity.push_back(c.capacity);
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

std::vector<int> Processors::used() const {
  std::vector<int> cpus(order.begin(), order.begin() + preferred);
  std::ranges::sort(cpus);
  return cpus;
}

ProcessorWatch::ProcessorWatch(std::filesystem::path root, std::function<ProcessorMask()> mask)
    : root_(std::move(root)), mask_(mask ? std::move(mask) : own_mask) {}

std::optional<Processors> ProcessorWatch::changed(Clock::time_point now, const Processors& present) {
  if (now < next_) return std::nullopt;
  const auto begin = Clock::now();
  Processors found = find_processors(root_, members(mask_()));
  next_ = now + std::max<Clock::duration>(kLeastPause, kCostShare * (Clock::now() - begin));
  if (found.order.empty() || found == present) return std::nullopt;
  return found;
}

Processors usable_processors() { return find_processors("/", members(own_mask())); }

}  // namespace llada
