// Streams: what clients of each kind see while an answer forms, and that it is the answer.
#include <map>

#include "serve/fixture.h"
#include "serve/work/answer_text.h"
#include "serve/work/answer_writer.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

using nlohmann::json;

class Streams : public ServeTest {
 protected:
  void SetUp() override {
    limits.send_buffer_bytes = 4096;
    start();
  }

  std::vector<json> stream(const std::string& path, json body) {
    body["stream"] = true;
    const auto reply = ok(post(path, body));
    EXPECT_EQ(reply.header("Content-Type"), "text/event-stream");
    auto events = reply.events();
    EXPECT_FALSE(events.empty());
    if (events.empty()) return {};
    EXPECT_EQ(events.back(), "[DONE]");
    events.pop_back();
    std::vector<json> parsed;
    for (const std::string& event : events) parsed.push_back(json::parse(event));
    return parsed;
  }
};

const std::string kQuestion =
    "There are 40 rings in the bag of Liam. He gives 11 to Cleo. He buys 7 more. He gets 12 from Cleo. How many rings "
    "are left for Liam?";

TEST_F(Streams, AppendFinalText) {
  const std::string alone = run_alone(chat_prompt(kQuestion), {}).text;
  const auto chunks =
      stream("/v1/chat/completions", chat_body(kQuestion, {{"stream_options", {{"include_usage", true}}}}));
  ASSERT_GT(chunks.size(), 3u);
  EXPECT_EQ(chunks[0]["choices"][0]["delta"]["role"], "assistant");
  std::string text;
  for (size_t i = 1; i + 2 < chunks.size(); ++i) {
    EXPECT_EQ(chunks[i]["object"], "chat.completion.chunk");
    EXPECT_EQ(chunks[i]["id"], chunks[0]["id"]);
    EXPECT_TRUE(chunks[i]["choices"][0]["finish_reason"].is_null());
    EXPECT_FALSE(chunks[i].contains("llada"));
    text += chunks[i]["choices"][0]["delta"]["content"].get<std::string>();
  }
  EXPECT_EQ(text, alone);
  const json end = chunks[chunks.size() - 2], usage = chunks.back();
  EXPECT_EQ(end["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(end["choices"][0]["delta"], json::object());
  EXPECT_TRUE(usage["choices"].empty());
  EXPECT_GT(usage["usage"]["forwards"], 0);
}

TEST_F(Streams, NeverShowWhatAStopTextTakesAway) {
  const std::vector<std::pair<std::string, std::string>> given = {
      {"kv", "prefix"}, {"block_length", "8"}, {"threshold", "0.9"}};
  const std::string all = run_alone(chat_prompt(kQuestion), given).text;
  ASSERT_GT(all.size(), 20u);
  const std::vector<std::string> stop = {all.substr(all.size() / 2, 6), "never there"};
  const Generation alone = run_alone(chat_prompt(kQuestion), given, "", stop);
  ASSERT_EQ(alone.stopped_by, stop[0]);
  std::string text;
  const json options_of_run = {{"kv", "prefix"}, {"block_length", 8}, {"threshold", 0.9}};
  for (const json& chunk :
       stream("/v1/chat/completions", chat_body(kQuestion, {{"stop", stop}, {"llada", options_of_run}})))
    text += chunk["choices"][0]["delta"].value("content", "");
  EXPECT_EQ(text, alone.text);
  EXPECT_LT(text.size(), all.size());
}

TEST_F(Streams, InMercurysShapeReplaceTheText) {
  const auto chunks = stream("/v1/chat/completions", chat_body(kQuestion, {{"diffusing", true}}));
  const std::string alone = run_alone(chat_prompt(kQuestion), {}).text;
  ASSERT_GE(chunks.size(), 3u);
  for (size_t i = 0; i + 1 < chunks.size(); ++i) {
    EXPECT_EQ(chunks[i]["diffusion_meta"]["diffusion_content"], true);
    EXPECT_EQ(chunks[i]["choices"][0]["delta"]["role"], "assistant");
  }
  const json& resolved = chunks[chunks.size() - 2];
  EXPECT_EQ(resolved["choices"][0]["delta"]["content"], alone);
  EXPECT_EQ(resolved["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(resolved["diffusion_meta"]["diffusion_progress"], 1);
  EXPECT_LT(chunks[0]["diffusion_meta"]["diffusion_progress"], 1);
  EXPECT_EQ(chunks.back()["choices"][0]["delta"], json::object());
  EXPECT_FALSE(chunks.back().contains("diffusion_meta"));
}

TEST_F(Streams, InMercurysShapeEndBeforeAStopTextAllTheWay) {
  const std::vector<std::pair<std::string, std::string>> given = {{"steps", "32"}, {"gen_length", "64"}};
  const std::string all = run_alone(chat_prompt(kQuestion), given, "exact").text;
  ASSERT_GT(all.size(), 20u);
  const std::string stop = all.substr(all.size() / 3, 5);
  json body = chat_body(kQuestion, {{"llada", {{"steps", 32}}}, {"max_tokens", 64}, {"diffusing", true}});
  const auto shows = [&](const std::vector<json>& chunks) {
    int64_t showing = 0;
    for (const json& chunk : chunks)
      showing += chunk["choices"][0]["delta"].value("content", "").contains(stop) ? 1 : 0;
    return showing;
  };
  EXPECT_GT(shows(stream("/v1/chat/completions", body)), 1) << "it forms in several events";
  body["stop"] = stop;
  EXPECT_EQ(shows(stream("/v1/chat/completions", body)), 0);
}

// Replays the edits of frames: position to token id of what is decided.
std::map<int64_t, int32_t> replay(const std::vector<json>& chunks) {
  std::map<int64_t, int32_t> canvas;
  for (const json& chunk : chunks) {
    if (!chunk.contains("llada")) continue;
    for (const json& edit : chunk["llada"]["edits"]) {
      if (edit["state"] == "masked") {
        canvas.erase(edit["position"]);
      } else {
        canvas[edit["position"]] = edit["id"];
      }
    }
  }
  return canvas;
}

TEST_F(Streams, FramesHaveEveryEdit) {
  for (const char* way : {"none", "edit"}) {
    json asked = {{"preset", "balanced"}};
    std::vector<std::pair<std::string, std::string>> given;
    if (way == std::string("edit"))
      asked = {{"revision", "edit"}, {"slide", false}}, given = {{"revision", "edit"}, {"slide", "false"}};
    const auto prompt = chat_prompt(kQuestion);
    const Generation alone = run_alone(prompt, given);
    const auto chunks =
        stream("/v1/chat/completions", chat_body(kQuestion, {{"diffusing", "frames"}, {"llada", asked}}));
    ASSERT_GE(chunks.size(), 3u);
    std::string text;
    int64_t step = -1, forwards = 0;
    for (size_t i = 1; i < chunks.size(); ++i) {
      const json& side = chunks[i]["llada"];
      EXPECT_GT(side["step"], step);
      EXPECT_GE(side["forwards"], forwards);
      step = side["step"], forwards = side["forwards"];
      text += chunks[i]["choices"][0]["delta"].value("content", "");
    }
    EXPECT_EQ(text, alone.text);
    EXPECT_EQ(chunks[1]["llada"]["canvas"]["begin"], std::ssize(prompt));
    EXPECT_EQ(chunks[1]["llada"]["canvas"]["length"], 64) << "two blocks of a length that follows the answer";
    EXPECT_EQ(chunks.back()["usage"]["forwards"], alone.stats.decode.nfe);
    EXPECT_EQ(chunks.back()["usage"]["rows"], alone.stats.decode.rows);
    EXPECT_EQ(chunks.back()["llada"]["masks_left"], 0);
    const auto canvas = replay(chunks);
    for (int64_t i = 0; i < alone.stats.content_tokens; ++i)
      EXPECT_EQ(canvas.at(std::ssize(prompt) + i), alone.tokens[static_cast<size_t>(i)]) << way << " " << i;
  }
}

// What the form leaves no choice about is told as such, before the first step too; what the model chose is not.
TEST_F(Streams, FramesMarkWhatTheFormFixed) {
  const json asked = {{"template", "Age: <int 10..99> years"}, {"gen_length", 16}};
  const auto chunks = stream("/v1/chat/completions", chat_body(kQuestion, {{"diffusing", "frames"}, {"llada", asked}}));
  std::string fixed, chosen;
  for (const json& chunk : chunks) {
    if (!chunk.contains("llada")) continue;
    for (const json& edit : chunk["llada"]["edits"])
      (edit.value("by_form", false) ? fixed : chosen) += edit["text"].get<std::string>();
  }
  EXPECT_TRUE(fixed.starts_with("Age:")) << fixed;
  EXPECT_NE(fixed.find("year"), std::string::npos) << fixed;
  EXPECT_EQ(chosen.find_first_not_of(" 0123456789"), std::string::npos) << chosen;
  EXPECT_NE(chosen, "");
}

TEST_F(Streams, OfGapsShowTheTextAround) {
  for (const char* text : {"Liam has <mask:2> rings. He gives <mask:3> to Cleo.",
                           "Liam has <mask:auto> rings. He gives <mask:3> to Cleo."}) {
    const auto chunks = stream("/infill", {{"text", text}, {"diffusing", "frames"}});
    ASSERT_GT(chunks.size(), 1u);
    EXPECT_EQ(chunks[0]["llada"]["canvas"]["begin"], 0);
    const auto canvas = replay(chunks);
    EXPECT_EQ(std::ssize(canvas), chunks[0]["llada"]["canvas"]["length"].get<int64_t>()) << "every position was told";
    std::vector<int32_t> ids;
    for (const auto& [position, id] : canvas) ids.push_back(id);
    EXPECT_EQ(tiny_model()->tokenizer().decode(ids), chunks.back()["content"]);
  }
  std::string text;
  for (const json& chunk :
       stream("/v1/fim/completions", {{"prompt", "Liam has "}, {"suffix", " rings."}, {"max_tokens", 4}})) {
    EXPECT_EQ(chunk["choices"][0]["text"], chunk["choices"][0]["delta"]["content"]) << "clients read either";
    text += chunk["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(text, post("/v1/fim/completions", {{"prompt", "Liam has "}, {"suffix", " rings."}, {"max_tokens", 4}})
                      .json()["choices"][0]["text"]);
}

TEST_F(Streams, OfSeveralChoicesCarryTheirIndex) {
  std::map<int, std::string> texts;
  for (const json& chunk : stream("/v1/chat/completions",
                                  chat_body("Hi", {{"n", 2}, {"temperature", 1.0}, {"seed", 3}, {"max_tokens", 32}})))
    texts[chunk["choices"][0]["index"]] += chunk["choices"][0]["delta"].value("content", "");
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(texts[i],
              to_valid_utf8(run_alone(chat_prompt("Hi"),
                                      {{"temperature", "1"}, {"seed", std::to_string(3 + i)}, {"gen_length", "32"}})
                                .text));
}

TEST_F(Streams, OfAnOldClientEndWithTheConnection) {
  Client client(server->port());
  const std::string body = chat_body("Hi", {{"stream", true}, {"max_tokens", 16}}).dump();
  client.send(fmt::format("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}", body.size(), body));
  const auto reply = client.receive();
  EXPECT_EQ(reply.header("Transfer-Encoding"), "");
  EXPECT_EQ(reply.events().back(), "[DONE]");
  EXPECT_TRUE(client.closed(5));
}

// A stream that waits for its turn has nothing to say for longer than some proxies wait.
TEST_F(Streams, SaySoWhereTheyAreSilent) {
  for (const double seconds : {0.2, 0.0}) {
    TearDown();
    options.admission.running = 1;
    options.ping_seconds = seconds;
    start();
    const json body = {{"stream", true}, {"max_tokens", 200}, {"llada", {{"preset", "exact"}, {"early_stop", "none"}}}};
    Client first(server->port()), second(server->port());
    first.send(chat_request(chat_body("Count.", body)));
    ASSERT_TRUE(becomes("llada_requests_running", 1));
    second.send(chat_request(chat_body("Hi", {{"stream", true}, {"max_tokens", 32}})));
    ASSERT_TRUE(becomes("llada_requests_waiting", 1));
    EXPECT_EQ(second.wait_for(": ping\n\n", seconds > 0 ? 10 : 0.6), seconds > 0);
    first.close();
    const auto reply = second.receive();
    EXPECT_EQ(reply.body.contains(": ping\n\n"), seconds > 0);
    std::string text;
    for (const std::string& event : reply.events())
      if (event != "[DONE]") text += json::parse(event)["choices"][0]["delta"].value("content", "");
    EXPECT_EQ(text, run_alone(chat_prompt("Hi"), {{"gen_length", "32"}}).text);
  }
}

// The reader takes nothing until the answers are there: they are finished all the same, and come whole. There is more
// than the sockets between the two hold, so steps have been merged.
// labels: long
TEST_F(Streams, DoNotWaitForSlowReaders) {
  const json body = chat_body(kQuestion, {{"stream", true},
                                          {"diffusing", "frames"},
                                          {"n", 3},
                                          {"max_tokens", 96},
                                          {"llada", {{"preset", "exact"}, {"early_stop", "none"}}}});
  const Generation alone = run_alone(chat_prompt(kQuestion), {{"gen_length", "96"}, {"early_stop", "none"}}, "exact");
  Client slow(server->port(), 2048);
  slow.send(chat_request(body));
  ASSERT_TRUE(becomes("llada_answers_total", 3, 300));
  std::vector<std::vector<json>> chunks(3);
  int64_t frames = 0;
  const auto events = slow.receive().events();
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    json chunk = json::parse(events[i]);
    frames += chunk.contains("llada") ? 1 : 0;
    chunks[chunk["choices"][0]["index"]].push_back(std::move(chunk));
  }
  EXPECT_LT(frames, 3 * alone.stats.decode.steps) << "steps were merged";
  const auto begin = std::ssize(chat_prompt(kQuestion));
  for (const auto& choice : chunks) {
    std::string text;
    for (const json& chunk : choice) text += chunk["choices"][0]["delta"].value("content", "");
    EXPECT_EQ(text, alone.text);
    const auto canvas = replay(choice);
    for (int64_t i = 0; i < alone.stats.content_tokens; ++i)
      ASSERT_EQ(canvas.at(begin + i), alone.tokens[static_cast<size_t>(i)]);
  }
}

StepNote note(int64_t committed, std::vector<decode::Edit> edits) {
  return {.step = 0, .committed = committed, .masks_left = 0, .forwards = 1, .rows = 1, .edits = std::move(edits)};
}

TEST(AnswerText, GivesCharactersOnceTheyAreWholeAndStopTextsNever) {
  const Tokenizer& tokenizer = tiny_model()->tokenizer();
  const auto ids = tokenizer.encode("a\u00e9b STOP c");
  std::vector<decode::Edit> edits;
  for (size_t i = 0; i < ids.size(); ++i)
    edits.push_back({static_cast<int32_t>(10 + i), ids[i], decode::TokenState::stable, 1});
  AnswerText text(tokenizer, {}, 10, std::ssize(ids), {}, {"STOP"});
  std::string given;
  for (size_t i = 0; i < ids.size(); ++i) {
    text.apply(note(static_cast<int64_t>(i + 1), {edits[i]}));
    given += text.take();
    EXPECT_EQ(to_valid_utf8(given), given);
    EXPECT_FALSE(given.contains('S')) << given;
  }
  EXPECT_EQ(given, "a\u00e9b ");
  EXPECT_EQ(text.finish("a\u00e9b "), "");
  AnswerText reversed(tokenizer, {}, 10, std::ssize(ids), {}, {});
  reversed.apply(note(0, {edits.back()}));
  EXPECT_EQ(reversed.take(), "") << "not final yet";
  EXPECT_TRUE(reversed.whole().starts_with(kHole));
  EXPECT_EQ(reversed.finish("whole"), "whole");
}

TEST(AnswerText, MergedStepsAreTheirLastEdits) {
  StepNote first = note(1, {{3, 7, decode::TokenState::visible, 0.5}, {4, 8, decode::TokenState::stable, 1}});
  merge(first, note(2, {{3, -1, decode::TokenState::masked, 0}, {5, 9, decode::TokenState::stable, 1}}));
  EXPECT_EQ(first.committed, 2);
  ASSERT_EQ(first.edits.size(), 3u);
  EXPECT_EQ(first.edits[0].state, decode::TokenState::masked);
  EXPECT_EQ(first.edits[2].position, 5);
}

// A conversation of a block-causal model: what a turn has in common with the one before is not computed again, and the
// client is told how far its prompt is.
class LongPrompts : public ServeTest {
 protected:
  void start_block_causal(int64_t kept_bytes, int attention_block = 8) {
    options.kept_prefix_bytes = kept_bytes;
    start(false);
    LoadOptions load{.isa = isa_from_environment(), .threads = 2};
    load.overrides.attention_block = attention_block;
    const auto model = must(Model::load(LLADA_SOURCE_DIR "/models/tiny-llada-long", load));
    ASSERT_TRUE(service->set_model(*model));
  }
  void stop() {
    service->drain(0);
    server.reset();
    service.reset();
  }
  // The texts of two turns, and of the second its usage.
  std::pair<std::vector<std::string>, json> converse() {
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < 700; ++i) ids.push_back(20 + (53 * i) % 900);
    std::vector<std::string> texts;
    json usage;
    for (int turn = 0; turn < 2; ++turn) {
      const json body = {{"prompt", ids}, {"max_tokens", 24}, {"ignore_eos", true}};
      const json reply = post("/v1/completions", body).json();
      texts.push_back(reply["choices"][0]["text"].get<std::string>());
      usage = reply["usage"];
      for (int32_t i = 0; i < 20; ++i) ids.push_back(30 + 7 * i);
    }
    return {texts, usage};
  }
};

TEST_F(LongPrompts, ALaterTurnComputesItsNewTokens) {
  start_block_causal(0);
  const auto [texts, all] = converse();
  EXPECT_EQ(all["prompt_tokens_details"]["cached_tokens"], 0);
  stop();
  start_block_causal(int64_t{64} << 20);
  const auto [kept_texts, kept] = converse();
  EXPECT_EQ(kept_texts, texts);
  EXPECT_EQ(kept["prompt_tokens"], 720);
  EXPECT_EQ(kept["prompt_tokens_details"]["cached_tokens"], 696) << "whole blocks of 8 of the first 700";
  EXPECT_EQ(kept["rows"], all["rows"].get<int64_t>() - 696);
  EXPECT_EQ(kept["forwards"], all["forwards"]);
  stop();
  start_block_causal(int64_t{1} << 20);  // room for 10 blocks of 8 tokens
  const auto [partly_kept_texts, partly_kept] = converse();
  EXPECT_EQ(partly_kept_texts, texts);
  EXPECT_EQ(partly_kept["prompt_tokens_details"]["cached_tokens"], 80);
}

// Before it is computed: a stream has it in its head.
TEST_F(LongPrompts, WhatFullAttentionCostsIsSaid) {
  start_block_causal(0, 0);
  std::vector<int32_t> ids(600, 30);
  const auto note = [&](const json& options, size_t tokens = 600) {
    ids.resize(tokens);
    return post("/v1/completions", {{"prompt", ids}, {"max_tokens", 2}, {"stream", true}, {"llada", options}})
        .header("Llada-Note");
  };
  const std::string all = "attention is full: the 600 tokens of the prompt are computed ";
  EXPECT_EQ(note({{"preset", "balanced"}}),
            all + "whenever 80 tokens of the answer have changed (refresh-after 0: at the beginning of each block)");
  EXPECT_EQ(note({{"kv", "none"}, {"refresh_after", 0}}),
            all + "in every forward (kv dual, prefix or frozen: at the beginning of each block)");
  EXPECT_EQ(note({{"refresh_after", 0}}), all + "at the beginning of each block");
  EXPECT_EQ(note({{"refresh_after", 0}}, 512), "") << "it is not long";
  stop();
  start_block_causal(0);
  ids.resize(600, 30);
  EXPECT_EQ(note({{"preset", "balanced"}}), "") << "computed once";
  stop();
  start_block_causal(int64_t{1} << 20);  // a token takes 6 layers of 2 x 256 floats
  EXPECT_EQ(note({{"preset", "balanced"}}),
            "keys and values of the prompt take 7 MiB, of which --prefix-memory keeps 1: the next turn computes the "
            "others again");
}

// A prompt counts once however many answers it has, and so does what was kept of it.
TEST_F(LongPrompts, WhatWasKeptOfAPromptCountsOnce) {
  start_block_causal(int64_t{64} << 20);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 100; ++i) ids.push_back(20 + (53 * i) % 900);
  const auto cached = [&](int answers) {
    const json usage = post("/v1/completions", {{"prompt", ids}, {"max_tokens", 8}, {"n", answers}}).json()["usage"];
    EXPECT_EQ(usage["prompt_tokens"], 100);
    return usage["prompt_tokens_details"]["cached_tokens"].get<int>();
  };
  EXPECT_EQ(cached(3), 0) << "what the first answer leaves for the second was not there before";
  EXPECT_EQ(cached(3), 96);
}

TEST_F(LongPrompts, AStreamSaysHowFarThePromptIs) {
  start_block_causal(int64_t{64} << 20);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 700; ++i) ids.push_back(20 + (53 * i) % 900);
  for (const char* path : {"/v1/completions", "/completion"}) {
    json body = {{"prompt", ids}, {"max_tokens", 8}, {"stream", true}};
    const auto told = [&] {
      std::vector<json> progress;
      for (const std::string& event : post(path, body).events()) {
        const json parsed = event == "[DONE]" ? json() : json::parse(event);
        if (parsed.contains("prompt_progress")) progress.push_back(parsed["prompt_progress"]);
      }
      return progress;
    };
    ids.front() = path[1];  // another prompt, so that nothing of it is known
    body["prompt"] = ids;
    EXPECT_TRUE(told().empty()) << "nobody asked";
    ids.front() = path[2], body["prompt"] = ids;
    body["return_progress"] = true;
    const auto progress = told();
    ASSERT_FALSE(progress.empty()) << path;  // of two events one may stand for both
    EXPECT_EQ(progress.back()["processed"], 512);
    EXPECT_EQ(progress.back()["total"], 700);
    EXPECT_EQ(progress.back()["cache"], 0);
    EXPECT_TRUE(told().empty()) << "all of it is known";
  }
}

// Of a step that a client sees alone; merged steps begin from a canvas that it never saw.
TEST(AnswerText, EditsSayWhereATokenStoodThatMoved) {
  const decode::Edit moved{3, 7, decode::TokenState::visible, 0.5, 2};
  EXPECT_EQ(edit_json(*tiny_model(), moved).at("from"), 2);
  EXPECT_FALSE(edit_json(*tiny_model(), {3, 7, decode::TokenState::visible, 0.5}).contains("from"));
  StepNote first = note(1, {{4, 8, decode::TokenState::stable, 1}});
  merge(first, note(2, {moved}));
  for (const decode::Edit& edit : first.edits) EXPECT_EQ(edit.from, -1);
}

}  // namespace
}  // namespace llada::serve
