// Processors, this process and text on Windows 10 and later, x86-64.

#include "base/api_windows.h"
#include "base/cpu_time.h"
#include "base/memory_usage.h"
#include "base/name_lookup.h"
#include "base/os.h"
#include "base/system.h"

namespace llada {

namespace os {

std::wstring wide(std::string_view text) {
  const int bytes = static_cast<int>(text.size());
  std::wstring out(static_cast<size_t>(::MultiByteToWideChar(CP_UTF8, 0, text.data(), bytes, nullptr, 0)), L'\0');
  ::MultiByteToWideChar(CP_UTF8, 0, text.data(), bytes, out.data(), static_cast<int>(out.size()));
  return out;
}

std::string narrow(std::wstring_view text) {
  const int units = static_cast<int>(text.size());
  const int bytes = ::WideCharToMultiByte(CP_UTF8, 0, text.data(), units, nullptr, 0, nullptr, nullptr);
  std::string out(static_cast<size_t>(bytes), '\0');
  ::WideCharToMultiByte(CP_UTF8, 0, text.data(), units, out.data(), bytes, nullptr, nullptr);
  return out;
}

}  // namespace os

ArmFeatures arm_features() { return {}; }
bool system_has_tiles() { return false; }
bool ask_for_tiles() { return false; }

std::string processor_name() {
  wchar_t name[256];
  DWORD bytes = sizeof name;
  const LSTATUS status = ::RegGetValueW(HKEY_LOCAL_MACHINE, L"HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0",
                                        L"ProcessorNameString", RRF_RT_REG_SZ, nullptr, name, &bytes);
  return status == ERROR_SUCCESS ? os::narrow(name) : "processor";
}

// Of the group of processors that this process began in: 64 at most.
ProcessorMask own_mask() {
  DWORD_PTR own = 0, all = 0;
  if (::GetProcessAffinityMask(::GetCurrentProcess(), &own, &all) == FALSE || own == 0) return {};
  return {static_cast<uint64_t>(own)};
}
bool bind_thread(const ProcessorMask& mask) {
  return !mask.empty() && ::SetThreadAffinityMask(::GetCurrentThread(), static_cast<DWORD_PTR>(mask[0])) != 0;
}
int this_processor() { return static_cast<int>(::GetCurrentProcessorNumber()); }

void sync_caches(int, CacheSync) {}

std::string program_folder() {
  wchar_t name[32'768];
  return os::folder_of(os::narrow({name, ::GetModuleFileNameW(nullptr, name, static_cast<DWORD>(std::size(name)))}));
}
std::string kernel_version() { return "windows"; }
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
