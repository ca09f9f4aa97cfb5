// A conversation at a terminal of 80 by 24, driven key by key; the screen is compared as a terminal shows it.
#include <sys/stat.h>

#include <csignal>
#include <sstream>

#include "cli/line_reader.h"
#include "cli/message_history.h"
#include "cli/process.h"

namespace llada::cli {
namespace {

using namespace test;

using testing::ElementsAre;

const std::string kSort = "Sort the numbers from smallest to largest: 38 41 6 51 3";

class ChatTerminal : public testing::Test {
 protected:
  void SetUp() override {
    LLADA_NEEDS_TERMINAL();
    if (make_line_editor("") == nullptr) GTEST_SKIP() << "built without libedit";
  }

  std::unique_ptr<TerminalSession> open(const std::vector<std::string>& more = {}, bool by_name = false,
                                        const std::string& model = tiny_model()) {
    std::vector<std::string> words = {"chat", model};
    if (by_name) words.erase(words.begin());
    words.insert(words.end(), more.begin(), more.end());
    auto session = std::make_unique<TerminalSession>(
        words, TerminalInput{.environment = {"TERM=xterm", "NO_COLOR=1", "XDG_STATE_HOME=" + file("state")}});
    EXPECT_TRUE(session->shows("leave\n> ")) << session->screen().text();
    return session;
  }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::string read(const std::string& name) const {
    std::ifstream in(file(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // What a saved conversation holds, after the session has written it.
  nlohmann::json saved(TerminalSession& session, const std::string& name) {
    session.type("/save " + file(name) + "\r");
    // What is typed before the prompt stands there is echoed above it, like an answer: the file itself is waited for.
    for (int i = 0; i < 200 && !fs::exists(file(name)); ++i) session.read_for(50);
    EXPECT_TRUE(session.shows("/" + name + "\n> ")) << session.screen().text();
    return nlohmann::json::parse(read(name)).at("messages");
  }

  const TempFolder temp_;
  const fs::path folder_ = temp_.path();
};

// Slow enough for a person, or a test, to step in.
const std::vector<std::string> kSlow = {"--preset-decode", "exact", "--live-delay", "60"};

TEST_F(ChatTerminal, ABannerOfFourLinesAnAnswerAndTheWayOut) {
  const auto session = open({}, true);  // llada MODEL
  const std::string banner = session->screen().text();
  EXPECT_EQ(std::ranges::count(banner, '\n'), 5) << banner;
  EXPECT_THAT(banner, HasSubstr("each message stands alone: this model was trained on single questions\n"));
  EXPECT_THAT(banner, HasSubstr("tiny-llada, preset balanced\n"));
  EXPECT_THAT(banner, HasSubstr("/help"));
  session->type(kSort + "\r");
  EXPECT_TRUE(session->shows("\n3 6 38 41 51\n")) << session->screen().text();
  EXPECT_TRUE(session->shows("tokens/s (measured)\n> "));
  EXPECT_THAT(session->bytes(), HasSubstr("\x1b[?2026h")) << "it formed in place";
  session->type("\x04");
  EXPECT_EQ(session->finish(), 0);
}

TEST_F(ChatTerminal, APasteOfThreeLinesIsOneMessage) {
  const auto session = open();
  session->type("\x1b[200~Write as JSON: Eric is 31 years old,\rlives in Oslo and works\ras a baker.\x1b[201~");
  EXPECT_TRUE(session->shows("> Write as JSON: Eric is 31 years old,\nlives in Oslo and works\nas a baker."))
      << session->screen().text();
  EXPECT_THAT(session->bytes(), Not(HasSubstr("\x1b[?2026h"))) << "it waits for Enter";
  session->type("\r");
  EXPECT_TRUE(session->shows("tokens/s (measured)\n> "));
  const auto messages = saved(*session, "c.json");
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0]["content"], "Write as JSON: Eric is 31 years old,\nlives in Oslo and works\nas a baker.");
}

TEST_F(ChatTerminal, TenThousandCharactersArriveWhole) {
  const auto session = open({"--no-live"});
  std::string text;
  while (text.size() < 10'000) text += "ab ";
  text += "END";
  session->type(text);
  EXPECT_TRUE(session->shows("END")) << session->screen().text();
  session->type("\r");
  EXPECT_TRUE(session->shows("as it was\n> ")) << session->screen().text();
  session->type("/exit\r");
  EXPECT_EQ(session->finish(), 0);
  EXPECT_EQ(read("state/llada/history"), text + "\n/exit\n");
}

TEST_F(ChatTerminal, KeysEditTheLineAndBringBackOldOnes) {
  const auto session = open({"--no-live"});
  session->type("/nope one\r");
  EXPECT_TRUE(session->shows("unknown command /nope; /help lists them\n> "));
  session->type("/hepl\r");
  EXPECT_TRUE(session->shows("unknown command /hepl; did you mean /help?\n> "));
  session->type("helo\x1b[D\x1b[Dl\x1b[H>>\x1b[F<<\x7f\x1b[D\x1b[3~!");  // left, home, end, backspace, delete
  EXPECT_TRUE(session->shows("\n> >>hello!")) << session->screen().text();
  session->type("\x03");
  for (int i = 0; i < 100 && !session->screen().text().ends_with("\n>\n"); ++i) session->read_for(100);
  EXPECT_THAT(session->screen().text(), testing::EndsWith("\n>\n")) << "Ctrl-C takes the line away";
  session->type("\x1b[A\x1b[A");
  EXPECT_TRUE(session->shows("/help?\n> /nope one")) << session->screen().text();
  session->type("\x15  \r");  // a blank line is no message
  session->type("exit\r");
  EXPECT_TRUE(session->shows("a command begins with a slash: /exit\n> "));
  session->type("\x03");
  EXPECT_TRUE(session->shows("(Ctrl-D or /exit leaves)\n> "));
  session->type("\x04");
  EXPECT_EQ(session->finish(), 0);
  struct stat info{};
  ASSERT_EQ(::stat(file("state/llada/history").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto again = open();
  again->type("\x1b[A\x1b[A\x1b[A");
  EXPECT_TRUE(again->shows("> /nope one")) << again->screen().text();
}

TEST_F(ChatTerminal, NoHistoryLeavesNothing) {
  const auto session = open({"--no-history"});
  session->type("/nope\r/exit\r");
  EXPECT_EQ(session->finish(), 0);
  EXPECT_FALSE(fs::exists(file("state")));
}

TEST_F(ChatTerminal, CtrlCStopsTheAnswerAndNotTheChat) {
  auto words = kSlow;
  const auto session = open(words);
  session->type("Write as JSON: Eric is 31 years old, lives in Oslo and works as a baker.\r");
  ASSERT_TRUE(session->shows("step 5  5/")) << session->screen().text();
  session->type("\x03");
  ASSERT_TRUE(session->shows("ask again)\n> ")) << session->screen().text();
  EXPECT_THAT(session->screen().text(), HasSubstr("\ninterrupted"));
  session->type("/set preset-decode balanced\r");
  EXPECT_TRUE(session->shows("--revise-rows=8\n> ")) << session->screen().text();
  session->type(kSort + "\r");
  EXPECT_TRUE(session->shows("\n3 6 38 41 51\n")) << session->screen().text();
  EXPECT_TRUE(session->shows("tokens/s (measured)\n> "));
  const auto messages = saved(*session, "c.json");
  ASSERT_EQ(messages.size(), 2u) << "the stopped exchange is not part of it";
  EXPECT_EQ(messages[1]["content"], "3 6 38 41 51");
}

TEST_F(ChatTerminal, AStoppedAnswerCanBeKeptOrAskedForAgain) {
  const auto session = open({"--preset-decode", "exact", "--live-delay", "60", "--block-length", "8"});
  session->type(kSort + "\r");
  ASSERT_TRUE(session->shows("block 2/")) << session->screen().text();
  session->type("\x03");
  ASSERT_TRUE(session->shows("ask again)\n> ")) << session->screen().text();
  session->type("/keep\r");
  session->read_for(1000);
  const auto kept = saved(*session, "kept.json");
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[1]["content"].get<std::string>().substr(0, 4), "3 6 ");
  EXPECT_THAT(kept[1]["content"].get<std::string>(), Not(HasSubstr("\u2591")));
  session->type("/regen\r");
  ASSERT_TRUE(session->shows("\n3 6 38 41 51\n")) << session->screen().text();
}

TEST_F(ChatTerminal, TypingAheadAndResizingLeaveTheScreenWhole) {
  const auto session = open(kSlow);
  session->type("Write as JSON: Eric is 31 years old, lives in Oslo and works as a baker.\r");
  ASSERT_TRUE(session->shows("step 3  3/"));
  session->type("typed ahead");
  ASSERT_TRUE(session->shows("step 6  6/"));
  EXPECT_THAT(session->screen().text(), Not(HasSubstr("typed"))) << "not while the answer is painted";
  session->resize(60);
  ASSERT_TRUE(session->shows("step 12  12/"));
  ASSERT_TRUE(session->shows("> typed ahead")) << session->screen().text();
  const std::string text = session->screen().text();
  EXPECT_THAT(text, Not(HasSubstr("block 1/"))) << "no picture is left: " << text;
  EXPECT_EQ(std::ranges::count(session->bytes(), '\a'), 0);
  session->resize(40);
  session->read_for(300);
  session->type("!");
  EXPECT_TRUE(session->shows("\n> typed ahead!")) << session->screen().text();
}

TEST_F(ChatTerminal, CtrlCKeepsWhatWasTypedDuringTheAnswer) {
  const auto session = open(kSlow);
  session->type("Write as JSON: Eric is 31 years old, lives in Oslo and works as a baker.\r");
  ASSERT_TRUE(session->shows("step 3  3/")) << session->screen().text();
  session->type("typed ahead");
  ASSERT_TRUE(session->shows("step 5  5/"));
  session->type("\x03");
  EXPECT_TRUE(session->shows("ask again)\n> typed ahead")) << session->screen().text();
}

TEST_F(ChatTerminal, CommandsSayWhatTheyDid) {
  const auto session = open({"--no-live"});
  session->type("/clear\r");
  EXPECT_TRUE(session->shows("0 messages forgotten\n> ")) << session->screen().text();
  session->type(kSort + "\r");
  ASSERT_TRUE(session->shows("tokens/s (measured)\n> "));
  session->type("/save " + file("a.json") + "\r");
  EXPECT_TRUE(session->shows("/a.json\n> ")) << session->screen().text();
  session->type("/save " + file("a.json") + "\r");
  EXPECT_TRUE(session->shows("which was replaced\n> ")) << session->screen().text();
  session->type("/load " + file("a.json") + "\r");
  EXPECT_TRUE(session->shows("; 2 messages forgotten\n> ")) << session->screen().text();
  session->type("/clear\r");
  EXPECT_TRUE(session->shows("2 messages forgotten\n> ")) << session->screen().text();
  session->type("/set\r");
  EXPECT_TRUE(session->shows("of llada help\n  options\n> ")) << session->screen().text();
  EXPECT_THAT(session->screen().text(), HasSubstr("\n/set takes preset-decode, stop"));
  std::stringstream lines(session->screen().text());
  for (std::string line; std::getline(lines, line);)
    EXPECT_FALSE(line.ends_with(" -") || line.ends_with(" --")) << line;
}

TEST_F(ChatTerminal, RegenSaveLoadSystemAndSet) {
  const auto session = open({"--no-live"});
  session->type(kSort + "\r");
  ASSERT_TRUE(session->shows("\n3 6 38 41 51\n"));
  session->type("/regen\r");
  ASSERT_TRUE(session->shows("at temperature 0 an answer repeats itself")) << session->screen().text();
  session->type("/system Be brief.\r/set n 32\r");
  ASSERT_TRUE(session->shows("--gen-length=32"));
  session->type("/set gen-length none\r");
  ASSERT_TRUE(session->shows("--gen-length: found 'none', needed a whole number")) << session->screen().text();
  const auto first = saved(*session, "first.json");
  ASSERT_EQ(first.size(), 3u) << "the answer was replaced, not added";
  EXPECT_EQ(first[0]["content"], "Be brief.");
  session->type("/clear\r/load " + file("first.json") + "\r");
  ASSERT_TRUE(session->shows("2 messages read from"));
  EXPECT_EQ(saved(*session, "second.json"), first);
  session->type("/load " + file("missing.json") + "\r");
  EXPECT_TRUE(session->shows("missing.json: cannot open")) << session->screen().text();
}

TEST_F(ChatTerminal, BackslashesAndQuotesJoinLines) {
  const auto session = open({"--no-live", "-n", "8"});
  session->type("Sort: 3 \\\r");
  ASSERT_TRUE(session->shows("\n. "));
  session->type("2 1\r");
  ASSERT_TRUE(session->shows("tokens/s (measured)\n> "));
  session->type("\"\"\"\r/one\rtwo\"\"\"\r");
  session->read_for(2000);
  const auto messages = saved(*session, "c.json");
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0]["content"], "Sort: 3 \n2 1");
  EXPECT_EQ(messages[2]["content"], "/one\ntwo");
}

// labels: long
TEST_F(ChatTerminal, AConversationThatOutgrowsTheContextForgetsItsOldestTurns) {
  const auto session = open({"--no-live", "-n", "96"}, false, several_turns_model());
  for (int i = 0; i < 5; ++i) {
    session->type(kSort + "\r");
    session->read_for(700);
  }
  EXPECT_TRUE(session->shows("were forgotten to fit the context of 256 tokens")) << session->screen().text();
  session->type(kSort + "\r");
  EXPECT_TRUE(session->shows("\n3 6 38 41 51\n"));
}

TEST_F(ChatTerminal, ASignalEndsIt) {
  const auto session = open();
  session->signal(SIGTERM);
  EXPECT_EQ(session->finish(), 128 + SIGTERM);
}

TEST(MessageHistory, KeepsLinesEscapedAndBounded) {
  const TempFolder folder;
  const std::string path = folder / "a/b/history";
  const std::string odd = "two\nlines \\n and a backslash\\";
  EXPECT_EQ(unescaped_message(escaped_message(odd)), odd);
  {
    const auto history = MessageHistory::open(path);
    ASSERT_TRUE(history) << history.error().message;
    EXPECT_TRUE(history->messages().empty());
    ASSERT_TRUE(history->add("first"));
    ASSERT_TRUE(history->add(odd));
    ASSERT_TRUE(history->add(std::string(MessageHistory::kMostBytes, 'x'))) << "stays out";
  }
  EXPECT_THAT(MessageHistory::open(path)->messages(), ElementsAre("first", odd));
  fs::permissions(path, fs::perms::all);
  {
    const auto history = MessageHistory::open(path);
    for (int i = 0; i < 2500; ++i) ASSERT_TRUE(history->add(std::to_string(i)));
  }
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  const auto bounded = MessageHistory::open(path)->messages();
  ASSERT_EQ(bounded.size(), MessageHistory::kMostMessages);
  EXPECT_EQ(bounded.front(), "1500");
  EXPECT_EQ(bounded.back(), "2499");
  std::ifstream file(path);
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(file), {}, '\n'), 1000) << "the file became shorter";
}

}  // namespace
}  // namespace llada::cli
