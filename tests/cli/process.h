// Runs the built program as a user would: with arguments, stdin and an environment, on pipes or on a terminal; and the
// words that tests of it share.
#pragma once
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal_screen.h"
#include "formats/temp_folder.h"
#include "must.h"

namespace llada::test {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

Words with(Words words, const Words& more);
Words split(std::string_view line);  // at its blanks

struct ProcessResult {
  int status = -1;  // exit status; 1000 + signal when a signal ended it
  std::string out, err;
};

struct ProcessInput {
  std::string stdin_text = {};
  bool stdin_socket = false;                  // stdin is a socket, as Node makes it
  bool stdin_stays_open = false;              // until the program says something on stderr, or ends
  bool stdin_never_waits = false;             // as a parent process may leave its end of a pipe
  std::vector<std::string> environment = {};  // "NAME=value" beside the test's own; "NAME" removes
  std::string stdout_path = {};               // instead of a pipe
  bool close_stdout = false;                  // the reader of stdout is gone from the start
  std::vector<int> closed = {};               // streams that the program gets closed
  std::string program = LLADA_BINARY;
};

ProcessResult run_llada(const std::vector<std::string>& arguments, const ProcessInput& input = {});

// Of a run that succeeds, or the test ends: its result, and its stdout as JSON.
ProcessResult done(const Words& arguments, const ProcessInput& input = {});
Json json_of(const Words& arguments, const ProcessInput& input = {});
// One line on stderr that contains `says`, and nothing on stdout.
void expect_one_line(const ProcessResult& result, int status, const std::string& says);
// The lines of a text, without the returns that a terminal puts before their ends.
std::vector<std::string> lines_of(const std::string& text);
size_t longest_line(const std::string& text);
// The spawned program may write files of so many bytes alone, for as long as this lives.
class FileLimit {
 public:
  explicit FileLimit(uint64_t bytes);
  ~FileLimit();
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  uint64_t before_;
};

struct TerminalInput {
  std::string typed = {};
  std::vector<std::string> environment = {};
  int columns = 80, rows = 24;
  std::string interrupt_after = {};  // SIGINT once the output contains this
};

// stdin, stdout and stderr are one terminal; `out` is everything that came to it.
ProcessResult run_llada_on_terminal(const std::vector<std::string>& arguments, const TerminalInput& input = {});

// The program on a terminal, driven key by key.
class TerminalSession {
 public:
  explicit TerminalSession(const std::vector<std::string>& arguments, const TerminalInput& input = {});
  ~TerminalSession();  // ends the program
  TerminalSession(const TerminalSession&) = delete;
  TerminalSession& operator=(const TerminalSession&) = delete;

  void type(std::string_view keys);
  // Reads until the screen shows the text; false where it does not within 20 seconds or the program has ended. A blank
  // at the end of the text is the end of a row.
  bool shows(const std::string& text);
  // What comes within so many milliseconds.
  void read_for(int ms);
  void resize(int columns);
  void signal(int number) const;
  // Reads until the program ends; its status.
  int finish();

  const TerminalScreen& screen() const { return screen_; }
  const std::string& bytes() const { return bytes_; }  // everything that came

 private:
  bool read_some(int ms);
  int terminal_ = -1, child_ = -1;
  TerminalScreen screen_;
  int rows_;
  std::string bytes_;
};

// A sandbox without /dev/pts has no terminals; what needs one says so and is skipped.
bool has_terminal();
#define LLADA_NEEDS_TERMINAL() \
  if (!llada::test::has_terminal()) GTEST_SKIP() << "no pseudo terminal here; is /dev/pts mounted?"

std::string tiny_model();           // the shipped model's folder
std::string several_turns_model();  // the same without the word that its messages stand alone

}  // namespace llada::test
