// Thoughts over HTTP: in a field of their own, whole and streamed, and in no text.
#include <map>
#include <sstream>

#include "engine/prompt.h"
#include "formats/temp_folder.h"
#include "geometry/tiny_gemma.h"
#include "serve/answer_text.h"
#include "serve/fixture.h"

namespace llada::serve {
namespace {

using nlohmann::json;

// A model that often says the tokens around thoughts, a line end and a few letters: their rows of the tied head are
// longer.
std::shared_ptr<const Model> thinking_model(const TempFolder& folder) {
  const std::string path = write_tiny_gemma(folder / "tiny.gguf");
  std::string bytes = folder.read("tiny.gguf");
  {
    const auto file = ModelFile::open(path);
    const TensorView& table = *file->find("token_embd.weight");
    const std::string_view first(reinterpret_cast<const char*>(table.data), 64);
    const size_t at = bytes.find(first);
    const size_t row = static_cast<size_t>(table.bytes() / table.shape.rows());
    for (const int32_t token : {TinyGemma::kThought, TinyGemma::kThoughtEnd, 18, 105, 106, 107, 108})
      for (size_t i = 0; i < row; i += 4) {
        float value;
        std::memcpy(&value, &bytes[at + static_cast<size_t>(token) * row + i], 4);
        value *= 4;
        std::memcpy(&bytes[at + static_cast<size_t>(token) * row + i], &value, 4);
      }
  }
  folder.write("thinking.gguf", bytes);
  auto model = Model::load(folder / "thinking.gguf", {.threads = 2});
  if (!model) throw std::runtime_error(model.error().message);
  return *model;
}

class Thinking : public ServeTest {
 protected:
  void SetUp() override {
    model_ = thinking_model(folder_);
    start(false);
    ASSERT_TRUE(service->set_model(model_));
  }
  // What the engine answers, cut by the definition: between the marks, behind the channel's name and a line end.
  std::pair<std::string, std::string> parts(int64_t seed, bool think) const {
    const ChatMessage message{"user", "why"};
    DecodeChoice choice;
    choice.use_defaults();
    for (const auto& [key, value] : {std::pair{"gen_length", "96"}, {"denoising_steps", "3"}})
      choice.give(decode::setting(key, value).value());
    choice.give(decode::setting("seed", std::to_string(seed)).value());
    EXPECT_TRUE(choice.resolve(model_->special_ids().kind()));
    const auto session = Session::create(model_, {});
    const auto answer =
        (*session)->run({.tokens = *llada::chat_prompt(*model_, {&message, 1}, think), .options = choice.options}, {});
    EXPECT_TRUE(answer) << answer.error().message;
    std::string said, thought, channel;
    bool inside = false;
    const auto close = [&] {
      const size_t line = channel.find('\n');
      if (line != std::string::npos) thought += channel.substr(line + 1);
      channel.clear();
    };
    for (const int32_t token : answer->tokens) {
      if (token == TinyGemma::kEnd || token == TinyGemma::kTurnEnd) break;
      if (token == TinyGemma::kThought || token == TinyGemma::kThoughtEnd) {
        if (inside) close();
        inside = token == TinyGemma::kThought;
        continue;
      }
      (inside ? channel : said) += model_->tokenizer().decode({&token, 1});
    }
    if (inside) close();
    return {to_valid_utf8(said), to_valid_utf8(thought)};
  }
  json body(int64_t seed, bool think, bool stream) const {
    json asked = chat_body("why", {{"max_tokens", 96}, {"seed", seed}, {"stream", stream}});
    asked["llada"] = {{"denoising_steps", 3}};
    if (think) asked["reasoning_effort"] = "low";
    return asked;
  }

  const TempFolder folder_;
  std::shared_ptr<const Model> model_;
};

TEST_F(Thinking, ThoughtsStandBesideTheAnswerWholeAndStreamed) {
  int64_t with_thoughts = 0;
  for (int64_t seed = 0; seed < 6; ++seed)
    for (const bool think : {true, false}) {
      const auto [said, thought] = parts(seed, think);
      with_thoughts += !said.empty() && !thought.empty();
      const Received whole = post("/v1/chat/completions", body(seed, think, false));
      ASSERT_EQ(whole.status, 200) << whole.body;
      const json message = whole.json()["choices"][0]["message"];
      EXPECT_EQ(message["content"], said);
      EXPECT_EQ(message.value("reasoning_content", ""), think ? thought : "");
      std::string content, reasoning;
      for (const std::string& event : post("/v1/chat/completions", body(seed, think, true)).events()) {
        if (event == "[DONE]") continue;
        const json delta = json::parse(event)["choices"][0]["delta"];
        content += delta.value("content", "");
        reasoning += delta.value("reasoning_content", "");
      }
      EXPECT_EQ(content, said);
      EXPECT_EQ(reasoning, think ? thought : "");
    }
  EXPECT_GT(with_thoughts, 2) << "a model that thinks";
}

// The other protocols' own forms of a wish and of thoughts.
TEST_F(Thinking, EveryProtocolHasThoughtsInItsForm) {
  const auto with = [](json asked, const json& more) {
    asked.update(more);
    asked["llada"] = {{"denoising_steps", 3}};
    return asked;
  };
  const json messages = {{{"role", "user"}, {"content", "why"}}};
  for (int64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    const auto [said, thought] = parts(seed, true);
    for (const bool stream : {false, true}) {
      const json ways = {{"seed", seed}, {"stream", stream}};
      const Received claude =
          post("/v1/messages", with(ways, {{"messages", messages},
                                           {"max_tokens", 96},
                                           {"thinking", {{"type", "enabled"}, {"budget_tokens", 1024}}}}));
      const Received response =
          post("/v1/responses",
               with(ways, {{"input", "why"}, {"max_output_tokens", 96}, {"reasoning", {{"effort", "low"}}}}));
      const Received ollama =
          post("/api/chat",
               with({{"stream", stream}},
                    {{"messages", messages}, {"think", true}, {"options", {{"num_predict", 96}, {"seed", seed}}}}));
      std::map<std::string, std::pair<std::string, std::string>> got;  // by protocol: said, thought
      for (const Received* reply : {&claude, &response, &ollama}) ASSERT_EQ(reply->status, 200) << reply->body;
      if (!stream) {
        const json message = claude.json(), object = response.json();
        for (const json& block : message["content"])
          (block["type"] == "thinking" ? got["claude"].second : got["claude"].first) +=
              block.value(block["type"] == "thinking" ? "thinking" : "text", "");
        for (const json& item : object["output"])
          if (item["type"] == "reasoning")
            got["response"].second = item["summary"][0]["text"].get<std::string>();
          else
            got["response"].first = item["content"][0]["text"].get<std::string>();
        got["ollama"] = {ollama.json()["message"].value("content", ""), ollama.json()["message"].value("thinking", "")};
      } else {
        for (const std::string& event : claude.events()) {
          const json data = json::parse(event);
          if (data["type"] != "content_block_delta") continue;
          got["claude"].first += data["delta"].value("text", "");
          got["claude"].second += data["delta"].value("thinking", "");
        }
        for (const std::string& event : response.events()) {
          const json data = json::parse(event);
          if (data["type"] == "response.output_text.delta") got["response"].first += data["delta"].get<std::string>();
          if (data["type"] == "response.completed" || data["type"] == "response.incomplete")
            for (const json& item : data["response"]["output"])
              if (item["type"] == "reasoning") got["response"].second = item["summary"][0]["text"].get<std::string>();
        }
        std::istringstream lines(ollama.body);
        for (std::string line; std::getline(lines, line);) {
          const json message = json::parse(line)["message"];
          got["ollama"].first += message.value("content", "");
          got["ollama"].second += message.value("thinking", "");
        }
      }
      for (const char* protocol : {"claude", "response", "ollama"})
        EXPECT_EQ(got[protocol], std::pair(said, thought)) << protocol << (stream ? ", streamed" : "");
    }
  }
}

// An undecided canvas holds random tokens: text that stands before a mark that is not decided is shown to nobody.
TEST(ThinkingText, NothingIsSaidBeforeAnAnswersFirstToken) {
  const TempFolder folder;
  const auto model = Model::load(write_tiny_gemma(folder / "tiny.gguf"), {.threads = 1});
  ASSERT_TRUE(model) << model.error().message;
  const auto a = model->get()->tokenizer().encode("a").front(), b = model->get()->tokenizer().encode("b").front();
  const auto shown = [&](std::vector<std::pair<int32_t, int32_t>> decided, bool thinks = true) {
    AnswerText text((*model)->tokenizer(), (*model)->chat_format(), 3, 8, {TinyGemma::kEnd}, {}, thinks);
    StepNote note;
    for (const auto& [at, token] : decided) note.edits.push_back({3 + at, token, decode::TokenState::visible, 1});
    text.apply(note);
    EXPECT_EQ(text.take(), "") << "nothing is committed";
    return text.whole();
  };
  const std::string hole(kHole);
  EXPECT_EQ(shown({{1, a}, {2, b}}, false), hole + "ab");
  EXPECT_EQ(shown({{1, a}, {2, b}}), "");
  EXPECT_EQ(shown({{0, a}, {2, b}}), "a" + hole + "b") << "an answer that begins with what it says";
  EXPECT_EQ(shown({{1, a}, {2, TinyGemma::kThoughtEnd}, {4, b}}), hole + "b");
  EXPECT_EQ(shown({{0, TinyGemma::kThought}, {2, a}}), "");
  EXPECT_EQ(shown({{1, a}, {2, TinyGemma::kThought}, {3, b}, {5, TinyGemma::kThoughtEnd}, {6, a}}), "a");
}

}  // namespace
}  // namespace llada::serve
