// llada: finds the command, reads its options, runs it. Exit status: 0 done, 1 the work failed, 2 the request
// or the input is wrong, 128 + n stopped by signal n. An error is one line on stderr.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <numeric>
#include <system_error>
#include <vector>

#include "base/pages.h"
#include "cli/commands.h"
#include "cli/mapping_fault.h"
#include "cli/terminal.h"

namespace llada::cli {
namespace {

constexpr Command kCommands[] = {
    {"run", "answer a prompt, or hold a conversation", setup_run},
    {"infill", "fill the gaps of a text", setup_infill},
    {"eval", "measure strategies on a file of tasks", setup_eval},
    {"tune", "find fast decoding options for a model and a task", setup_tune},
    {"inspect", "describe a model file", setup_inspect},
    {"convert", "write a model as a GGUF file", setup_convert},
    {"logits", "one forward over token ids, for comparisons", setup_logits},
    {"devices", "list where models can run", setup_devices},
    {"synth", "write a model file with random weights", setup_synth},
    {"bench", "measure the machine, the kernels and whole runs", setup_bench},
    {"simulate", "price a run on a phone that is not here", setup_simulate},
};

std::string general_help() {
  std::string out = "llada: runs diffusion language models.\n\nUsage: llada COMMAND [OPTIONS]\n\nCommands:\n";
  for (const Command& command : kCommands) out += fmt::format("  {:<10} {}\n", command.name, command.summary);
  return out +
         "\n  --help     this text; after a command, its options and examples\n  --version  the version\n";
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int diagonal = std::exchange(row[0], static_cast<int>(i) + 1);
    for (size_t j = 0; j < b.size(); ++j)
      diagonal = std::exchange(row[j + 1], std::min({row[j + 1] + 1, row[j] + 1, diagonal + (a[i] != b[j])}));
  }
  return row.back();
}

// "; did you mean X?" where one of `known` is a slip of the finger away, else nothing.
std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const auto near = [&](const std::string& candidate) { return edit_distance(word, candidate); };
  const auto best = std::ranges::min_element(known, {}, near);
  return best != known.end() && near(*best) <= 2 ? fmt::format("; did you mean {}?", *best) : "";
}

std::string parse_error_text(const CLI::App& app, const CLI::ParseError& error) {
  const auto extra = app.remaining();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr || extra.empty()) return error.what();
  if (!extra.front().starts_with("-")) return fmt::format("unexpected argument '{}'", extra.front());
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options())
    if (option->nonpositional() && !option->get_group().empty())
      known.push_back("--" + option->get_lnames().front());
  return fmt::format("unknown option {}{}", extra.front(), suggestion(extra.front(), known));
}

int fail(const std::string& who, const Error& error, std::string_view hint = "") {
  if (!error.message.empty()) note(fmt::format("{}: {}{}\n", who, one_line(error.message), hint));
  return exit_status(error);
}

int finish(const std::string& who, const Status& status) { return status ? 0 : fail(who, status.error()); }

int run_command(const Command& command, int argc, char** argv) {
  const std::string who = fmt::format("llada {}", command.name);
  CLI::App app(std::string(command.summary), who);
  app.get_formatter()->column_width(28);
  const Work work = command.setup(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return finish(who, print(app.help()));
  } catch (const CLI::ParseError& error) {
    return fail(who, {ErrorKind::invalid_input, parse_error_text(app, error)},
                fmt::format(" (see {} --help)", who));
  }
  for (const CLI::Option* option : app.get_options())
    if (option->get_type_name() == "FILE" && option->count() > 0 && option->as<std::string>().empty())
      return fail(who, {ErrorKind::invalid_input,
                        fmt::format("{}: found '', needed the name of a file", option->get_name())});
  const Result<int> status = work();
  return status ? *status : fail(who, status.error());
}

int main_command(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word == "--help" || word == "-h") return finish("llada", print(general_help()));
  if (word == "--version") return finish("llada", print("llada " LLADA_VERSION "\n"));
  for (const Command& command : kCommands)
    if (word == command.name) return run_command(command, argc - 1, argv + 1);
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  const std::string message = word.empty() ? fmt::format("needs a command, one of {}", fmt::join(names, ", "))
                                           : fmt::format("no command '{}'{}", word, suggestion(word, names));
  return fail("llada", {ErrorKind::invalid_input, message}, " (see llada --help)");
}

}  // namespace
}  // namespace llada::cli

int main(int argc, char** argv) {
  // For tests: memory that nobody has written holds NaN (base/pages.h).
  const char* poison = std::getenv("LLADA_POISON");
  if (poison != nullptr && std::string_view(poison) != "0") llada::fill_forgotten_memory(0xff);
  std::signal(SIGPIPE, SIG_IGN);  // a reader that goes away is an ordinary error of write(), as is
  std::signal(SIGXFSZ, SIG_IGN);  // a file larger than the user's limit
  llada::cli::clean_up_on_signals();
  llada::cli::report_mapping_faults();
  try {
    return llada::cli::main_command(argc, argv);
  } catch (const std::bad_alloc&) {
    llada::cli::note("llada: out of memory\n");
  } catch (const std::system_error& error) {  // std::thread has no other way to say so
    llada::cli::note(fmt::format("llada: the system gives no thread or no memory for one: {}\n",
                                 llada::cli::one_line(error.what())));
  } catch (const std::exception& error) {
    llada::cli::note(fmt::format("llada: {}\n", llada::cli::one_line(error.what())));
  }
  return 1;
}
