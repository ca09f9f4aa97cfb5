#include "cli/manual.h"

#include <fmt/format.h>

#include "cli/help.h"

namespace llada::cli {
namespace {

// Text of a roff line: a line that begins with a dot is text too, and a dash is one that can be searched for and
// pasted.
std::string roff(std::string_view text) {
  std::string out = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string head(std::string_view page, std::string_view summary, std::string_view version) {
  std::string title(page);
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return fmt::format(".TH \"{}\" 1 \"\" \"llada {}\" \"llada.cpp\"\n.SH NAME\n{} \\- {}\n", roff(title), version,
                     roff(page), roff(summary));
}

// Lines that begin with a space are examples.
std::string prose(std::string_view text) {
  std::string out;
  bool example = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    if (line.starts_with(' ') != example) out += (example = !example) ? ".PP\n.EX\n" : ".EE\n";
    out += line.empty() ? ".PP\n" : roff(line) + '\n';
  }
  return out + (example ? ".EE\n" : "");
}

constexpr std::string_view kExitStatus =
    ".SH EXIT STATUS\n.TP\n0\ndone\n.TP\n1\nthe work failed\n.TP\n2\nthe request or the input is wrong\n.TP\n128 + "
    "N\nstopped by signal N\n";

std::string page_of(const Program& which, const Command& command, std::string_view version) {
  CLI::App app(std::string(command.summary), fmt::format("{} {}", which.name, command.name));
  const Work work = command.setup(app);
  std::string positionals, options;
  for (const OptionGroup& group : option_groups(app)) {
    options += fmt::format(".SS {}\n", roff(group.heading));
    for (const CLI::Option* option : group.options) {
      if (option->get_positional()) positionals += " [" + option->get_name(true) + "]";
      options += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(names_of(*option, true)), roff(option->get_description()));
    }
  }
  return head(fmt::format("{}-{}", which.name, command.name), command.summary, version) +
         fmt::format(
             ".SH SYNOPSIS\n.B {} {}\n[OPTIONS]{}\n.SH DESCRIPTION\n{}.SH OPTIONS\n{}{}.SH SEE ALSO\n.BR {} (1)\n",
             roff(which.name), command.name, roff(positionals), prose(app.get_footer()), options, kExitStatus,
             roff(which.name));
}

}  // namespace

Result<std::string> manual_page(const Program& which, std::string_view command, std::string_view version) {
  const std::string name = roff(which.name);
  std::string list, pages;
  for (const Command& c : which.commands) {
    if (c.name == command) return page_of(which, c, version);
    list += fmt::format(".TP\n\\fB{} {}\\fR\n{}\n", name, c.name, roff(c.summary));
    pages += fmt::format("{}.BR {}\\-{} (1)", pages.empty() ? "" : ",\n", name, c.name);
  }
  if (!command.empty()) return invalid("--man: found '{}', needed a command or nothing", command);
  const bool first = which.name == Program{}.name;
  return head(which.name, which.about, version) +
         fmt::format(
             ".SH SYNOPSIS\n.B {} COMMAND\n[OPTIONS]\n{}.SH DESCRIPTION\n{}.SH COMMANDS\n{}{}.SH SEE ALSO\n{}{}\n",
             name, first ? ".br\n.B llada MODEL\n[OPTIONS]\n" : "",
             first
                 ? "A diffusion language model does not write word by word: it starts from masks and fills in many "
                   "words at a time, in any order.\nWith a model's file in the place of a command this program holds a "
                   "conversation with it.\n"
                 : "It also has the commands of\n.BR llada (1).\n",
             list, kExitStatus, pages, first ? "" : ",\n.BR llada (1)");
}

}  // namespace llada::cli
