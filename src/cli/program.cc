#include "cli/program.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <system_error>

#include "base/console.h"
#include "base/os.h"
#include "base/pages.h"
#include "base/system.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/hub_access.h"
#include "cli/manual.h"
#include "cli/mistakes.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "engine/devices.h"
#include "engine/options.h"

namespace llada::cli {
namespace {

constexpr Command kCommands[] = {
    {"run", "answer a prompt", setup_run},
    {"chat", "hold a conversation", setup_chat},
    {"infill", "fill the gaps of a text", setup_infill},
    {"serve", "answer requests over HTTP, as OpenAI's protocol has them", setup_serve},
    {"batch", "answer a file of requests, as OpenAI's batches have them", setup_batch},
    {"eval", "measure strategies on a file of tasks", setup_eval},
    {"score", "score texts and answers to multiple choice", setup_score},
    {"decide", "answer typed questions by probabilities", setup_decide},
    {"tune", "find fast decoding options for a task", setup_tune},
    {"recommend", "list the models that fit this machine", setup_recommend},
    {"pull", "get a model from Hugging Face", setup_pull},
    {"pack", "keep packed weights on disk, for quick starts", setup_pack},
    {"inspect", "describe a model file", setup_inspect},
    {"convert", "write a model as a GGUF file", setup_convert},
    {"imatrix", "measure which columns of a model count", setup_imatrix},
    {"devices", "list where models can run", setup_devices},
    {"doctor", "check this machine and its devices", setup_doctor},
};

constexpr std::string_view kStudy = "llada-study";

// Those of the program itself, and llada's without those of the same names.
std::vector<Command> all_commands(const Program& which) {
  std::vector<Command> all(which.commands.begin(), which.commands.end());
  for (const Command& command : kCommands)
    if (std::ranges::find(which.commands, command.name, &Command::name) == which.commands.end()) all.push_back(command);
  return all;
}

std::string general_help(const Program& which) {
  std::string out = fmt::format(
      "{0}: {1}.\n\n"
      "Usage: {0} COMMAND [MODEL] [OPTIONS]\n",
      which.name, which.about);
  if (which.commands.empty()) out += "       llada MODEL [OPTIONS]    a conversation with it, as llada chat\n";
  out += "\nCommands:\n";
  for (const Command& command : which.commands.empty() ? std::span<const Command>(kCommands) : which.commands)
    out += fmt::format("  {:<10} {}\n", command.name, command.summary);
  if (!which.commands.empty()) out += "and those of llada (llada --help)\n";
  return out +
         fmt::format("\n  {} help COMMAND    its options and examples (COMMAND --help, --help-all)\n", which.name) +
         "  llada help options    every decoding option, its values and default\n"
         "  llada --version       version, commit, compiler, instruction sets and devices\n\n"
         "Exit status: 0 done, 1 the work failed, 2 the request or the input is wrong,\n"
         "128 + N stopped by signal N. An error is one line on stderr.\n";
}

// For `llada` alone.
std::string first_steps() {
  return fmt::format(
      "llada needs a command. With the small model that comes with it:\n"
      "  llada run {0} 'Sort the numbers from smallest to largest: 38 41 6 51 3'\n"
      "  llada serve {0}    answers form on a page in your browser; OpenAI's protocol\n"
      "A real model: llada recommend lists those that fit this machine. All commands: llada --help\n",
      kShippedModel);
}

Result<std::string> version_text(const Build& build) {
  LLADA_TRY(const auto devices, list_devices(isa_from_environment(), 0, cdsprpc_from_environment()));
  std::string out = fmt::format("llada {} (commit {})\ncompiler: {}\n", build.version, build.commit, build.compiler);
  for (const DeviceSummary& d : devices) {
    if (!d.instruction_sets.empty()) out += fmt::format("instruction sets: {}\n", fmt::join(d.instruction_sets, ", "));
    out +=
        wrapped(fmt::format("device {}: {}", d.name, d.description), 0, 4, static_cast<size_t>(output_width())) + '\n';
  }
  return out;
}

int fail(const std::string& who, const Error& error, std::string_view hint = "") {
  if (!error.message.empty()) note(fmt::format("{}: {}{}\n", who, one_line(error.message), hint));
  return exit_status(error);
}

int finish(const std::string& who, const Status& status) { return status ? 0 : fail(who, status.error()); }

int run_command(const Program& which, const Command& command, const Arguments& given) {
  const std::string who = fmt::format("{} {}", which.name, command.name);
  const std::string see = fmt::format(" (see {} --help)", who);
  CLI::App app(std::string(command.summary), who);
  app.allow_windows_style_options(false);  // "/models/x" is a path on every system
  app.set_help_all_flag("--help-all");
  const Work work = command.setup(app);
  const auto arguments = known_words(app, given);
  if (!arguments) return fail(who, arguments.error(), see);
  try {
    app.parse(Arguments(arguments->rbegin(), arguments->rend()));
  } catch (const CLI::CallForHelp&) {
    return finish(who, print(help_text(app, false, output_width())));
  } catch (const CLI::CallForAllHelp&) {
    return finish(who, print(help_text(app, true, output_width())));
  } catch (const CLI::ParseError& error) {
    return fail(who, as_typed({ErrorKind::invalid_input, parse_error_text(app, error)}, app, *arguments), see);
  }
  if (const Status status = refuse_empty(app); !status) return fail(who, as_typed(status.error(), app, *arguments));
  const Result<int> status = work();
  return status ? *status : fail(who, as_typed(status.error(), app, *arguments));
}

const Command* find_command(const Program& which, std::string_view name) {
  for (const std::span<const Command> commands : {which.commands, std::span<const Command>(kCommands)})
    if (const auto found = std::ranges::find(commands, name, &Command::name); found != commands.end()) return &*found;
  return nullptr;
}

std::string study_path() { return fmt::format("{}/{}", program_folder(), kStudy); }

int run_study(std::string_view name, Arguments words) {
  const std::string path = study_path();
  if (name != "study") words.insert(words.begin(), std::string(name));
  words.insert(words.begin(), path);
  os::run_instead(path, words);
  return fail(fmt::format("llada {}", name),
              {ErrorKind::invalid_input, fmt::format("found no {0} beside this program, needed it for this command "
                                                     "(in a checkout: tools/build.sh {0})",
                                                     kStudy)});
}

int main_command(Arguments words, const Build& build, const Program& which) {
  if (words.empty() && which.commands.empty()) {
    note(first_steps());
    return exit_status({ErrorKind::invalid_input, ""});
  }
  const std::string word = words.empty() ? "" : words.front();
  if (!words.empty()) words.erase(words.begin());
  if (word == "--help" || word == "-h" || (word == "help" && words.empty()))
    return finish("llada", print(general_help(which)));
  if (word == "--version" || word == "-v" || word == "version") {
    const auto text = version_text(build);
    return text ? finish("llada", print(*text)) : fail("llada", text.error());
  }
  if (word == "help" && words.front() == "options")
    return finish("llada", print(words.back() == "--markdown" ? decode::field_table() : decode_options_help()));
  // For the build, which installs their output.
  if (word == "help" && (words.front() == "--man" || words.front() == "--completion")) {
    const bool man = words.front() == "--man";
    const auto all = all_commands(which);
    Program described = which;
    if (!man || which.commands.empty()) described.commands = all;
    const std::string asked = words.size() > 1 ? words[1] : "";
    const auto text = man ? manual_page(described, asked, build.version) : completion(described, asked);
    return text ? finish("llada help", print(*text)) : fail("llada help", text.error());
  }
  const bool help = word == "help";
  const std::string& name = help ? words.front() : word;
  const auto as_study = [&] { return help ? run_study("study", {"help", name}) : run_study(name, words); };
  const bool of_device = std::ranges::any_of(words, [](const auto& w) { return w.starts_with("--device"); });
  if (which.commands.empty() && (name == "study" || (name == "doctor" && of_device))) return as_study();
  if (const Command* command = find_command(which, name))
    return run_command(which, *command, help ? Arguments{words.back() == "--all" ? "--help-all" : "--help"} : words);
  // A file, folder or short name stands for a conversation with the model.
  if (!help && !name.empty() && (os::exists(name) || is_short_name(name))) {
    words.insert(words.begin(), word);
    return run_command(which, *find_command(which, "chat"), words);
  }
  // Commands of llada-study go here, too, where it lies beside this program. It also says that there is none.
  if (which.commands.empty() && !name.empty() && os::may_run(study_path())) return as_study();
  Arguments names;
  for (const Command& command : all_commands(which)) names.emplace_back(command.name);
  std::string hint = foreign_command(name);
  if (hint.empty()) {
    hint = suggestion(name, names);
    if (which.commands.empty())
      hint += fmt::format("{}ore commands are of {}, which is not beside this program", hint.empty() ? "; m" : " M",
                          kStudy);
  }
  const std::string message = name.empty() ? fmt::format("needs a command, one of {}", fmt::join(names, ", "))
                              : name.contains('/') || name.ends_with(".gguf")
                                  ? fmt::format("no file or folder '{}'", name)
                                  : fmt::format("no command '{}'{}", name, hint);
  return fail("llada", {ErrorKind::invalid_input, message}, " (see llada --help)");
}

}  // namespace

// A DSP's modules lie beside the program, where nobody names another folder. The system's library reads this variable
// at any time, so it is set while no other thread runs.
static void name_module_folders() {
  const std::string folder = program_folder();
  if (!folder.empty()) os::set_variable("ADSP_LIBRARY_PATH", fmt::format("{0};{0}/hexagon;/vendor/dsp/cdsp", folder));
}

int program(int argc, char** argv, const Build& build, const Program& which) {
  os::prepare_streams();  // before any file is opened
  more_devices = which.devices;
  name_module_folders();
  // For tests: memory that nobody has written holds NaN (base/pages.h).
  if (const std::string poison = os::variable("LLADA_POISON"); !poison.empty() && poison != "0")
    fill_forgotten_memory(0xff);
  os::ignore_write_signals();
  clean_up_on_signals();
  os::report_mapping_faults();
  try {
    Arguments words = os::words_of(argc, argv);
    if (!words.empty()) words.erase(words.begin());
    return main_command(words, build, which);
  } catch (const std::bad_alloc&) {
    note("llada: out of memory\n");
  } catch (const std::system_error& error) {
    note(fmt::format("llada: {}\n", one_line(error_of(error).message)));
  } catch (const std::exception& error) {
    note(fmt::format("llada: {}\n", one_line(error.what())));
  }
  return 1;
}

}  // namespace llada::cli
