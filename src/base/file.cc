#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "base/fnv.h"
#include "base/pages.h"
#include "base/system.h"

namespace llada {
namespace {

// Bytes written at once, aligned to that size. It keeps converts at disk speed, and lets a file system keep the file in
// pages of that size, which a mapping then has too.
constexpr size_t kBufferBytes = size_t{2} << 20;

Error open_error(const std::string& path, const char* what) { return file_error(path, what, errno); }

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A descriptor of a regular file; nothing else is waited for or read.
Result<int> open_regular(const std::string& path, struct stat& info) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENXIO) return invalid("{}: not a regular file", path);  // a socket
  if (fd < 0) return std::unexpected(open_error(path, "open"));
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) return fd;
  ::close(fd);
  if (S_ISDIR(info.st_mode)) return invalid("{}: is a folder, a file needed", path);
  return invalid("{}: not a regular file", path);
}

// Where writing to `path` ends up: symbolic links of its last part followed, whether their target exists or
// not.
Result<std::string> behind_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the kernel's own limit
  std::string target = path;
  for (int i = 0; i < kMostLinks; ++i) {
    char link[PATH_MAX];
    const ssize_t length = ::readlink(target.c_str(), link, sizeof link);
    if (length < 0) return target;  // no link, or nothing there
    const std::string_view to(link, static_cast<size_t>(length));
    target = to.starts_with('/') ? std::string(to) : fmt::format("{}/{}", folder_of(target), to);
  }
  errno = ELOOP;
  return std::unexpected(open_error(path, "create"));
}

// Names of temporary files, which a signal handler may read at any time; whoever takes one out owns it. The
// only state of the process here, because a handler has no other way to know.
std::atomic<char*> unfinished[16];
static_assert(std::atomic<char*>::is_always_lock_free, "used in a signal handler");

void remember_unfinished(const std::string& name) {
  char* copy = ::strdup(name.c_str());
  for (auto& slot : unfinished) {
    char* empty = nullptr;
    if (slot.compare_exchange_strong(empty, copy)) return;
  }
  std::free(copy);
}

void forget_unfinished(const std::string& name) {
  for (auto& slot : unfinished) {
    char* held = slot.exchange(nullptr);
    if (held == nullptr) continue;
    if (name == held) return std::free(held);
    char* empty = nullptr;
    if (!slot.compare_exchange_strong(empty, held)) {  // another thread took the place meanwhile
      remember_unfinished(held);
      std::free(held);
    }
  }
}

}  // namespace

Error file_error(const std::string& path, std::string_view what, int code) {
  const bool unreadable = code == EACCES && what == "open";
  const bool callers = unreadable || code == ENOENT || code == EISDIR || code == ENOTDIR || code == ENAMETOOLONG;
  return {callers ? ErrorKind::invalid_input : ErrorKind::failed,
          fmt::format("{}: cannot {}: {}", path.empty() ? "''" : path, what, std::strerror(code))};
}

void remove_unfinished_files() noexcept {
  for (auto& slot : unfinished)
    if (const char* name = slot.exchange(nullptr)) ::unlink(name);  // not freed: the program ends
}

FileIdentity FileIdentity::with(const FileIdentity& other) const {
  Fnv hash;
  for (const FileIdentity* one : {this, &other}) {
    hash.add(static_cast<int64_t>(one->bytes));
    hash.add(one->modified_ns);
    hash.add(static_cast<int64_t>(one->sample));
  }
  return {bytes + other.bytes, std::max(modified_ns, other.modified_ns), hash.hash()};
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  MappedFile file;
  struct stat info{};
  LLADA_TRY(file.fd_, open_regular(path, info));
  file.path_ = path;
  file.identity_ = {static_cast<uint64_t>(info.st_size), modified_ns(info), 0};
  if (info.st_size > 0) {
    void* data = ::mmap(nullptr, file.identity_.bytes, PROT_READ, MAP_SHARED, file.fd_, 0);
    if (data == MAP_FAILED) return std::unexpected(open_error(path, "map"));
    file.data_ = static_cast<const std::byte*>(data);
  }
  file.identity_.sample = file.sample();
  return file;
}

// Read, not looked up in the mapping: a file that becomes shorter meanwhile sends no signal.
uint64_t MappedFile::sample() const {
  constexpr size_t kPieces = 64, kPieceBytes = size_t{16} << 10;
  const size_t size = identity_.bytes, last = size - std::min(size, kPieceBytes);
  const size_t stride = std::max(kPieceBytes, (last + kPieces - 2) / (kPieces - 1));
  const auto buffer = std::make_unique<std::byte[]>(kPieceBytes);
  Fnv hash;
  for (size_t at = 0; at < size; at += stride) {
    const ssize_t n = ::pread(fd_, buffer.get(), kPieceBytes, static_cast<off_t>(at));
    hash.add_words({buffer.get(), static_cast<size_t>(std::max<ssize_t>(n, 0))});
  }
  return hash.hash();
}

Status MappedFile::check_unchanged() const {
  struct stat info{};
  if (::fstat(fd_, &info) != 0) return failed("{}: cannot read its size: {}", path_, std::strerror(errno));
  if (static_cast<uint64_t>(info.st_size) != identity_.bytes)
    return failed("{}: found {} bytes, needed {} as when it was opened", path_, info.st_size, identity_.bytes);
  if (modified_ns(info) != identity_.modified_ns && sample() != identity_.sample)
    return failed("{}: it was written to since it was opened, needed an unchanged file", path_);
  return {};
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(fd_, other.fd_);
  std::swap(identity_, other.identity_);
  return *this;
}

MappedFile::~MappedFile() {
  if (fd_ >= 0) ::close(fd_);
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), identity_.bytes);
}

void MappedFile::drop(size_t offset, size_t size) const {
  // Only whole pages inside the range: a neighbour's bytes on the border pages stay warm.
  const auto [begin, end] =
      whole_pages(offset, std::min(offset + size, identity_.bytes), static_cast<uint64_t>(page_bytes()));
  if (begin < end) ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

void MappedFile::will_read(size_t offset, size_t size) const {
  const auto page = static_cast<size_t>(page_bytes());
  const size_t begin = offset / page * page, end = std::min(offset + size, identity_.bytes);
  if (begin < end) ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_WILLNEED);
}

void MappedFile::use_large_pages() const {
#ifdef MADV_HUGEPAGE
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), identity_.bytes, MADV_HUGEPAGE);
#endif
}

Result<std::string> read_all(int fd, const std::string& name, size_t limit_bytes,
                             const std::function<void()>& before_read) {
  std::string text;
  char buffer[16384];
  for (;;) {
    if (before_read) before_read();
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EISDIR) return invalid("{}: is a folder, a file needed", name);
    if (n < 0) return failed("{}: read failed: {}", name, std::strerror(errno));
    if (n == 0) return text;
    if (static_cast<size_t>(n) > limit_bytes - text.size())
      return invalid("{}: more than {} bytes, which is all that is expected", name, limit_bytes);
    text.append(buffer, static_cast<size_t>(n));
  }
}

Result<std::string> read_file(const std::string& path, size_t limit_bytes) {
  struct stat info{};
  LLADA_TRY(const int fd, open_regular(path, info));
  auto text = read_all(fd, path, limit_bytes);
  ::close(fd);
  return text;
}

Result<std::string> read_any_file(const std::string& path, size_t limit_bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::unexpected(open_error(path, "open"));
  auto text = read_all(fd, path, limit_bytes);
  ::close(fd);
  return text;
}

std::string expand_home(std::string_view path, std::string_view home) {
  if (home.empty() || (path != "~" && !path.starts_with("~/"))) return std::string(path);
  return std::string(home) + std::string(path.substr(1));
}

Status check_free_space(const std::string& path, uint64_t bytes) {
  struct statvfs info{};
  if (::statvfs(folder_of(path).c_str(), &info) != 0) return std::unexpected(open_error(path, "create"));
  const uint64_t free_bytes = uint64_t{info.f_bavail} * info.f_frsize;
  if (free_bytes >= bytes) return {};
  return failed("{}: {} bytes needed, {} free on its file system", path, bytes, free_bytes);
}

Result<AtomicFile> AtomicFile::create(const std::string& path, Data data) {
  if (path.empty()) return invalid("output file: found an empty name, needed a path");
  AtomicFile file;
  file.path_ = path;
  struct stat info{};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && !S_ISREG(info.st_mode)) return invalid("{}: exists and is not a regular file", path);
  LLADA_TRY(file.target_, behind_links(path));
  // Until it has the mode of the file that it replaces, nobody else may open it.
  const mode_t mode = exists ? 0600 : 0644;
#ifdef O_TMPFILE
  // Naming it later goes through /proc.
  if (data == Data::nameless_if_possible && ::access("/proc/self/fd", X_OK) == 0)
    file.fd_ = ::open(folder_of(file.target_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
#endif
  file.nameless_ = file.fd_ >= 0;
  if (!file.nameless_) {
    LLADA_TRY_STATUS(file.name_temporary([&](const char* name) {
      file.fd_ = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
      return file.fd_ >= 0;
    }));
  }
  if (exists && ::fchmod(file.fd_, info.st_mode & 0777) != 0)
    return std::unexpected(open_error(path, "set the mode of its replacement"));
  file.buffer_ = std::make_unique<std::byte[]>(kBufferBytes);
  return file;
}

// The first name that nobody has: a killed process that had our id may have left some.
Status AtomicFile::name_temporary(const std::function<bool(const char*)>& make) {
  constexpr int kMostNames = 1000;
  for (int i = 0; i < kMostNames; ++i) {
    temporary_ = fmt::format("{}.{}-{}.tmp", target_, ::getpid(), i);
    if (make(temporary_.c_str())) {
      remember_unfinished(temporary_);
      return {};
    }
    if (errno != EEXIST) break;
  }
  return std::unexpected(open_error(path_, "create"));
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)),
      nameless_(other.nameless_),
      position_(other.position_),
      buffer_(std::move(other.buffer_)),
      buffered_(other.buffered_) {}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  if (nameless_ || temporary_.empty()) return;
  ::unlink(temporary_.c_str());
  forget_unfinished(temporary_);
}

Status AtomicFile::put(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed("{}: write failed: {}", path_, n < 0 ? std::strerror(errno) : "no progress");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status AtomicFile::flush() { return put({buffer_.get(), std::exchange(buffered_, 0)}); }

Status AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (buffered_ == 0 && bytes.size() >= kBufferBytes) {  // nothing to gain from the buffer
      const size_t whole = bytes.size() / kBufferBytes * kBufferBytes;
      LLADA_TRY_STATUS(put(bytes.first(whole)));
      position_ += whole;
      bytes = bytes.subspan(whole);
      continue;
    }
    const size_t n = std::min(bytes.size(), kBufferBytes - buffered_);
    std::memcpy(buffer_.get() + buffered_, bytes.data(), n);
    buffered_ += n;
    position_ += n;
    bytes = bytes.subspan(n);
    if (buffered_ == kBufferBytes) LLADA_TRY_STATUS(flush());
  }
  return {};
}

Status AtomicFile::try_out(uint64_t size, const std::function<Status(const std::string&)>& check) {
  LLADA_TRY_STATUS(flush());
  if (::ftruncate(fd_, static_cast<off_t>(size)) != 0)
    return failed("{}: write failed: {}", path_, std::strerror(errno));
  return check(nameless_ ? fmt::format("/proc/self/fd/{}", fd_) : temporary_);
}

Status AtomicFile::place() {
  if (nameless_) {
    const std::string open_file = fmt::format("/proc/self/fd/{}", fd_);
    LLADA_TRY_STATUS(name_temporary([&](const char* name) {
      return ::linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
    }));
    nameless_ = false;
  }
  if (::rename(temporary_.c_str(), target_.c_str()) != 0)
    return failed("{}: rename failed: {}", path_, std::strerror(errno));
  forget_unfinished(temporary_);
  return {};
}

Status AtomicFile::commit() {
  LLADA_TRY_STATUS(flush());
  if (::fsync(fd_) != 0) return failed("{}: fsync failed: {}", path_, std::strerror(errno));
  LLADA_TRY_STATUS(place());
  ::close(fd_);
  fd_ = -1;
  // The name lasts once the folder is on disk too; a file system that cannot sync folders still has the data.
  const int folder = ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
  return {};
}

Status write_file(const std::string& path, std::string_view text) {
  LLADA_TRY(auto file, AtomicFile::create(path));
  LLADA_TRY_STATUS(file.write(text.data(), text.size()));
  return file.commit();
}

}  // namespace llada
