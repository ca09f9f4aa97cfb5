// Processors and this process on Windows 10 and later, x86-64.

#include <algorithm>
#include <string>

#include "base/api_windows.h"
#include "base/cpu_time.h"
#include "base/memory_usage.h"
#include "base/name_lookup.h"
#include "base/os.h"
#include "base/system.h"

namespace llada {

namespace {

// Of the machine's part of the registry; empty where it has no such text.
std::string registry_text(const wchar_t* key, const wchar_t* name) {
  wchar_t text[256];
  DWORD bytes = sizeof text;
  const bool found =
      ::RegGetValueW(HKEY_LOCAL_MACHINE, key, name, RRF_RT_REG_SZ, nullptr, text, &bytes) == ERROR_SUCCESS;
  return found ? os::narrow(text) : "";
}

}  // namespace

ArmFeatures arm_features() { return {}; }
bool system_has_tiles() { return false; }
bool ask_for_tiles() { return false; }

std::string processor_name() {
  const std::string name = registry_text(L"HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0", L"ProcessorNameString");
  return name.empty() ? "processor" : name;
}

// The system numbers processors in groups of 64 at most, of which a thread has one at a time: a word of the mask each.
ProcessorMask own_mask() {
  GROUP_AFFINITY own{};
  if (::GetThreadGroupAffinity(::GetCurrentThread(), &own) == FALSE) return {};
  ProcessorMask mask(own.Group + size_t{1});
  mask.back() = own.Mask;
  return mask;
}
bool bind_thread(const ProcessorMask& mask) {
  const auto word = std::ranges::find_if(mask, [](uint64_t bits) { return bits != 0; });
  GROUP_AFFINITY wanted{};
  if (word == mask.end()) return false;
  wanted.Mask = *word, wanted.Group = static_cast<WORD>(word - mask.begin());
  return ::SetThreadGroupAffinity(::GetCurrentThread(), &wanted, nullptr) != FALSE;
}
int this_processor() {
  PROCESSOR_NUMBER here{};
  ::GetCurrentProcessorNumberEx(&here);
  return here.Group * 64 + here.Number;
}

void sync_caches(int, CacheSync) {}

std::string program_folder() {
  wchar_t name[32'768];
  return os::folder_of(os::narrow({name, ::GetModuleFileNameW(nullptr, name, static_cast<DWORD>(std::size(name)))}));
}
std::string kernel_version() {
  const wchar_t* const key = L"SOFTWARE\\Microsoft\\Windows NT\\CurrentVersion";
  DWORD update = 0, bytes = sizeof update;
  ::RegGetValueW(HKEY_LOCAL_MACHINE, key, L"UBR", RRF_RT_REG_DWORD, nullptr, &update, &bytes);
  return "Windows " + registry_text(key, L"CurrentBuildNumber") + "." + std::to_string(update);
}
std::string boot_name() { return {}; }

std::optional<MemoryRoom> system_memory_room() {
  MEMORYSTATUSEX memory{};
  memory.dwLength = sizeof memory;
  if (::GlobalMemoryStatusEx(&memory) == FALSE) return std::nullopt;
  return MemoryRoom{static_cast<int64_t>(memory.ullTotalPhys), static_cast<int64_t>(memory.ullAvailPhys),
                    "the machine"};
}

int64_t peak_memory_bytes() {
  PROCESS_MEMORY_COUNTERS counters{};
  return ::K32GetProcessMemoryInfo(::GetCurrentProcess(), &counters, sizeof counters) != FALSE
             ? static_cast<int64_t>(counters.PeakWorkingSetSize)
             : 0;
}
void return_freed_memory() {}
void return_free_pages() {}
void look_up_names_alone() {}

double thread_cpu_seconds() {
  FILETIME began, ended, kernel, user;
  if (::GetThreadTimes(::GetCurrentThread(), &began, &ended, &kernel, &user) == FALSE) return 0;
  const auto ticks = [](FILETIME time) { return uint64_t{time.dwHighDateTime} << 32 | time.dwLowDateTime; };
  return static_cast<double>(ticks(kernel) + ticks(user)) * 1e-7;
}

}  // namespace llada
