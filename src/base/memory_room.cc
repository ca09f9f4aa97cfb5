#include "base/memory_room.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <string>

#include "base/control_groups.h"
#include "base/system.h"

namespace llada {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNone = -1, kMost = std::numeric_limits<int64_t>::max() / 4;  // of bytes: sums stay in range

int64_t read_bytes(const fs::path& path) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value && value >= 0 ? std::min(value, kMost) : kNone;  // "max" is none
}

// Lines of "NAME NUMBER", "NAME: NUMBER kB" or "NAME TYPE NUMBER" (arcstats), the number times `unit`.
std::map<std::string, int64_t> read_table(const fs::path& path, int64_t unit, bool typed = false) {
  std::map<std::string, int64_t> table;
  std::ifstream file(path);
  for (std::string name, rest; file >> name; std::getline(file, rest)) {
    int64_t value = 0;
    std::string type;
    if (typed) file >> type;
    if (file >> value && value >= 0) table[name] = std::min(value, kMost / unit) * unit;
    file.clear();
  }
  return table;
}

int64_t entry(const std::map<std::string, int64_t>& table, const std::string& name, int64_t fallback) {
  const auto found = table.find(name);
  return found != table.end() ? found->second : fallback;
}

struct Limit {
  int64_t bytes = kNone, left = kMost;  // left: pages of files that can be dropped are not used
};

Limit limit_of(const fs::path& group) {
  std::error_code ignored;
  const bool second = fs::exists(group / "memory.max", ignored);
  const int64_t bytes = read_bytes(group / (second ? "memory.max" : "memory.limit_in_bytes"));
  const int64_t used = read_bytes(group / (second ? "memory.current" : "memory.usage_in_bytes"));
  if (bytes == kNone || used == kNone) return {};
  const auto stat = read_table(group / "memory.stat", 1);
  const std::string prefix = second ? "" : "total_";
  const int64_t files = entry(stat, prefix + "inactive_file", 0) + entry(stat, prefix + "active_file", 0);
  return {bytes, std::max<int64_t>(0, bytes - std::max<int64_t>(0, used - files))};
}

}  // namespace

std::optional<MemoryRoom> find_memory_room(const fs::path& root) {
  constexpr int64_t kKib = 1024, kKeptShare = 16;
  const auto info = read_table(root / "proc/meminfo", kKib);
  const int64_t total = entry(info, "MemTotal:", kNone), free = entry(info, "MemAvailable:", kNone);
  if (total <= 0 || free == kNone) return root == "/" ? system_memory_room() : std::nullopt;
  std::error_code ignored;
  const bool android = fs::exists(root / "system/bin/linker64", ignored);
  const int64_t swap = android ? 0 : entry(info, "SwapFree:", 0);
  const auto arc = read_table(root / "proc/spl/kstat/zfs/arcstats", 1, true);
  const int64_t dropped = std::max<int64_t>(0, entry(arc, "size", 0) - entry(arc, "c_min", 0));
  MemoryRoom room{total, free + swap + dropped, "the machine"};
  for_each_own_group(root, "memory", [&](const fs::path& group) {
    const Limit limit = limit_of(group);
    if (limit.bytes == kNone) return;
    const int64_t swaps = read_bytes(group / "memory.swap.max");  // none: as much as there is
    const int64_t left = limit.left + (swaps == kNone ? swap : std::min(swap, swaps));
    if (left < room.available) room.available = left, room.bound = "its control group";
    room.total = std::min(room.total, limit.bytes);
  });
  if (android) room.available = std::max<int64_t>(0, room.available - room.total / kKeptShare);
  return room;
}

}  // namespace llada
