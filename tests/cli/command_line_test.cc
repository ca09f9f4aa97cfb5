// What a newcomer types: examples of help as a shell reads them, the model by position, text on a pipe, words of other
// programs.
#include <cstdio>
#include <sstream>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/manual.h"
#include "cli/mistakes.h"
#include "cli/process.h"
#include "lab/commands.h"

namespace llada::cli {
namespace {

using namespace test;
using test::Json;

const std::string kAsked = "Sort the numbers from smallest to largest:";

constexpr Command kAll[] = {{"run", "", setup_run},         {"chat", "", setup_chat},
                            {"infill", "", setup_infill},   {"serve", "", setup_serve},
                            {"batch", "", setup_batch},     {"eval", "", setup_eval},
                            {"score", "", setup_score},     {"decide", "", setup_decide},
                            {"tune", "", setup_tune},       {"recommend", "", setup_recommend},
                            {"pull", "", setup_pull},       {"pack", "", setup_pack},
                            {"inspect", "", setup_inspect}, {"convert", "", setup_convert},
                            {"imatrix", "", setup_imatrix}, {"devices", "", setup_devices},
                            {"doctor", "", setup_doctor}};
// Of llada-study.
constexpr Command kOfStudy[] = {{"bench", "", setup_bench},
                                {"logits", "", setup_logits},
                                {"synth", "", setup_synth},
                                {"simulate", "", setup_simulate},
                                {"doctor", "", setup_dsp_doctor}};

class Examples : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* file : {"notes.txt", "prompt.txt"}) std::ofstream(folder_ / file) << kAsked << " 3 1 2\n";
    std::ofstream(folder_ / "draft.txt") << "Ken has 20+6=<mask:2> puzzles.\n";
    std::ofstream(folder_ / "ids.txt") << "1000 72 101 1005\n";
    fs::create_directory_symlink(LLADA_SOURCE_DIR "/models", folder_ / "models");
  }

  // What a shell prints and its status at the end.
  std::pair<std::string, int> shell(const std::string& script) const {
    std::ofstream(folder_ / "script.sh") << script;
    FILE* pipe = ::popen(fmt::format("cd '{0}' && sh ./script.sh 2>&1 </dev/null", folder_.string()).c_str(), "r");
    std::string out;
    char bytes[4096];
    for (size_t n = 0; (n = std::fread(bytes, 1, sizeof bytes, pipe)) > 0;) out.append(bytes, n);
    return {out, ::pclose(pipe)};
  }

  // The arguments of every `llada` and `curl` of the commands, as a shell hands them over.
  std::vector<Words> words_of(std::string commands) const {
    constexpr std::string_view kStudy = "llada-study";  // no name for a function of the shell
    for (size_t at = 0; (at = commands.find(kStudy, at)) != std::string::npos;)
      commands.replace(at, kStudy.size(), "study");
    const auto [out, status] = shell(
        "said() { if [ -p /dev/stdin ]; then cat >/dev/null; fi; printf '%s\\037' \"$@\"; printf '\\036'; }\n"
        "llada() { said llada \"$@\"; }\nstudy() { said llada-study \"$@\"; }\n"
        "curl() { printf '%s\\037' curl \"$@\"; printf '\\036'; }\n" +
        commands);
    EXPECT_EQ(status, 0) << out;
    std::vector<Words> all;
    std::stringstream records(out);
    for (std::string record; std::getline(records, record, '\036');) {
      std::stringstream words(record);
      all.emplace_back();
      for (std::string word; std::getline(words, word, '\037');) all.back().push_back(word);
    }
    return all;
  }

  const TempFolder temp_;
  const fs::path folder_ = temp_.path();
};

// The lines of a text that begin with two spaces behind "Examples:".
std::string examples_in(const std::string& text) {
  const size_t begin = text.find("Examples:\n");
  if (begin == std::string::npos) return "";
  std::string out;
  bool goes_on = false;
  std::stringstream lines(text.substr(begin + 10));
  for (std::string line; std::getline(lines, line);) {
    if (goes_on || line.starts_with("  ")) out += line + '\n';
    goes_on = line.ends_with('\\');
  }
  return out;
}

std::string without_roff(std::string text) {
  for (const auto& [what, by] : {std::pair{"\\-", "-"}, {"\\&", ""}, {"\\e", "\\"}})
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += std::string_view(by).size())
      text.replace(at, 2, by);
  return text;
}

// Broken at any width, a shell makes the same words of them as of the unbroken ones; the manual page has them unbroken;
// and the command takes them.
TEST_F(Examples, AreTheSameWordsInHelpAndInTheManual) {
  const std::string listed = run_llada({"--help"}).out;
  const std::string names = listed.substr(listed.find("Commands:\n"));
  EXPECT_EQ(std::ranges::count(names.substr(0, names.find("\n\n")), '\n'), std::ssize(kAll)) << listed;
  EXPECT_THAT(listed, HasSubstr("\nExit status: 0 done, 1 the work failed, 2 the request"));
  std::vector<std::pair<Program, Command>> all;
  const Program llada{.commands = kAll}, study{.name = "llada-study", .commands = kOfStudy};
  for (const Program& program : {llada, study})
    for (const Command& command : program.commands) all.emplace_back(program, command);
  for (const auto& [program, command] : all) {
    CLI::App app("", fmt::format("{} {}", program.name, command.name));
    app.set_help_all_flag("--help-all");
    const Work work = command.setup(app);
    const std::string unbroken = examples_in(app.get_footer());
    const auto expected = words_of(unbroken);
    EXPECT_GE(expected.size(), command.name == "doctor" ? 1u : 2u) << command.name;
    for (const int width : {40, 80, 120})
      EXPECT_EQ(words_of(examples_in(help_text(app, false, width))), expected) << command.name << " at " << width;
    EXPECT_EQ(examples_in(without_roff(*manual_page(program, command.name, "0"))), unbroken);
    for (const Words& words : expected) {
      if (words.front() != program.name) continue;
      const auto found = std::ranges::find(program.commands, words.at(1), &Command::name);
      ASSERT_NE(found, program.commands.end()) << words.at(1);
      CLI::App fresh("", "llada");
      const Work ready = found->setup(fresh);
      auto given = known_words(fresh, {words.begin() + 2, words.end()});
      ASSERT_TRUE(given) << given.error().message;
      std::ranges::reverse(*given);
      EXPECT_NO_THROW(fresh.parse(*given)) << testing::PrintToString(words);
    }
  }
}

// An unset variable of a shell: every option that takes a value refuses an empty one by its name.
TEST(EmptyValues, AreRefusedByName) {
  int tried = 0;
  std::vector<Command> all(std::begin(kAll), std::end(kAll));
  all.insert(all.end(), std::begin(kOfStudy), std::end(kOfStudy));
  for (const Command& command : all) {
    const auto refusal = [&](const std::string& name, const Words& words) -> std::string {
      CLI::App app("", "llada");
      app.set_help_all_flag("--help-all");
      const Work work = command.setup(app);
      for (CLI::Option* option : app.get_options()) option->required(false);
      auto given = known_words(app, words);
      if (!given) return given.error().message;
      std::ranges::reverse(*given);
      try {
        app.parse(*given);
      } catch (const CLI::ParseError& error) {
        return parse_error_text(app, error);
      }
      const Status status = refuse_empty(app);
      return status ? fmt::format("{} {} was taken", command.name, name) : status.error().message;
    };
    CLI::App app("", "llada");
    const Work work = command.setup(app);
    for (const CLI::Option* option : app.get_options()) {
      const std::string name = option->get_name();
      if (option->get_expected_max() == 0 || name == "--prompt" || name == "--system") continue;
      ++tried;
      if (!name.starts_with("-")) {
        EXPECT_THAT(refusal(name, {""}), HasSubstr("''"));
        continue;
      }
      EXPECT_THAT(refusal(name, {name, ""}), StartsWith(name + ":"));
      if (name.starts_with("--")) {
        EXPECT_THAT(refusal(name, {name + "="}), StartsWith(name + ":"));
      }
    }
  }
  EXPECT_GT(tried, 300);
}

TEST_F(Examples, Run) {
  done({"convert", tiny_model(), (folder_ / "model.gguf").string(), "--type", "q8_0"});
  std::string script = fmt::format("set -e\nllada() {{ {} '{}' \"$@\"; }}\n", LLADA_EMULATOR, LLADA_BINARY);
  std::ranges::replace(script, '|', ' ');
  for (const auto setup : {setup_run, setup_infill, setup_inspect, setup_devices}) {
    CLI::App app;
    const Work work = setup(app);
    script += examples_in(help_text(app, false, 80));
  }
  const auto [out, status] = shell(script);
  EXPECT_EQ(status, 0) << out;
}

TEST(Positions, TheModelStandsFirstWithoutItsOption) {
  const auto tokens = [](const Words& words, const std::string& in = "") {
    return json_of(words, {.stdin_text = in})["tokens"];
  };
  const std::string m = tiny_model(), prompt = kAsked + " 3 1 2";
  const Json expected = tokens({"run", "-m", m, "-p", prompt, "--json"});
  EXPECT_EQ(tokens({"run", m, prompt, "--json"}), expected);
  EXPECT_EQ(tokens({"run", prompt, "--json", "-m", m}), expected);
  EXPECT_EQ(tokens({"run", m, "--json", "-p", prompt}), expected);
  EXPECT_EQ(tokens({"run", m, "--json"}, prompt), expected);
  EXPECT_EQ(tokens({"run", m, "-", "--json"}, prompt), expected);
  const std::string gap = "Ken has 20+6=<mask:2> puzzles.";
  EXPECT_EQ(tokens({"infill", m, gap, "--json"}), tokens({"infill", "-m", m, "--text", gap, "--json"}));
  EXPECT_EQ(run_llada({"score", m, "-p", "a", "--continuation", "b"}).out,
            run_llada({"score", "-m", m, "-p", "a", "--continuation", "b"}).out);
}

TEST(Piped, TextGoesBehindThePrompt) {
  const auto tokens = [](const std::string& prompt, const std::string& in) {
    return json_of({"run", tiny_model(), "-p", prompt, "--json"}, {.stdin_text = in})["tokens"];
  };
  const Json expected = tokens(kAsked + "\n38 41 6 51 3", "");
  EXPECT_EQ(tokens(kAsked, "38 41 6 51 3"), expected);
  EXPECT_EQ(tokens(kAsked, "38 41 6 51 3\n"), expected) << "the last line's end is no text";
  EXPECT_NE(tokens(kAsked, ""), expected);
  EXPECT_EQ(tokens("-", kAsked + "\n38 41 6 51 3"), expected);
}

// Node's child processes have a socket for stdin, and leave it open where nothing is written.
TEST(Piped, SocketsCountWhereTheyBringText) {
  const Words alone = {"run", tiny_model(), kAsked, "--json"};
  const auto tokens = [](const ProcessResult& result) { return Json::parse(result.out)["tokens"]; };
  const auto written = done(alone, {.stdin_text = "38 41 6 51 3", .stdin_socket = true});
  EXPECT_EQ(written.err, "");
  EXPECT_EQ(tokens(written), tokens(run_llada(alone, {.stdin_text = "38 41 6 51 3"})));
  const auto open = done(alone, {.stdin_socket = true, .stdin_stays_open = true});
  EXPECT_EQ(open.err, "llada: stdin is a socket that brings nothing: the prompt stands alone\n");
  EXPECT_EQ(tokens(open), tokens(run_llada(alone)));
}

// labels: long
TEST(Piped, APipeThatStaysOpenIsSaidToBeWaitedFor) {
  const Words alone = {"run", tiny_model(), kAsked, "--json"};
  for (const std::string text : {"", "38 41 6 51 3"}) {
    const auto result = done(alone, {.stdin_text = text, .stdin_stays_open = true});
    EXPECT_THAT(result.err, HasSubstr("waiting for the end of stdin"));
    EXPECT_EQ(Json::parse(result.out)["tokens"], json_of(alone, {.stdin_text = text})["tokens"]);
  }
}

TEST(Logits, DashIsStdout) {
  const TempFolder folder;
  const std::string file = folder / "rows.f32", ids = "1000 72 101 1005";
  done({"logits", tiny_model(), "--ids", "-", "-o", file}, {.stdin_text = ids});
  const auto result = done({"logits", tiny_model(), "--ids", "-", "-o", "-"}, {.stdin_text = ids});
  EXPECT_EQ(result.err, "-: 4 rows of 1024 logits\n");
  EXPECT_EQ(result.out, folder.read("rows.f32"));
  EXPECT_EQ(result.out.size(), size_t{4} * 1024 * 4);
}

TEST(Listed, DevicesThatComputeStandFirstAndLinesFit) {
  for (const char* words : {"devices", "--version", "simulate --profile sm8750-paper",
                            "simulate --moe mixtral --profile a6000-pcie4 --moe-tokens 1"})
    EXPECT_LE(longest_line(run_llada(split(words)).out), 80u) << words;
  const std::string devices = run_llada({"devices"}, {.program = LLADA_STUDY}).out;
  EXPECT_THAT(run_llada({"devices"}).out, Not(HasSubstr("sim:")));
  EXPECT_TRUE(devices.starts_with("cpu: ")) << devices;
  EXPECT_LT(devices.find("\ncuda: "), devices.find("\nSimulated ")) << devices;
  EXPECT_LT(devices.find("\nSimulated "), devices.find("\nsim:")) << devices;
}

// Of the least certain numbers those are shown whose ends make a difference.
TEST(Listed, NumbersWithoutEffectAreLeftOut) {
  for (const std::string& line : lines_of(run_llada({"simulate", "--profile", "rtx4060-pcie4"}).out)) {
    const size_t first = line.find(" gives "), second = line.find(" gives ", first + 1);
    if (second == std::string::npos) continue;
    EXPECT_NE(line.substr(first, line.find(',', first) - first), line.substr(second)) << line;
  }
}

}  // namespace
}  // namespace llada::cli
