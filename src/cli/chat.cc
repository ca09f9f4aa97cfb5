#include "cli/chat.h"

#include <unistd.h>

#include <cerrno>
#include <limits>
#include <optional>

#include "cli/terminal.h"

namespace llada::cli {
namespace {

// Lines of stdin, read past stdio so that waiting for one can be interrupted.
class LineReader {
 public:
  // The next line without its end; nothing at the end of stdin or when a signal came while waiting.
  std::optional<std::string> next() {
    for (;;) {
      if (const size_t end = buffer_.find('\n'); end != std::string::npos) return take(end, end + 1);
      if (ended_) return buffer_.empty() ? std::nullopt : take(buffer_.size(), buffer_.size());
      char bytes[4096];
      if (!InterruptGuard::wait_readable(STDIN_FILENO)) return std::nullopt;
      const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof bytes);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n > 0) buffer_.append(bytes, static_cast<size_t>(n));
      ended_ = n <= 0;
    }
  }

 private:
  std::optional<std::string> take(size_t length, size_t used) {
    std::string line = buffer_.substr(0, length);
    buffer_.erase(0, used);
    while (line.ends_with('\r')) line.pop_back();
    return line;
  }

  std::string buffer_;
  bool ended_ = false;
};

Result<Generation> answer(Workspace& workspace, std::vector<ChatMessage>& messages,
                          const decode::DecodeOptions& options) {
  const int64_t context = workspace.model().config().context;
  const int64_t limit = context > 0 ? context : std::numeric_limits<int64_t>::max();
  std::vector<int32_t> ids;
  const auto tokens = [&](std::span<const ChatMessage> rest) -> Result<int64_t> {
    const TraceSpan span(workspace.trace(), "host", "tokenize");
    LLADA_TRY(ids, workspace.model().chat_ids(rest));
    // With the answer, and the padding of a block-causal model behind it.
    return canvas_positions(workspace.model(), static_cast<int64_t>(ids.size()), options.gen_length);
  };
  LLADA_TRY(const size_t forgotten, trim_history(messages, limit, tokens));
  if (forgotten > 0)
    note(fmt::format("note: the oldest {} messages were forgotten to fit the context of {} tokens\n", forgotten,
                     context));
  const TraceSpan span(workspace.trace(), "host", "decode");
  return workspace.watch(
      [&](const StepCallback& on_step) { return workspace.session().generate(ids, options, on_step); }, false,
      options.block_length);
}

}  // namespace

Result<size_t> trim_history(std::vector<ChatMessage>& messages, int64_t limit,
                            const std::function<Result<int64_t>(std::span<const ChatMessage>)>& tokens) {
  const size_t first = !messages.empty() && messages.front().role == "system" ? 1 : 0;
  size_t forgotten = 0;
  for (;;) {
    LLADA_TRY(const int64_t needed, tokens(messages));
    if (needed <= limit || messages.size() < first + 3) return forgotten;
    if (forgotten == 0) {
      std::vector<ChatMessage> least(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(first));
      least.push_back(messages.back());
      LLADA_TRY(const int64_t alone, tokens(least));
      if (alone > limit) return forgotten;
    }
    messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(first),
                   messages.begin() + static_cast<std::ptrdiff_t>(first) + 2);
    forgotten += 2;
  }
}

Result<int> chat(Workspace& workspace, const ChatOptions& options) {
  const bool terminal = is_terminal(STDIN_FILENO);
  std::vector<ChatMessage> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system});
  LineReader lines;
  while (InterruptGuard::signal_number() == 0) {
    if (terminal) note("> ");
    const auto line = lines.next();
    if (!line) break;
    if (line->empty()) continue;
    if (*line == "/exit") return 0;
    messages.push_back({"user", *line});
    const auto generation = answer(workspace, messages, options.decode);
    if (!generation) {
      if (!terminal || generation.error().kind != ErrorKind::invalid_input) return std::unexpected(generation.error());
      note(fmt::format("{}\n", one_line(generation.error().message)));
      messages.pop_back();
      continue;
    }
    LLADA_TRY_STATUS(options.show(*generation));
    if (const int status = status_of(*generation); status != 0) return status;
    messages.push_back({"assistant", generation->text});
  }
  if (terminal) note("\n");
  const int signal = InterruptGuard::signal_number();
  return signal != 0 ? 128 + signal : 0;
}

}  // namespace llada::cli
