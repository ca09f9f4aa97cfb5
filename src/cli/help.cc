#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace llada::cli {
namespace {

constexpr char kBetween = '|';  // "short heading|heading"

std::pair<std::string, std::string> headings(const CLI::Option& option) {
  const std::string& group = option.get_group();
  const size_t at = group.find(kBetween);
  if (at == std::string::npos) return {group, group};
  return {group.substr(0, at), group.substr(at + 1)};
}

// Where the first argument of a command ends: at a space outside quotes.
size_t argument_end(std::string_view text) {
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == ' ') {
      return i;
    }
  }
  return text.size();
}

size_t word_end(std::string_view text) { return std::min(text.find(' '), text.size()); }

// `text` in lines of at most `width` columns, the second and later ones after `indent` spaces. Lines break where `part`
// says that a word ends, behind `mark`; a longer word stands alone.
std::string wrap(std::string_view text, size_t used, size_t indent, size_t width,
                 size_t (*part)(std::string_view) = word_end, std::string_view mark = "") {
  std::string out;
  size_t column = used;
  for (bool first = true; !text.empty(); first = false) {
    const size_t end = part(text);
    if (!first && column + 1 + end + mark.size() > width) {
      out += fmt::format("{}\n{:{}}", mark, "", indent);
      column = indent;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return out;
}

std::string option_text(const CLI::Option& option, bool whole, size_t width) {
  const size_t column = width < 70 ? 8 : 27;
  std::string out = "  " + names_of(option, whole);
  if (out.size() + 2 > column) {
    out += '\n';
    out.append(column, ' ');
  } else {
    out.append(column - out.size(), ' ');
  }
  return out + wrapped(option.get_description(), column, column, width) + '\n';
}

// Prose is wrapped; a command that is too long goes on behind a backslash between two arguments, so that it can be
// pasted.
std::string footer_text(std::string_view footer, size_t width) {
  std::string out;
  while (!footer.empty()) {
    const size_t end = std::min(footer.find('\n'), footer.size());
    std::string_view line = footer.substr(0, end);
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    out += fmt::format("{:{}}", "", indent);
    line.remove_prefix(indent);
    out += (indent > 0 ? wrap(line, indent, indent + 4, width, argument_end, " \\") : wrap(line, 0, 0, width)) + '\n';
    footer.remove_prefix(std::min(footer.size(), end + 1));
  }
  return out;
}

bool is_shown(const CLI::App& app, const CLI::Option* option) {
  return !option->get_group().empty() && option != app.get_help_ptr() && option != app.get_help_all_ptr();
}

}  // namespace

std::string wrapped(std::string_view text, size_t used, size_t indent, size_t width) {
  return wrap(text, used, indent, width);
}

CLI::Option* offer(CLI::Option* option, const std::string& words) { return option->option_text(words); }

std::string names_of(const CLI::Option& option, bool whole) {
  std::string names = option.get_positional() ? option.get_name(true) : "";
  for (const std::string& name : option.get_snames()) names += (names.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames()) {
    names += (names.empty() ? "--" : ", --") + name;
    if (!whole) break;
  }
  const std::string type = option.get_type_name();
  if (!option.get_positional() && option.get_items_expected_max() > 0 && !type.empty()) names += " " + type;
  return names;
}

std::vector<OptionGroup> option_groups(const CLI::App& app) {
  std::vector<OptionGroup> groups;
  for (const CLI::Option* option : app.get_options()) {
    if (!is_shown(app, option)) continue;
    const std::string heading = headings(*option).second;
    auto found = std::ranges::find(groups, heading, &OptionGroup::heading);
    if (found == groups.end()) found = groups.insert(groups.end(), {heading, {}});
    found->options.push_back(option);
  }
  return groups;
}

std::string shown_as(const std::string& short_heading, const std::string& heading) {
  return short_heading + kBetween + heading;
}
std::string further(const std::string& heading) { return shown_as("", heading); }

std::string help_text(const CLI::App& app, bool whole, int width) {
  const auto columns = static_cast<size_t>(std::clamp(width, 40, 120));
  std::vector<std::pair<std::string, std::string>> groups;  // heading and text, in the order of their first options
  std::string positionals;
  size_t left_out = 0;
  for (const CLI::Option* option : app.get_options()) {
    if (!is_shown(app, option)) continue;
    if (option->get_positional()) positionals += " " + option->get_name(true);
    const auto [brief, full] = headings(*option);
    const std::string& heading = whole ? full : brief;
    left_out += heading.empty();
    if (heading.empty()) continue;
    auto found = std::ranges::find(groups, heading, &std::pair<std::string, std::string>::first);
    if (found == groups.end()) found = groups.insert(groups.end(), {heading, ""});
    found->second += option_text(*option, whole, columns);
  }
  std::string out = fmt::format("{}: {}\nUsage: {} [OPTIONS]{}\n", app.get_name(), app.get_description(),
                                app.get_name(), positionals);
  for (const auto& [heading, text] : groups) out += fmt::format("{}:\n{}", heading, text);
  if (left_out > 0) out += fmt::format("--help-all shows {} more options.\n", left_out);
  return out + footer_text(app.get_footer(), columns);
}

}  // namespace llada::cli
