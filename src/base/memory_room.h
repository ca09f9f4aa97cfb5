// How much memory this machine has for this process: the memory that the kernel counts as available, within the limits
// of the process's control groups. Sources: proc(5) (/proc/meminfo), cgroup-v2.rst (memory.max, memory.current,
// memory.stat, memory.swap.max), cgroups v1 memory.txt, OpenZFS (arcstats).
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace llada {

struct MemoryRoom {
  int64_t total = 0;       // bytes of the machine, or of the smallest limit
  int64_t available = 0;   // bytes that the process may still take; pages of files that can be dropped count as free
  std::string_view bound;  // which of the two bounds it: "the machine" or "its control group"
};

// Empty where the system does not tell. On a desktop or server free swap counts as available, as does a cache of ZFS,
// which the kernel counts as used. On Android neither does: swap there is compressed in the same memory, and lmkd kills
// programs before memory is used up. So a sixteenth of the memory is kept free (our choice, not a figure of Android's).
// A system is Android where it has bionic's loader. root: of the file system ("/"), where proc, sys and system are.
std::optional<MemoryRoom> find_memory_room(const std::filesystem::path& root);

}  // namespace llada
