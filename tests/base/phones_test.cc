// Which cores of phones and boards are used: /sys trees of real machines, and what becomes of the choice when cores are
// taken away or slowed. A tree has what the kernel shows; where its figures come from stands beside each machine:
//   dts    capacity-dmips-mhz times the highest clock, scaled to 1024, as drivers/base/arch_topology.c does, from the
//          device tree of mainline Linux
//   clocks the cores' highest clocks, from the maker's data sheet
//   guess  no public device tree has the figure; taken from cores of the same name elsewhere
// None was read on a device.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <numeric>
#include <string>

#include "base/processors.h"
#include "base/threads.h"

namespace llada {
namespace {

struct Cluster {
  int cores, capacity;  // capacity 0: the kernel shows none
  int khz;              // highest clock
};

struct Machine {
  const char* name;
  std::vector<Cluster> clusters;  // in the order of the processors' numbers
  std::vector<int> order;         // expected: best first
  int threads;
};

const Machine kMachines[] = {
    // SM8750: six and two Oryon cores; capacity: dts (sm8750.dtsi names none, so that the kernel shows 1024), clocks.
    {"Snapdragon 8 Elite, mainline", {{6, 1024, 3532800}, {2, 1024, 4320000}}, {0, 1, 2, 3, 4, 5, 6, 7}, 8},
    // The same as a vendor's kernel may have it; capacity: guess (the clocks' ratio).
    {"Snapdragon 8 Elite, vendor", {{6, 837, 3532800}, {2, 1024, 4320000}}, {6, 7, 0, 1, 2, 3, 4, 5}, 8},
    // SM8650: two A520, three and two A720, one X4; capacity: dts (sm8650.dtsi: 1024, 1792, 1894), clocks.
    {"Snapdragon 8 Gen 3",
     {{2, 380, 2265600}, {3, 924, 3148800}, {2, 867, 2956800}, {1, 1024, 3302400}},
     {7, 2, 3, 4, 5, 6, 0, 1},
     6},
    // Zuma: four A510, four A715, one X3; capacity: guess (A520, A720 and X4 of sm8650.dtsi, at these clocks), clocks.
    {"Tensor G3", {{4, 324, 1704000}, {4, 787, 2367000}, {1, 1024, 2914000}}, {8, 4, 5, 6, 7, 0, 1, 2, 3}, 5},
    // Zumapro: four A520, three A720, one X4; capacity: guess (sm8650.dtsi, at these clocks), clocks.
    {"Tensor G4", {{4, 348, 1950000}, {3, 811, 2600000}, {1, 1024, 3105000}}, {7, 4, 5, 6, 0, 1, 2, 3}, 4},
    // BCM2712: four A76, no capacity-dmips-mhz; dts (bcm2712.dtsi), clocks.
    {"Raspberry Pi 5", {{4, 1024, 2400000}}, {0, 1, 2, 3}, 4},
    // RK3588: four A55, four A76; capacity: dts (rk3588-base.dtsi: 530, 1024), clocks.
    {"RK3588 board", {{4, 397, 1800000}, {4, 1024, 2400000}}, {4, 5, 6, 7, 0, 1, 2, 3}, 4},
    // RK3399: four A53, two A72; capacity: dts (rk3399-base.dtsi: 485, 1024), clocks.
    {"RK3399 board", {{4, 381, 1416000}, {2, 1024, 1800000}}, {4, 5, 0, 1, 2, 3}, 2},
};

class MachineTree {
 public:
  explicit MachineTree(const Machine& machine)
      : root_(std::filesystem::path(::testing::TempDir()) /
              ("machine-" + std::to_string(::getpid()) + "-" + std::to_string(count++))) {
    for (const Cluster& cluster : machine.clusters)
      for (int i = 0; i < cluster.cores; ++i) {
        // Mainline device trees of phones have one cluster and number its cores through.
        put(cpus_, "topology/physical_package_id", 0);
        put(cpus_, "topology/core_id", cpus_);
        if (cluster.capacity > 0) put(cpus_, "cpu_capacity", cluster.capacity);
        put(cpus_, "cpufreq/cpuinfo_max_freq", cluster.khz);
        put(cpus_, "cpufreq/scaling_max_freq", cluster.khz);
        ++cpus_;
      }
  }
  ~MachineTree() { std::filesystem::remove_all(root_); }
  MachineTree(const MachineTree&) = delete;
  MachineTree& operator=(const MachineTree&) = delete;

  void put(int cpu, const std::string& file, int value) const {
    const auto path = root_ / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << value << "\n";
  }
  std::vector<int> all() const {
    std::vector<int> cpus(static_cast<size_t>(cpus_));
    std::iota(cpus.begin(), cpus.end(), 0);
    return cpus;
  }
  const std::filesystem::path& root() const { return root_; }

 private:
  static inline int count = 0;
  std::filesystem::path root_;
  int cpus_ = 0;
};

TEST(Phones, TheFastCoresAreUsed) {
  for (const Machine& machine : kMachines) {
    const MachineTree tree(machine);
    const Processors found = find_processors(tree.root(), tree.all());
    EXPECT_EQ(found.order, machine.order) << machine.name;
    EXPECT_EQ(found.threads, machine.threads) << machine.name;
    EXPECT_EQ(found.preferred, machine.threads) << machine.name;
  }
}

// Heat: the limit of a clock falls, as thermal governors of the kernel and of vendors set it.
TEST(Phones, ASlowedCoreCountsAsMuchLess) {
  const Machine& phone = kMachines[2];
  const MachineTree tree(phone);
  tree.put(7, "cpufreq/scaling_max_freq", 1651200);  // half
  Processors found = find_processors(tree.root(), tree.all());
  EXPECT_EQ(found.order, (std::vector<int>{2, 3, 4, 5, 6, 7, 0, 1}));
  EXPECT_EQ(found.capacity[5], 512);
  EXPECT_EQ(found.threads, 6) << "more than half of the fastest that is left";
  tree.put(7, "cpufreq/scaling_max_freq", 1000000);
  found = find_processors(tree.root(), tree.all());
  EXPECT_EQ(found.threads, 5);
  for (int cpu = 2; cpu < 7; ++cpu) tree.put(cpu, "cpufreq/scaling_max_freq", 1000000);
  EXPECT_EQ(find_processors(tree.root(), tree.all()).threads, 8)
      << "small cores are as fast as large ones that are hot";
  // A figure that is none limits nothing.
  for (int cpu = 2; cpu < 8; ++cpu) tree.put(cpu, "cpufreq/scaling_max_freq", -1);
  EXPECT_EQ(find_processors(tree.root(), tree.all()).threads, 6);
}

TEST(ProcessorWatch, TellsWhatChangedAndNotTooOften) {
  const MachineTree tree(kMachines[2]);
  ProcessorMask allowed = mask_of(tree.all());
  ProcessorWatch watch(tree.root(), [&] { return allowed; });
  const Processors first = find_processors(tree.root(), tree.all());
  const auto begin = ProcessorWatch::Clock::now();
  using std::chrono::seconds;
  EXPECT_FALSE(watch.changed(begin, first)) << "not yet";
  EXPECT_FALSE(watch.changed(begin + seconds(10), first)) << "nothing changed";
  allowed = mask_of(std::vector{0, 1, 2, 3});  // a background app's cpuset
  EXPECT_FALSE(watch.changed(begin + seconds(11), first)) << "looked a second ago";
  const auto less = watch.changed(begin + seconds(3600), first);
  ASSERT_TRUE(less);
  EXPECT_EQ(less->order, (std::vector<int>{2, 3, 0, 1}));
  EXPECT_EQ(less->threads, 2);
  EXPECT_FALSE(watch.changed(begin + seconds(7200), *less));
  allowed = mask_of(tree.all());
  EXPECT_EQ(watch.changed(begin + seconds(10800), *less)->threads, 6) << "and back";
  allowed = {};  // a call that failed
  EXPECT_FALSE(watch.changed(begin + seconds(14400), first));
}

// Every index once, whatever the number of threads was before.
void expect_all_run(ThreadPool& pool, int64_t count) {
  std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
  std::atomic<bool> in_range{true};
  pool.run(count, [&](int64_t i, int thread) {
    runs[static_cast<size_t>(i)].fetch_add(1);
    if (thread < 0 || thread >= pool.size()) in_range = false;
  });
  EXPECT_TRUE(in_range);
  for (const auto& n : runs) EXPECT_EQ(n.load(), 1);
}

Processors cores(std::vector<int> order, std::vector<int> capacity, int threads = 0) {
  Processors p{.order = std::move(order), .preferred = 0, .capacity = std::move(capacity), .threads = 1};
  p.preferred = static_cast<int>(p.order.size());
  p.threads = threads > 0 ? threads : p.preferred;
  return p;
}

TEST(ThreadPool, GrowsAndShrinksBetweenLoops) {
  ThreadPool pool(cores({0, 1, 2, 3}, {1024, 1024, 1024, 1024}));
  for (const int threads : {4, 1, 3, 2, 8, 2, 1, 4}) {
    std::vector<int> order(static_cast<size_t>(threads));
    std::iota(order.begin(), order.end(), 0);
    pool.use(cores(order, std::vector<int>(order.size(), 1024)));
    EXPECT_EQ(pool.size(), threads);
    for (const int64_t count : {0, 1, 2, 7, 100}) expect_all_run(pool, count);
  }
}

// A share is as large as its core is fast; equal cores have the shares that they always had.
TEST(ThreadPool, SharesFollowCapacity) {
  ThreadPool pool(cores({3, 1, 2}, {1024, 512, 512}));
  EXPECT_EQ(pool.share_end(100, 0), 50);
  EXPECT_EQ(pool.share_end(100, 1), 75);
  EXPECT_EQ(pool.share_end(100, 2), 100);
  EXPECT_EQ(pool.share_end(1, 1), 0);
  EXPECT_EQ(pool.share_end(1, 2), 1);
  expect_all_run(pool, 1000);
  pool.use(cores({3, 1, 2}, {512, 512, 512}));  // heat; the same threads go on
  for (const int64_t count : {1, 2, 3, 100, 1001})
    for (int t = 0; t < 3; ++t) EXPECT_EQ(pool.share_end(count, t), count * (t + 1) / 3);
  // Under a quota threads are not bound, so nobody knows which core one has.
  pool.use(cores({3, 1, 2}, {1024, 512, 512}, 2));
  EXPECT_EQ(pool.share_end(100, 0), 50);
}

}  // namespace
}  // namespace llada
