// What the routes answer, against the same engine asked without a server.
#include <future>
#include <set>

#include "engine/infill_text.h"
#include "engine/likelihood.h"
#include "serve/fixture.h"
#include "serve/protocols/reading.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

using nlohmann::json;

class Answers : public ServeTest {
 protected:
  void SetUp() override { start(); }
};

std::string content(const Received& reply) {
  return reply.json().at("choices").at(0).at("message").at("content").get<std::string>();
}

TEST_F(Answers, AreGoldenOnes) {
  for (const GoldenItem& item : load_golden(LLADA_SOURCE_DIR "/models/tiny-llada/golden.json")) {
    const auto reply = ok(post_chat(item.prompt, {{"max_tokens", 128},
                                                  {"llada",
                                                   {{"preset", "exact"},
                                                    {"threshold", 0.9},
                                                    {"block_length", item.threshold.options.block_length},
                                                    {"early_stop", "none"}}}}));
    EXPECT_EQ(content(reply), item.threshold.text);
    EXPECT_EQ(reply.json()["usage"]["forwards"], item.threshold.nfe);
    EXPECT_EQ(reply.json()["usage"]["prompt_tokens"], item.prompt_tokens);
  }
}

TEST_F(Answers, AreThoseOfARunWithTheSameOptions) {
  struct Case {
    json body;
    std::vector<std::pair<std::string, std::string>> given;
    std::string preset;
    std::vector<std::string> stop;
  };
  const std::vector<Case> cases = {
      {json::object(), {}, "", {}},
      {{{"max_completion_tokens", 32}}, {{"gen_length", "32"}}, "", {}},
      {{{"llada", {{"preset", "exact"}}}, {"max_tokens", 24}}, {{"gen_length", "24"}}, "exact", {}},
      {{{"temperature", 0.9}, {"seed", 7}}, {{"temperature", "0.9"}, {"seed", "7"}}, "", {}},
      {{{"stop", "He"}}, {}, "", {"He"}},
      {{{"stop", {"####", "left"}}, {"llada", {{"preset", "exact"}, {"edit_steps", 4}}}},
       {{"edit_steps", "4"}},
       "exact",
       {"####", "left"}},
      {{{"llada", {{"tail", 0}, {"refresh_after", 4}}}}, {{"tail", "0"}, {"refresh_after", "4"}}, "", {}},
      {{{"llada", {{"steps", 8}}}}, {{"steps", "8"}}, "", {}},
  };
  std::set<std::string> different;
  for (const Case& c : cases) {
    const Generation alone = run_alone(chat_prompt(kSum), c.given, c.preset, c.stop);
    const auto reply = ok(post_chat(kSum, c.body));
    EXPECT_EQ(content(reply), to_valid_utf8(alone.text)) << c.body;
    const json answer = reply.json();
    EXPECT_EQ(answer["usage"]["forwards"], alone.stats.decode.nfe) << c.body;
    EXPECT_EQ(answer["usage"]["rows"], alone.stats.decode.rows);
    EXPECT_EQ(answer["usage"]["completion_tokens"], alone.stats.content_tokens);
    EXPECT_EQ(answer["choices"][0]["finish_reason"], std::string(finish_reason(alone)));
    different.insert(alone.text + std::to_string(alone.stats.decode.nfe));
  }
  EXPECT_GE(different.size(), 5u) << "the cases say different things";
}

// labels: long
TEST_F(Answers, DoNotDependOnLoad) {
  struct Case {
    std::string text;
    json body;
    std::string alone;
  };
  std::vector<Case> cases;
  for (int i = 0; i < 12; ++i) {
    Case c{fmt::format("There are {} rings in the bag. He gives {} to Cleo. How many rings are left?", 30 + i, i + 2),
           json::object(), ""};
    std::vector<std::pair<std::string, std::string>> given = {{"gen_length", i % 3 == 0 ? "128" : "64"}};
    c.body["max_tokens"] = i % 3 == 0 ? 128 : 64;
    if (i % 4 == 1)
      c.body["temperature"] = 0.8, c.body["seed"] = i,
      given.insert(given.end(), {{"temperature", "0.8"}, {"seed", std::to_string(i)}});
    if (i % 4 == 2) c.body["llada"] = {{"threshold", 0.7}}, given.emplace_back("threshold", "0.7");
    if (i % 4 == 3)
      c.body["llada"] = {{"kv", "dual"}, {"block_length", 16}},
      given.insert(given.end(), {{"kv", "dual"}, {"block_length", "16"}});
    c.alone = to_valid_utf8(run_alone(chat_prompt(c.text), given).text);
    cases.push_back(std::move(c));
  }
  std::vector<std::future<void>> clients;
  for (int client = 0; client < 12; ++client)
    clients.push_back(std::async(std::launch::async, [&, client] {
      for (int i = 0; i < 3; ++i) {
        const Case& c = cases[static_cast<size_t>((client + i * 5) % 12)];
        const auto reply = ok(post_chat(c.text, c.body));
        EXPECT_EQ(content(reply), c.alone) << c.body;
      }
    }));
  for (auto& client : clients) client.get();
  EXPECT_GT(metric("llada_forward_parts_total"), metric("llada_forwards_total")) << "forwards were shared";
}

TEST_F(Answers, OfSeveralChoicesHaveSeedsOfTheirOwn) {
  const json answer = ok(post_chat(kSum, {{"n", 3}, {"temperature", 3}, {"seed", 5}})).json();
  ASSERT_EQ(answer["choices"].size(), 3u);
  std::set<std::string> texts;
  for (int i = 0; i < 3; ++i) {
    const Generation alone = run_alone(chat_prompt(kSum), {{"temperature", "3"}, {"seed", std::to_string(5 + i)}});
    EXPECT_EQ(answer["choices"][static_cast<size_t>(i)]["index"], i);
    EXPECT_EQ(answer["choices"][static_cast<size_t>(i)]["message"]["content"], to_valid_utf8(alone.text));
    texts.insert(alone.text);
  }
  EXPECT_GT(texts.size(), 1u);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], std::ssize(chat_prompt(kSum))) << "counted once";
}

TEST_F(Answers, OfPlainPromptsAndTokenIds) {
  const auto ids = tiny_model()->prompt_ids("Liam has 40 rings.").value();
  const std::string alone = to_valid_utf8(run_alone(ids, {{"gen_length", "32"}}).text);
  const json text = {{"prompt", "Liam has 40 rings."}, {"max_tokens", 32}};
  const json tokens = {{"prompt", {ids, chat_prompt("Hi")}}, {"max_tokens", 32}};
  const auto one = post("/v1/completions", text), two = post("/v1/completions", tokens);
  ASSERT_EQ(one.status, 200) << one.body;
  ASSERT_EQ(two.status, 200) << two.body;
  EXPECT_EQ(one.json()["choices"][0]["text"], alone);
  EXPECT_EQ(two.json()["choices"][0]["text"], alone);
  EXPECT_EQ(two.json()["choices"][1]["text"], to_valid_utf8(run_alone(chat_prompt("Hi"), {{"gen_length", "32"}}).text));
  const auto echoed = post("/v1/completions", {{"prompt", "Liam has 40 rings."}, {"max_tokens", 32}, {"echo", true}});
  EXPECT_EQ(echoed.json()["choices"][0]["text"], "Liam has 40 rings." + alone);
}

TEST_F(Answers, HaveLogProbabilities) {
  const json choice = ok(post_chat(kSum, {{"logprobs", true}})).json()["choices"][0];
  std::string joined;
  for (const json& token : choice["logprobs"]["content"]) {
    joined += token["token"].get<std::string>();
    EXPECT_LE(token["logprob"].get<double>(), 0);
    EXPECT_GT(token["logprob"].get<double>(), -20);
  }
  EXPECT_EQ(joined, choice["message"]["content"]);
  const auto plain = post("/v1/completions", {{"prompt", "Liam has"}, {"max_tokens", 16}, {"logprobs", 1}});
  const json probs = plain.json()["choices"][0]["logprobs"];
  EXPECT_EQ(probs["tokens"].size(), plain.json()["usage"]["completion_tokens"]);
  EXPECT_EQ(probs["tokens"].size(), probs["token_logprobs"].size());
}

// As lm-evaluation-harness asks: a sum over a stretch of the prompt, whether it is the greedy one, and an entry that
// was generated behind it.
TEST_F(Answers, ScoreThePrompt) {
  const auto ids = tiny_model()->prompt_ids("Liam has 40 rings.").value();
  ScoreRequest alone{.prompt = {ids[0]}, .continuations = {{ids.begin() + 1, ids.end()}}};
  const ScoreResult score = open_session(tiny_model())->score(alone).value();
  for (const int most : {0, 1}) {
    const auto reply =
        ok(post("/v1/completions",
                {{"prompt", ids}, {"max_tokens", most}, {"logprobs", 1}, {"echo", true}, {"temperature", 0}}));
    const json probs = reply.json()["choices"][0]["logprobs"];
    ASSERT_EQ(probs["token_logprobs"].size(), ids.size() + static_cast<size_t>(most));
    EXPECT_TRUE(probs["token_logprobs"][0].is_null());
    for (size_t i = 1; i < ids.size(); ++i) {
      const double own = probs["token_logprobs"][i];
      EXPECT_EQ(own, score.continuations[0].tokens[i - 1].log_probability);
      double best = -1e9;
      for (const auto& [text, value] : probs["top_logprobs"][i].items()) best = std::max(best, value.get<double>());
      EXPECT_GE(best, own);
    }
    EXPECT_GE(reply.json()["usage"]["forwards"], score.forwards);
  }
}

TEST_F(Answers, FillGaps) {
  const std::string text = "Liam has <mask:2> rings. He gives <mask:3> to Cleo.";
  const auto pieces = parse_infill_template(text).value();
  const InfillLayout layout = lay_out_infill(*tiny_model(), pieces).value();
  DecodeChoice choice(true);
  choice.use_defaults();
  ASSERT_TRUE(choice.resolve());
  const Request asked{.tokens = layout.tokens, .gaps = layout.positions, .options = choice.options};
  const auto alone = open_session(tiny_model())->run(prepare(*tiny_model(), asked).value(), {}).value();
  const auto reply = ok(post("/infill", {{"text", text}}));
  EXPECT_EQ(reply.json()["content"], to_valid_utf8(alone.text));
  ASSERT_EQ(reply.json()["spans"].size(), 2u);
  EXPECT_EQ(reply.json()["spans"][1]["length"], 3);

  // Of open length: as the text with the chosen lengths, and one forward more for each that was tried.
  const auto open =
      post("/infill", {{"text", "Ken has 20+6=<mask:auto:8> puzzles. Theo has <mask:2> puzzles."}}).json();
  const int64_t length = open["spans"][0]["length"];
  const auto fixed =
      post("/infill", {{"text", fmt::format("Ken has 20+6=<mask:{}> puzzles. Theo has <mask:2> puzzles.", length)}})
          .json();
  EXPECT_EQ(open["content"], fixed["content"]);
  EXPECT_EQ(open["spans"], fixed["spans"]);
  EXPECT_EQ(open["usage"]["forwards"], fixed["usage"]["forwards"].get<int64_t>() + 6);
  const std::string row(600, '7');
  const json full = error_of(post("/infill", {{"text", row + "<mask:auto>"}}));
  EXPECT_TRUE(full["message"].get<std::string>().contains("maximum context length")) << full;

  // One gap, in the shapes that editors send.
  const auto fim = post("/v1/fim/completions", {{"prompt", "Liam has "}, {"suffix", " rings."}, {"max_tokens", 4}});
  const auto completion = post("/v1/completions", {{"prompt", "Liam has "}, {"suffix", " rings."}, {"max_tokens", 4}});
  const auto vim = post("/infill", {{"input_prefix", "Liam "},
                                    {"input_suffix", " rings."},
                                    {"prompt", "has "},
                                    {"n_predict", 4},
                                    {"input_extra", json::array()},
                                    {"samplers", {"top_k", "infill"}},
                                    {"top_k", 40},
                                    {"top_p", 0.99},
                                    {"t_max_predict_ms", 500},
                                    {"cache_prompt", true},
                                    {"n_indent", 0}});
  ASSERT_EQ(fim.status, 200) << fim.body;
  ASSERT_EQ(vim.status, 200) << vim.body;
  const std::string filled = fim.json()["choices"][0]["text"];
  EXPECT_FALSE(filled.empty());
  EXPECT_EQ(completion.json()["choices"][0]["text"], filled);
  EXPECT_EQ(vim.json()["content"], filled);
}

// A text that a template has rendered: its control tokens are tokens wherever a program sends it, and text in a message.
TEST_F(Answers, ARenderedTemplateAsAPrompt) {
  const auto prompt = post("/apply-template", chat_body(kSum)).json();
  const std::string text = prompt["prompt"];
  EXPECT_EQ(post("/tokenize", {{"content", text}}).json()["tokens"], prompt["tokens"]);
  const json ids = {{"prompt", prompt["tokens"]}, {"max_tokens", 32}}, written = {{"prompt", text}, {"max_tokens", 32}};
  const auto one = post("/v1/completions", ids), two = post("/v1/completions", written);
  ASSERT_EQ(two.status, 200) << two.body;
  EXPECT_EQ(two.json()["choices"], one.json()["choices"]);
  EXPECT_EQ(two.json()["usage"]["prompt_tokens"], prompt["tokens"].size());
  const auto message = post("/apply-template", chat_body(text)).json();
  EXPECT_GT(message["tokens"].size(), 2 * prompt["tokens"].size()) << "spelled out";
  const auto letters = post("/tokenize", {{"content", text}, {"parse_special", false}}).json();
  EXPECT_GT(letters["count"], 2 * prompt["tokens"].size());
}

TEST_F(Answers, TokensAndBack) {
  const auto ids =
      post("/tokenize", {{"prompt", "Liam has 40 rings."}, {"add_special_tokens", false}}).json()["tokens"];
  EXPECT_EQ(ids, json(tiny_model()->tokenizer().encode("Liam has 40 rings.")));
  EXPECT_EQ(post("/tokenize", {{"content", "Liam has 40 rings."}}).json()["tokens"], ids);
  const auto back = post("/detokenize", {{"tokens", ids}}).json();
  EXPECT_EQ(back["prompt"], "Liam has 40 rings.");
  EXPECT_EQ(back["content"], "Liam has 40 rings.");
  EXPECT_EQ(post("/detokenize", {{"tokens", {1 << 30}}}).status, 400);
  const auto prompt = post("/apply-template", chat_body("Hi")).json();
  EXPECT_EQ(prompt["tokens"], json(chat_prompt("Hi")));
  EXPECT_TRUE(prompt["prompt"].get<std::string>().contains("Hi"));
  EXPECT_TRUE(get("/tokenizer_info").json()["eos_token"].is_string());
}

TEST_F(Answers, SayWhatTheServerIs) {
  EXPECT_EQ(get("/v1/models").json()["data"][0]["id"], "tiny");
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/ready").status, 200);
  EXPECT_EQ(get("/props").json()["total_slots"], 8);
  EXPECT_EQ(get("/props").json()["single_turn"], true);
  const json list = get("/v1/llada/options").json();
  EXPECT_EQ(list["options"].size(), decode::fields().size());
  EXPECT_EQ(list["options"][0]["key"], "gen_length");
  EXPECT_EQ(list["options"][0]["default"], "auto") << "as requests without a length have it";
  EXPECT_EQ(list["presets"][1]["name"], "balanced");
  for (const json& option : list["options"]) {
    const json& initial = option["default"];
    EXPECT_TRUE(option["key"] != "kv" || initial == "dual") << "the default preset's: " << initial;
    if (option["key"] != "seed") continue;
    EXPECT_EQ(initial, nullptr) << "drawn";
    EXPECT_EQ(option["range"]["least"], nullptr) << "seeds have signs";
  }
  const auto page = ok(get("/"));
  EXPECT_TRUE(page.header("Content-Type").starts_with("text/html"));
  EXPECT_TRUE(page.header("Content-Security-Policy").contains("default-src 'none'"));
  const auto again = ask(server->port(), "GET", "/", nullptr, "If-None-Match: " + page.header("ETag") + "\r\n");
  EXPECT_EQ(again.status, 304);
}

// A client that checks types refuses an event stream that the description does not name: so /v1/responses was.
TEST_F(Answers, AreDescribedAsStreamsWhereOneCanAskForThem) {
  const json description = get("/openapi.json").json();
  EXPECT_TRUE(description["paths"].contains("/v1/chat/completions"));
  size_t streams = 0;
  for (const auto& [path, operations] : description["paths"].items()) {
    const json operation = operations.value("post", json::object());
    json schema = operation.value(json::json_pointer("/requestBody/content/application~1json/schema"), json::object());
    if (schema.contains("$ref")) schema = description[json::json_pointer(schema["$ref"].get<std::string>().substr(1))];
    const bool asks = schema.value("properties", json::object()).contains("stream");
    const json types = operation.value(json::json_pointer("/responses/200/content"), json::object());
    const char* stream = path.starts_with("/api/") ? "application/x-ndjson" : "text/event-stream";
    EXPECT_EQ(types.contains(stream), asks) << path;
    streams += asks;
  }
  EXPECT_EQ(streams, 9);
  const json& schemas = description["components"]["schemas"];
  EXPECT_EQ(schemas["Chat"]["properties"]["top_logprobs"]["maximum"], kMostAlternatives);
  EXPECT_EQ(schemas["Completion"]["properties"]["logprobs"]["maximum"], kMostAlternatives);
  EXPECT_EQ(schemas["Completion"]["properties"]["n"]["maximum"], options.most_answers);
}

TEST_F(Answers, RefuseWithTheNameOfTheField) {
  struct Case {
    std::string path;
    json body;
    std::string param;
  };
  const json chat = chat_body("Hi");
  const auto with = [&](const char* key, json value) {
    json body = chat;
    body[key] = std::move(value);
    return body;
  };
  const std::string kChat = "/v1/chat/completions", kPlain = "/v1/completions";
  const std::vector<Case> cases = {
      {kChat, json::object(), "messages"},
      {kChat, {{"messages", json::array()}}, "messages"},
      {kChat, {{"messages", {{{"role", "tool"}, {"content", "x"}}}}}, "messages[0].tool_call_id"},
      {kChat, {{"messages", {{{"role", "user"}, {"content", 7}}}}}, "messages[0].content"},
      {kChat, with("max_tokens", 0), "max_tokens"},
      {kChat, with("max_tokens", "many"), "max_tokens"},
      {kChat, with("temperature", -1), "temperature"},
      {kChat, with("temperature", 1e7), "temperature"},
      {kChat, with("n", 0), "n"},
      {kChat, with("n", 1000), "n"},
      {kChat, with("stop", {5}), "stop"},
      {kChat, with("stop", 5), "stop"},
      {kChat, with("stream", "yes"), "stream"},
      {kChat, with("diffusing", "slowly"), "diffusing"},
      {kChat, with("tools", {{{"type", "function"}}}), "tools[0].function"},
      {kChat, with("response_format", {{"type", "json_schema"}}), "response_format"},
      {kChat, with("frequency_penalty", "much"), "frequency_penalty"},
      {kChat, with("top_logprobs", 5), "top_logprobs"},
      {kChat, with("top_logprobs", 21), "top_logprobs"},
      {kPlain, {{"prompt", "x"}, {"logprobs", 21}}, "logprobs"},
      {kChat, with("wish", 5), "wish"},
      {kChat, with("llada", {{"wish", 5}}), "llada.wish"},
      {kChat, with("llada", {{"threshold", 2}}), "llada.threshold"},
      {kChat, with("llada", {{"preset", "/etc/passwd"}}), "llada.preset"},
      {kChat, with("llada", {{"preset", ""}}), "llada.preset"},
      {kChat, with("llada", {{"regex", ""}}), "llada.regex"},
      {kChat, with("llada", {{"choice", ""}}), "llada.choice"},
      {kChat, with("llada", {{"json_schema", ""}}), "llada.json_schema"},
      {kChat, with("llada", {{"template", ""}}), "llada.template"},
      {kChat, with("llada", {{"steps", 1}, {"gen_length", 64}}), "llada.steps"},
      // Not with the preset, which nobody has named; a value that the named one has; a prompt without text.
      {kChat, with("llada", {{"kv", "none"}}), "llada.kv"},
      {kChat, chat_body(std::string(500, '7'), {{"llada", {{"preset", "exact"}}}}), "messages"},
      {kChat, chat_body(""), "messages"},
      {kChat, chat_body(" \n\t"), "messages"},
      {kChat,
       {{"messages", {{{"role", "system"}, {"content", "x"}}, {{"role", "user"}, {"content", ""}}}}},
       "messages"},
      {"/v1/responses", {{"input", ""}}, "input"},
      {kPlain, {{"prompt", ""}}, "prompt"},
      {kPlain, {{"prompt", {"x", ""}}}, "prompt"},
      {kPlain, {{"prompt", {json::array()}}}, "prompt"},
      {kPlain, {{"prompt", json::array()}}, "prompt"},
      {kPlain, {{"prompt", {-1}}}, "prompt"},
      {kPlain, {{"prompt", {{1 << 30}}}}, "prompt"},
      {kPlain, {{"prompt", "x"}, {"best_of", 4}}, "best_of"},
      {"/infill", {{"text", "no gap"}}, "text"},
      {"/infill", json::object(), "text"},
  };
  for (const Case& c : cases) {
    const json error = error_of(post(c.path, c.body));
    EXPECT_EQ(error["param"], c.param) << c.body << " " << error;
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_TRUE(error["message"].get<std::string>().starts_with(c.param)) << error;
    EXPECT_FALSE(error["message"].get<std::string>().contains('\n')) << error;
  }
  for (const char* text : {"", "{", "[]", "nonsense", "{\"messages\": 1, \"messages\": 2}"}) {
    Client client(server->port());
    client.send(fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}", kChat,
                            std::strlen(text), text));
    EXPECT_EQ(client.receive().status, 400) << text;
  }
  const auto removed = post(kChat, with("llada", {{"wino", true}}));
  EXPECT_EQ(removed.json()["error"]["message"],
            "llada.wino: was removed: revision=dual-path checks doubtful tokens again");
}

TEST_F(Answers, FitTheFormThatWasAskedFor) {
  constexpr const char* kEric = "Write as JSON: Eric is 31 years old, lives in Oslo and works as a baker.";
  // Members in the order that was sent, which a parsed body has lost.
  const std::string body = json(chat_body(kEric, {{"temperature", 1}})).dump();
  const std::string format =
      R"("response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "properties":
         {"name": {"type": "string", "maxLength": 9}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
          "big": {"type": "boolean"}}, "required": ["name", "age", "big"], "additionalProperties": false}}}, )";
  Client client(server->port());
  client.send(http_request("POST", "/v1/chat/completions", body.substr(0, 1) + format + body.substr(1)));
  const Received reply = ok(client.receive());
  const auto found = nlohmann::ordered_json::parse(content(reply));
  ASSERT_EQ(found.size(), 3u) << content(reply);
  EXPECT_EQ(found.items().begin().key(), "name");
  EXPECT_TRUE(found["age"].is_number_integer() && found["age"] >= 0 && found["age"] <= 150 &&
              found["big"].is_boolean());
  EXPECT_EQ(reply.json()["choices"][0]["finish_reason"], "stop");
  const auto object = post_chat(kEric, {{"response_format", {{"type", "json_object"}}}});
  EXPECT_TRUE(json::parse(content(object)).is_object());
  const auto choice = post_chat("?", {{"llada", {{"choice", "yes|no"}}}});
  EXPECT_TRUE(content(choice) == "yes" || content(choice) == "no");
  // Streamed, the text that the form fixes is there too, also where no forward is left to be computed.
  const auto streamed = [&](const json& form) {
    const auto stream = post_chat(kEric, {{"stream", true}, {"llada", form}});
    std::string text;
    for (const std::string& event : stream.events()) {
      const json delta = event == "[DONE]" ? json::object() : json::parse(event)["choices"][0]["delta"];
      if (delta.contains("content")) text += delta["content"].get<std::string>();
    }
    return text;
  };
  const std::string text = streamed({{"template", R"({"name": "Eric", "age": <int 0..99>})"}});
  EXPECT_TRUE(text.starts_with(R"({"name": "Eric", "age": )") && text.ends_with("}")) << text;
  EXPECT_EQ(streamed({{"choice", "exactly this"}}), "exactly this");
  const auto refused = post_chat(kEric, {{"max_tokens", 2},
                                         {"llada",
                                          {{"json_schema",
                                            {{"type", "object"},
                                             {"properties", {{"name", {{"const", "a long fixed text"}}}}},
                                             {"required", {"name"}}}}}}});
  EXPECT_EQ(refused.status, 400) << refused.body;
  EXPECT_NE(refused.body.find("max_tokens: found 2, needed "), std::string::npos) << refused.body;
}

// Which preset an answer had, and why none where one would be used by default; gaps have the same one.
TEST_F(Answers, SayWhichPresetTheyHad) {
  const auto of = [&](const char* path, json body, json asked) {
    body["llada"] = std::move(asked);
    return ok(post(path, body)).json();
  };
  const json chat = chat_body("Hi", {{"max_tokens", 16}}), gaps = {{"text", "1+1=<mask:1>"}};
  const char *kChat = "/v1/chat/completions", *kInfill = "/infill";
  EXPECT_EQ(of(kChat, chat, json::object())["llada"], json({{"preset", "balanced"}}));
  EXPECT_EQ(of(kChat, chat, {{"kv", "prefix"}})["llada"], json({{"preset", "balanced"}}));
  EXPECT_EQ(of(kInfill, gaps, json::object())["llada"], json({{"preset", "balanced"}}));
  EXPECT_EQ(of(kChat, chat, {{"steps", 4}})["llada"],
            json({{"preset", ""}, {"note", "llada.steps asks for a fixed schedule, so preset balanced is not used"}}));
}

TEST_F(Answers, OtherPathsAndMethods) {
  EXPECT_EQ(get("/nothing").status, 404);
  const auto wrong_method = get("/v1/chat/completions");
  EXPECT_EQ(wrong_method.status, 405);
  EXPECT_EQ(wrong_method.header("Allow"), "POST");
  Client client(server->port());
  client.send("HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(client.wait_for("{\"status\":\"ok\"}"));
}

}  // namespace
}  // namespace llada::serve
