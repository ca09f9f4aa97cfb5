#include "cli/line_reader.h"

#include <cerrno>
#include <csignal>
#include <utility>

#include "base/os.h"
#include "cli/options.h"
#include "cli/terminal.h"

namespace llada::cli {
namespace {

// Lines of stdin, read past stdio so that waiting for one can be interrupted.
class PlainReader final : public LineReader {
 public:
  explicit PlainReader(bool interactive) : interactive_(interactive) {}

  Line next(std::string_view prompt) override {
    if (interactive_) note(prompt);
    for (;;) {
      if (const size_t end = buffer_.find('\n', searched_); end != std::string::npos) return take(end, end + 1);
      searched_ = buffer_.size();
      if (ended_) return buffer_.empty() ? Line{Line::Kind::end} : take(buffer_.size(), buffer_.size());
      char bytes[4096];
      if (!InterruptGuard::wait_readable(os::kStdin)) return stopped();
      const int64_t n = os::read(os::kStdin, bytes, sizeof bytes);
      if (n < 0 && errno == EAGAIN) continue;
      if (n > 0) buffer_.append(bytes, static_cast<size_t>(n));
      ended_ = n <= 0;
    }
  }

 private:
  Line take(size_t length, size_t used) {
    Line line{.text = buffer_.substr(0, length)};
    buffer_.erase(0, used);
    searched_ = 0;
    while (line.text.ends_with('\r')) line.text.pop_back();
    return line;
  }

  Line stopped() const {
    if (!interactive_ || InterruptGuard::signal_number() != SIGINT) return {Line::Kind::signal};
    InterruptGuard::clear();
    note("\n");
    return {Line::Kind::interrupted};
  }

  const bool interactive_;
  std::string buffer_;
  size_t searched_ = 0;  // bytes without a newline
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<LineReader> make_line_reader(bool interactive, const std::string& history) {
  if (interactive && can_repaint(os::kStderr))
    if (auto editor = make_line_editor(history)) return editor;
  return std::make_unique<PlainReader>(interactive);
}

std::string history_path() {
  for (const auto& [variable, below] :
       {std::pair("XDG_STATE_HOME", "/llada/history"), std::pair("HOME", "/.local/state/llada/history")})
    if (const std::string base = path_from_environment(variable); os::is_absolute(base)) return base + below;
  return "";
}

}  // namespace llada::cli
