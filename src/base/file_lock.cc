#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace llada {

Result<FileLock> FileLock::open(const std::string& path) {
  FileLock lock;
  lock.fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock.fd_ < 0) return failed("{}: cannot open: {}", path, std::strerror(errno));
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}
bool FileLock::try_hold() { return ::flock(fd_, LOCK_EX | LOCK_NB) == 0; }

}  // namespace llada
