// What the tests of the Hexagon device share: where the stand-in is, why a test is skipped, and who is left behind.
#pragma once
#include <dirent.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>

namespace llada {

// Empty where the emulated DSP can be run here; else the reason.
inline std::string no_emulator() {
  if (!LLADA_HEXAGON_BUILT) return "no clang with the Hexagon target when this was built";
  const char* path = std::getenv("LLADA_HEXAGON_QEMU");
  const std::string emulator = path != nullptr ? path : "/usr/bin/qemu-hexagon";
  return ::access(emulator.c_str(), X_OK) == 0 ? "" : emulator + " is not installed";
}
#define SKIP_WITHOUT_EMULATOR() \
  if (const std::string why = no_emulator(); !why.empty()) GTEST_SKIP() << why

inline const char* standin_path() { return LLADA_BINARY_DIR "/bin/hexagon/libcdsprpc.so"; }

// Emulators that are children of this process, of any of its threads.
inline std::set<int> dsp_processes() {
  std::set<int> found;
  DIR* proc = ::opendir("/proc");
  for (const dirent* entry; proc != nullptr && (entry = ::readdir(proc)) != nullptr;) {
    const int pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(stat, text);
    const size_t end = text.rfind(')');
    if (end == std::string::npos || text.find("hexagon") == std::string::npos) continue;
    if (std::atoi(text.c_str() + end + 4) == ::getpid()) found.insert(pid);
  }
  if (proc != nullptr) ::closedir(proc);
  return found;
}

// Refusals of phones that the stand-in plays from now on (standin/cdsprpc.cc).
inline void play_phone(const std::string& refusals) {
  void* const library = ::dlopen(standin_path(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  reinterpret_cast<int (*)(const char*)>(::dlsym(library, "llada_standin_phone"))(refusals.c_str());
}
inline void play_fault(const std::string& fault) {
  void* const library = ::dlopen(standin_path(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  reinterpret_cast<int (*)(const char*)>(::dlsym(library, "llada_standin_fault"))(fault.c_str());
}

// Shared buffers and rings that this process holds: files without a name.
inline int shared_buffers() {
  int count = 0;
  DIR* fds = ::opendir("/proc/self/fd");
  for (const dirent* entry; fds != nullptr && (entry = ::readdir(fds)) != nullptr;) {
    char target[256];
    const ssize_t n = ::readlink(("/proc/self/fd/" + std::string(entry->d_name)).c_str(), target, sizeof target);
    if (n > 0 && std::string(target, static_cast<size_t>(n)).ends_with("(deleted)")) ++count;
  }
  if (fds != nullptr) ::closedir(fds);
  return count;
}

}  // namespace llada
