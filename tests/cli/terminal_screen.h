// A small terminal of fixed size, as xterm shows what comes: wrapping at the margin (the cursor waits in the last
// column), scrolling, the cursor movements and erasures that programs get from terminfo for xterm. Colours are skipped,
// and modes but for the cursor's. A cell holds one character of any width as its bytes; characters of two columns are
// not told apart.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace llada::test {

class TerminalScreen {
 public:
  TerminalScreen(int columns, int rows) : columns_(columns), cells_(static_cast<size_t>(rows), blank()) {}

  // As a terminal that does not wrap anew what is on it.
  void resize(int columns) {
    columns_ = columns;
    for (Row& row : cells_) row.resize(static_cast<size_t>(columns), " ");
    column_ = std::min(column_, columns - 1);
  }

  void feed(std::string_view bytes) {
    pending_ += bytes;
    while (!pending_.empty()) {
      const size_t used = take(pending_);
      if (used == 0) return;  // part of a sequence
      pending_.erase(0, used);
    }
  }

  // Rows from the top, without the blanks at their ends and without empty rows at the end.
  std::string text() const {
    std::string out;
    for (const Row& row : cells_) {
      std::string line;
      for (const std::string& cell : row) line += cell;
      out += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
    }
    while (out.ends_with("\n\n")) out.pop_back();
    return out;
  }
  bool cursor_visible() const { return cursor_visible_; }
  int row() const { return row_; }
  int column() const { return column_; }

 private:
  using Row = std::vector<std::string>;
  Row blank() const { return Row(static_cast<size_t>(columns_), " "); }
  int rows() const { return static_cast<int>(cells_.size()); }
  Row& line() { return cells_[static_cast<size_t>(row_)]; }

  size_t take(std::string_view in) {
    if (in[0] == '\x1b') {
      if (in.size() < 2) return 0;
      if (in[1] != '[') return 2;
      size_t end = 2;
      while (end < in.size() && (in[end] < '@' || in[end] > '~')) ++end;
      if (end == in.size()) return 0;
      control(in[end], std::string(in.substr(2, end - 2)));
      return end + 1;
    }
    const auto byte = static_cast<unsigned char>(in[0]);
    const size_t length = byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    if (in.size() < length) return 0;
    if (in[0] == '\r')
      column_ = 0, waits_ = false;
    else if (in[0] == '\n')
      waits_ = false, down();
    else if (in[0] == '\b')
      column_ = std::max(0, column_ - 1), waits_ = false;
    else if (byte >= 0x20)
      put(in.substr(0, length));
    return length;
  }

  void put(std::string_view character) {
    if (waits_) column_ = 0, waits_ = false, down();
    line()[static_cast<size_t>(column_)] = character;
    if (column_ + 1 < columns_)
      ++column_;
    else
      waits_ = true;
  }

  void down() {
    if (row_ + 1 < rows()) {
      ++row_;
      return;
    }
    cells_.erase(cells_.begin());
    cells_.push_back(blank());
  }

  void control(char kind, const std::string& argument) {
    const int n = std::max(1, std::atoi(argument.c_str()));
    const int mode = std::atoi(argument.c_str());
    Row& cells = line();
    const auto at = cells.begin() + column_;
    const int count = std::min(n, columns_ - column_);
    if (kind != 'm' && kind != 'h' && kind != 'l') waits_ = false;
    if (argument == "?25") cursor_visible_ = kind == 'h';
    switch (kind) {
      case 'A':
        row_ = std::max(0, row_ - n);
        break;
      case 'B':
        row_ = std::min(rows() - 1, row_ + n);
        break;
      case 'C':
        column_ = std::min(columns_ - 1, column_ + n);
        break;
      case 'D':
        column_ = std::max(0, column_ - n);
        break;
      case 'G':
        column_ = std::min(columns_, n) - 1;
        break;
      case 'H': {
        const size_t semicolon = argument.find(';');
        row_ = std::min(rows(), n) - 1;
        column_ = semicolon == std::string::npos
                      ? 0
                      : std::clamp(std::atoi(argument.c_str() + semicolon + 1), 1, columns_) - 1;
        break;
      }
      case 'K':
        std::fill(mode == 0 ? at : cells.begin(), mode == 1 ? at + 1 : cells.end(), " ");
        break;
      case 'J':
        if (mode == 2) std::ranges::fill(cells_, blank());
        if (mode != 0) break;
        std::fill(at, cells.end(), " ");
        std::fill(cells_.begin() + row_ + 1, cells_.end(), blank());
        break;
      case '@':
        cells.insert(at, static_cast<size_t>(count), " ");
        cells.resize(static_cast<size_t>(columns_));
        break;
      case 'P':
        cells.erase(at, at + count);
        cells.resize(static_cast<size_t>(columns_), " ");
        break;
      case 'X':
        std::fill(at, at + count, " ");
        break;
      default:
        break;
    }
  }

  int columns_;
  std::vector<Row> cells_;
  int row_ = 0, column_ = 0;
  bool waits_ = false;  // in the last column: the next character goes to the next row
  bool cursor_visible_ = true;
  std::string pending_;
};

}  // namespace llada::test
