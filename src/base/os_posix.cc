// The system's files, names and memory on Linux, Android and macOS.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "base/os.h"

namespace llada::os {
namespace {

// Calls again while a signal interrupts it.
template <class Call>
auto uninterrupted(Call call) {
  for (;;)
    if (const auto result = call(); result >= 0 || errno != EINTR) return result;
}

int flags_of(unsigned access) {
  const bool both = (access & kRead) != 0 && (access & kWrite) != 0;
  int flags = O_CLOEXEC | (both ? O_RDWR : (access & kWrite) != 0 ? O_WRONLY : O_RDONLY);
  if ((access & kCreate) != 0) flags |= O_CREAT;
  if ((access & kNew) != 0) flags |= O_EXCL;
  if ((access & kAppend) != 0) flags |= O_APPEND;
  if ((access & kAtOnce) != 0) flags |= O_NONBLOCK;
  return flags;
}

mode_t mode_of(unsigned access) { return (access & kOwnersAlone) != 0 ? kOwnersMode : 0644; }

FileKind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return FileKind::regular;
  if (S_ISDIR(mode)) return FileKind::folder;
  if (S_ISFIFO(mode)) return FileKind::pipe;
  return S_ISSOCK(mode) ? FileKind::socket : FileKind::other;
}

#ifdef __APPLE__
constexpr int kReleased = MADV_FREE;  // MADV_DONTNEED keeps the contents there
const timespec& modified(const struct stat& file) { return file.st_mtimespec; }
#else
constexpr int kReleased = MADV_DONTNEED;
const timespec& modified(const struct stat& file) { return file.st_mtim; }
#endif

FileInfo info_of(const struct stat& file) {
  return {kind_of(file.st_mode),
          int64_t{file.st_size},
          int64_t{modified(file).tv_sec} * 1'000'000'000 + modified(file).tv_nsec,
          static_cast<uint64_t>(file.st_dev),
          static_cast<uint64_t>(file.st_ino),
          static_cast<unsigned>(file.st_mode & 0777)};
}

bool wait_for(int fd, short events, int milliseconds) {
  struct pollfd look = {fd, events, 0};
  return ::poll(&look, 1, milliseconds) > 0;
}

bool has_access_mode(int fd, int mode) { return (::fcntl(fd, F_GETFL) & O_ACCMODE) == mode; }

std::string path_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

}  // namespace

int open(const std::string& path, unsigned access) { return ::open(path.c_str(), flags_of(access), mode_of(access)); }

void close(int fd) { ::close(fd); }

int64_t read(int fd, void* data, size_t size) {
  return uninterrupted([&] { return int64_t{::read(fd, data, size)}; });
}
int64_t write(int fd, const void* data, size_t size) {
  return uninterrupted([&] { return int64_t{::write(fd, data, size)}; });
}
int64_t read_at(int fd, void* data, size_t size, int64_t offset) {
  return uninterrupted([&] { return int64_t{::pread(fd, data, size, static_cast<off_t>(offset))}; });
}
int64_t write_at(int fd, const void* data, size_t size, int64_t offset) {
  return uninterrupted([&] { return int64_t{::pwrite(fd, data, size, static_cast<off_t>(offset))}; });
}

int64_t position(int fd) { return ::lseek(fd, 0, SEEK_CUR); }
bool resize(int fd, int64_t bytes) { return ::ftruncate(fd, static_cast<off_t>(bytes)) == 0; }
bool sync(int fd) {
#ifdef F_FULLFSYNC  // there fsync() leaves bytes in the disk's own memory; not every file system has more
  if (::fcntl(fd, F_FULLFSYNC) == 0) return true;
#endif
  return uninterrupted([&] { return ::fsync(fd); }) == 0;
}
bool sync_folder(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return false;
  const bool synced = sync(folder);
  ::close(folder);
  return synced;
}

bool wait_readable(int fd, int milliseconds) { return wait_for(fd, POLLIN, milliseconds); }
bool wait_writable(int fd, int milliseconds) { return wait_for(fd, POLLOUT, milliseconds); }

std::optional<FileInfo> info(int fd) {
  struct stat file{};
  return ::fstat(fd, &file) == 0 ? std::optional(info_of(file)) : std::nullopt;
}
std::optional<FileInfo> info(const std::string& path) {
  struct stat file{};
  return ::stat(path.c_str(), &file) == 0 ? std::optional(info_of(file)) : std::nullopt;
}
std::optional<FileInfo> link_info(const std::string& path) {
  struct stat file{};
  return ::lstat(path.c_str(), &file) == 0 ? std::optional(info_of(file)) : std::nullopt;
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }
bool may_read(const std::string& path) { return ::access(path.c_str(), R_OK) == 0; }
bool may_run(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }
bool writable_only(int fd) { return has_access_mode(fd, O_WRONLY); }

bool set_mode(int fd, unsigned mode) { return ::fchmod(fd, static_cast<mode_t>(mode)) == 0; }
bool make_private_folder(const std::string& path) { return ::mkdir(path.c_str(), 0700) == 0; }
bool remove(const std::string& path) { return ::unlink(path.c_str()) == 0; }
void remove_in_handler(const char* path) noexcept { ::unlink(path); }
bool replace(const std::string& from, const std::string& to) { return ::rename(from.c_str(), to.c_str()) == 0; }
bool link(const std::string& file, const std::string& name) { return ::link(file.c_str(), name.c_str()) == 0; }
bool symbolic_link(const std::string& target, const std::string& name) {
  return ::symlink(target.c_str(), name.c_str()) == 0;
}
std::optional<std::string> link_target(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
  return length < 0 ? std::nullopt : std::optional(std::string(target, static_cast<size_t>(length)));
}
bool links_are_absent(int code) { return code == EPERM || code == EOPNOTSUPP || code == ENOSYS || code == EACCES; }

int open_nameless([[maybe_unused]] const std::string& folder, [[maybe_unused]] unsigned access) {
#ifdef O_TMPFILE
  if (::access("/proc/self/fd", X_OK) == 0)  // naming it later goes through there
    return ::open(folder.c_str(), flags_of(access & ~(kCreate | kNew)) | O_TMPFILE, mode_of(access));
#endif
  errno = ENOSYS;
  return -1;
}
std::string path_of_open(int fd) { return path_of(fd); }
bool name_open(int fd, const std::string& name) {
  return ::linkat(AT_FDCWD, path_of(fd).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

bool lock(int fd) {
  return uninterrupted([&] { return ::flock(fd, LOCK_EX | LOCK_NB); }) == 0;
}

bool is_absolute(const std::string& path) { return path.starts_with('/'); }
std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}
std::optional<uint64_t> free_bytes(const std::string& folder) {
  struct statvfs system{};
  if (::statvfs(folder.c_str(), &system) != 0) return std::nullopt;
  return uint64_t{system.f_bavail} * system.f_frsize;
}

const std::byte* map(int fd, size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  return data == MAP_FAILED ? nullptr : static_cast<const std::byte*>(data);
}
void unmap(const std::byte* data, size_t bytes) { ::munmap(const_cast<std::byte*>(data), bytes); }

void advise(const std::byte* data, size_t bytes, Advice advice) {
  auto* const begin = const_cast<std::byte*>(data);
  if (advice == Advice::drop) ::madvise(begin, bytes, MADV_DONTNEED);
  if (advice == Advice::will_read) ::madvise(begin, bytes, MADV_WILLNEED);
#ifdef MADV_HUGEPAGE
  if (advice == Advice::large_pages) ::madvise(begin, bytes, MADV_HUGEPAGE);
#endif
}

std::byte* allocate(size_t align, size_t bytes) {
  void* data = nullptr;
  return ::posix_memalign(&data, align, bytes) == 0 ? static_cast<std::byte*>(data) : nullptr;
}
void free_allocated(std::byte* data) noexcept { std::free(data); }
void release(std::byte* data, size_t bytes) { ::madvise(data, bytes, kReleased); }
int64_t page_bytes() {
  static const int64_t bytes = ::sysconf(_SC_PAGESIZE);
  return bytes;
}
int64_t machine_bytes() { return int64_t{::sysconf(_SC_PHYS_PAGES)} * page_bytes(); }

int process_id() { return ::getpid(); }
std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}
bool has_variable(const char* name) { return std::getenv(name) != nullptr; }
void set_variable(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 0); }
std::string home_folder() { return variable("HOME"); }
std::vector<std::string> words_of(int argc, char** argv) { return {argv, argv + argc}; }

void run_instead(const std::string& path, const std::vector<std::string>& words) {
  std::vector<std::string> kept = words;
  std::vector<char*> argv;
  for (std::string& word : kept) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(path.c_str(), argv.data());
}

void* load_library(const std::string& path, std::string& why) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) why = ::dlerror();
  return library;
}
void* symbol(void* library, const char* name) { return ::dlsym(library, name); }
std::string file_of_code(const void* address) {
  Dl_info code{};
  return ::dladdr(address, &code) != 0 && code.dli_fname != nullptr ? code.dli_fname : "";
}

}  // namespace llada::os
