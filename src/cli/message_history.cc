#include "cli/message_history.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>

#include "base/file.h"
#include "base/os.h"

namespace llada::cli {
namespace {

// Messages from the end of `all` that the bounds allow.
std::span<const std::string> newest(const std::vector<std::string>& all) {
  size_t count = 0, bytes = 0;
  while (count < all.size() && count < MessageHistory::kMostMessages) {
    bytes += escaped_message(all[all.size() - count - 1]).size() + 1;
    if (bytes > MessageHistory::kMostBytes) break;
    ++count;
  }
  return std::span(all).last(count);
}

// Nothing stays of a message that the disk has no room for, unless somebody else has written behind its beginning.
void take_back(int fd, size_t written) {
  const int64_t end = os::position(fd);
  const auto info = os::info(fd);
  if (written == 0 || !info || info->bytes != end) return;
  static_cast<void>(os::resize(fd, end - static_cast<int64_t>(written)));  // where it fails it is no worse than before
}

Status write_bytes(int fd, const std::string& path, std::string_view bytes) {
  for (size_t written = 0; written < bytes.size();) {
    const int64_t n = os::write(fd, bytes.data() + written, bytes.size() - written);
    if (n < 0) {
      const int code = errno;
      take_back(fd, written);
      return failed("{}: write failed: {}", path, std::strerror(code));
    }
    written += static_cast<size_t>(n);
  }
  return {};
}

// Makes the file where it is missing. One write of a whole message: others may append at the same time.
Status append(const std::string& path, std::string_view bytes) {
  const int fd = os::open(path, os::kWrite | os::kCreate | os::kAppend | os::kOwnersAlone | os::kAtOnce);
  if (fd < 0) return std::unexpected(file_error(path, "open", errno));
  Status status =
      os::set_mode(fd, os::kOwnersMode) ? Status() : failed("{}: fchmod failed: {}", path, std::strerror(errno));
  if (status) status = write_bytes(fd, path, bytes);
  os::close(fd);
  return status;
}

}  // namespace

std::string escaped_message(const std::string& message) {
  std::string line;
  for (const char c : message) {
    if (c == '\\' || c == '\n') line += '\\';
    line += c == '\n' ? 'n' : c;
  }
  return line;
}

std::string unescaped_message(const std::string& line) {
  std::string message;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool escape = line[i] == '\\' && i + 1 < line.size();
    if (escape) ++i;
    message += escape && line[i] == 'n' ? '\n' : line[i];
  }
  return message;
}

Result<MessageHistory> MessageHistory::open(const std::string& path) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (std::filesystem::create_directories(folder, error))
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  LLADA_TRY_STATUS(append(path, ""));
  constexpr size_t kLimitBytes = 16 * kMostBytes;
  LLADA_TRY(const std::string text, read_file(path, kLimitBytes));
  MessageHistory history;
  history.path_ = path;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) history.messages_.push_back(unescaped_message(text.substr(at, end - at)));
    at = end + 1;
  }
  const auto kept = newest(history.messages_);
  if (history.messages_.size() > 2 * kMostMessages || text.size() > 2 * kMostBytes) {
    std::string shorter;
    for (const std::string& message : kept) shorter += escaped_message(message) + '\n';
    LLADA_TRY_STATUS(write_file(path, shorter));  // which keeps the mode
  }
  history.messages_ = {kept.begin(), kept.end()};
  return history;
}

Status MessageHistory::add(const std::string& message) const {
  const std::string line = escaped_message(message) + '\n';
  return line.size() > kMostBytes ? Status() : append(path_, line);
}

}  // namespace llada::cli
