#include "cli/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace llada::test {
namespace {

void check(bool good, const char* what) {
  if (!good) throw std::runtime_error(std::string(what) + " failed");
}

std::vector<std::string> command_line(const std::vector<std::string>& arguments,
                                      const std::string& program = LLADA_BINARY) {
  std::vector<std::string> words;
  const std::string emulator = LLADA_EMULATOR;  // words with bars between them, or empty
  for (size_t at = 0; at < emulator.size();) {
    const size_t end = std::min(emulator.find('|', at), emulator.size());
    words.push_back(emulator.substr(at, end - at));
    at = end + 1;
  }
  words.push_back(program);
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

[[noreturn]] void become(std::vector<std::string> words, const std::vector<std::string>& environment) {
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos) {
      ::unsetenv(entry.c_str());
    } else {
      ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
    }
  }
  ::signal(SIGPIPE, SIG_DFL);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) check(errno == EINTR, "waitpid");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// Appends what is there; false at the end of the stream.
bool drain(int fd, std::string& out) {
  char buffer[4096];
  const ssize_t n = ::read(fd, buffer, sizeof buffer);
  if (n > 0) out.append(buffer, static_cast<size_t>(n));
  return n > 0 || (n < 0 && errno == EINTR);
}

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int ends[2];
    check(::pipe2(ends, O_CLOEXEC) == 0, "pipe");
    read_end = ends[0], write_end = ends[1];
  }
};

Pipe socket_pair() {
  Pipe ends;
  check(::close(ends.read_end) == 0 && ::close(ends.write_end) == 0, "close");
  int both[2];
  check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) == 0, "socketpair");
  ends.read_end = both[0], ends.write_end = both[1];
  return ends;
}

}  // namespace

std::string several_turns_model() {
  namespace fs = std::filesystem;
  struct Folder {
    fs::path path = fs::temp_directory_path() / ("llada_several_turns_" + std::to_string(::getpid()));
    Folder() {
      fs::create_directories(path);
      for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"})
        fs::create_symlink(fs::path(tiny_model()) / name, path / name);
      std::ifstream in(fs::path(tiny_model()) / "tokenizer_config.json");
      std::string text{std::istreambuf_iterator<char>(in), {}};
      const std::string word = "\"llada_single_turn\": true,";
      text.erase(text.find(word), word.size());
      std::ofstream(path / "tokenizer_config.json") << text;
    }
    ~Folder() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return folder.path.string();
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words split(std::string_view line) {
  std::istringstream stream{std::string(line)};
  return {std::istream_iterator<std::string>(stream), {}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line.substr(0, line.size() - line.ends_with('\r')));
  return lines;
}

size_t longest_line(const std::string& text) {
  size_t longest = 0;
  for (const std::string& line : lines_of(text)) longest = std::max(longest, line.size());
  return longest;
}

ProcessResult done(const Words& arguments, const ProcessInput& input) {
  ProcessResult result = run_llada(arguments, input);
  if (result.status != 0)
    throw std::runtime_error(fmt::format("{}: status {}: {}", fmt::join(arguments, " "), result.status, result.err));
  return result;
}

Json json_of(const Words& arguments, const ProcessInput& input) { return Json::parse(done(arguments, input).out); }

void expect_one_line(const ProcessResult& result, int status, const std::string& says) {
  EXPECT_EQ(result.status, status) << says << result.err;
  EXPECT_EQ(result.out, "") << says;
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << says << result.err;
  EXPECT_THAT(result.err, testing::AllOf(StartsWith("llada"), HasSubstr(says)));
}

FileLimit::FileLimit(uint64_t bytes) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  check(::getrlimit(RLIMIT_FSIZE, &limit) == 0, "getrlimit");
  before_ = limit.rlim_cur;
  limit.rlim_cur = bytes;
  check(::setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
}

FileLimit::~FileLimit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = before_;
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, SIG_DFL);
}

std::string tiny_model() { return LLADA_SOURCE_DIR "/models/tiny-llada"; }

ProcessResult run_llada(const std::vector<std::string>& arguments, const ProcessInput& input) {
  const auto words = command_line(arguments, input.program);
  Pipe in = input.stdin_socket ? socket_pair() : Pipe(), out, err;
  if (input.close_stdout) {  // before the program starts, so that it cannot be faster
    ::close(out.read_end);
    out.read_end = -1;
  }
  if (input.stdin_never_waits) check(::fcntl(in.read_end, F_SETFL, O_NONBLOCK) == 0, "O_NONBLOCK");
  const pid_t child = ::fork();
  check(child >= 0, "fork");
  if (child == 0) {
    if (!input.stdout_path.empty()) {
      const int file = ::open(input.stdout_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
      ::dup2(file, STDOUT_FILENO);
    } else {
      ::dup2(out.write_end, STDOUT_FILENO);
    }
    ::dup2(in.read_end, STDIN_FILENO);
    ::dup2(err.write_end, STDERR_FILENO);
    for (const int fd : input.closed) ::close(fd);
    become(words, input.environment);
  }
  for (const int fd : {in.read_end, out.write_end, err.write_end}) ::close(fd);
  ProcessResult result;
  ::signal(SIGPIPE, SIG_IGN);
  // Less than a pipe holds, so this never waits for a reader.
  check(input.stdin_text.size() < 60'000, "stdin text that fits the pipe");
  static_cast<void>(!::write(in.write_end, input.stdin_text.data(), input.stdin_text.size()));
  const auto end_input = [&in] {
    if (in.write_end >= 0) ::close(in.write_end);
    in.write_end = -1;
  };
  if (!input.stdin_stays_open) end_input();
  while (out.read_end >= 0 || err.read_end >= 0) {
    pollfd waiting[] = {{out.read_end, POLLIN, 0}, {err.read_end, POLLIN, 0}};
    if (::poll(waiting, 2, -1) < 0) continue;
    const auto take = [](const pollfd& ready, int& fd, std::string& text) {
      if (ready.revents == 0 || drain(fd, text)) return;
      ::close(fd);
      fd = -1;
    };
    take(waiting[0], out.read_end, result.out);
    take(waiting[1], err.read_end, result.err);
    if (!result.err.empty()) end_input();
  }
  end_input();
  result.status = wait_for(child);
  return result;
}

bool has_terminal() {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal >= 0) ::close(terminal);
  return terminal >= 0;
}

namespace {

struct OnTerminal {
  int terminal;
  pid_t child;
};

void set_size(int terminal, int columns, int rows) {
  struct winsize size{};
  size.ws_col = static_cast<unsigned short>(columns);
  size.ws_row = static_cast<unsigned short>(rows);
  check(::ioctl(terminal, TIOCSWINSZ, &size) == 0, "TIOCSWINSZ");
}

OnTerminal start(const std::vector<std::string>& arguments, const TerminalInput& input) {
  const auto words = command_line(arguments);
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  check(terminal >= 0 && ::grantpt(terminal) == 0 && ::unlockpt(terminal) == 0, "a pseudo terminal");
  const std::string name = ::ptsname(terminal);
  set_size(terminal, input.columns, input.rows);
  const pid_t child = ::fork();
  check(child >= 0, "fork");
  if (child == 0) {
    ::setsid();
    const int fd = ::open(name.c_str(), O_RDWR);  // becomes the controlling terminal
    for (const int target : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(fd, target);
    if (fd > STDERR_FILENO) ::close(fd);
    become(words, input.environment);
  }
  return {terminal, child};
}

}  // namespace

ProcessResult run_llada_on_terminal(const std::vector<std::string>& arguments, const TerminalInput& input) {
  const auto [terminal, child] = start(arguments, input);
  ProcessResult result;
  check(::write(terminal, input.typed.data(), input.typed.size()) == static_cast<ssize_t>(input.typed.size()),
        "typing");
  bool interrupted = input.interrupt_after.empty();
  // The read fails once the last process on the terminal is gone.
  while (drain(terminal, result.out)) {
    if (!interrupted && result.out.find(input.interrupt_after) != std::string::npos) {
      interrupted = true;
      ::kill(child, SIGINT);
    }
  }
  ::close(terminal);
  result.status = wait_for(child);
  return result;
}

TerminalSession::TerminalSession(const std::vector<std::string>& arguments, const TerminalInput& input)
    : screen_(input.columns, input.rows), rows_(input.rows) {
  const auto [terminal, child] = start(arguments, input);
  terminal_ = terminal, child_ = child;
}

TerminalSession::~TerminalSession() {
  if (child_ < 0) return;
  ::kill(child_, SIGKILL);
  static_cast<void>(finish());
}

bool TerminalSession::read_some(int ms) {
  pollfd ready = {terminal_, POLLIN, 0};
  if (::poll(&ready, 1, ms) <= 0) return true;
  const size_t before = bytes_.size();
  const bool more = drain(terminal_, bytes_);
  screen_.feed(std::string_view(bytes_).substr(before));
  return more;
}

// A terminal takes no more than the program reads, so what comes is read in between.
void TerminalSession::type(std::string_view keys) {
  // The sign of a prompt is on the screen a moment before the editor listens: by then nothing more comes.
  const auto at_prompt = [this](const char* sign) { return screen_.text().ends_with(sign); };
  if (at_prompt("\n>\n") || at_prompt("\n.\n"))
    for (size_t seen = bytes_.size() + 1; seen != bytes_.size();) {
      seen = bytes_.size();
      if (!read_some(150)) break;
    }
  while (!keys.empty()) {
    const ssize_t n = ::write(terminal_, keys.data(), std::min<size_t>(keys.size(), 512));
    check(n > 0 || errno == EINTR, "typing");
    keys.remove_prefix(static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (!keys.empty()) read_some(5);
  }
}

bool TerminalSession::shows(const std::string& text) {
  std::string wanted = text;
  if (wanted.ends_with(' ')) wanted.back() = '\n';  // the screen's rows have no blanks at their ends
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < end) {
    if (screen_.text().contains(wanted)) return true;
    if (!read_some(50)) return screen_.text().contains(wanted);
  }
  return false;
}

void TerminalSession::read_for(int ms) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  while (std::chrono::steady_clock::now() < end && read_some(10)) continue;
}

void TerminalSession::resize(int columns) {
  set_size(terminal_, columns, rows_);
  screen_.resize(columns);
}

void TerminalSession::signal(int number) const { ::kill(child_, number); }

int TerminalSession::finish() {
  while (read_some(1000)) continue;
  ::close(terminal_);
  return wait_for(std::exchange(child_, -1));
}

}  // namespace llada::test
