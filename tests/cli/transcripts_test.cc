// What a shell shows of commands, compared with the recorded text in tests/data/transcripts: help, and mistakes. A line
// "$ COMMAND" is run by sh in a folder of its own, where m is the shipped model; below it stand stdout, stderr behind
// "! ", and the exit status where it is not 0. Recorded anew with LLADA_UPDATE=1, to be read before it is committed.
#include <cstdlib>
#include <sstream>

#include "cli/process.h"

namespace llada::test {
namespace {

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

class Transcript : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string_view(LLADA_EMULATOR) != "") GTEST_SKIP() << "a shell starts no emulator";
    for (const auto& [name, program] : {std::pair("llada", LLADA_BINARY), {"llada-study", LLADA_STUDY}})
      fs::create_symlink(program, programs_ / name);
    fs::create_directory_symlink(tiny_model(), folder_ / "m");
  }

  std::string shown(const std::string& command) const {
    const std::string out = programs_ / "out", err = programs_ / "err";
    const int status = std::system(fmt::format("cd '{}' && PATH='{}':$PATH HOME='{}' XDG_CACHE_HOME= sh -c '{}' >'{}' "
                                               "2>'{}' </dev/null",
                                               folder_.path(), programs_.path(), programs_.path(),
                                               replaced(command, "'", "'\\''"), out, err)
                                       .c_str());
    std::string text = programs_.read("out");
    std::istringstream lines(programs_.read("err"));
    for (std::string line; std::getline(lines, line);) text += "! " + line + '\n';
    if (status != 0) text += fmt::format("[{}]\n", WEXITSTATUS(status));
    return replaced(replaced(text, folder_.path(), "FOLDER"), programs_.path(), "HOME");
  }

  void expect_as_recorded(const std::string& name) const {
    const std::string path = fmt::format("{}/tests/data/transcripts/{}.txt", LLADA_SOURCE_DIR, name);
    std::ifstream file(path);
    ASSERT_TRUE(file) << path;
    const bool update = std::getenv("LLADA_UPDATE") != nullptr;
    std::string command, recorded, now;
    const auto end = [&] {
      if (command.empty()) {
        now += recorded;  // the head of the file
      } else {
        const std::string text = shown(command);
        now += "$ " + command + '\n' + text;
        if (!update) {
          EXPECT_EQ(text, recorded) << command;
        }
      }
      recorded.clear();
    };
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with("$ ")) {
        recorded += line + '\n';
        continue;
      }
      end();
      command = line.substr(2);
    }
    end();
    if (update) std::ofstream(path) << now;
  }

  const TempFolder folder_, programs_;
};

TEST_F(Transcript, Mistakes) {
  expect_as_recorded("mistakes");
  EXPECT_EQ(folder_.files(), 7u) << "the model and the files that the transcript makes";
}

TEST_F(Transcript, Help) { expect_as_recorded("help"); }

}  // namespace
}  // namespace llada::test
