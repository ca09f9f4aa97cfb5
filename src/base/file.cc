#include "base/file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/fnv.h"
#include "base/os.h"
#include "base/pages.h"

namespace llada {
namespace {

// Bytes written at once, aligned to that size. It keeps converts at disk speed, and lets a file system keep the file in
// pages of that size, which a mapping then has too.
constexpr size_t kBufferBytes = size_t{2} << 20;

Error open_error(const std::string& path, const char* what) { return file_error(path, what, errno); }

// A descriptor of a regular file; nothing else is waited for or read.
Result<int> open_regular(const std::string& path, os::FileInfo& info) {
  const int fd = os::open(path, os::kRead | os::kAtOnce);
  if (fd < 0 && errno == ENXIO) return invalid("{}: not a regular file", path);  // a socket
  if (fd < 0) return std::unexpected(open_error(path, "open"));
  info = os::info(fd).value_or(os::FileInfo());
  if (info.kind == os::FileKind::regular) return fd;
  os::close(fd);
  if (info.kind == os::FileKind::folder) return invalid("{}: is a folder, a file needed", path);
  return invalid("{}: not a regular file", path);
}

// Where writing to `path` ends up: symbolic links of its last part followed, whether their target exists or
// not.
Result<std::string> behind_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the kernel's own limit
  std::string target = path;
  for (int i = 0; i < kMostLinks; ++i) {
    const auto to = os::link_target(target);
    if (!to) return target;  // no link, or nothing there
    target = os::is_absolute(*to) ? *to : fmt::format("{}/{}", os::folder_of(target), *to);
  }
  errno = ELOOP;
  return std::unexpected(open_error(path, "create"));
}

// Names of temporary files, which a signal handler may read at any time; whoever takes one out owns it. The
// only state of the process here, because a handler has no other way to know.
std::atomic<char*> unfinished[16];
static_assert(std::atomic<char*>::is_always_lock_free, "used in a signal handler");

void remember_unfinished(const std::string& name) {
  auto* const copy = static_cast<char*>(std::malloc(name.size() + 1));
  if (copy == nullptr) return;
  std::memcpy(copy, name.c_str(), name.size() + 1);
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
    if (const char* name = slot.exchange(nullptr)) os::remove_in_handler(name);  // not freed: the program ends
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
  os::FileInfo info;
  LLADA_TRY(file.fd_, open_regular(path, info));
  file.path_ = path;
  file.identity_ = {static_cast<uint64_t>(info.bytes), info.modified_ns, 0};
  if (info.bytes > 0) {
    file.data_ = os::map(file.fd_, file.identity_.bytes);
    if (file.data_ == nullptr) return std::unexpected(open_error(path, "map"));
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
    const int64_t n = os::read_at(fd_, buffer.get(), kPieceBytes, static_cast<int64_t>(at));
    hash.add_words({buffer.get(), static_cast<size_t>(std::max<int64_t>(n, 0))});
  }
  return hash.hash();
}

Status MappedFile::check_unchanged() const {
  const auto info = os::info(fd_);
  if (!info) return failed("{}: cannot read its size: {}", path_, std::strerror(errno));
  if (static_cast<uint64_t>(info->bytes) != identity_.bytes)
    return failed("{}: found {} bytes, needed {} as when it was opened", path_, info->bytes, identity_.bytes);
  if (info->modified_ns != identity_.modified_ns && sample() != identity_.sample)
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
  if (data_ != nullptr) os::unmap(data_, identity_.bytes);
  if (fd_ >= 0) os::close(fd_);
}

void MappedFile::drop(size_t offset, size_t size) const {
  // Only whole pages inside the range: a neighbour's bytes on the border pages stay warm.
  const auto [begin, end] =
      whole_pages(offset, std::min<size_t>(offset + size, identity_.bytes), static_cast<uint64_t>(page_bytes()));
  if (begin < end) os::advise(data_ + begin, end - begin, os::Advice::drop);
}

void MappedFile::will_read(size_t offset, size_t size) const {
  const auto page = static_cast<size_t>(page_bytes());
  const size_t begin = offset / page * page, end = std::min<size_t>(offset + size, identity_.bytes);
  if (begin < end) os::advise(data_ + begin, end - begin, os::Advice::will_read);
}

void MappedFile::use_large_pages() const {
  if (data_ != nullptr) os::advise(data_, identity_.bytes, os::Advice::large_pages);
}

Result<std::string> read_all(int fd, const std::string& name, size_t limit_bytes,
                             const std::function<void()>& before_read) {
  std::string text;
  char buffer[16384];
  for (;;) {
    if (before_read) before_read();
    const int64_t n = os::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EAGAIN) {  // a pipe that does not wait, as a parent process may leave it
      static_cast<void>(os::wait_readable(fd, -1));
      continue;
    }
    if (n < 0 && errno == EISDIR) return invalid("{}: is a folder, a file needed", name);
    if (n < 0) return failed("{}: read failed: {}", name, std::strerror(errno));
    if (n == 0) return text;
    if (static_cast<size_t>(n) > limit_bytes - text.size())
      return invalid("{}: more than {} bytes, which is all that is expected", name, limit_bytes);
    text.append(buffer, static_cast<size_t>(n));
  }
}

Result<std::string> read_file(const std::string& path, size_t limit_bytes) {
  os::FileInfo info;
  LLADA_TRY(const int fd, open_regular(path, info));
  auto text = read_all(fd, path, limit_bytes);
  os::close(fd);
  return text;
}

Result<std::string> read_any_file(const std::string& path, size_t limit_bytes) {
  const int fd = os::open(path, os::kRead);
  if (fd < 0) return std::unexpected(open_error(path, "open"));
  auto text = read_all(fd, path, limit_bytes);
  os::close(fd);
  return text;
}

std::string expand_home(std::string_view path, std::string_view home) {
  if (home.empty() || (path != "~" && !path.starts_with("~/"))) return std::string(path);
  return std::string(home) + std::string(path.substr(1));
}

Status check_free_space(const std::string& path, uint64_t bytes) {
  const auto free_bytes = os::free_bytes(os::folder_of(path));
  if (!free_bytes) return std::unexpected(open_error(path, "create"));
  if (*free_bytes >= bytes) return {};
  return failed("{}: {} bytes needed, {} free on its file system", path, bytes, *free_bytes);
}

Result<AtomicFile> AtomicFile::create(const std::string& path, Data data) {
  if (path.empty()) return invalid("output file: found an empty name, needed a path");
  AtomicFile file;
  file.path_ = path;
  const auto old = os::info(path);
  if (old && old->kind != os::FileKind::regular) return invalid("{}: exists and is not a regular file", path);
  LLADA_TRY(file.target_, behind_links(path));
  // Until it has the mode of the file that it replaces, nobody else may open it.
  const unsigned access = os::kWrite | (old ? os::kOwnersAlone : 0u);
  if (data == Data::nameless_if_possible) file.fd_ = os::open_nameless(os::folder_of(file.target_), access);
  file.nameless_ = file.fd_ >= 0;
  if (!file.nameless_) {
    LLADA_TRY_STATUS(file.name_temporary([&](const char* name) {
      file.fd_ = os::open(name, access | os::kCreate | os::kNew);
      return file.fd_ >= 0;
    }));
  }
  if (old && !os::set_mode(file.fd_, old->mode))
    return std::unexpected(open_error(path, "set the mode of its replacement"));
  file.buffer_ = std::make_unique<std::byte[]>(kBufferBytes);
  return file;
}

// The first name that nobody has: a killed process that had our id may have left some.
Status AtomicFile::name_temporary(const std::function<bool(const char*)>& make) {
  constexpr int kMostNames = 1000;
  for (int i = 0; i < kMostNames; ++i) {
    temporary_ = fmt::format("{}.{}-{}.tmp", target_, os::process_id(), i);
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
  os::close(fd_);
  if (nameless_ || temporary_.empty()) return;
  os::remove(temporary_);
  forget_unfinished(temporary_);
}

Status AtomicFile::put(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const int64_t n = os::write(fd_, bytes.data(), bytes.size());
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
  if (!os::resize(fd_, static_cast<int64_t>(size))) return failed("{}: write failed: {}", path_, std::strerror(errno));
  return check(nameless_ ? os::path_of_open(fd_) : temporary_);
}

Status AtomicFile::place() {
  if (nameless_) {
    LLADA_TRY_STATUS(name_temporary([&](const char* name) { return os::name_open(fd_, name); }));
    nameless_ = false;
  }
  if (!os::replace(temporary_, target_)) return failed("{}: rename failed: {}", path_, std::strerror(errno));
  forget_unfinished(temporary_);
  return {};
}

Status AtomicFile::commit() {
  LLADA_TRY_STATUS(flush());
  if (!os::sync(fd_)) return failed("{}: fsync failed: {}", path_, std::strerror(errno));
  LLADA_TRY_STATUS(place());
  os::close(fd_);
  fd_ = -1;
  // The name lasts once the folder is on disk too; a file system that cannot sync folders still has the data.
  static_cast<void>(os::sync_folder(os::folder_of(target_)));
  return {};
}

Status write_file(const std::string& path, std::string_view text) {
  LLADA_TRY(auto file, AtomicFile::create(path));
  LLADA_TRY_STATUS(file.write(text.data(), text.size()));
  return file.commit();
}

}  // namespace llada
