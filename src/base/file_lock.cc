#include "base/file_lock.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "base/os.h"

namespace llada {

Result<FileLock> FileLock::open(const std::string& path) {
  FileLock lock;
  lock.fd_ = os::open(path, os::kRead | os::kWrite | os::kCreate);
  if (lock.fd_ < 0) return std::unexpected(file_error(path, "create", errno));
  lock.path_ = path;
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept
    : path_(std::move(other.path_)), warning_(std::move(other.warning_)), fd_(std::exchange(other.fd_, -1)) {}
FileLock::~FileLock() {
  if (fd_ >= 0) os::close(fd_);
}

bool FileLock::try_hold() {
  const int code = os::lock(fd_) ? 0 : errno;
  if (code == EWOULDBLOCK) return false;
  if (code != 0)
    warning_ = fmt::format("{}: its file system has no locks ({}); let no other process write there meanwhile", path_,
                           std::strerror(code));
  return true;
}

}  // namespace llada
