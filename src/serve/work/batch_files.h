// The files of a batch. Input: lines, one by one, from a file or a pipe. Output: a file to which answers are added; a
// torn last line is cut when it is opened again.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/file_lock.h"

namespace llada::serve {

// A descriptor of a file, closed with its owner; stdin and stdout stay open.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const { return fd_; }

 private:
  int fd_;
};

// The lines of a file or a pipe, read as they come.
class LineSource {
 public:
  struct Line {
    std::string text;    // without its end; of one that is too long the first bytes
    int64_t number = 0;  // from 1
    bool too_long = false;
    bool ended = true;  // false: the last one, without a line's end
  };

  // "-": stdin. most_bytes: of a line.
  static Result<LineSource> open(const std::string& path, size_t most_bytes);

  // Waits about so long at most; true: next() returns at once.
  Result<bool> ready(std::chrono::milliseconds time);
  // Nothing: the end.
  Result<std::optional<Line>> next();

  int64_t size() const { return size_; }        // bytes; 0: not known
  int64_t position() const { return taken_; }   // bytes of the lines that next() gave
  bool is_file(const std::string& path) const;  // whether it reads that file

 private:
  LineSource() = default;
  bool has_line();
  Status read_more();

  Descriptor file_;
  std::string name_, buffer_;
  size_t begin_ = 0, searched_ = 0;  // of the buffer: the next line; where to look for its end
  size_t most_bytes_ = 0;
  std::string kept_;     // the first bytes of a line that is too long and has not ended
  int64_t dropped_ = 0;  // bytes of it
  bool ended_ = false;
  int64_t size_ = 0, taken_ = 0, lines_ = 0;
};

// Which requests of a batch have their line.
struct BatchDone {
  std::unordered_set<std::string> ids;
  std::unordered_set<int64_t> lines;  // of the input, that have no id of their own
};

// Lines are added at its end; a process that is killed at any time leaves whole lines and at most one torn one.
class BatchFile {
 public:
  // Creates the file or opens it: cuts a torn last line, and adds the requests that the others answer to `done`.
  // Invalid: a file with other content, which stays as it is, or one that another process writes to. "-": stdout. A
  // file that is not regular is only written to.
  static Result<BatchFile> open(const std::string& path, BatchDone& done);
  // Adds a line, given with its end. A part of a line that could not be written whole is removed.
  Status add(std::string_view line);
  // Now the disk has it.
  Status sync();

  int64_t lines() const { return lines_; }
  int64_t bytes() const { return bytes_; }

 private:
  BatchFile() = default;
  Status read_back(BatchDone& done);
  std::string path_;
  std::unique_ptr<FileLock> lock_;
  Descriptor file_;
  bool regular_ = false;
  int64_t bytes_ = 0, lines_ = 0;
};

// The beginning of every line that a batch writes.
inline constexpr std::string_view kBatchLineBegin = "{\"id\":\"batch_req_";

}  // namespace llada::serve
