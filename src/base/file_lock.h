// A lock between processes: a file that one of them holds at a time. The system lets go of it when its holder ends.
#pragma once
#include <string>

#include "base/error.h"

namespace llada {

// Held from a successful try_hold() to the destructor. The file stays: if it were removed, two could hold a lock each.
class FileLock {
 public:
  static Result<FileLock> open(const std::string& path);  // creates the file where it is missing
  FileLock(FileLock&& other) noexcept;
  ~FileLock();

  // False: another process holds it. True as well where the file system has no locks (some network and FUSE ones): two
  // processes may then do the same work at once.
  bool try_hold();

  // After try_hold(): one line for the user where the file system has no locks, otherwise empty.
  const std::string& warning() const { return warning_; }

 private:
  FileLock() = default;
  std::string path_, warning_;
  int fd_ = -1;
};

}  // namespace llada
