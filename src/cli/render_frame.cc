#include "cli/render_frame.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>

#include "cli/report.h"
#include "text/utf8.h"

namespace llada::cli {
namespace {

constexpr std::string_view kReset = "\x1b[0m";
constexpr std::string_view kMasked = "\u2592";   // medium shade
constexpr std::string_view kWaiting = "\u2591";  // light shade
constexpr std::string_view kEnd = "\u00b7";      // middle dot
constexpr int kTabColumns = 4;

// Below one half a token was a guess; above nine tenths the usual thresholds would accept it.
std::string_view confidence_color(double confidence) {
  if (confidence < 0.5) return "38;5;203";  // red
  if (confidence < 0.9) return "38;5;215";  // orange
  return "38;5;77";                         // green
}

std::string style_of(const Cell& cell) {
  constexpr const char* kUnderlined = "4";
  switch (cell.state) {
    case CellState::waiting:
    case CellState::masked:
    case CellState::end:
      return "2";
    case CellState::fresh:
      if (cell.by_form) return kUnderlined;
      return fmt::format("1;{}", confidence_color(cell.confidence));
    case CellState::decided:
      if (cell.by_form) return kUnderlined;
      return std::string(confidence_color(cell.confidence));
    case CellState::given:
    case CellState::settled:
      break;
  }
  return cell.by_form ? kUnderlined : "";
}

class Painter {
 public:
  explicit Painter(const FrameOptions& options) : color_(options.color), width_(std::max(options.columns - 1, 2)) {
    lines_.emplace_back();
  }

  void text(std::string_view text, const std::string& style) {
    while (!text.empty()) {
      const Utf8Unit unit = utf8_unit(text);
      character(text.substr(0, static_cast<size_t>(unit.length)), unit.code_point, style);
      text.remove_prefix(static_cast<size_t>(unit.length));
    }
  }

  size_t line() const { return lines_.size() - 1; }

  std::vector<FrameLine> take() {
    switch_style("");
    return std::move(lines_);
  }

 private:
  void character(std::string_view bytes, char32_t c, const std::string& style) {
    if (c == '\n') return new_line();
    if (c == '\r') return;
    if (c == '\t') {
      const int spaces = kTabColumns - lines_.back().columns % kTabColumns;
      for (int i = 0; i < spaces; ++i) put(" ", 1, style);
      return;
    }
    if (c < 0x20 || (c >= 0x7f && c < 0xa0)) return put(kReplacement, 1, style);
    put(bytes, display_width(c), style);
  }

  void put(std::string_view bytes, int columns, const std::string& style) {
    if (lines_.back().columns + columns > width_) new_line();
    switch_style(style);
    lines_.back().text += bytes;
    lines_.back().columns += columns;
  }

  void new_line() {
    switch_style("");
    lines_.emplace_back();
  }

  void switch_style(const std::string& style) {
    if (!color_ || style == style_) return;
    if (!style_.empty()) lines_.back().text += kReset;
    if (!style.empty()) lines_.back().text += fmt::format("\x1b[{}m", style);
    style_ = style;
  }

  bool color_;
  int width_;
  std::string style_;
  std::vector<FrameLine> lines_;
};

FrameLine status_line(const FrameStatus& s, const FrameOptions& options) {
  std::string text = s.blocks > 0 ? fmt::format("block {}/{}  ", s.block, s.blocks) : "";
  text += fmt::format("step {}  {}/{} tokens  {} tokens/s", s.step, s.committed, s.total, rate_text(s.tokens_per_s));
  text.resize(std::min(text.size(), static_cast<size_t>(std::max(options.columns - 1, 0))));
  const int columns = static_cast<int>(text.size());
  if (options.color) text = fmt::format("\x1b[2m{}{}", text, kReset);
  return {std::move(text), columns};
}

}  // namespace

int display_width(char32_t code_point) {
  return std::max(utf8proc_charwidth(static_cast<utf8proc_int32_t>(code_point)), 0);
}

std::vector<FrameLine> render_frame(std::span<const Cell> cells, const FrameStatus& status,
                                    const FrameOptions& options) {
  Painter painter(options);
  Utf8Stream stream;  // a character may begin in one token and end in the next
  std::string stream_style;
  size_t focus_line = 0;
  const auto cut = [&] { painter.text(stream.flush(), stream_style); };
  for (size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = cells[i];
    const std::string style = style_of(cell);
    switch (cell.state) {
      case CellState::waiting:
        cut(), painter.text(kWaiting, style);
        break;
      case CellState::masked:
        cut(), painter.text(kMasked, style);
        break;
      case CellState::end:
        cut(), painter.text(kEnd, style);
        break;
      default:
        stream.append(cell.bytes);
        stream_style = style;
        painter.text(stream.take(), style);
    }
    if (i == options.focus) focus_line = painter.line();
  }
  cut();

  std::vector<FrameLine> lines = painter.take();
  const auto room =
      static_cast<size_t>(std::max(options.rows - 2, 1));  // the status line, and one line for the shell's prompt
  if (lines.size() > room) {
    // A third of the screen shows what comes after the place of work.
    const size_t last = std::min(lines.size(), std::max(room, focus_line + 1 + room / 3));
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(last), lines.end());
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(room));
  }
  lines.push_back(status_line(status, options));
  return lines;
}

}  // namespace llada::cli
