// llada batch as a process: answers equal to those of other commands, lines that are no requests, and what is left
// after kills, cuts and full disks, which goes on to the same answers.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <random>

#include "base/file_lock.h"
#include "cli/process.h"

namespace llada::test {
namespace {

Json chat(const std::string& text, int64_t length = 8) {
  return {{"messages", {{{"role", "user"}, {"content", text}}}}, {"max_tokens", length}};
}

std::string request(const std::string& id, const std::string& url, const Json& body) {
  return Json{{"custom_id", id}, {"method", "POST"}, {"url", url}, {"body", body}}.dump() + '\n';
}

// Requests of every kind, one in seven of which is refused.
std::string requests(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::string id = fmt::format("id-{}", i), number = std::to_string(i);
    if (i % 7 == 0) text += request(id, "/v1/chat/completions", chat("Count to " + number));
    if (i % 7 == 1) text += request(id, "/v1/completions", {{"prompt", "Ken has " + number}, {"max_tokens", 6}});
    if (i % 7 == 2) text += request(id, "/v1/responses", {{"input", "Say " + number}, {"max_output_tokens", 6}});
    if (i % 7 == 3) text += request(id, "/infill", {{"text", "Ken has " + number + "+6=<mask:2> puzzles."}});
    if (i % 7 == 4) text += request(id, "/v1/llada/score", {{"prompt", number}, {"continuations", {" 1", " 2"}}});
    if (i % 7 == 5) text += request(id, "/v1/chat/completions", chat("Count to " + number, -7));
    if (i % 7 == 6) {
      Json body = chat("Write " + number);
      body["temperature"] = 0.9;  // without a seed
      text += request(id, "/v1/chat/completions", body);
    }
  }
  return text;
}

class BatchCommand : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }
  std::string read(const std::string& name) const { return folder_.read(name); }
  Words command(const std::string& out, const Words& more = {}) const {
    return with({"batch", tiny_model(), at("in"), at(out), "-q"}, more);
  }
  ProcessResult batch(const std::string& out, const Words& more = {}) const { return run_llada(command(out, more)); }

  // Starts it and sends a signal once the output has so many more bytes, or it has ended; its status.
  int stopped_at(const std::string& out, uintmax_t bytes, int signal, rlim_t most_bytes = RLIM_INFINITY) const {
    const auto words = command(out);
    const pid_t child = ::fork();
    if (child == 0) {
      const struct rlimit limit = {most_bytes, most_bytes};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      const int nowhere = ::open("/dev/null", O_WRONLY);
      ::dup2(nowhere, 2);
      std::vector<char*> arguments = {const_cast<char*>("llada")};
      for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
      arguments.push_back(nullptr);
      ::execv(LLADA_BINARY, arguments.data());
      ::_exit(127);
    }
    std::error_code none;
    const uintmax_t before = fs::exists(at(out)) ? fs::file_size(at(out)) : 0;
    int status = 0;
    for (;;) {
      if (::waitpid(child, &status, WNOHANG) == child) break;
      const uintmax_t size = fs::file_size(at(out), none);
      if (!none && size >= before + bytes) {
        ::kill(child, signal);
        ::waitpid(child, &status, 0);
        break;
      }
      ::usleep(200);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  const TempFolder folder_;
};

// The lines in the order of their ids, without the times in them.
std::vector<Json> sorted(const std::string& text) {
  std::vector<Json> lines;
  for (const std::string& line : lines_of(text)) {
    Json json = Json::parse(line);
    if (Json& response = json["response"]; response.is_object()) {
      response["body"].erase("created");
      response["body"].erase("created_at");
      if (response["body"].contains("usage") && response["body"]["usage"].is_object())
        response["body"]["usage"].erase("seconds");
    }
    lines.push_back(std::move(json));
  }
  std::ranges::sort(lines, {}, [](const Json& line) { return line["id"].get<std::string>(); });
  return lines;
}

Json answer(const std::vector<Json>& lines, const std::string& id) {
  for (const Json& line : lines)
    if (line["custom_id"] == id) return line;
  return nullptr;
}

TEST_F(BatchCommand, AnswersAreThoseOfTheOtherCommands) {
  const std::string prompt = "Sort the numbers from smallest to largest: 38 41 6 51 3";
  write("in", request("a", "/v1/chat/completions", chat(prompt, 32)) +
                  request("b", "/infill", {{"text", "Ken has 20+6=<mask:2> puzzles."}}) +
                  request("c", "/v1/llada/score", {{"prompt", "The capital"}, {"continuations", {" of", " is"}}}));
  EXPECT_EQ(done(command("out")).err, "");
  const auto lines = sorted(read("out"));
  ASSERT_EQ(lines.size(), 3u);

  const Json asked = json_of({"run", "-m", tiny_model(), "-p", prompt, "-n", "32", "--json"});
  EXPECT_EQ(answer(lines, "a")["response"]["body"]["choices"][0]["message"]["content"], asked["text"]);
  EXPECT_EQ(answer(lines, "a")["response"]["status_code"], 200);
  EXPECT_EQ(answer(lines, "a")["error"], nullptr);
  const Json filled = json_of({"infill", "-m", tiny_model(), "-p", "Ken has 20+6=<mask:2> puzzles.", "--json"});
  EXPECT_EQ(answer(lines, "b")["response"]["body"]["content"], filled["text"]);
  const Json scored = json_of(
      {"score", "-m", tiny_model(), "-p", "The capital", "--continuation", " of", "--continuation", " is", "--json"});
  EXPECT_EQ(answer(lines, "c")["response"]["body"]["continuations"], scored["continuations"]);
}

TEST_F(BatchCommand, ALineThatIsNoRequestHasItsError) {
  const Json good = chat("Hi");
  const std::string twice = request("twice", "/v1/chat/completions", good);
  write("in", twice + "\r\n{\"custom_id\": \"torn\", \n" + twice + "{\"url\": \"/v1/chat/completions\"}\n[1]\n" +
                  request("url", "/v1/embeddings", good) + request("none", "/v1/chat/completions", nullptr) +
                  request("field", "/v1/chat/completions", {{"messages", good["messages"]}, {"tempo", 2}}) +
                  request("stream", "/v1/chat/completions", {{"messages", good["messages"]}, {"stream", true}}) +
                  "{\"custom_id\": \"get\", \"method\": \"GET\", \"url\": \"/infill\", \"body\": {}}");
  ASSERT_EQ(batch("out").status, 0);
  const auto lines = sorted(read("out"));
  ASSERT_EQ(lines.size(), 10u);
  const std::pair<const char*, const char*> named[] = {{"url", "url: found \"/v1/embeddings\", needed one of /v1/chat"},
                                                       {"none", "body: needed the JSON object of a request"},
                                                       {"field", "tempo: this field"},
                                                       {"stream", "body.stream: found true"},
                                                       {"get", "line 11: method: found \"GET\", needed \"POST\""}};
  for (const auto& [id, message] : named) {
    const Json line = answer(lines, id);
    EXPECT_EQ(line["response"]["status_code"], 400) << id;
    EXPECT_THAT(line["error"]["message"].get<std::string>(), HasSubstr(message));
    EXPECT_EQ(line["response"]["body"]["error"]["message"], line["error"]["message"]);
  }
  EXPECT_EQ(answer(lines, "twice")["response"]["status_code"], 200);
  std::map<int64_t, std::string> nameless;
  for (const Json& line : lines)
    if (line["custom_id"].is_null()) {
      EXPECT_EQ(line["response"], nullptr);
      nameless[line["error"]["line"]] = line["error"]["code"];
    }
  EXPECT_EQ(nameless,
            (std::map<int64_t, std::string>{
                {3, "invalid_json"}, {4, "duplicate_custom_id"}, {5, "invalid_custom_id"}, {6, "invalid_json"}}));
  // Nothing is asked for again.
  const std::string before = read("out");
  ASSERT_EQ(batch("out").status, 0);
  EXPECT_EQ(read("out"), before);
}

// LLADA_TEST_LONG: 200 kills.
TEST_F(BatchCommand, KilledAndGoneOnWithItHasTheSameAnswers) {
  const bool is_long = std::getenv("LLADA_TEST_LONG") != nullptr;
  const int kills = is_long ? 200 : 4, count = is_long ? 900 : 42;
  write("in", requests(count));
  ASSERT_EQ(batch("whole").status, 0);
  const auto whole = sorted(read("whole"));
  ASSERT_EQ(whole.size(), static_cast<size_t>(count));
  std::mt19937 random(7);
  int killed = 0;
  for (int i = 0; i < kills; ++i) {
    killed += stopped_at("out", random() % 3000, SIGKILL) == 1000 + SIGKILL ? 1 : 0;
    // Of what a kill in the middle of a write would leave.
    const auto bytes = fs::exists(at("out")) ? fs::file_size(at("out")) : 0;
    if (i % 2 == 0 && bytes > 0) fs::resize_file(at("out"), bytes - random() % std::min<uintmax_t>(bytes, 200));
  }
  EXPECT_GT(killed, 0);
  ASSERT_EQ(batch("out").status, 0);
  EXPECT_EQ(sorted(read("out")), whole);
}

TEST_F(BatchCommand, ASignalEndsItAndTheSameLineGoesOn) {
  write("in", requests(28));
  ASSERT_EQ(batch("whole").status, 0);
  EXPECT_EQ(stopped_at("out", 1, SIGTERM), 128 + SIGTERM);
  EXPECT_LT(sorted(read("out")).size(), 28u);
  ASSERT_EQ(batch("out").status, 0);
  EXPECT_EQ(sorted(read("out")), sorted(read("whole")));
}

TEST_F(BatchCommand, ShardsTogetherAreTheWhole) {
  const std::string twice = request("id-3", "/v1/chat/completions", chat("Hi"));
  write("in", requests(12) + twice);
  ASSERT_EQ(batch("whole").status, 0);
  std::string all;
  for (const char* shard : {"1/3", "2/3", "3/3"}) {
    ASSERT_EQ(batch("part", {"--shard", shard}).status, 0);
    all += read("part");
    fs::remove(at("part"));
  }
  EXPECT_EQ(sorted(all), sorted(read("whole")));
}

TEST_F(BatchCommand, PipesAreReadAndWritten) {
  write("in", requests(8));
  ASSERT_EQ(batch("whole").status, 0);
  const auto piped = run_llada({"batch", "-m", tiny_model(), "-", "-"}, {.stdin_text = "\xEF\xBB\xBF" + requests(8)});
  EXPECT_EQ(piped.status, 0) << piped.err;
  EXPECT_EQ(sorted(piped.out), sorted(read("whole")));
  EXPECT_THAT(piped.err, HasSubstr("llada batch: 8 answered, 1 of them with an error; "));
  const auto gone = run_llada({"batch", "-m", tiny_model(), at("in"), "-"}, {.close_stdout = true});
  EXPECT_EQ(gone.status, 1);
}

TEST_F(BatchCommand, AFullDiskLosesNothing) {
  write("in", requests(28));
  ASSERT_EQ(batch("whole").status, 0);
  const auto full = run_llada({"batch", "-m", tiny_model(), at("in"), "/dev/full", "-q"});
  EXPECT_EQ(full.status, 1);
  EXPECT_EQ(full.err, "llada batch: /dev/full: cannot write: No space left on device\n");
  const auto most = fs::file_size(at("whole")) / 2;
  EXPECT_EQ(stopped_at("out", UINTMAX_MAX / 2, SIGKILL, most), 1);
  const std::string kept = read("out");
  EXPECT_TRUE(kept.ends_with("}\n"));
  EXPECT_GT(kept.size(), most / 2);
  ASSERT_EQ(batch("out").status, 0);
  EXPECT_TRUE(read("out").starts_with(kept));
  EXPECT_EQ(sorted(read("out")), sorted(read("whole")));
}

TEST_F(BatchCommand, WhatIsNotItsOwnStaysAsItIs) {
  write("in", requests(2));
  write("notes", "my notes\n");
  write("line", "{\"id\":\"batch_rex");
  write("wide", std::string("\xFF\xFE{\0", 4));
  const std::string other = ": found no answer of a batch; needed a new file, or the output of an earlier run\n";
  for (const char* name : {"notes", "line"}) EXPECT_EQ(batch(name).err, "llada batch: " + at(name) + ":1" + other);
  EXPECT_EQ(batch("in").err,
            "llada batch: " + at("in") + ": found the file of requests, needed another one for answers\n");
  EXPECT_EQ(run_llada({"batch", tiny_model(), at("notes"), at("in"), "-q"}).err,
            "llada batch: " + at("in") + ":1" + other);
  EXPECT_EQ(read("notes"), "my notes\n");
  EXPECT_EQ(read("line"), "{\"id\":\"batch_rex");
  EXPECT_EQ(read("in"), requests(2));
  EXPECT_EQ(run_llada({"batch", tiny_model(), at("wide"), at("new"), "-q"}).err,
            "llada batch: " + at("wide") + ": found UTF-16 or UTF-32, needed UTF-8\n");
  EXPECT_FALSE(fs::exists(at("new")));

  auto lock = FileLock::open(at("held"));
  ASSERT_TRUE(lock && lock->try_hold());
  EXPECT_EQ(batch("held").err, "llada batch: " + at("held") + ": another process writes answers to it\n");
}

}  // namespace
}  // namespace llada::test
