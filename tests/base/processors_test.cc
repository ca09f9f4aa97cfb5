// The choice of processors on scripted /sys trees: hardware threads, fast and slow cores, masks, quotas, empty trees.
#include "base/processors.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <mutex>
#include <numeric>
#include <set>
#include <string>

#include "base/system.h"
#include "base/threads.h"
#include "formats/temp_folder.h"

namespace llada {
namespace {

class ProcessorTree : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  void cpu(int number, int package, int core, int capacity = 0) {
    const std::string base = "sys/devices/system/cpu/cpu" + std::to_string(number);
    put(base + "/topology/physical_package_id", std::to_string(package));
    put(base + "/topology/core_id", std::to_string(core));
    if (capacity > 0) put(base + "/cpu_capacity", std::to_string(capacity));
  }
  Processors find(const std::vector<int>& allowed) const { return find_processors(root_, allowed); }
  static std::vector<int> first(int n) {
    std::vector<int> all(static_cast<size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

 private:
  const TempFolder temp_;
  const std::filesystem::path root_ = temp_.path();
};

TEST_F(ProcessorTree, OneThreadOfEveryCoreBeforeASecondOne) {
  // Two packages of two cores; siblings are (0, 4), (1, 5) ... as Linux numbers them.
  for (int i = 0; i < 8; ++i) cpu(i, i / 2 % 2, i % 2);
  const Processors p = find(first(8));
  EXPECT_EQ(p.order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(p.preferred, 4);
  EXPECT_EQ(p.threads, 4);
}

TEST_F(ProcessorTree, SiblingsWithNeighbouringNumbers) {
  for (int i = 0; i < 6; ++i) cpu(i, 0, i / 2);
  const Processors p = find(first(6));
  EXPECT_EQ(p.order, (std::vector<int>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(p.preferred, 3);
}

TEST_F(ProcessorTree, FastCoresFirstAndSlowOnesNotByDefault) {
  // A phone: four small, three big, one largest core.
  const int capacities[] = {325, 325, 325, 325, 830, 830, 830, 1024};
  for (int i = 0; i < 8; ++i) cpu(i, 0, i, capacities[i]);
  const Processors p = find(first(8));
  EXPECT_EQ(p.order, (std::vector<int>{7, 4, 5, 6, 0, 1, 2, 3}));
  EXPECT_EQ(p.preferred, 4);
  EXPECT_EQ(p.threads, 4);
}

// Linux on a device tree: one package, cores numbered within their cluster. Core 0 of the big cluster is no second
// hardware thread of core 0 of the small one.
TEST_F(ProcessorTree, ClustersThatNumberTheirCoresFromZero) {
  const int capacities[] = {290, 290, 290, 290, 780, 780, 780, 1024};
  const int clusters[] = {0, 0, 0, 0, 1, 1, 1, 2}, cores[] = {0, 1, 2, 3, 0, 1, 2, 0};
  for (int i = 0; i < 8; ++i) {
    cpu(i, 0, cores[i], capacities[i]);
    put("sys/devices/system/cpu/cpu" + std::to_string(i) + "/topology/cluster_id", std::to_string(clusters[i]));
  }
  const Processors p = find(first(8));
  EXPECT_EQ(p.order, (std::vector<int>{7, 4, 5, 6, 0, 1, 2, 3}));
  EXPECT_EQ(p.preferred, 4);
  // Without the fastest core the next ones are what others are measured with; half of it is fast enough.
  const Processors rest = find({0, 1, 4, 5, 6});
  EXPECT_EQ(rest.order, (std::vector<int>{4, 5, 6, 0, 1}));
  EXPECT_EQ(rest.preferred, 3);
  put("sys/devices/system/cpu/cpu0/cpu_capacity", "390");
  EXPECT_EQ(find({0, 1, 4, 5, 6}).preferred, 4);
}

TEST_F(ProcessorTree, OnlySlowCoresAllowed) {  // what a background app gets
  const int capacities[] = {325, 325, 325, 325, 1024, 1024};
  for (int i = 0; i < 6; ++i) cpu(i, 0, i, capacities[i]);
  const Processors p = find({1, 2, 3});
  EXPECT_EQ(p.order, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(p.threads, 3);
}

TEST_F(ProcessorTree, TheMaskDecides) {
  for (int i = 0; i < 8; ++i) cpu(i, 0, i % 4);
  const Processors p = find({2, 5, 6});  // 2 and 6 are one core
  EXPECT_EQ(p.order, (std::vector<int>{2, 5, 6}));
  EXPECT_EQ(p.preferred, 2);
}

TEST_F(ProcessorTree, AQuotaLimitsThreadsRoundedUp) {
  for (int i = 0; i < 8; ++i) cpu(i, 0, i);
  put("sys/fs/cgroup/cpu.max", "250000 100000");
  EXPECT_EQ(find(first(8)).threads, 3);
  EXPECT_EQ(find(first(8)).preferred, 8);
  put("sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_EQ(find(first(8)).threads, 8);
  put("sys/fs/cgroup/cpu.max", "1000 100000");
  EXPECT_EQ(find(first(8)).threads, 1);
  put("sys/fs/cgroup/cpu.max", "9223372036854775807 2");  // nonsense limits nothing
  EXPECT_EQ(find(first(8)).threads, 8);
}

TEST_F(ProcessorTree, AQuotaOfControlGroupsVersion1) {
  for (int i = 0; i < 4; ++i) cpu(i, 0, i);
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(find(first(4)).threads, 2);
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(find(first(4)).threads, 4);
}

// As systemd (CPUQuota=), Slurm and containers that see the host's tree have it: the limit stands on the process's own
// group or on one above it, and the smallest counts.
TEST_F(ProcessorTree, AQuotaOfTheProcessesOwnGroup) {
  for (int i = 0; i < 8; ++i) cpu(i, 0, i);
  put("proc/self/cgroup", "0::/user.slice/app.service");
  put("sys/fs/cgroup/user.slice/app.service/cpu.max", "300000 100000");
  put("sys/fs/cgroup/other.slice/cpu.max", "100000 100000");  // somebody else's
  put("sys/fs/cgroup/user.slice/app.service/below/cpu.max", "100000 100000");
  EXPECT_EQ(find(first(8)).threads, 3);
  put("sys/fs/cgroup/user.slice/cpu.max", "200000 100000");
  EXPECT_EQ(find(first(8)).threads, 2);
  put("sys/fs/cgroup/cpu.max", "100000 100000");
  EXPECT_EQ(find(first(8)).threads, 1);
  put("sys/fs/cgroup/cpu.max", "max 100000");
  put("sys/fs/cgroup/user.slice/cpu.max", "max 100000");
  put("sys/fs/cgroup/user.slice/app.service/cpu.max", "max 100000");
  EXPECT_EQ(find(first(8)).threads, 8);
}

TEST_F(ProcessorTree, AQuotaOfTheProcessesOwnGroupOfVersion1) {
  for (int i = 0; i < 8; ++i) cpu(i, 0, i);
  put("proc/self/cgroup", "12:cpuset:/a\n4:cpu,cpuacct:/a/b\n1:name=systemd:/c\n0::/d");
  put("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "250000");
  put("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "50000");
  put("sys/fs/cgroup/cpuset/a/cpu.cfs_quota_us", "50000");
  put("sys/fs/cgroup/cpuset/a/cpu.cfs_period_us", "50000");
  EXPECT_EQ(find(first(8)).threads, 5);
  put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "200000");  // the usual link of the mount
  put("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000");
  EXPECT_EQ(find(first(8)).threads, 2);
}

// A container that is told the host's path and shown its own group as the mount's root; a namespace that ends below the
// group; lines that are none.
TEST_F(ProcessorTree, AGroupThatIsNotShown) {
  for (int i = 0; i < 8; ++i) cpu(i, 0, i);
  put("sys/fs/cgroup/cpu.max", "400000 100000");
  for (const char* text : {"0::/docker/0123", "0::/../../elsewhere", "0::/", "", "nonsense", "::", "0:", "0::"}) {
    put("proc/self/cgroup", text);
    EXPECT_EQ(find(first(8)).threads, 4) << text;
  }
}

TEST_F(ProcessorTree, AnEmptyTreeAndAnEmptyMask) {
  EXPECT_EQ(find(first(3)).order, first(3));
  EXPECT_EQ(find(first(3)).threads, 3);
  EXPECT_TRUE(find({}).order.empty());
  EXPECT_EQ(find({}).threads, 1);
}

TEST(UsableProcessors, StayWithinTheMaskOfThisProcess) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int cpu = 0;
  while (!CPU_ISSET(static_cast<size_t>(cpu), &before)) ++cpu;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(cpu), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const Processors p = usable_processors();
  const int cores = usable_cores();
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(p.order, std::vector<int>{cpu});
  EXPECT_EQ(cores, 1);
}

// A kernel of 4,096 processors refuses a smaller mask, cpu_set_t among them.
TEST(ProcessorMask, GrowsToTheKernelsSize) {
  const std::vector<int> allowed = {0, 63, 64, 1023, 1024, 1500, 4095};
  int calls = 0;
  const auto kernel = [&](size_t bytes, uint64_t* mask) {
    ++calls;
    if (bytes < 512) return EINVAL;
    for (const int cpu : allowed) mask[cpu / 64] |= uint64_t{1} << (cpu % 64);
    return 0;
  };
  const ProcessorMask mask = read_mask(kernel);
  EXPECT_EQ(members(mask), allowed);
  EXPECT_EQ(calls, 3);
  EXPECT_TRUE(contains(mask, 1500));
  EXPECT_FALSE(contains(mask, 1501));
  EXPECT_FALSE(contains(mask, 100000));
  EXPECT_EQ(members(mask_of(allowed)), allowed);
  EXPECT_TRUE(read_mask([](size_t, uint64_t*) { return EPERM; }).empty());
  EXPECT_TRUE(read_mask([](size_t, uint64_t*) { return EINVAL; }).empty()) << "and it ends";
}

TEST_F(ProcessorTree, MoreThanAThousandProcessors) {
  put("sys/fs/cgroup/cpu.max", "150000000 100000");  // 1,500 processors' worth
  const Processors p = find(first(2000));
  EXPECT_EQ(p.preferred, 2000);
  EXPECT_EQ(p.threads, 1500);
}

TEST(ProcessorMask, IsTheSchedulers) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<int> expected;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(static_cast<size_t>(cpu), &set)) expected.push_back(cpu);
  EXPECT_EQ(members(own_mask()), expected);
}

// A worker of a pool that fills the machine may run on one processor, of a smaller one on preferred ones only; the
// caller keeps its own mask.
TEST(ThreadPool, WorkersAreBound) {
  const Processors p = usable_processors();
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  for (const int threads : {2, p.preferred}) {
    if (threads < 2 || threads > p.preferred) continue;
    ThreadPool pool(threads);
    std::mutex mutex;
    std::set<int> workers;
    // Until every worker has had an index: a fast thread may take them all.
    for (int round = 0; round < 200 && static_cast<int>(workers.size()) < threads - 1; ++round)
      pool.run(threads, [&](int64_t, int thread) {
        ::usleep(1000);
        if (thread == 0) return;
        cpu_set_t mask;
        CPU_ZERO(&mask);
        const bool known = pthread_getaffinity_np(pthread_self(), sizeof mask, &mask) == 0;
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(known);
        workers.insert(thread);
        if (threads == p.preferred) {
          EXPECT_EQ(CPU_COUNT(&mask), 1);
          EXPECT_TRUE(CPU_ISSET(static_cast<size_t>(p.order[static_cast<size_t>(thread)]), &mask));
        } else {
          EXPECT_EQ(CPU_COUNT(&mask), p.preferred);
        }
      });
    EXPECT_EQ(static_cast<int>(workers.size()), threads - 1);
  }
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

}  // namespace
}  // namespace llada
