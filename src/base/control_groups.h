// The control groups of this process, of version 1 and 2, as /proc/self/cgroup names them: where limits of processor
// time and memory stand. Sources: cgroup-v2.rst, cgroups(7).
#pragma once
#include <filesystem>
#include <functional>
#include <string_view>

namespace llada {

// Calls `see` for the folder of each group that limits this process by a controller ("cpu", "memory"): its group and
// those above it, up to the mount's root. One may come twice, or not exist. In a container that shows its own group as
// the mount's root, outer groups are not visible, and the limits of the root count. root: of the file system ("/"),
// where sys and proc are.
void for_each_own_group(const std::filesystem::path& root, std::string_view controller,
                        const std::function<void(const std::filesystem::path& group)>& see);

}  // namespace llada
