// Written from Apple's documentation (sysctl(3), getrusage(2), stat(2), dyld(3)) and headers (mach/vm_statistics.h).
// It has been compiled and linked, and not run (docs/android.md). Threads cannot be bound to processors there, so every
// mask is that of all processors.
#include <mach-o/dyld.h>
#include <mach/mach.h>
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

template <class T>
T number(const char* name) {  // 0: the system does not tell
  T value = 0;
  size_t size = sizeof value;
  return ::sysctlbyname(name, &value, &size, nullptr, 0) == 0 ? value : 0;
}

std::string text(const char* name) {  // empty likewise
  char value[256];
  size_t size = sizeof value;
  if (::sysctlbyname(name, value, &size, nullptr, 0) != 0 || size == 0) return {};
  return std::string(value, size - 1);
}

bool has(const char* feature) { return number<int>(feature) != 0; }

}  // namespace

ArmFeatures arm_features() {
  const bool dotprod = has("hw.optional.arm.FEAT_DotProd");
  const bool i8mm = dotprod && has("hw.optional.arm.FEAT_I8MM");
  const bool sme = i8mm && has("hw.optional.arm.FEAT_SME") && has("hw.optional.arm.SME_F16F32");
  return {dotprod, i8mm, sme, sme && has("hw.optional.arm.FEAT_SME2")};
}

std::string processor_name() {
  const std::string name = text("machdep.cpu.brand_string");
  return name.empty() ? "processor" : name;
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
std::string boot_name() { return text("kern.bootsessionuuid"); }

std::string kernel_version() {
  utsname system{};
  ::uname(&system);
  return std::string(system.release) + ' ' + system.version;
}

// Pages of files that can be dropped are among the inactive ones; free ones include those that were read ahead.
std::optional<MemoryRoom> system_memory_room() {
  const auto total = number<int64_t>("hw.memsize");
  const mach_port_t host = ::mach_host_self();
  vm_statistics64_data_t pages{};
  vm_size_t page_bytes = 0;
  mach_msg_type_number_t size = HOST_VM_INFO64_COUNT;
  const bool told =
      ::host_statistics64(host, HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&pages), &size) == KERN_SUCCESS &&
      ::host_page_size(host, &page_bytes) == KERN_SUCCESS;
  ::mach_port_deallocate(::mach_task_self(), host);
  if (!told || total <= 0) return std::nullopt;
  const uint64_t available = uint64_t{pages.free_count} + pages.inactive_count + pages.purgeable_count;
  return MemoryRoom{total, static_cast<int64_t>(available * page_bytes), "the machine"};
}

int64_t peak_memory_bytes() {
  struct rusage usage{};
  return ::getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{usage.ru_maxrss} : 0;  // bytes, unlike elsewhere
}

void return_freed_memory() {}
void return_free_pages() {}
void look_up_names_alone() {}

}  // namespace llada
