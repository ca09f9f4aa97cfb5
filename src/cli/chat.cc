#include "cli/chat.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "base/os.h"
#include "cli/conversation.h"
#include "cli/help.h"
#include "cli/mistakes.h"
#include "cli/output_file.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "engine/prompt.h"
#include "text/text_file.h"
#include "text/utf8.h"

namespace llada::cli {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";
constexpr std::string_view kHelp =
    "  /regen               answer the last message again\n"
    "  /clear               forget the conversation; the system message stays\n"
    "  /system [TEXT]       show the system message, or set it (\"\": none)\n"
    "  /set [OPTION VALUE]  show the options, or set one: /set temperature 0.7\n"
    "  /save FILE           write the conversation; /load FILE reads it\n"
    "  /keep                make the beginning of an interrupted answer part of it\n"
    "  /exit                leave (/quit, /bye, Ctrl-D)\n"
    "Ctrl-C stops an answer. A line that ends in \\ goes on in the next one, and so\n"
    "does everything between \"\"\" and \"\"\"; pasted lines are one message. A message\n"
    "that begins with a slash is typed with a space before it.\n";

class Chat {
 public:
  Chat(Workspace& workspace, const ChatOptions& options)
      : workspace_(workspace), options_(options), stop_(options.stop), system_(options.system) {}

  Result<int> run() {
    if (options_.interactive && !options_.quiet) note(banner());
    const auto reader = make_line_reader(options_.interactive, options_.history);
    while (!left_) {
      const Line line = read_message(*reader);
      if (line.kind == Line::Kind::end) break;
      if (line.kind == Line::Kind::signal) return 128 + InterruptGuard::signal_number();
      if (line.kind == Line::Kind::interrupted) {
        note("(Ctrl-D or /exit leaves)\n");
        continue;
      }
      if (trimmed(line.text).empty()) continue;
      reader->remember(line.text);
      if (const Status done = line.text.starts_with('/') ? command(line.text) : message(line.text); !done) {
        if (!options_.interactive || !done.error().of_input()) return std::unexpected(done.error());
        note(fmt::format("{}\n", one_line(options_.decode.named(done.error()).message)));
      }
      if (status_ != 0) return status_;
    }
    return 0;
  }

 private:
  // An answer that was stopped: nothing of it is in the conversation.
  struct Stopped {
    std::vector<ChatMessage> before;
    std::string question, answer;  // up to the first token that was not decided
  };

  decode::ModelKind kind() const { return workspace_.model().special_ids().kind(); }

  static size_t columns() { return static_cast<size_t>(std::max(20, terminal_size(os::kStderr).columns - 1)); }

  // In lines that break between options.
  std::string setting() const {
    const std::string& preset = options_.decode.preset();
    const std::string flags = decode::as_flags(options_.decode.options);
    std::string text = preset.empty() ? "no preset" : "preset " + preset;
    if (!flags.empty()) text += ": " + flags;
    for (const std::string& stop : stop_) text += fmt::format(" --stop '{}'", stop);
    return wrapped(text, 0, 2, columns());
  }

  // The options of /set, in short.
  static std::string settable() {
    std::string names = "/set takes preset-decode, stop";
    for (const decode::Field& field : decode::fields())
      if (field.basic) names += ", " + std::string(decode::flag(field).substr(2));
    return wrapped(names + " and the others of llada help options", 0, 2, columns());
  }

  std::string banner() const {
    const std::string& preset = options_.decode.preset();
    const std::filesystem::path path = workspace_.model().file().path();
    const std::string name = (path.has_filename() ? path : path.parent_path()).filename().string();
    const std::string first = fmt::format("{}, {}", name, preset.empty() ? "options as given" : "preset " + preset);
    const std::string second = workspace_.model().device().info().description;
    const bool single = workspace_.model().chat_format().single_turn;
    return fmt::format("{}\n{}\n{}{}\n", one_line(first).substr(0, columns()), one_line(second).substr(0, columns()),
                       single ? "each message stands alone: this model was trained on single questions\n" : "",
                       "/help: commands; Ctrl-C: stop an answer; Ctrl-D: leave");
  }

  std::vector<ChatMessage> with_system(const std::vector<ChatMessage>& turns) const {
    std::vector<ChatMessage> all;
    if (!system_.empty()) all.push_back({"system", system_});
    all.insert(all.end(), turns.begin(), turns.end());
    return all;
  }

  Result<Generation> answer(std::vector<ChatMessage>& messages) {
    const int64_t context = workspace_.model().context();
    const int64_t limit = context > 0 ? context : std::numeric_limits<int64_t>::max();
    const decode::DecodeOptions& decode = options_.decode.options;
    std::vector<int32_t> ids;
    const auto tokens = [&](std::span<const ChatMessage> rest) -> Result<int64_t> {
      const TraceSpan span(workspace_.trace(), "host", "tokenize");
      LLADA_TRY(ids, chat_prompt(workspace_.model(), rest, options_.think));
      // With the answer, and the padding of a block-causal model behind it. `auto` takes the rest of the context, as
      // much as it takes by default.
      const int64_t length = decode.auto_length ? decode::DecodeOptions().gen_length : decode.gen_length;
      return canvas_positions(workspace_.model(), static_cast<int64_t>(ids.size()), length);
    };
    LLADA_TRY(const size_t forgotten, trim_history(messages, limit, tokens));
    if (forgotten > 0 && !options_.quiet)
      note(fmt::format("note: the oldest {} messages were forgotten to fit the context of {} tokens\n", forgotten,
                       context));
    std::optional<QuietInput> quiet;
    if (options_.interactive) quiet.emplace(os::kStdin);
    LLADA_TRY(const Ready ready,
              prepare(workspace_.model(), {.tokens = std::move(ids), .options = decode, .stop = stop_}));
    return workspace_.answer(ready);
  }

  Status message(std::string_view text) {
    const std::string_view words = trimmed(text);
    if (options_.interactive && (words == "exit" || words == "quit" || words == "bye" || words == "help"))
      return invalid("a command begins with a slash: /{}", words);
    LLADA_TRY(const std::string question, as_text(std::string(text), "the message"));
    return ask(turns_, question.starts_with(" /") ? question.substr(1) : question);
  }

  Status ask(const std::vector<ChatMessage>& before, const std::string& question) {
    std::vector<ChatMessage> messages = with_system(before);
    messages.push_back({"user", question});
    options_.decode.draw_seed();
    auto answered = answer(messages);
    if (!answered) {
      Error error = options_.decode.named(std::move(answered.error()));
      if (options_.interactive) error.message += "; the conversation is as it was";
      return std::unexpected(std::move(error));
    }
    const Generation generation = std::move(*answered);
    LLADA_TRY_STATUS(options_.show(generation));
    if (generation.stats.decode.cancelled) {
      const int signal = InterruptGuard::signal_number();
      if (!options_.interactive || signal != SIGINT) {
        status_ = 128 + signal;
        return {};
      }
      InterruptGuard::clear();
      stopped_ = Stopped{before, question, generation.text.substr(0, generation.text.find(kHole))};
      note("not part of the conversation (/keep: its beginning, /regen: ask again)\n");
      return {};
    }
    stopped_.reset();
    messages.push_back({"assistant", generation.text});
    if (!system_.empty()) messages.erase(messages.begin());
    turns_ = std::move(messages);
    return {};
  }

  Status regenerate() {
    if (stopped_) {
      const Stopped again = *stopped_;
      return ask(again.before, again.question);
    }
    if (turns_.size() < 2) return invalid("/regen: there is no answer yet");
    if (options_.decode.options.temperature == 0 && !options_.quiet)
      note("note: at temperature 0 an answer repeats itself; /set temperature 0.7 samples others\n");
    return ask({turns_.begin(), turns_.end() - 2}, turns_[turns_.size() - 2].content);
  }

  Status keep() {
    if (!stopped_) return invalid("/keep: no answer was stopped");
    if (trimmed(stopped_->answer).empty())
      return invalid("/keep: nothing stands before the first open token; /regen asks again");
    turns_ = std::move(stopped_->before);
    turns_.push_back({"user", stopped_->question});
    turns_.push_back({"assistant", stopped_->answer});
    stopped_.reset();
    return tell(fmt::format("kept: {}", turns_.back().content));
  }

  Status clear() {
    const int64_t forgotten = std::ssize(std::exchange(turns_, {}));
    stopped_.reset();
    return tell(counted(forgotten, "message") + " forgotten");
  }

  Status save(const std::string& path) const {
    if (const std::string why = refuse_stdout(path); !why.empty()) return invalid("/save: {}", why);
    const std::string text = conversation_text(with_system(turns_));
    const bool replaced = os::exists(path);
    LLADA_TRY_STATUS(write_file(path, text));
    return tell(fmt::format("{} written to {}{}", counted(std::ssize(turns_), "message"), one_line(path),
                            replaced ? ", which was replaced" : ""));
  }

  Status load(const std::string& path) {
    LLADA_TRY(const std::string text, read_text_file(path, size_t{64} << 20));
    LLADA_TRY(auto messages, parse_conversation(text, path));
    system_.clear();
    if (!messages.empty() && messages.front().role == "system") {
      system_ = messages.front().content;
      messages.erase(messages.begin());
    }
    const size_t before = std::exchange(turns_, std::move(messages)).size();
    stopped_.reset();
    return tell(
        fmt::format("{} read from {}{}", counted(std::ssize(turns_), "message"), one_line(path),
                    before > 0 ? fmt::format("; {} forgotten", counted(static_cast<int64_t>(before), "message")) : ""));
  }

  Status set(std::string_view rest) {
    if (rest.empty()) return tell(setting() + '\n' + settable());
    const size_t end = std::min(rest.find_first_of(" \t="), rest.size());
    const std::string_view name = rest.substr(0, end);
    const std::string_view value = end < rest.size() ? trimmed(rest.substr(end + 1)) : "";
    if (name == "stop" || name == "--stop") {
      stop_.clear();
      if (!value.empty()) stop_.emplace_back(value);
    } else {
      LLADA_TRY_STATUS(options_.decode.set(name, std::string(value), kind()));
      if (!options_.decode.note().empty()) tell("note: " + options_.decode.note());
    }
    return tell(setting());
  }

  Status system(std::string_view text) {
    if (text.empty()) return tell(system_.empty() ? "no system message" : system_);
    LLADA_TRY(system_, as_text(text == "\"\"" ? "" : std::string(text), "/system"));
    return {};
  }

  Status tell(const std::string& text) const {
    if (!options_.quiet) note(printable_text(text, true) + '\n');
    return {};
  }

  Status command(std::string_view line) {
    const size_t end = std::min(line.find_first_of(" \t\n"), line.size());
    const std::string_view word = line.substr(1, end - 1), rest = trimmed(line.substr(end));
    const auto needs_file = [&](const auto& work) -> Status {
      return rest.empty() ? invalid("/{}: needs the name of a file", word) : work(std::string(rest));
    };
    if (word == "exit" || word == "quit" || word == "bye")
      left_ = true;
    else if (word == "help" || word == "?")
      note(kHelp);
    else if (word == "clear")
      return clear();
    else if (word == "system")
      return system(rest);
    else if (word == "regen")
      return regenerate();
    else if (word == "keep")
      return keep();
    else if (word == "set")
      return set(rest);
    else if (word == "save")
      return needs_file([&](const std::string& path) { return save(path); });
    else if (word == "load")
      return needs_file([&](const std::string& path) { return load(path); });
    else {
      static const std::vector<std::string> kWords = {"/help", "/clear", "/system", "/regen", "/keep", "/save",
                                                      "/load", "/set",   "/exit",   "/quit",  "/bye"};
      const std::string near = suggestion(line.substr(0, end), kWords);
      return invalid("unknown command /{}{}", word, near.empty() ? "; /help lists them" : near);
    }
    return {};
  }

  Workspace& workspace_;
  const ChatOptions& options_;
  std::vector<std::string> stop_;
  std::string system_;
  std::vector<ChatMessage> turns_;  // user and assistant
  std::optional<Stopped> stopped_;
  bool left_ = false;
  int status_ = 0;
};

}  // namespace

Line read_message(LineReader& reader) {
  constexpr std::string_view kMore = ". ";
  Line line = reader.next("> ");
  if (line.kind != Line::Kind::text) return line;
  const std::string_view begun = trimmed(line.text);
  const auto closed = [](std::string_view text) { return text.size() >= 6 && text.ends_with(kQuotes); };
  const bool quoted = begun.starts_with(kQuotes);
  std::string text = quoted ? std::string(begun) : std::move(line.text);
  while (quoted ? !closed(text) : text.ends_with('\\')) {
    line = reader.next(kMore);
    if (line.kind == Line::Kind::end) break;
    if (line.kind != Line::Kind::text) return line;
    if (!quoted) text.pop_back();
    text += '\n' + line.text;
    if (quoted) text.resize(text.find_last_not_of(" \t\r") + 1);
  }
  if (quoted) {
    text.erase(0, kQuotes.size());
    if (text.ends_with(kQuotes)) text.resize(text.size() - kQuotes.size());
    text = trimmed(text);
    if (text.starts_with('/')) text.insert(0, " ");  // text, and no command
  }
  return {.text = std::move(text)};
}

Result<int> chat(Workspace& workspace, const ChatOptions& options) { return Chat(workspace, options).run(); }

}  // namespace llada::cli
