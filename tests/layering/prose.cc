#include "layering/prose.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace llada::layering {
namespace {

constexpr size_t kMostWords = 30;

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_alnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::vector<std::string_view> split(std::string_view text, std::string_view between) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t begin = std::min(text.find_first_not_of(between), text.size());
    const size_t end = std::min(text.find_first_of(between, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
  return parts;
}

bool ends_sentence(std::string_view word) {
  while (!word.empty() && std::string_view("\"')]`").contains(word.back())) word.remove_suffix(1);
  for (const std::string_view other : {"e.g.", "i.e.", "etc.", "cf.", "...", ".."})
    if (word.ends_with(other)) return false;
  return !word.empty() && std::string_view(".?!").contains(word.back());
}

// Where a comment begins in a line of code; npos: nowhere.
size_t comment_at(std::string_view line) {
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') {
      ++i;
    } else if (line[i] == '"' && !(i > 0 && line[i - 1] == '\'')) {
      quoted = !quoted;
    } else if (!quoted && line.substr(i).starts_with("//") && !(i > 0 && line[i - 1] == ':')) {
      return i;
    }
  }
  return std::string_view::npos;
}

// Collects the words of one comment, line by line.
class Comment {
 public:
  explicit Comment(std::vector<Sentence>& out) : out_(out) {}
  void add(size_t line, std::string_view text) {
    const size_t indent = std::min(text.find_first_not_of(' '), text.size());
    const std::string_view body = text.substr(indent);
    const size_t digits = std::min(body.find_first_not_of("0123456789"), body.size());
    const bool marked =
        body.starts_with("- ") || body.starts_with("* ") || (digits > 0 && body.substr(digits).starts_with(". "));
    const bool item = indent >= 2 || marked;
    if (body.empty() || marked || item != item_ || (item && indent <= indent_)) end();
    if (sentence_.empty() && (!item || !item_)) indent_ = indent;
    item_ = item;
    for (const std::string_view word : split(body, " ")) {
      if (sentence_.empty()) line_ = line;
      sentence_ += (sentence_.empty() ? "" : " ") + std::string(word);
      if (ends_sentence(word)) finish();
    }
  }
  void end() {
    finish();
    item_ = false;
    indent_ = 0;
  }

 private:
  void finish() {
    if (!sentence_.empty()) out_.push_back({line_, sentence_, item_});
    sentence_.clear();
  }
  std::vector<Sentence>& out_;
  std::string sentence_;
  size_t line_ = 0, indent_ = 0;
  bool item_ = false;
};

// Without texts in quotes, of which nobody here is the author.
std::string unquoted(std::string_view text, char mark) {
  std::string out;
  bool inside = false;
  for (const char c : text) {
    inside ^= c == mark;
    if (!inside) out += c;
  }
  return inside ? std::string(text) : out;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string_view bare(std::string_view word) {
  while (!word.empty() && !is_alnum(word.front())) word.remove_prefix(1);
  while (!word.empty() && !is_alnum(word.back())) word.remove_suffix(1);
  return word;
}

// 1'000, and neither 'a' nor L'a'.
bool divides_digits(std::string_view text, size_t at) {
  const bool wide = at > 0 && text[at - 1] == 'L' && (at < 2 || !is_alnum(text[at - 2]));
  return at > 0 && is_alnum(text[at - 1]) && !wide;
}

bool asks(std::string_view word) {
  constexpr std::string_view kVerbs[] = {"say",    "says",    "said",   "know",    "knows",    "known",
                                         "ask",    "asks",    "asked",  "show",    "shows",    "see",
                                         "sees",   "tell",    "tells",  "learn",   "learns",   "check",
                                         "checks", "decides", "choose", "chooses", "explains", "finds"};
  return std::ranges::find(kVerbs, word) != std::end(kVerbs);
}

}  // namespace

std::vector<Sentence> comment_sentences(std::string_view text) {
  std::vector<Sentence> out;
  Comment comment(out);
  size_t number = 0, column = std::string_view::npos;  // of the comment that is open
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    const size_t at = comment_at(line);
    const bool alone = at != std::string_view::npos && line.find_first_not_of(' ') == at;
    if (at == std::string_view::npos || at != column || !alone) comment.end();
    column = at;
    if (at == std::string_view::npos) continue;
    std::string_view words = line.substr(at + 2);
    if (words.starts_with(' ')) words.remove_prefix(1);
    comment.add(number, words);
  }
  comment.end();
  return out;
}

std::vector<Message> messages(std::string_view text) {
  std::vector<Message> out;
  Message open = {};
  bool joined = false;                       // the literal may go on
  bool directive = false, assembly = false;  // within #include, #error or a macro; within asm(...);
  size_t line = 1;
  const auto close = [&] {
    const auto words = split(open.text, " ");
    if (std::ranges::count_if(words, [](std::string_view w) { return std::ranges::count_if(w, is_letter) > 1; }) > 2)
      out.push_back(open);
    open = {};
    joined = false;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("//")) i += std::min(rest.find('\n'), rest.size()) - 1;
    if (rest.starts_with("//")) continue;
    if (text[i] == '\n') ++line, directive = directive && i > 0 && text[i - 1] == '\\';
    if (text[i] == '#') directive = true;
    if (rest.starts_with("asm") && !(i > 0 && is_alnum(text[i - 1]))) assembly = true;
    if (text[i] == ';') assembly = false;
    if (std::isspace(static_cast<unsigned char>(text[i])) != 0) continue;
    if (rest.starts_with("R\"")) {
      const size_t paren = rest.find('(');
      const std::string stop = ")" + std::string(rest.substr(2, paren - 2)) + "\"";
      const size_t end = std::min(rest.find(stop), rest.size() - stop.size()) + stop.size();
      line += static_cast<size_t>(std::ranges::count(rest.substr(0, end), '\n'));
      i += end - 1;
      close();
    } else if (text[i] == '"' || (text[i] == '\'' && !divides_digits(text, i))) {
      size_t end = i + 1;
      while (end < text.size() && text[end] != text[i]) end += text[end] == '\\' ? 2 : 1;
      if (text[i] == '"' && !directive && !assembly) {
        if (!joined) open.line = line;
        open.text += text.substr(i + 1, end - i - 1);
        joined = true;
      }
      i = end;
    } else if (joined) {
      close();
    }
  }
  close();
  return out;
}

std::string objection_to(std::string_view sentence, bool item) {
  const std::string text = lower(unquoted(unquoted(sentence, '"'), '`'));
  const auto words = split(text, " ");
  const auto counted = std::ranges::count_if(words, [](std::string_view w) { return !bare(w).empty(); });
  if (!item && counted > static_cast<std::ptrdiff_t>(kMostWords))
    return fmt::format("{} words, at most {} are wanted", counted, kMostWords);
  if (sentence.starts_with("Of ")) return "begins with \"Of\"";
  for (size_t i = 0; i < words.size(); ++i)
    if (bare(words[i]) == "what" && !(i > 0 && asks(words[i - 1]))) return "\"what\" is a noun";
  return {};
}

Findings hard_comments(std::span<const SourceFile> files) {
  Findings out;
  for (const SourceFile& file : files)
    for (const Sentence& one : comment_sentences(file.text))
      if (const std::string why = objection_to(one.text, one.item); !why.empty())
        out.push_back(fmt::format("{}:{}: {}: {}", file.path, one.line, why, one.text));
  return out;
}

Findings hard_messages(std::span<const SourceFile> files) {
  Findings out;
  for (const SourceFile& file : files)
    for (const Message& one : messages(file.text)) {
      std::string sentence;
      for (size_t at = 0; at < one.text.size();) {  // lines of help end in "\n"
        const size_t end = std::min(one.text.find("\\n", at), one.text.size());
        for (const std::string_view word : split(std::string_view(one.text).substr(at, end - at), " ")) {
          sentence += (sentence.empty() ? "" : " ") + std::string(word);
          const bool last = ends_sentence(word) || word.ends_with(';') || word.data() + word.size() == &one.text[end];
          if (!last) continue;
          if (const std::string why = objection_to(sentence); !why.empty())
            out.push_back(fmt::format("{}:{}: {}: {}", file.path, one.line, why, sentence));
          sentence.clear();
        }
        at = end + 2;
      }
    }
  return out;
}

std::string message_list(std::span<const SourceFile> files) {
  std::string out;
  for (const SourceFile& file : files) {
    const auto found = messages(file.text);
    if (!found.empty()) out += fmt::format("\n{}\n", file.path);
    for (const Message& one : found) {
      out += "  ";
      for (size_t i = 0; i < one.text.size(); ++i) {
        out += one.text[i];
        if (one.text[i] == 'n' && i > 0 && one.text[i - 1] == '\\' && i + 1 < one.text.size()) out += "\n    ";
      }
      out += '\n';
    }
  }
  return out;
}

}  // namespace llada::layering
