// Written from Apple's documentation (sysctl(3), getrusage(2), stat(2), dyld(3)) and not yet run: docs/android.md says
// what is tested. Threads cannot be bound to processors there, so every mask is that of all processors.
#include <mach-o/dyld.h>
#include <sys/resource.h>
#include <sys/sysctl.h>
#include <sys/types.h>
#include <sys/utsname.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

#include "base/memory_usage.h"
#include "base/name_lookup.h"
#include "base/system.h"

namespace llada {
namespace {

bool has(const char* feature) {
  int value = 0;
  size_t size = sizeof value;
  return ::sysctlbyname(feature, &value, &size, nullptr, 0) == 0 && value != 0;
}

}  // namespace

ArmFeatures arm_features() {
  const bool dotprod = has("hw.optional.arm.FEAT_DotProd");
  const bool i8mm = dotprod && has("hw.optional.arm.FEAT_I8MM");
  const bool sme = i8mm && has("hw.optional.arm.FEAT_SME") && has("hw.optional.arm.SME_F16F32");
  return {dotprod, i8mm, sme, sme && has("hw.optional.arm.FEAT_SME2")};
}

std::string processor_name() {
  char name[256];
  size_t size = sizeof name;
  if (::sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) != 0 || size == 0) return "processor";
  return std::string(name, size - 1);
}

ProcessorMask own_mask() {
  std::vector<int> all(std::max(1u, std::thread::hardware_concurrency()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  return mask_of(all);
}

bool system_has_tiles() { return false; }
bool ask_for_tiles() { return false; }

bool bind_thread(const ProcessorMask&) { return false; }
int this_processor() { return -1; }

void sync_caches(int, CacheSync) {}

std::string program_folder() {
  char path[4096];
  uint32_t size = sizeof path;
  if (::_NSGetExecutablePath(path, &size) != 0) return {};
  std::error_code none;
  return std::filesystem::canonical(path, none).parent_path().string();
}
std::string boot_name() { return {}; }

std::string kernel_version() {
  utsname system{};
  ::uname(&system);
  return std::string(system.release) + ' ' + system.version;
}

std::optional<MemoryRoom> system_memory_room() { return std::nullopt; }

int64_t peak_memory_bytes() {
  struct rusage usage{};
  return ::getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{usage.ru_maxrss} : 0;  // bytes, unlike elsewhere
}

void return_freed_memory() {}
void return_free_pages() {}
void look_up_names_alone() {}

}  // namespace llada
