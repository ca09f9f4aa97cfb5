// The editor of a conversation's lines, by libedit: cursor keys, history, search, and pastes of several lines as one
// message (bracketed paste). Characters come through read_key(), which also hears of signals and of another window
// size, so that no line is cut and none is lost.
#include <histedit.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/os.h"
#include "cli/line_reader.h"
#include "cli/message_history.h"
#include "cli/render_frame.h"
#include "cli/terminal.h"
#include "text/utf8.h"

namespace llada::cli {
namespace {

std::wstring wide(std::string_view bytes) {
  std::wstring out;
  const std::string valid = to_valid_utf8(bytes);
  for (std::string_view text = valid; !text.empty();) {
    const Utf8Unit unit = utf8_unit(text);
    out += static_cast<wchar_t>(unit.code_point);
    text.remove_prefix(static_cast<size_t>(unit.length));
  }
  return out;
}

std::string narrow(std::wstring_view text) {
  std::string out;
  for (const wchar_t c : text) append_utf8(out, static_cast<char32_t>(c));
  return out;
}

// The drawn part of an edited line has no control characters; a newline stays.
bool may_be_typed(wchar_t c) {
  return c == L'\n' || c == L'\t' || (c >= 0x20 && c != 0x7f && !(c >= 0x80 && c < 0xa0));
}

class LineEditor final : public LineReader {
 public:
  explicit LineEditor(const std::string& history_file) {
    // Widths of characters and their bytes on the screen follow the locale; texts are UTF-8 in any.
    if (std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) std::setlocale(LC_CTYPE, "");
    editor_ = ::el_init("llada", stdin, stderr, stderr);
    history_ = ::history_winit();
    HistEventW event;
    ::history_w(history_, &event, H_SETSIZE, static_cast<int>(MessageHistory::kMostMessages));
    ::history_w(history_, &event, H_SETUNIQUE, 1);
    ::el_wset(editor_, EL_CLIENTDATA, this);
    ::el_wset(editor_, EL_PROMPT, &LineEditor::prompt);
    ::el_wset(editor_, EL_EDITOR, L"emacs");
    ::el_wset(editor_, EL_SIGNAL, 0);
    ::el_wset(editor_, EL_HIST, history_w, history_);
    ::el_wset(editor_, EL_GETCFN, &LineEditor::read_key);
    ::el_wset(editor_, EL_ADDFN, L"paste", L"Insert a paste of the terminal", &LineEditor::paste);
    ::el_wset(editor_, EL_ADDFN, L"break-line", L"Insert a newline", &LineEditor::break_line);
    ::el_wset(editor_, EL_ADDFN, L"interrupt", L"Clear the line, or leave it where it is empty",
              &LineEditor::interrupt);
    static constexpr std::pair<const wchar_t*, const wchar_t*> kKeys[] = {
        {L"^C", L"interrupt"},
        {L"\\e[200~", L"paste"},
        {L"\\e^M", L"break-line"},
        {L"\\e^J", L"break-line"},
        {L"^R", L"em-inc-search-prev"},
        {L"^W", L"ed-delete-prev-word"},
        {L"\\e[1~", L"ed-move-to-beg"},
        {L"\\e[4~", L"ed-move-to-end"},
        {L"\\e[H", L"ed-move-to-beg"},
        {L"\\e[F", L"ed-move-to-end"},
        {L"\\e[3~", L"ed-delete-next-char"},
        {L"\\e[1;5C", L"em-next-word"},
        {L"\\e[1;5D", L"ed-prev-word"},
    };
    for (const auto& [keys, function] : kKeys) ::el_wset(editor_, EL_BIND, keys, function, nullptr);
    open_history(history_file);
  }
  ~LineEditor() override {
    ::el_end(editor_);
    ::history_wend(history_);
  }
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  Line next(std::string_view prompt) override {
    prompt_ = wide(prompt);
    why_ = Line::Kind::end;
    int length = 0;
    note("\x1b[?2004h");
    const wchar_t* text = ::el_wgets(editor_, &length);
    note("\x1b[?2004l");
    if (text == nullptr || length <= 0) {
      note("\r\n");
      return {why_};
    }
    std::wstring_view line(text, static_cast<size_t>(length));
    if (line.ends_with(L'\n')) line.remove_suffix(1);
    return {.text = narrow(line)};
  }

  void remember(const std::string& message) override {
    HistEventW event;
    ::history_w(history_, &event, H_ENTER, wide(message).c_str());
    if (const Status added = file_ ? file_->add(message) : Status(); !added) {
      note(fmt::format("note: {}; no history is kept\n", one_line(added.error().message)));
      file_.reset();
    }
  }

 private:
  static LineEditor& of(EditLine* editor) {
    void* self = nullptr;
    ::el_wget(editor, EL_CLIENTDATA, &self);
    return *static_cast<LineEditor*>(self);
  }

  static wchar_t* prompt(EditLine* editor) { return of(editor).prompt_.data(); }

  static unsigned char break_line(EditLine* editor, wint_t) {
    ::el_winsertstr(editor, L"\n");
    return CC_REFRESH;
  }

  static unsigned char interrupt(EditLine* editor, wint_t) {
    const LineInfoW* line = ::el_wline(editor);
    const auto length = static_cast<int>(line->lastchar - line->buffer);
    if (length == 0) {
      of(editor).why_ = Line::Kind::interrupted;
      return CC_EOF;
    }
    ::el_cursor(editor, length);
    ::el_wdeletestr(editor, length);
    return CC_REFRESH;
  }

  // Everything up to the mark of its end, as it is; line ends become newlines.
  static unsigned char paste(EditLine* editor, wint_t) {
    static constexpr std::wstring_view kEnd = L"\x1b[201~";
    std::wstring text;
    wchar_t c = 0;
    while (!text.ends_with(kEnd) && ::el_wgetc(editor, &c) == 1) text += c;
    if (text.ends_with(kEnd)) text.resize(text.size() - kEnd.size());
    for (size_t at = 0; (at = text.find(L"\r\n", at)) != std::wstring::npos;) text.erase(at, 1);
    std::ranges::replace(text, L'\r', L'\n');
    std::erase_if(text, [](wchar_t typed) { return !may_be_typed(typed); });
    std::ranges::replace(text, L'\0', L' ');
    if (!text.empty()) ::el_winsertstr(editor, text.c_str());
    return CC_REFRESH;
  }

  // The next character: 1, or 0 at the end of the input.
  static int read_key(EditLine* editor, wchar_t* key) {
    LineEditor& self = of(editor);
    for (;;) {
      if (self.take_key(*key)) return 1;
      switch (InterruptGuard::wait(os::kStdin)) {
        case Wake::signal:
          if (InterruptGuard::signal_number() != SIGINT) {
            self.why_ = Line::Kind::signal;
            return 0;
          }
          InterruptGuard::clear();
          *key = L'\x03';
          return 1;
        case Wake::resized:
          self.redraw();
          continue;
        case Wake::readable:
          break;
      }
      char bytes[4096];
      const int64_t n = os::read(os::kStdin, bytes, sizeof bytes);
      if (n < 0 && errno == EAGAIN) continue;
      if (n <= 0) return 0;
      self.typed_.append(bytes, static_cast<size_t>(n));
    }
  }

  bool take_key(wchar_t& key) {
    if (typed_.empty()) return false;
    const Utf8Unit unit = utf8_unit(typed_);
    if (unit.incomplete && typed_.size() < 4) return false;
    key = static_cast<wchar_t>(unit.valid ? unit.code_point : char32_t{0xfffd});
    typed_.erase(0, static_cast<size_t>(unit.length));
    return true;
  }

  // After another window size, or when the program is in the foreground again. A terminal that became narrower has
  // wrapped the line that was there.
  void redraw() {
    const int columns = std::max(1, terminal_size(os::kStderr).columns);
    const LineInfoW* line = ::el_wline(editor_);
    std::wstring before = prompt_;
    before.append(line->buffer, line->cursor);
    int rows = 0, column = 0;
    for (const wchar_t c : before) {
      column += c == L'\n' ? columns : std::max(0, display_width(static_cast<char32_t>(c)));
      if (column >= columns) ++rows, column = c == L'\n' ? 0 : column - columns;
    }
    note(rows > 0 ? fmt::format("\r\x1b[{}A\x1b[J", rows) : "\r\x1b[J");
    ::el_resize(editor_);
    ::el_wset(editor_, EL_PREP_TERM, 0);
    ::el_wset(editor_, EL_PREP_TERM, 1);
    ::el_wset(editor_, EL_REFRESH);
  }

  void open_history(const std::string& path) {
    if (path.empty()) return;
    auto opened = MessageHistory::open(path);
    if (!opened) return note(fmt::format("note: {}; no history is kept\n", one_line(opened.error().message)));
    file_ = std::move(*opened);
    HistEventW event;
    for (const std::string& message : file_->messages()) ::history_w(history_, &event, H_ENTER, wide(message).c_str());
  }

  EditLine* editor_ = nullptr;
  HistoryW* history_ = nullptr;
  std::optional<MessageHistory> file_;
  std::wstring prompt_;
  std::string typed_;  // bytes that were read and not yet taken
  Line::Kind why_ = Line::Kind::end;
};

}  // namespace

std::unique_ptr<LineReader> make_line_editor(const std::string& history) {
  return std::make_unique<LineEditor>(history);
}

}  // namespace llada::cli
