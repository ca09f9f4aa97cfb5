#include "cli/live_view.h"

#include <algorithm>
#include <thread>

#include "cli/terminal.h"
#include "text/thoughts.h"

namespace llada::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

std::string repaint(std::span<const FrameLine> lines, std::span<const int> painted, int columns) {
  // A terminal that became narrower has wrapped the lines that no longer fit.
  int rows = 0;
  for (const int width : painted) rows += std::max(1, (width + columns - 1) / columns);
  std::string out = "\x1b[?2026h\r";
  if (rows > 1) out += fmt::format("\x1b[{}A", rows - 1);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += "\r\n";
    out += lines[i].text;
    out += "\x1b[K";
  }
  out += "\x1b[J\x1b[?2026l";
  return out;
}

LiveView::LiveView(const Model& model, const LiveOptions& options)
    : model_(model), options_(options), start_(Clock::now()) {}

LiveView::~LiveView() { static_cast<void>(finish()); }

void LiveView::update_cells(const decode::StepEvent& event) {
  const decode::Canvas& canvas = event.canvas;
  if (cells_.empty() && !options_.infill)
    while (begin_ < canvas.states.size() && canvas.states[begin_] == decode::TokenState::fixed) ++begin_;
  const int64_t end = canvas.answer_end();
  const auto seen = static_cast<size_t>(options_.open_length ? std::min<int64_t>(event.plan.keys, end) : end);
  cells_.resize(std::max(cells_.size(), seen - begin_));
  const std::vector<int32_t>& ends = model_.special_ids().end_ids;
  // As long as an answer's first token is not decided, the text before a channel's marker may be thoughts.
  size_t unclear = 0;
  const ChatFormat& format = model_.chat_format();
  const Thoughts thoughts = thoughts_behind(format, std::span(canvas.tokens).first(begin_));
  const bool begun = cells_.empty() || !canvas.is_undecided(static_cast<int64_t>(begin_));
  if (thoughts == Thoughts::open || (thoughts == Thoughts::may_begin && !begun)) {
    const auto is_marker = [&](size_t i) {
      const int32_t token = canvas.tokens[begin_ + i];
      return !canvas.is_undecided(static_cast<int64_t>(begin_ + i)) &&
             (token == format.thought_begin || token == format.thought_end);
    };
    while (unclear < cells_.size() && !is_marker(unclear)) ++unclear;
  }
  bool ended = false;  // an end token with everything before it decided: the rest is no content
  bool all_decided = true;
  for (size_t i = 0; i < cells_.size(); ++i) {
    const size_t p = begin_ + i;
    const auto position = static_cast<int64_t>(p);
    Cell& cell = cells_[i];
    if (canvas.states[p] == decode::TokenState::fixed) {
      cell = {CellState::given, model_.has_tokenizer() ? model_.tokenizer().piece(canvas.tokens[p]) : "", 1};
      continue;
    }
    if (canvas.states[p] == decode::TokenState::masked || i < unclear) {
      all_decided = false;
      const bool now = position >= event.block_begin && position < event.block_end;
      cell.state = ended ? CellState::end : now ? CellState::masked : CellState::waiting;
      continue;
    }
    const bool is_end = std::ranges::count(ends, canvas.tokens[p]) > 0;
    ended = ended || (is_end && all_decided && !options_.infill);
    const bool control = model_.has_tokenizer() && model_.tokenizer().is_control(canvas.tokens[p]);
    cell.bytes = model_.has_tokenizer() ? model_.tokenizer().piece(canvas.tokens[p]) : "";
    cell.state = is_end || control || ended                                    ? CellState::end
                 : position < event.block_begin || position >= event.block_end ? CellState::settled
                                                                               : CellState::decided;
  }
  for (const decode::Edit& edit : event.edits) {
    if (static_cast<size_t>(edit.position) >= begin_ + cells_.size()) continue;  // padding, or not seen yet
    Cell& cell = cells_[static_cast<size_t>(edit.position) - begin_];
    cell.confidence = edit.confidence;
    cell.by_form = edit.by_form;
    if (cell.state == CellState::decided) cell.state = CellState::fresh;
  }
}

FrameStatus LiveView::status(const decode::StepEvent& event) const {
  FrameStatus status{.step = event.step + 1};
  int64_t content = 0;
  for (size_t i = 0; i < cells_.size(); ++i) {
    const decode::TokenState state = event.canvas.states[begin_ + i];
    if (state == decode::TokenState::fixed) continue;
    status.total += 1;
    status.committed += state != decode::TokenState::masked;
    content += state != decode::TokenState::masked && cells_[i].state != CellState::end;
  }
  const int64_t canvas = model_.special_ids().uniform.length;
  if (const int64_t block_length = canvas > 0 ? canvas : options_.block_length; !options_.infill && block_length > 0) {
    // Blocks are counted from the first one with generated text; a block-causal model's begin at position 0, unless
    // finished text is causal.
    const auto begin = static_cast<int64_t>(begin_);
    const decode::SpecialIds& ids = model_.special_ids();
    const int64_t origin =
        ids.attention_block > 0 && !ids.kind().keeps_finished() ? ids.behind(begin).block_origin : begin;
    const int64_t first = (begin - origin) / block_length;
    status.block = (event.block_begin - origin) / block_length - first + 1;
    status.blocks = (begin + status.total - 1 - origin) / block_length - first + 1;
  }
  const double decoding = seconds_since(start_) - seconds_;
  status.tokens_per_s = decoding > 0 ? static_cast<double>(content) / decoding : 0;
  return status;
}

Status LiveView::show(const decode::StepEvent& event) {
  const auto begin = Clock::now();
  update_cells(event);
  const TerminalSize size = terminal_size(options_.fd);
  const auto focus = static_cast<size_t>(std::max<int64_t>(event.block_begin - static_cast<int64_t>(begin_), 0));
  const auto lines = render_frame(
      cells_, status(event), {.columns = size.columns, .rows = size.rows, .color = options_.color, .focus = focus});
  std::string out;
  if (!cursor_hidden_) out += "\x1b[?25l";
  InterruptGuard::cursor_is_hidden(true);
  cursor_hidden_ = true;
  out += repaint(lines, painted_, size.columns);
  painted_.clear();
  for (const FrameLine& line : lines) painted_.push_back(line.columns);
  const Status written = print(out);
  if (written && options_.delay_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(options_.delay_ms));
  seconds_ += seconds_since(begin);
  return written;
}

Status LiveView::finish() {
  if (!cursor_hidden_) return {};
  const Status written = print(repaint({}, painted_, terminal_size(options_.fd).columns) + "\x1b[?25h");
  cursor_hidden_ = false;
  painted_.clear();
  InterruptGuard::cursor_is_hidden(false);
  return written;
}

}  // namespace llada::cli
