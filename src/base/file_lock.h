// A lock between processes: a file that one of them holds at a time. The system lets go of it when its holder ends.
#pragma once
#include <string>

#include "base/error.h"

namespace llada {

// Held while this lives, once try_hold() was true. The file stays: to remove it would let two hold one each.
class FileLock {
 public:
  static Result<FileLock> open(const std::string& path);
  FileLock(FileLock&& other) noexcept;
  ~FileLock();
  bool try_hold();

 private:
  FileLock() = default;
  int fd_ = -1;
};

}  // namespace llada
