// Typed messages of conversations, in a file that only its owner reads: one message per line, newlines and backslashes
// escaped as in C. The newest kMostMessages and kMostBytes of it are kept. Several programs may add to it at a time.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"

namespace llada::cli {

class MessageHistory {
 public:
  static constexpr size_t kMostMessages = 1000, kMostBytes = size_t{1} << 20;

  // Reads the file, oldest message first; makes it (mode 0600) with its folders where it is missing, and shortens it
  // where it has grown over twice the bounds.
  static Result<MessageHistory> open(const std::string& path);

  const std::vector<std::string>& messages() const { return messages_; }  // as they were when it was opened
  // Adds to the file. A message that is longer than the bound stays out.
  Status add(const std::string& message) const;

 private:
  std::string path_;
  std::vector<std::string> messages_;
};

std::string escaped_message(const std::string& message);
std::string unescaped_message(const std::string& line);

}  // namespace llada::cli
