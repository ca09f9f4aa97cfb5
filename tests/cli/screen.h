// Just enough of a terminal to check what repainting leaves on it: characters, line feeds, cursor up, erase
// to the end of the line and of the screen; colours and modes are skipped. Lines never wrap.
#pragma once
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace llada::test {

class Screen {
 public:
  void feed(std::string_view bytes) {
    while (!bytes.empty()) {
      if (bytes.starts_with("\x1b[")) {
        size_t end = 2;
        while (end < bytes.size() && (bytes[end] < '@' || bytes[end] > '~')) ++end;
        control(bytes[end], bytes.substr(2, end - 2));
        bytes.remove_prefix(end + 1);
        continue;
      }
      if (bytes[0] == '\r') {
        column_ = 0;
      } else if (bytes[0] == '\n') {
        move_to(row_ + 1);
      } else {
        put(bytes[0]);
      }
      bytes.remove_prefix(1);
    }
  }

  bool cursor_visible() const { return cursor_visible_; }

  // Without the empty lines at the end. Characters of several bytes stand as their bytes.
  std::string text() const {
    std::string out;
    for (const std::string& line : lines_) out += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
    while (out.ends_with("\n\n")) out.pop_back();
    return out == "\n" ? "" : out;
  }

 private:
  void move_to(size_t row) {
    row_ = row;
    if (row_ >= lines_.size()) lines_.resize(row_ + 1);
  }
  void put(char c) {
    std::string& line = lines_[row_];
    if (line.size() <= column_) line.resize(column_ + 1, ' ');
    line[column_++] = c;
  }
  void control(char kind, std::string_view argument) {
    if (kind == 'A') {
      const auto up = static_cast<size_t>(std::atoi(std::string(argument).c_str()));
      move_to(up > row_ ? 0 : row_ - up);
    } else if (kind == 'K') {
      lines_[row_].resize(std::min(lines_[row_].size(), column_));
    } else if (kind == 'J') {
      lines_[row_].resize(std::min(lines_[row_].size(), column_));
      lines_.resize(row_ + 1);
    } else if (argument == "?25") {
      cursor_visible_ = kind == 'h';
    }
  }

  std::vector<std::string> lines_ = {""};
  size_t row_ = 0, column_ = 0;
  bool cursor_visible_ = true;
};

}  // namespace llada::test
