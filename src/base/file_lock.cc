#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file.h"

namespace llada {

Result<FileLock> FileLock::open(const std::string& path) {
  FileLock lock;
  lock.fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock.fd_ < 0) return std::unexpected(file_error(path, "create", errno));
  lock.path_ = path;
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept
    : path_(std::move(other.path_)), warning_(std::move(other.warning_)), fd_(std::exchange(other.fd_, -1)) {}
FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

bool FileLock::try_hold() {
  int code = 0;
  do code = ::flock(fd_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  while (code == EINTR);
  if (code == EWOULDBLOCK) return false;
  if (code != 0)
    warning_ = fmt::format("{}: its file system has no locks ({}); let no other process write there meanwhile", path_,
                           std::strerror(code));
  return true;
}

}  // namespace llada
