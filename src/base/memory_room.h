// How much memory a machine has for this process: what the kernel counts as available, and what the limits of the
// process's control groups leave. Sources: proc(5) (/proc/meminfo), cgroup-v2.rst (memory.max, memory.current,
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

// Nothing: the system does not tell. On a desktop or server free swap counts as available, and so does a cache of ZFS,
// which the kernel counts as used. On Android neither does: swap there lies in the same memory, compressed, and lmkd
// ends programs before nothing is left, so that a sixteenth of the memory (a choice, not a figure of Android's) is
// kept free. A system is Android where it has bionic's loader.
// root: of the file system ("/"), where proc, sys and system are.
std::optional<MemoryRoom> find_memory_room(const std::filesystem::path& root);

}  // namespace llada
