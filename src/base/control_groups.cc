#include "base/control_groups.h"

#include <fstream>
#include <string>

namespace llada {
namespace {

void see_chain(const std::filesystem::path& mount, const std::string& group,
               const std::function<void(const std::filesystem::path&)>& see) {
  std::filesystem::path at = mount;
  for (const auto& part : std::filesystem::path(group).relative_path()) {
    see(at);
    if (part == "..") return;  // above the folders that a namespace shows
    at /= part;
  }
  see(at);
}

// "cpu,cpuacct" names "cpu" and "cpuacct".
bool names_one(std::string_view list, std::string_view controller) {
  for (size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = list.find(',', begin);
    if (list.substr(begin, end - begin) == controller) return true;
  }
  return false;
}

}  // namespace

// A line of /proc/self/cgroup is "0::/GROUP" of version 2 or "4:cpu,cpuacct:/GROUP" of version 1. Where there is none,
// the mounts' roots count.
void for_each_own_group(const std::filesystem::path& root, std::string_view controller,
                        const std::function<void(const std::filesystem::path&)>& see) {
  const std::filesystem::path mounts = root / "sys/fs/cgroup";
  see(mounts);
  see(mounts / controller);
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t names = line.find(':'), group = line.find(':', names + 1);
    if (names == std::string::npos || group == std::string::npos) continue;
    const std::string controllers = line.substr(names + 1, group - names - 1), path = line.substr(group + 1);
    if (controllers.empty()) {
      see_chain(mounts, path, see);
      see_chain(mounts / "unified", path, see);
    } else if (names_one(controllers, controller)) {
      see_chain(mounts / controller, path, see);
      see_chain(mounts / controllers, path, see);
    }
  }
}

}  // namespace llada
