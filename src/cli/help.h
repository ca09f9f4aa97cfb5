// The help of a command, in the width of a terminal: short (two screens of 80 by 24 at most) or whole. An option's
// group (CLI::Option::group) says where it stands.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace llada::cli {

// A group for options that stand under `heading` in the whole help, and under `short_heading` (empty: nowhere) in the
// short one. Any other group is its own heading in both.
std::string shown_as(const std::string& short_heading, const std::string& heading);
std::string further(const std::string& heading);  // in the whole help only

// The options that the whole help shows, by its headings, which are in the order of their first options.
struct OptionGroup {
  std::string heading;
  std::vector<const CLI::Option*> options;
};
std::vector<OptionGroup> option_groups(const CLI::App& app);

// Names words that the option takes, with spaces between, for a shell to complete; it may take others too.
CLI::Option* offer(CLI::Option* option, const std::string& words);
inline const std::string& offered(const CLI::Option& option) { return option.get_option_text(); }

// `text` in lines of at most `width` columns, broken at spaces. In the first line `used` columns are taken already; the
// others begin behind `indent` spaces.
std::string wrapped(std::string_view text, size_t used, size_t indent, size_t width);

// "-p, --prompt TEXT". whole: all of its long names; else the first alone.
std::string names_of(const CLI::Option& option, bool whole);

std::string help_text(const CLI::App& app, bool whole, int width);

}  // namespace llada::cli
