// Scripts that tell a shell the commands, their options and the words of these.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "cli/help.h"
#include "cli/manual.h"
#include "cli/mistakes.h"
#include "engine/options.h"

namespace llada::cli {
namespace {

struct Flag {
  std::vector<std::string> names;  // with their dashes
  std::string help, unit;          // unit: empty for a switch
  std::string words;               // that it takes, where these are known
  bool files() const { return words.empty() || unit.find("FILE") != std::string::npos; }  // it may name one
};

struct Described {
  std::string name, summary;
  std::vector<Flag> flags;
};

Flag flag_of(const CLI::App& app, const CLI::Option& option) {
  Flag flag{.names = {}, .help = option.get_description(), .unit = {}, .words = offered(option)};
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  for (const std::string_view name : other_short_names(app, option)) flag.names.emplace_back(name);
  if (option.get_items_expected_max() > 0)
    flag.unit = option.get_type_name().empty() ? "VALUE" : option.get_type_name();
  for (const decode::Field& field : decode::fields())
    for (const std::string& name : flag.names)
      if (decode::flag(field) == name) flag.words = fmt::format("{}", fmt::join(field.words, " "));
  return flag;
}

std::vector<Described> describe(std::span<const Command> commands) {
  std::vector<Described> all;
  for (const Command& command : commands) {
    CLI::App app;
    const Work work = command.setup(app);
    Described& d = all.emplace_back(std::string(command.name), std::string(command.summary), std::vector<Flag>{});
    for (const OptionGroup& group : option_groups(app))
      for (const CLI::Option* option : group.options)
        if (Flag flag = flag_of(app, *option); !flag.names.empty()) d.flags.push_back(std::move(flag));
    d.flags.push_back({{"--help"}, "its options and examples", "", {}});
    d.flags.push_back({{"--help-all"}, "every option", "", {}});
  }
  return all;
}

// With a character before each of `which`.
std::string escaped(std::string_view text, std::string_view which, std::string_view by) {
  std::string out;
  for (const char c : text) {
    if (which.find(c) != std::string_view::npos) out += by;
    out += c;
  }
  return out;
}

// Inside single quotes of a POSIX shell.
std::string in_single(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out;
}

// Of a shell's function.
std::string function_of(std::string_view program) {
  std::string out = "_" + std::string(program);
  std::ranges::replace(out, '-', '_');
  return out;
}

std::string bash(std::string_view program, std::span<const Described> commands) {
  std::string names, cases;
  std::map<std::string, std::map<std::string, const Flag*>> by_option;  // its commands, and the option there
  for (const Described& d : commands) {
    names += (names.empty() ? "" : " ") + d.name;
    std::string list;
    for (const Flag& flag : d.flags)
      for (const std::string& name : flag.names) {
        list += (list.empty() ? "" : " ") + name;
        if (!flag.unit.empty()) by_option[name][d.name] = &flag;
      }
    cases += fmt::format("    {}) words='{}' ;;\n", d.name, list);
  }
  std::string of_options;
  for (const auto& [name, uses] : by_option) {
    const std::string& first = uses.begin()->second->words;
    const bool alike = std::ranges::all_of(uses, [&](const auto& use) { return use.second->words == first; });
    for (const auto& [command, flag] : uses) {
      if (!flag->words.empty())
        of_options +=
            fmt::format("    {}\\ {}) COMPREPLY=($(compgen -W '{}' -- \"$word\"){}); return ;;\n",
                        alike ? "*" : command, name, flag->words, flag->files() ? " $(compgen -f -- \"$word\")" : "");
      if (alike) break;
    }
  }
  return fmt::format(
      "# bash completion of {0}\n{1}() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} words=\n"
      "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
      "    COMPREPLY=($(compgen -W 'help {2} --help --version' -- \"$word\") $(compgen -f -- \"$word\"))\n"
      "    return\n  fi\n  case \"${{COMP_WORDS[1]}} $before\" in\n"
      "    help\\ help) COMPREPLY=($(compgen -W '{2} options' -- \"$word\")); return ;;\n"
      "{3}  esac\n  case ${{COMP_WORDS[1]}} in\n{4}  esac\n"
      "  case $word in\n    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
      "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n  esac\n}}\ncomplete -o filenames -F {1} {0}\n",
      program, function_of(program), names, of_options, cases);
}

std::string zsh(std::string_view program, std::span<const Described> commands) {
  std::string names, cases;
  for (const Described& d : commands) {
    names += fmt::format("    '{}:{}'\n", d.name, in_single(escaped(d.summary, ":", "\\")));
    std::string specs;
    for (const Flag& flag : d.flags) {
      const std::string help = in_single(escaped(flag.help, "[]:", "\\"));
      const std::string action =
          flag.unit.empty() ? ""
                            : fmt::format(":{}:{}", in_single(escaped(flag.unit, "[]:", "\\")),
                                          flag.words.empty() ? "_files"
                                          : flag.files()     ? fmt::format("{{_values word {}; _files}}", flag.words)
                                                             : fmt::format("({})", flag.words));
      for (const std::string& name : flag.names) specs += fmt::format(" \\\n        '*{}[{}]{}'", name, help, action);
    }
    cases += fmt::format("      {}) _arguments{} \\\n        '*:file:_files' ;;\n", d.name, specs);
  }
  return fmt::format(
      "#compdef {0}\n{1}() {{\n  local -a commands=(\n{2}  )\n"
      "  if (( CURRENT == 2 )); then\n    _describe command commands\n    _files\n  else\n    local command=$words[2]\n"
      "    shift words\n    (( CURRENT-- ))\n    case $command in\n{3}    esac\n  fi\n}}\n{1} \"$@\"\n",
      program, function_of(program), names, cases);
}

std::string fish(std::string_view program, std::span<const Described> commands) {
  std::string out = fmt::format("# fish completion of {}\n", program);
  const auto quoted = [](std::string_view text) { return "'" + escaped(text, "\\'", "\\") + "'"; };
  for (const Described& d : commands) {
    out += fmt::format("complete -c {} -n __fish_use_subcommand -a {} -d {}\n", program, d.name, quoted(d.summary));
    for (const Flag& flag : d.flags) {
      out += fmt::format("complete -c {} -n '__fish_seen_subcommand_from {}'", program, d.name);
      for (const std::string& name : flag.names)
        out += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2))
                                      : fmt::format(" -{} {}", name.size() == 2 ? 's' : 'o', name.substr(1));
      if (!flag.words.empty())
        out += fmt::format(" {} -a '{}'", flag.files() ? "-r -F" : "-x", flag.words);
      else if (!flag.unit.empty())
        out += " -r";
      out += fmt::format(" -d {}\n", quoted(flag.help));
    }
  }
  return out;
}

}  // namespace

Result<std::string> completion(const Program& which, std::string_view shell) {
  const auto all = describe(which.commands);
  if (shell == "bash") return bash(which.name, all);
  if (shell == "zsh") return zsh(which.name, all);
  if (shell == "fish") return fish(which.name, all);
  return invalid("--completion: found '{}', needed bash, zsh or fish", shell);
}

}  // namespace llada::cli
