// How much memory there is, on scripted trees of /proc and /sys.
#include "base/memory_room.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/pages.h"
#include "formats/temp_folder.h"

namespace llada {
namespace {

class MemoryTree : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  MemoryRoom find() const {
    const auto room = find_memory_room(root_);
    EXPECT_TRUE(room);
    return room.value_or(MemoryRoom{});
  }
  const TempFolder temp_;
  const std::filesystem::path root_ = temp_.path();
};

constexpr int64_t kMib = 1 << 20;

TEST_F(MemoryTree, AMachineThatDoesNotTell) {
  EXPECT_FALSE(find_memory_room(root_));
  put("proc/meminfo", "MemTotal: 100 kB\nMemFree: 3 kB");  // Linux before 3.14
  EXPECT_FALSE(find_memory_room(root_));
  put("proc/meminfo", "MemTotal: many kB\nMemAvailable: 3 kB");
  EXPECT_FALSE(find_memory_room(root_));
  put("proc/meminfo", "MemTotal: 99999999999999999999999 kB\nMemAvailable: 3 kB");
  EXPECT_FALSE(find_memory_room(root_));
  put("proc/meminfo", "MemTotal: 9223372036854775807 kB\nMemAvailable: 9223372036854775807 kB");
  EXPECT_GT(find().available, 0);
}

TEST_F(MemoryTree, ADesktopMaySwap) {
  put("proc/meminfo",
      "MemTotal:        8192 kB\nMemFree: 100 kB\nMemAvailable:    2048 kB\nHugePages_Total: 0\nSwapFree:  1024 kB");
  EXPECT_EQ(find().total, 8 * kMib);
  EXPECT_EQ(find().available, 3 * kMib);
  EXPECT_EQ(find().bound, "the machine");
  put("proc/spl/kstat/zfs/arcstats", "13 1 0x01 123 33456 1 2\nname type data\nc_min 4 1048576\nsize 4 3145728");
  EXPECT_EQ(find().available, 5 * kMib) << "a cache that gives way";
}

TEST_F(MemoryTree, APhoneKeepsASixteenthAndDoesNotCountItsSwap) {
  put("proc/meminfo", "MemTotal: 16384 kB\nMemAvailable: 4096 kB\nSwapFree: 8192 kB");
  put("system/bin/linker64", "");
  EXPECT_EQ(find().available, 3 * kMib);
  put("proc/meminfo", "MemTotal: 16384 kB\nMemAvailable: 512 kB\nSwapFree: 8192 kB");
  EXPECT_EQ(find().available, 0);
}

TEST_F(MemoryTree, AControlGroupsLimitWithoutItsFilePages) {
  put("proc/meminfo", "MemTotal: 16384 kB\nMemAvailable: 8192 kB\nSwapFree: 1024 kB");
  put("proc/self/cgroup", "0::/user.slice/app.service");
  const std::string own = "sys/fs/cgroup/user.slice/app.service/";
  put(own + "memory.max", "max");
  put(own + "memory.current", "123");
  EXPECT_EQ(find().available, 9 * kMib);
  put(own + "memory.max", "4194304");
  put(own + "memory.current", "3145728");
  put(own + "memory.stat", "anon 5\nactive_file 524288\ninactive_file 524288\nfile 77777777");
  put(own + "memory.swap.max", "0");
  EXPECT_EQ(find().total, 4 * kMib);
  EXPECT_EQ(find().available, 2 * kMib);
  EXPECT_EQ(find().bound, "its control group");
  put(own + "memory.swap.max", "max");
  EXPECT_EQ(find().available, 3 * kMib);
  put("sys/fs/cgroup/user.slice/memory.max", "1048576");  // and a smaller one above it
  put("sys/fs/cgroup/user.slice/memory.current", "2097152");
  EXPECT_EQ(find().available, 1 * kMib) << "none left but swap";
}

TEST_F(MemoryTree, AControlGroupOfVersion1) {
  put("proc/meminfo", "MemTotal: 16384 kB\nMemAvailable: 8192 kB\nSwapFree: 0 kB");
  put("proc/self/cgroup", "4:memory:/box\n5:cpu:/other");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000");
  EXPECT_EQ(find().available, 8 * kMib);
  EXPECT_EQ(find().total, 16 * kMib);
  put("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "2097152");
  put("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "2097152");
  put("sys/fs/cgroup/memory/box/memory.stat", "cache 1\ntotal_inactive_file 1048576\ninactive_file 5");
  EXPECT_EQ(find().available, 1 * kMib);
}

// Pages of 4, 16 and 64 KiB: only those that lie whole in a range are given back.
TEST(Pages, WholeOnesOfAnySize) {
  for (const uint64_t page : {4096u, 16384u, 65536u}) {
    EXPECT_EQ(whole_pages(0, 3 * page, page), (std::pair<uint64_t, uint64_t>{0, 3 * page}));
    EXPECT_EQ(whole_pages(1, 3 * page - 1, page), (std::pair<uint64_t, uint64_t>{page, 2 * page}));
    const auto [first, last] = whole_pages(4096 + 1, page - 1 + 4096, page);
    EXPECT_TRUE(first >= last || page == 4096);
  }
  EXPECT_EQ(page_bytes(), ::sysconf(_SC_PAGESIZE));
  const auto memory = allocate_aligned(3 * page_bytes());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % static_cast<uintptr_t>(page_bytes()), 0u);
  memory[0] = std::byte{7}, memory[static_cast<size_t>(page_bytes())] = std::byte{8};
  release_pages(memory.get() + 1, 2 * page_bytes());  // the second page alone lies whole in it
  EXPECT_EQ(memory[0], std::byte{7});
  EXPECT_EQ(memory[static_cast<size_t>(page_bytes())], std::byte{0});
}

}  // namespace
}  // namespace llada
