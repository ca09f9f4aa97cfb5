// Linux and Android: affinity, /proc, the auxiliary vector.
#include <fmt/format.h>
#include <linux/dma-buf.h>
#include <malloc.h>
#ifdef __GLIBC__
#include <nss.h>
#endif
#include <sched.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/memory_usage.h"
#include "base/name_lookup.h"
#include "base/system.h"

namespace llada {

ArmFeatures arm_features() {
#ifdef __aarch64__
  // asm/hwcap.h of arm64 is not there for other processors.
  constexpr unsigned long kDotProduct = 1ul << 20, kInt8Matrix = 1ul << 13, kSme = 1ul << 23 | 1ul << 27,
                          kSme2 = 1ul << 37;
  const unsigned long further = ::getauxval(AT_HWCAP2);
  const bool dotprod = (::getauxval(AT_HWCAP) & kDotProduct) != 0, i8mm = dotprod && (further & kInt8Matrix) != 0;
  const bool sme = i8mm && (further & kSme) == kSme;
  return {dotprod, i8mm, sme, sme && (further & kSme2) != 0};
#else
  return {};
#endif
}

namespace {
// A command of arch_prctl, which only x86's Linux has; false where it fails.
bool arch_control(int command, unsigned long argument) {
#ifdef __x86_64__
  return ::syscall(SYS_arch_prctl, command, argument) == 0;
#else
  return command == 0 && argument == 0;
#endif
}
constexpr int kGetSupported = 0x1021, kAskPermission = 0x1023;  // asm/prctl.h since Linux 5.16
constexpr unsigned long kTiles = 18;                            // the state's number in XCR0
}  // namespace

bool system_has_tiles() {
  unsigned long states = 0;
  return arch_control(kGetSupported, reinterpret_cast<unsigned long>(&states)) && (states >> kTiles & 1) != 0;
}

bool ask_for_tiles() { return arch_control(kAskPermission, kTiles); }

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "processor";
}

ProcessorMask own_mask() {
  return read_mask([](size_t bytes, uint64_t* mask) {
    return ::sched_getaffinity(0, bytes, reinterpret_cast<cpu_set_t*>(mask)) == 0 ? 0 : errno;
  });
}

bool bind_thread(const ProcessorMask& mask) {
  return ::sched_setaffinity(0, mask.size() * sizeof mask[0], reinterpret_cast<const cpu_set_t*>(mask.data())) == 0;
}

int this_processor() { return ::sched_getcpu(); }

void sync_caches(int fd, CacheSync direction) {
  dma_buf_sync request{};
  request.flags =
      direction == CacheSync::give ? DMA_BUF_SYNC_END | DMA_BUF_SYNC_WRITE : DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ;
  static_cast<void>(::ioctl(fd, DMA_BUF_IOCTL_SYNC, &request));
}

std::string program_folder() {
  std::error_code none;
  std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", none);
  // Where /proc is not mounted: the path that this program was started by.
  if (const unsigned long started_by = ::getauxval(AT_EXECFN); program.empty() && started_by != 0)
    program = std::filesystem::absolute(reinterpret_cast<const char*>(started_by), none);
  return program.parent_path().string();
}

std::string kernel_version() {
  utsname system{};
  ::uname(&system);
  return fmt::format("{} {}", system.release, system.version);
}

std::string boot_name() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string name;
  std::getline(file, name);
  return name;
}

std::optional<MemoryRoom> system_memory_room() { return std::nullopt; }

int64_t peak_memory_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("VmHWM:")) continue;
    const size_t digits = line.find_first_of("0123456789");
    int64_t kib = 0;
    if (digits != std::string::npos) std::from_chars(line.data() + digits, line.data() + line.size(), kib);
    return kib * 1024;
  }
  // Where /proc is not mounted.
  struct rusage usage{};
  return ::getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{usage.ru_maxrss} * 1024 : 0;
}

void return_freed_memory() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  ::mallopt(M_ARENA_MAX, 1);
#endif
}

void return_free_pages() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

void look_up_names_alone() {
#ifdef __GLIBC__
  ::__nss_configure_lookup("hosts", "files dns");
  for (const char* kind : {"passwd", "group", "services", "protocols", "networks"})
    ::__nss_configure_lookup(kind, "files");
#endif
}

}  // namespace llada
