// A server whose device fails at some moment: nobody who is answered notices.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <system_error>

#include "bounded_memory.h"
#include "failing/failing_device.h"
#include "serve/fixture.h"
#include "serve/work/workers.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

using nlohmann::json;

class FailingDevice : public ServeTest {
 protected:
  struct Case {
    std::string text;
    json body;
    std::string alone;
  };

  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (int i = 0; i < 4; ++i) {
      Case c{fmt::format("There are {} rings in the bag. He gives {} to Cleo. How many rings are left?", 30 + i, i + 2),
             {{"max_tokens", 32}, {"stream", i % 2 == 1}},
             ""};
      std::vector<std::pair<std::string, std::string>> given = {{"gen_length", "32"}};
      if (i % 3 == 1)
        c.body["temperature"] = 0.8, c.body["seed"] = i,
        given.insert(given.end(), {{"temperature", "0.8"}, {"seed", std::to_string(i)}});
      if (i % 3 == 2)
        c.body["llada"] = {{"kv", "dual"}, {"block_length", 16}},
        given.insert(given.end(), {{"kv", "dual"}, {"block_length", "16"}});
      c.alone = to_valid_utf8(run_alone(chat_prompt(c.text), given).text);
      cases.push_back(std::move(c));
    }
    return cases;
  }

  void load(const std::string& device) {
    log_ = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    };
    start(false);
    auto model = must(Model::load(LLADA_SOURCE_DIR "/models/tiny-llada",
                                  {.device = device, .plugin = &failing_devices(), .isa = "", .threads = 2}));
    ASSERT_TRUE(service->set_model(*model));
  }

  // Every case at the same time; what each was answered.
  std::vector<std::string> ask_all(const std::vector<Case>& cases) {
    std::vector<std::future<std::string>> clients;
    for (const Case& c : cases)
      clients.push_back(std::async(std::launch::async, [&] {
        const auto reply = post_chat(c.text, c.body);
        if (reply.status != 200) return fmt::format("status {}: {}", reply.status, reply.body);
        if (c.body["stream"] == false)
          return reply.json()["choices"][0]["message"]["content"].template get<std::string>();
        std::string text;
        for (const std::string& event : reply.events())
          if (event != "[DONE]") text += json::parse(event).at("choices")[0]["delta"].value("content", "");
        return text;
      }));
    std::vector<std::string> answers;
    for (auto& client : clients) answers.push_back(client.get());
    return answers;
  }

  // What the log says of fallbacks since it was asked before.
  std::vector<std::string> fallback_lines() {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> found;
    for (const std::string& line : std::exchange(lines_, {}))
      if (json::parse(line)["event"] == "fallback") found.push_back(json::parse(line)["message"]);
    return found;
  }

 private:
  std::mutex mutex_;  // guards what follows
  std::vector<std::string> lines_;
};

// labels: long
TEST_F(FailingDevice, AtAnyMomentChangesNoAnswer) {
  const auto wanted = cases();
  std::mt19937 random(20);
  for (const char* fault : {"gone", "gone", "submit", "map"}) {
    const auto at = random() % (fault == std::string("map") ? 50 : 1500);
    const std::string device = fmt::format("sim:v79-8elite,window=50%,fail={}:{}", fault, at);
    load(device);
    const auto answers = ask_all(wanted), again = ask_all({wanted[1]});
    for (size_t c = 0; c < wanted.size(); ++c)
      EXPECT_EQ(answers[c], wanted[c].alone) << device << " " << wanted[c].body;
    EXPECT_EQ(again[0], wanted[1].alone) << device << " afterwards";
    EXPECT_EQ(get("/ready").status, 200) << device;
    EXPECT_EQ(metric("llada_device_fallbacks_total"), 1) << device;
    const auto said = fallback_lines();
    ASSERT_EQ(said.size(), 1u) << device;
    EXPECT_TRUE(said[0].contains("run on")) << said[0];
    TearDown();
  }
}

TEST_F(FailingDevice, ThatDoesNotFailIsNotReplaced) {
  const auto wanted = cases();
  load("sim:v79-8elite,window=50%,fail=gone:1000000000");
  const auto answers = ask_all(wanted);
  for (size_t c = 0; c < wanted.size(); ++c) EXPECT_EQ(answers[c], wanted[c].alone);
  EXPECT_EQ(metric("llada_device_fallbacks_total"), 0);
  EXPECT_TRUE(fallback_lines().empty());
}

// Without a fallback the requests under way hear of it, in a stream as well, and the server goes on answering.
TEST_F(FailingDevice, WithoutAFallbackIsAnError) {
  load("cpu,fallback=none,fail=gone:200");
  for (const std::string& answer : ask_all({{"Hi", {{"max_tokens", 32}, {"stream", false}}, ""}}))
    EXPECT_TRUE(answer.starts_with("status 500: ")) << answer;
  const auto stream = ok(post_chat("Hi", {{"stream", true}}));
  EXPECT_TRUE(stream.events().at(stream.events().size() - 2).contains("\"server_error\"")) << stream.body;
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/ready").status, 503) << "as every request would end";
}

TEST_F(FailingDevice, AModelThatWasChangedOnTheDiskIsNotReady) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("llada_changed_{}", ::getpid());
  std::filesystem::remove_all(folder);
  std::filesystem::copy(LLADA_SOURCE_DIR "/models/tiny-llada", folder);
  start(false);
  ASSERT_TRUE(service->set_model(load_model(folder)));
  EXPECT_EQ(get("/ready").status, 200);
  const auto weights = folder / "model.safetensors";
  std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-64, std::ios::end);
  file.write("\x7f\x7f", 2);
  file.close();
  for (int i = 0; i < 2; ++i) {
    const json ready = error_of(get("/ready"), 503);
    EXPECT_EQ(ready["message"], "model.safetensors: it was written to since it was opened, needed an unchanged file");
    EXPECT_EQ(post_chat("Hi").status, 500);
  }
  EXPECT_EQ(get("/health").status, 200);
  TearDown();
  std::filesystem::remove_all(folder);
}

// The system gives some threads and refuses a later one.
TEST(Workers, WithoutAllTheirThreadsTheyAreAnErrorAndNoThreadStays) {
  if (!kMemoryCanBeBounded) GTEST_SKIP() << "sanitizers need the address space";
  EXPECT_EQ(in_bounded_memory([] {
              try {
                const Workers workers(1000);
                return 1;
              } catch (const std::system_error& error) {
                if (error.code() != std::errc::resource_unavailable_try_again) return 2;
              }
              return alone_here() ? 0 : 3;
            }),
            0);
}

}  // namespace
}  // namespace llada::serve
