#include "text/template_texts.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace llada {
namespace {

bool is_name_part(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view first_word(std::string_view text) {
  return text.substr(0, static_cast<size_t>(std::ranges::find_if_not(text, is_name_part) - text.begin()));
}

// A branch for parts that no conversation here has. One with a "not" may be the branch for all the others.
bool is_extra(std::string_view condition) {
  constexpr std::array kWords = {"tool", "function", "think", "reasoning", "last_query", "document", "image", "video"};
  return !condition.contains("not ") &&
         std::ranges::any_of(kWords, [&](std::string_view word) { return condition.contains(word); });
}

// The string literals of an expression and holes for its other values.
class Expression {
 public:
  explicit Expression(std::string_view text) : text_(text) {}

  std::string texts() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\'' || c == '"') {
        literal(c);
      } else if (is_name_part(c)) {
        word();
      } else if (c == '[' || c == '{') {
        skip(c, c == '[' ? ']' : '}');
      } else if (c == '(' && called_) {
        skip('(', ')');
      } else {
        called_ = false;
        if (c == '=' || c == '!' || c == '<' || c == '>') compare();
        filter_ = c == '|' || (filter_ && is_space(c));
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  void literal(char quote) {
    std::string value;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] != '\\' || at_ + 1 == text_.size()) {
        value += text_[at_];
        continue;
      }
      const char c = text_[++at_];
      value += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
    }
    ++at_;
    called_ = filter_ = false;
    if (!std::exchange(compared_, false)) {
      last_ = out_.size();
      out_ += value;
    }
  }

  void word() {
    const std::string_view word = first_word(text_.substr(at_));
    at_ += word.size();
    if (filter_ || word.front() == '.') {  // of the value before it
      filter_ = false;
      called_ = true;
      const bool trims = word == "trim" || word.ends_with(".strip");
      if (trims && last_ + 1 == out_.size() && out_[last_] == kHole) out_[last_] = kTrimmedHole;
      return;
    }
    called_ = word != "if" && word != "else" && word != "and" && word != "or" && word != "not" && word != "in" &&
              word != "is";
    if (word == "in" || word == "is") compare();
    if (word == "if" || word == "else" || word == "and" || word == "or") compared_ = false;
    if (!called_ || std::exchange(compared_, false) || word == "true" || word == "false") return;
    last_ = out_.size();
    out_ += word.ends_with(".strip") ? kTrimmedHole : kHole;
  }

  // A template writes neither side of a comparison.
  void compare() {
    if (last_ < out_.size()) out_.resize(last_);
    compared_ = true;
  }

  void skip(char open, char close) {
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\'' || c == '"') {
        for (++at_; at_ < text_.size() && text_[at_] != c; ++at_)
          if (text_[at_] == '\\') ++at_;
      } else if (c == open) {
        ++depth;
      } else if (c == close && --depth == 0) {
        break;
      }
    }
    if (at_ < text_.size()) ++at_;
    called_ = true;  // x[0](...), x(...).y
  }

  std::string_view text_;
  size_t at_ = 0, last_ = 0;  // last_: where the last value begins in out_
  bool called_ = false, filter_ = false, compared_ = false;
  std::string out_;
};

class Reader {
 public:
  std::string read(std::string_view source) {
    if (source.ends_with('\n')) source.remove_suffix(1);
    size_t at = 0;
    while (at < source.size()) {
      size_t open = source.find('{', at);
      while (open != std::string_view::npos && open + 1 < source.size() && source[open + 1] != '{' &&
             source[open + 1] != '%' && source[open + 1] != '#')
        open = source.find('{', open + 1);
      if (open == std::string_view::npos || open + 1 >= source.size()) open = source.size();
      std::string_view plain = source.substr(at, open - at);
      if (open == source.size()) {
        write(plain);
        break;
      }
      const char kind = source[open + 1];
      std::string_view tag = inside(source.substr(open + 2), kind);
      at = std::min(source.size(), open + 2 + tag.size() + 2);
      const bool cut_before = tag.starts_with('-'), cut_after = tag.ends_with('-');
      if (cut_before) {
        while (!plain.empty() && is_space(plain.back())) plain.remove_suffix(1);
      } else if (kind != '{') {
        const size_t line = plain.find_last_not_of(" \t");
        if (line != std::string_view::npos ? plain[line] == '\n' : at_line_start_) plain = plain.substr(0, line + 1);
      }
      write(plain);
      if (cut_after) {
        while (at < source.size() && is_space(source[at])) ++at;
      } else if (kind != '{' && at < source.size() && source[at] == '\n') {
        ++at;
      }
      at_line_start_ = at > 0 && at <= source.size() && source[at - 1] == '\n';
      if (cut_before) tag.remove_prefix(1);
      if (cut_after && !tag.empty()) tag.remove_suffix(1);
      if (kind == '{') write(skips() ? "" : Expression(tag).texts());
      if (kind == '%') statement(trimmed(tag));
    }
    return std::move(out_);
  }

 private:
  // Up to the end of a tag, which a string inside may hold too.
  static std::string_view inside(std::string_view rest, char kind) {
    const char end[] = {kind == '{' ? '}' : kind, '}', '\0'};
    for (size_t at = 0; at < rest.size(); ++at) {
      const char c = rest[at];
      if (kind != '#' && (c == '\'' || c == '"')) {
        for (++at; at < rest.size() && rest[at] != c; ++at)
          if (rest[at] == '\\') ++at;
      } else if (rest.substr(at).starts_with(end)) {
        return rest.substr(0, at);
      }
    }
    return rest;
  }

  void statement(std::string_view text) {
    const std::string_view word = first_word(text), rest = text.substr(word.size());
    if (word == "if" || word == "for" || word == "macro") {
      open_.push_back({skips() || word == "macro" || is_extra(rest), skips()});
    } else if (word == "elif" && !open_.empty()) {
      open_.back().skip = open_.back().outer || is_extra(rest);
    } else if (word == "else" && !open_.empty()) {
      open_.back().skip = open_.back().outer;
    } else if ((word == "endif" || word == "endfor" || word == "endmacro") && !open_.empty()) {
      open_.pop_back();
    } else if (word == "set" && !skips()) {
      const size_t equals = rest.find('=');
      if (equals != std::string_view::npos) write(Expression(rest.substr(equals + 1)).texts());
    }
  }

  bool skips() const { return !open_.empty() && open_.back().skip; }
  void write(std::string_view text) {
    if (!skips()) out_ += text;
  }

  struct Branch {
    bool skip, outer;
  };
  std::vector<Branch> open_;
  bool at_line_start_ = true;
  std::string out_;
};

}  // namespace

std::string template_texts(std::string_view source) { return Reader().read(source); }

}  // namespace llada
