// Thoughts over HTTP: in a field of their own, whole and streamed, and in no text.
#include <map>
#include <set>
#include <sstream>

#include "engine/prompt.h"
#include "formats/temp_folder.h"
#include "geometry/tiny_gemma.h"
#include "serve/fixture.h"
#include "serve/work/answer_text.h"

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
  return *must(Model::load(folder / "thinking.gguf", {.threads = 2}));
}

class Thinking : public ServeTest {
 protected:
  void SetUp() override {
    model_ = thinking_model(folder_);
    start(false);
    ASSERT_TRUE(service->set_model(model_));
  }
  // What the engine answers, cut by the definition: between the marks, behind the channel's name and a line end.
  // tokens: of thoughts, with the marks.
  std::pair<std::string, std::string> parts(int64_t seed, bool think, int64_t* tokens = nullptr) const {
    const ChatMessage message{"user", "why"};
    DecodeChoice choice;
    choice.use_defaults();
    for (const auto& [key, value] : {std::pair{"gen_length", "96"}, {"denoising_steps", "3"}})
      choice.give(decode::setting(key, value).value());
    choice.give(decode::setting("seed", std::to_string(seed)).value());
    EXPECT_TRUE(choice.resolve(model_->special_ids().kind()));
    const auto session = Session::create(model_, {});
    const auto answer = (*session)->run(
        prepare(*model_, {.tokens = *llada::chat_prompt(*model_, {&message, 1}, think), .options = choice.options})
            .value(),
        {});
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
      if (tokens != nullptr) *tokens += inside || token == TinyGemma::kThought || token == TinyGemma::kThoughtEnd;
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
      const json message = ok(post("/v1/chat/completions", body(seed, think, false))).json()["choices"][0]["message"];
      EXPECT_EQ(message["content"], said);
      EXPECT_EQ(message.value("reasoning_content", ""), think ? thought : "");
      for (const json& watch : {json(false), json("frames")}) {
        json asked = body(seed, think, true);
        asked["diffusing"] = watch;
        std::string content, reasoning;
        for (const std::string& event : post("/v1/chat/completions", asked).events()) {
          if (event == "[DONE]") continue;
          const json delta = json::parse(event)["choices"][0]["delta"];
          content += delta.value("content", "");
          reasoning += delta.value("reasoning_content", "");
        }
        EXPECT_EQ(content, said) << watch;
        EXPECT_EQ(reasoning, think ? thought : "") << watch;
      }
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
    int64_t thought_tokens = 0;
    const auto [said, thought] = parts(seed, true, &thought_tokens);
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
        const json blocks = claude.json()["content"], items = response.json()["output"];
        for (const json& block : blocks)
          (block["type"] == "thinking" ? got["claude"].second : got["claude"].first) +=
              block.value(block["type"] == "thinking" ? "thinking" : "text", "");
        for (const json& item : items)
          if (item["type"] == "reasoning")
            got["response"].second = item["summary"][0]["text"].get<std::string>();
          else
            got["response"].first = item["content"][0]["text"].get<std::string>();
        EXPECT_EQ(response.json()["usage"]["output_tokens_details"]["reasoning_tokens"], thought_tokens);
        got["ollama"] = {ollama.json()["message"].value("content", ""), ollama.json()["message"].value("thinking", "")};
      } else {
        for (const std::string& event : claude.events()) {
          const json data = json::parse(event);
          if (data["type"] != "content_block_delta") continue;
          got["claude"].first += data["delta"].value("text", "");
          got["claude"].second += data["delta"].value("thinking", "");
        }
        // The whole response at the end has the items that were streamed, at their places.
        json items = json::array(), last;
        std::map<size_t, std::string> texts;
        for (const std::string& event : response.events()) {
          const json data = json::parse(event);
          const std::string type = data["type"];
          if (type == "response.output_item.added") {
            EXPECT_EQ(data["output_index"], items.size());
            items.push_back(data["item"]);
          }
          if (type == "response.output_text.delta" || type == "response.reasoning_summary_text.delta") {
            const size_t at = data["output_index"];
            ASSERT_EQ(at + 1, items.size());
            EXPECT_EQ(data["item_id"], items[at]["id"]);
            texts[at] += data["delta"].get<std::string>();
            (type.contains("output_text") ? got["response"].first : got["response"].second) +=
                data["delta"].get<std::string>();
          }
          if (type == "response.completed" || type == "response.incomplete") last = data["response"]["output"];
        }
        ASSERT_EQ(last.size(), items.size());
        std::set<std::string> ids;
        for (size_t i = 0; i < items.size(); ++i) {
          ids.insert(last[i]["id"]);
          EXPECT_EQ(last[i]["id"], items[i]["id"]);
          EXPECT_EQ(last[i]["type"], items[i]["type"]);
          EXPECT_EQ(last[i][last[i]["type"] == "message" ? "content" : "summary"][0]["text"], texts[i]);
        }
        EXPECT_EQ(ids.size(), items.size());
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

// A client sends an answer back as it came. No template shows thoughts of an earlier turn.
TEST_F(Thinking, AnAnswerIsTakenBackInTheNextTurn) {
  const json user = {{"role", "user"}, {"content", "why"}};
  json more = {{"llada", {{"denoising_steps", 3}}}};
  int64_t taken = 0;
  for (int64_t seed = 0; seed < 6; ++seed) {
    more["seed"] = seed;
    const auto reply_to = [&](const std::string& path, json asked) {
      asked.update(more);
      return ok(post(path, asked)).json();
    };
    const json first = reply_to("/v1/chat/completions", body(seed, true, false))["choices"][0]["message"];
    if (!first.contains("reasoning_content")) continue;
    ++taken;
    const json said = {{"role", "assistant"}, {"content", first["content"]}};
    const int64_t tokens = reply_to("/v1/chat/completions",
                                    {{"messages", {user, said, user}}, {"max_tokens", 16}})["usage"]["prompt_tokens"];
    EXPECT_EQ(reply_to("/v1/chat/completions",
                       {{"messages", {user, first, user}}, {"max_tokens", 16}})["usage"]["prompt_tokens"],
              tokens);
    json input = json::array({user});
    const json output = reply_to(
        "/v1/responses", {{"input", "why"}, {"max_output_tokens", 96}, {"reasoning", {{"effort", "low"}}}})["output"];
    for (const json& item : output) input.push_back(item);
    EXPECT_EQ(input[1]["type"], "reasoning");
    input.push_back(user);
    EXPECT_EQ(reply_to("/v1/responses", {{"input", input}, {"max_output_tokens", 16}})["usage"]["input_tokens"],
              tokens);
    json blocks = reply_to("/v1/messages", {{"messages", {user}},
                                            {"max_tokens", 96},
                                            {"thinking", {{"type", "enabled"}, {"budget_tokens", 1024}}}})["content"];
    EXPECT_EQ(blocks[0]["type"], "thinking");
    blocks.push_back(json{{"type", "redacted_thinking"}, {"data", "x"}});
    const json message = {{"role", "assistant"}, {"content", blocks}};
    EXPECT_EQ(
        reply_to("/v1/messages", {{"messages", {user, message, user}}, {"max_tokens", 16}})["usage"]["input_tokens"],
        tokens);
  }
  EXPECT_GT(taken, 2) << "a model that thinks";
}

// A form of the answer, which tools have too, leaves no room for thoughts; the prompt is that without the wish.
TEST_F(Thinking, NotBesideToolsOrAForm) {
  const json messages = {{{"role", "user"}, {"content", "why"}}}, options = {{"num_predict", 64}};
  const json parameters = {{"type", "object"}, {"properties", {{"a", {{"const", 1}}}}}, {"required", {"a"}}};
  const json flat = {{"type", "function"}, {"name", "f"}, {"parameters", parameters}};
  const json inside = {{"type", "function"}, {"function", {{"name", "f"}, {"parameters", parameters}}}};
  const json claude = {{"type", "enabled"}, {"budget_tokens", 1024}};
  struct Way {
    std::string path;
    json body, wish, tool;
    const char* count;
  };
  for (const Way& way : std::vector<Way>{{"/v1/chat/completions",
                                          {{"messages", messages}, {"max_tokens", 64}},
                                          {{"reasoning_effort", "low"}},
                                          inside,
                                          "/usage/prompt_tokens"},
                                         {"/v1/responses",
                                          {{"input", "why"}, {"max_output_tokens", 64}},
                                          {{"reasoning", {{"effort", "low"}}}},
                                          flat,
                                          "/usage/input_tokens"},
                                         {"/v1/messages",
                                          {{"messages", messages}, {"max_tokens", 64}},
                                          {{"thinking", claude}},
                                          {{"name", "f"}, {"input_schema", parameters}},
                                          "/usage/input_tokens"},
                                         {"/api/chat",
                                          {{"messages", messages}, {"stream", false}, {"options", options}},
                                          {{"think", true}},
                                          inside,
                                          "/prompt_eval_count"},
                                         {"/api/generate",
                                          {{"prompt", "why"}, {"stream", false}, {"options", options}},
                                          {{"think", true}},
                                          nullptr,
                                          "/prompt_eval_count"}})
    for (const bool tools : {false, true}) {
      if (tools && way.tool.is_null()) continue;
      json asked = way.body;
      asked.update(tools ? json{{"tools", {way.tool}}} : json{{"llada", {{"choice", "yes|no"}}}});
      const Received plain = post(way.path, asked);
      asked.update(way.wish);
      const Received wished = post(way.path, asked);
      ASSERT_EQ(plain.status, 200) << way.path << plain.body;
      ASSERT_EQ(wished.status, 200) << way.path << wished.body;
      const json::json_pointer count(way.count);
      EXPECT_EQ(wished.json()[count], plain.json()[count]) << way.path;
      EXPECT_TRUE(wished.json()["warnings"][0].get<std::string>().starts_with("thinking: ")) << wished.body;
      EXPECT_FALSE(plain.json().contains("warnings")) << plain.body;
    }
}

// An undecided canvas holds random tokens: text that stands before a mark that is not decided is shown to nobody.
TEST(ThinkingText, NothingIsSaidBeforeAnAnswersFirstToken) {
  const TempFolder folder;
  const auto model = must(Model::load(write_tiny_gemma(folder / "tiny.gguf"), {.threads = 1}));
  const auto a = model->get()->tokenizer().encode("a").front(), b = model->get()->tokenizer().encode("b").front();
  const auto shown = [&](std::vector<std::pair<int32_t, int32_t>> decided, Thoughts thoughts = Thoughts::may_begin) {
    AnswerText text((*model)->tokenizer(), (*model)->chat_format(), 3, 8, {TinyGemma::kEnd}, {}, thoughts);
    StepNote note;
    for (const auto& [at, token] : decided) note.edits.push_back({3 + at, token, decode::TokenState::visible, 1});
    text.apply(note);
    EXPECT_EQ(text.take(), "") << "nothing is committed";
    return text.whole();
  };
  const std::string hole(kHole);
  EXPECT_EQ(shown({{1, a}, {2, b}}, Thoughts::none), hole + "ab");
  EXPECT_EQ(shown({{1, a}, {2, b}}), "");
  EXPECT_EQ(shown({{0, a}, {2, b}}), "a" + hole + "b") << "an answer that begins with what it says";
  EXPECT_EQ(shown({{1, a}, {2, TinyGemma::kThoughtEnd}, {4, b}}), hole + "b");
  EXPECT_EQ(shown({{0, TinyGemma::kThought}, {2, a}}), "");
  EXPECT_EQ(shown({{1, a}, {2, TinyGemma::kThought}, {3, b}, {5, TinyGemma::kThoughtEnd}, {6, a}}), "a");
}

}  // namespace
}  // namespace llada::serve
