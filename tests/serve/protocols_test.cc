// Protocols other than OpenAI's: Anthropic's, Ollama's, llama-server's; and fields that have no effect here. Every
// answer is that of `llada run` with the same prompt and options.

#include "engine/prompt.h"
#include "serve/fixture.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

using nlohmann::json;

const std::string kMessages = "/v1/messages", kChats = "/v1/chat/completions";

class Protocols : public ServeTest {
 protected:
  static Generation alone(int length = 64, std::vector<std::string> stop = {}) {
    return run_alone(chat_prompt(kSum), {{"gen_length", std::to_string(length)}}, "", std::move(stop));
  }
  static json asked(json more = json::object()) { return chat_body(kSum, std::move(more)); }
  // The lines of a stream of JSON.
  static std::vector<json> lines(const std::string& body) {
    std::vector<json> found;
    for (size_t at = 0, end; (end = body.find('\n', at)) != std::string::npos; at = end + 1)
      found.push_back(json::parse(body.substr(at, end - at)));
    return found;
  }
};

TEST_F(Protocols, AnthropicsAnswerIsTheProgramsOwn) {
  start();
  const Generation own = alone();
  const json reply = post(kMessages, asked({{"max_tokens", 64}})).json();
  EXPECT_EQ(reply["type"], "message");
  EXPECT_EQ(reply["role"], "assistant");
  EXPECT_EQ(reply["content"], json::array({{{"type", "text"}, {"text", to_valid_utf8(own.text)}}}));
  EXPECT_EQ(reply["stop_reason"], "end_turn");
  EXPECT_EQ(reply["stop_sequence"], nullptr);
  EXPECT_EQ(reply["usage"]["input_tokens"], chat_prompt(kSum).size());
  EXPECT_EQ(reply["usage"]["output_tokens"], own.stats.content_tokens);
  // Blocks, a system text, and fields that agents add.
  const json blocks = {{{"role", "user"},
                        {"content", {{{"type", "text"}, {"text", kSum}, {"cache_control", {{"type", "ephemeral"}}}}}}}};
  const json same = post(kMessages, {{"messages", blocks},
                                     {"max_tokens", 64},
                                     {"system", ""},
                                     {"metadata", {{"user_id", "me"}}},
                                     {"tool_choice", {{"type", "auto"}}},
                                     {"tools", json::array()},
                                     {"thinking", {{"type", "enabled"}, {"budget_tokens", 1024}}}})
                        .json();
  EXPECT_EQ(same["content"], reply["content"]) << same;
  ASSERT_EQ(same["warnings"].size(), 1u) << same;
  EXPECT_TRUE(same["warnings"][0].get<std::string>().starts_with("thinking.type, thinking.budget_tokens: "));
  const json system = {{{"role", "system"}, {"content", "Be brief."}}, {{"role", "user"}, {"content", kSum}}};
  EXPECT_EQ(post(kMessages, asked({{"system", {{{"type", "text"}, {"text", "Be brief."}}}}, {"max_tokens", 64}}))
                .json()["content"][0]["text"],
            post(kChats, {{"messages", system}, {"max_tokens", 64}}).json()["choices"][0]["message"]["content"]);
}

TEST_F(Protocols, AnthropicsReasonsForTheEnd) {
  start();
  EXPECT_EQ(post(kMessages, asked({{"max_tokens", 4}})).json()["stop_reason"], "max_tokens");
  const std::string text = alone().text;
  ASSERT_GT(text.size(), 1u);
  const std::string stop = text.substr(text.size() - 1);
  const json ended = post(kMessages, asked({{"max_tokens", 64}, {"stop_sequences", {stop}}})).json();
  EXPECT_EQ(ended["stop_reason"], "stop_sequence");
  EXPECT_EQ(ended["stop_sequence"], stop);
  EXPECT_EQ(ended["content"][0]["text"], to_valid_utf8(alone(64, {stop}).text));
}

TEST_F(Protocols, AnthropicsStreamHasItsEventsInOrder) {
  start();
  const Received reply = post(kMessages, asked({{"max_tokens", 64}, {"stream", true}}));
  EXPECT_TRUE(reply.header("Content-Type").starts_with("text/event-stream"));
  std::vector<std::string> order;
  std::string text;
  json first, last;
  for (const std::string& data : reply.events()) {
    const json event = json::parse(data);
    const std::string type = event["type"];
    EXPECT_TRUE(reply.body.contains("event: " + type + "\n"));
    if (order.empty() || order.back() != type) order.push_back(type);
    if (type == "content_block_delta") text += event["delta"]["text"].get<std::string>();
    if (type == "message_start") first = event;
    if (type == "message_delta") last = event;
  }
  const std::vector<std::string> needed = {"message_start",      "content_block_start", "content_block_delta",
                                           "content_block_stop", "message_delta",       "message_stop"};
  EXPECT_EQ(order, needed);
  EXPECT_EQ(text, to_valid_utf8(alone().text));
  EXPECT_EQ(first["message"]["usage"]["input_tokens"], chat_prompt(kSum).size());
  EXPECT_EQ(last["delta"]["stop_reason"], "end_turn");
  EXPECT_EQ(last["usage"]["output_tokens"], alone().stats.content_tokens);
}

TEST_F(Protocols, AnthropicsTokensAreCountedAsTheyAreRead) {
  start();
  EXPECT_EQ(post(kMessages + "/count_tokens", asked()).json(), json({{"input_tokens", chat_prompt(kSum).size()}}));
  // Too long for the model, too: who asks wants to know how much to leave out.
  const auto longer = ok(post(kMessages + "/count_tokens", chat_body(std::string(27'000, '7'))));
  EXPECT_GT(longer.json()["input_tokens"], 20'000);
}

TEST_F(Protocols, RefusalsHaveTheProtocolsForm) {
  start();
  service->set_keys({"key"});
  EXPECT_EQ(post(kMessages, asked()).json()["error"]["type"], "authentication_error");
  EXPECT_TRUE(post("/api/chat", asked()).json()["error"].is_string());
  service->set_keys({});
  const json tool = {{"name", "add"}, {"input_schema", {{"type", "object"}}}};
  const auto refused = [&](const std::string& path, const json& body) {
    const json error = error_of(post(path, body));
    return error.is_string() ? error.get<std::string>() : error["message"].get<std::string>();
  };
  const Received reply = post(kMessages, asked({{"tools", {5}}}));
  EXPECT_EQ(reply.json()["type"], "error");
  EXPECT_EQ(reply.json()["error"]["type"], "invalid_request_error");
  for (const auto& [body, says] : std::vector<std::pair<json, std::string>>{
           {asked({{"tools", {{{"type", "bash_20250124"}, {"name", "bash"}}}}}),
            "tools[0].type: found \"bash_20250124\", needed custom"},
           {asked({{"tool_choice", {{"type", "any"}}}}),
            "tool_choice: found {\"type\":\"any\"}, needed tools beside it"},
           {asked({{"system", 5}}), "system: found 5"},
           {asked({{"stop_sequences", {1}}}), "stop_sequences: found [1]"},
           {asked({{"diffusing", true}}), "diffusing: "},
           {asked({{"output_config", {{"format", "json"}}}}), "output_config.format: found \"json\""},
           {{{"messages", {{{"role", "user"}, {"content", {{{"type", "image"}}}}}}}}, "messages[0].content: found"},
           {{{"messages", {{{"role", "user"}, {"content", "a"}}, {{"role", "assistant"}, {"content", "b"}}}}},
            "messages: the last is the assistant's"},
           {json::object(), "messages: is missing; needed"}})
    EXPECT_TRUE(refused(kMessages, body).starts_with(says)) << body << refused(kMessages, body);
  for (const auto& [body, says] : std::vector<std::pair<json, std::string>>{
           {asked({{"format", "yaml"}}), "format: found \"yaml\", needed \"json\" or a JSON schema"},
           {asked({{"tools", {tool}}}), "tools[0].type: found null, needed function"},
           {asked({{"options", 3}}), "options: found 3, needed an object"},
           {asked({{"options", {{"temperature", "hot"}}}}), "temperature: "},
           {{{"messages", {{{"role", "user"}, {"content", "a"}, {"images", {"aGk="}}}}}}, "messages[0].images: "},
           {{{"messages", {{{"role", "tool"}, {"content", "a"}}}}}, "messages[0].tool_call_id: "}})
    EXPECT_TRUE(refused("/api/chat", body).starts_with(says)) << body << refused("/api/chat", body);
  EXPECT_TRUE(refused("/api/generate", {{"prompt", "a"}, {"context", {1, 2}}}).starts_with("context: "));
  EXPECT_TRUE(refused("/completion", {{"prompt", "a"}, {"grammar", "root"}}).starts_with("grammar: "));
}

TEST_F(Protocols, OllamasChatIsAStreamOfLines) {
  start();
  const Generation own = alone();
  const json options = {{"num_predict", 64}, {"num_ctx", 4096}, {"top_k", 40}};
  const Received reply = post("/api/chat", asked({{"model", "any"}, {"options", options}, {"keep_alive", "5m"}}));
  EXPECT_EQ(reply.header("Content-Type"), "application/x-ndjson");
  EXPECT_TRUE(reply.header("Llada-Note").contains("options.num_ctx: ")) << reply.head;
  const auto events = lines(reply.body);
  std::string text;
  for (const json& event : events) {
    text += event["message"]["content"].get<std::string>();
    EXPECT_EQ(event["done"], &event == &events.back());
  }
  EXPECT_EQ(text, to_valid_utf8(own.text));
  EXPECT_EQ(events.back()["done_reason"], "stop");
  EXPECT_EQ(events.back()["eval_count"], own.stats.content_tokens);
  EXPECT_EQ(events.back()["prompt_eval_count"], chat_prompt(kSum).size());
  const json whole = post("/api/chat", asked({{"stream", false}, {"options", {{"num_predict", 64}}}})).json();
  EXPECT_EQ(whole["message"], json({{"role", "assistant"}, {"content", text}}));
  EXPECT_EQ(whole["done"], true);
  EXPECT_FALSE(whole.contains("warnings"));
  // Log-probabilities are those of a chat, in a list of their own beside the last message.
  const json scored = {{"logprobs", true}, {"top_logprobs", 2}};
  json same = asked(scored);
  same.update({{"stream", false}, {"max_tokens", 64}});
  const json entries = post("/v1/chat/completions", same).json()["choices"][0]["logprobs"]["content"];
  ASSERT_GT(entries.size(), 0u);
  json line = asked(scored);
  line["options"] = {{"num_predict", 64}};
  const auto told = lines(post("/api/chat", line).body);
  EXPECT_EQ(told.back()["logprobs"], entries);
  EXPECT_FALSE(told.front().contains("logprobs"));
  line["stream"] = false, line["top_logprobs"] = 0;
  const json plain = post("/api/chat", line).json()["logprobs"];
  ASSERT_EQ(plain.size(), entries.size());
  EXPECT_NEAR(plain[0]["logprob"].get<double>(), entries[0]["logprob"].get<double>(), 1e-6);
  EXPECT_FALSE(plain[0].contains("top_logprobs"));
  EXPECT_FALSE(whole.contains("logprobs"));
  EXPECT_EQ(post("/api/chat", asked({{"top_logprobs", 2}})).status, 400) << "without logprobs";
  const json cut = post("/api/chat", asked({{"stream", false}, {"options", {{"num_predict", 4}}}})).json();
  EXPECT_EQ(cut["done_reason"], "length");
}

TEST_F(Protocols, OllamasTextsGapsAndWhatThereIs) {
  start();
  const json options = {{"num_predict", 64}};
  const auto generate = [&](json body) {
    body["stream"] = false;
    return post("/api/generate", body).json();
  };
  EXPECT_EQ(generate({{"prompt", kSum}, {"options", options}})["response"], to_valid_utf8(alone().text));
  const json raw = {{"prompt", "Ken has 20+6="}, {"raw", true}, {"options", {{"num_predict", 2}}}};
  EXPECT_EQ(generate(raw)["response"], "26");
  const json gap = {{"prompt", "Ken has 20+6="}, {"suffix", " puzzles."}, {"options", {{"num_predict", 2}}}};
  EXPECT_EQ(generate(gap)["response"], "26");
  json other = {{"prompt", kSum}, {"options", options}, {"logprobs", true}};
  EXPECT_TRUE(generate(other)["logprobs"][0].contains("logprob"));
  for (const json& more : {json{{"n", 2}}, json{{"logprobs", true}}}) {
    json several = gap;
    several.update(more);
    EXPECT_EQ(post("/api/generate", several).status, 400) << "a reply has one answer";
  }
  EXPECT_EQ(generate({{"model", "tiny"}})["done_reason"], "load") << "it only asks that the model be there";
  EXPECT_EQ(generate({{"model", "tiny"}, {"keep_alive", 0}})["done_reason"], "unload") << "as Ollama says it";
  EXPECT_EQ(post("/api/chat", {{"model", "tiny"}, {"messages", json::array()}}).json()["done_reason"], "load");
  EXPECT_EQ(get("/api/version").json()["version"].get<std::string>().substr(0, 2), "0.");
  const json tag = get("/api/tags").json()["models"].at(0);
  EXPECT_EQ(tag["name"], "tiny");
  EXPECT_EQ(tag["digest"].get<std::string>().size(), 64u);
  EXPECT_GT(tag["size"], 1000);
  EXPECT_EQ(get("/api/ps").json()["models"][0]["digest"], tag["digest"]);
  const json shown = post("/api/show", {{"model", "tiny"}}).json();
  EXPECT_EQ(shown["capabilities"], json({"completion", "tools", "insert"}));
  EXPECT_EQ(shown["model_info"]["llada.context_length"], tiny_model()->context());
}

TEST_F(Protocols, LlamaServersCompletion) {
  start();
  const json body = {{"prompt", "Ken has 20+6="}, {"n_predict", 2}, {"cache_prompt", true}, {"samplers", {"top_k"}}};
  const json whole = post("/completion", body).json();
  EXPECT_EQ(whole["content"], "26");
  EXPECT_EQ(whole["stop"], true);
  EXPECT_EQ(whole["stop_type"], "limit");
  EXPECT_EQ(whole["tokens_predicted"], 2);
  json streamed = body;
  streamed["stream"] = true;
  const auto events = post("/completion", streamed).events();
  std::string text;
  for (const std::string& event : events) text += json::parse(event)["content"].get<std::string>();
  EXPECT_EQ(text, "26");
  EXPECT_EQ(json::parse(events.back())["stop"], true);
  const auto ids = text_prompt(*tiny_model(), "Ken has 20+6=").value();
  EXPECT_EQ(post("/completion", {{"prompt", ids}, {"n_predict", 2}}).json()["content"], "26");
  const json both = post("/completion", {{"prompt", {"Ken has 20+6=", "Ken has 20+6="}}, {"n_predict", 2}}).json();
  ASSERT_EQ(both.size(), 2u) << both;
  EXPECT_EQ(both[1]["content"], "26");
  const json word = post("/completion", {{"prompt", "Ken has 20+6="}, {"n_predict", 2}, {"stop", {"6"}}}).json();
  EXPECT_EQ(word["stop_type"], "word");
  EXPECT_EQ(word["stopping_word"], "6");
  EXPECT_EQ(get("/props").json()["default_generation_settings"]["n_ctx"], tiny_model()->context());
}

TEST_F(Protocols, WishesWithoutEffectAreNamedOnce) {
  keep_log();
  start();
  const json plain = post(kChats, asked({{"max_tokens", 16}})).json();
  EXPECT_FALSE(plain.contains("warnings"));
  const json wishes = {{"max_tokens", 16}, {"presence_penalty", 0.5}, {"frequency_penalty", 0},   {"mirostat", 2},
                       {"typical_p", 1},   {"dry_multiplier", 0.8},   {"reasoning_effort", "low"}};
  const Received reply = post(kChats, asked(wishes));
  const json warned = reply.json();
  EXPECT_EQ(warned["choices"], plain["choices"]);
  ASSERT_EQ(warned["warnings"].size(), 2u) << warned["warnings"];
  EXPECT_TRUE(warned["warnings"][0].get<std::string>().starts_with("reasoning_effort: "));
  EXPECT_TRUE(warned["warnings"][1].get<std::string>().starts_with("presence_penalty, mirostat, dry_multiplier: "));
  int logged = 0;
  {
    const std::lock_guard lock(log_mutex_);
    for (const json& line : log_lines_) logged += line.value("warnings", json()) == warned["warnings"];
  }
  EXPECT_EQ(logged, 1);
  const Received wrong = post(kChats, asked({{"presence_penalty", "much"}}));
  EXPECT_EQ(wrong.json()["error"]["param"], "presence_penalty");
}

TEST_F(Protocols, RepetitionIsPenalisedByEitherName) {
  start();
  const auto text = [&](const char* name) {
    return post(kChats, asked({{"max_tokens", 32}, {name, 1.9}})).json()["choices"][0]["message"]["content"];
  };
  const auto own = run_alone(chat_prompt(kSum), {{"gen_length", "32"}, {"repeat_penalty", "1.9"}});
  EXPECT_EQ(text("repetition_penalty"), to_valid_utf8(own.text));
  EXPECT_EQ(text("repeat_penalty"), to_valid_utf8(own.text));
  EXPECT_NE(to_valid_utf8(own.text), to_valid_utf8(alone(32).text));
}

TEST_F(Protocols, StrictServersRefuseWhatHasNoEffect) {
  options.strict = true, options.strict_model = true;
  start();
  for (const auto& [body, param] : std::vector<std::pair<json, std::string>>{
           {{{"presence_penalty", 0.5}}, "presence_penalty"}, {{{"reasoning_effort", "low"}}, "reasoning_effort"}}) {
    const json reply = error_of(post(kChats, asked(body)));
    EXPECT_EQ(reply["param"], param);
    EXPECT_TRUE(reply["message"].get<std::string>().ends_with("(--strict)"));
  }
  for (const std::string& path : {std::string("/apply-template"), kMessages + "/count_tokens", kMessages, kChats}) {
    json body = asked({{"chat_template_kwargs", {{"foo", false}}}, {"model", "tiny"}});
    if (path == "/apply-template") body.erase("model"), body.erase("max_tokens");
    const Received reply = post(path, body);
    EXPECT_EQ(reply.status, 400) << path;
    EXPECT_TRUE(reply.body.contains("chat_template_kwargs.foo: the chat template")) << reply.body;
  }
  EXPECT_EQ(post("/api/chat", asked({{"model", "tiny"}, {"options", {{"num_ctx", 9}}}})).status, 400);
  // An unknown name is refused, though its value asks for nothing.
  for (const json& idle : {json(false), json(0), json(""), json::array(), json::object()}) {
    const json reply = error_of(post(kChats, asked({{"anything", idle}, {"model", "tiny"}, {"max_tokens", 2}})));
    EXPECT_EQ(reply["param"], "anything") << reply;
  }
  EXPECT_EQ(post(kChats, asked({{"presence_penalty", 0}, {"reasoning_effort", "none"}, {"max_tokens", 2}})).status,
            200);
  for (const auto& [path, model, status] : {std::tuple{kChats, "tiny", 200},
                                            {kChats, "gpt-4", 404},
                                            {kMessages, "claude", 404},
                                            {kMessages, "tiny", 200}}) {
    const Received reply = post(path, asked({{"model", model}, {"max_tokens", 2}}));
    EXPECT_EQ(reply.status, status) << path << model << reply.body;
  }
  EXPECT_EQ(post("/api/show", {{"model", "tiny:latest"}}).status, 200);
  EXPECT_EQ(post("/api/show", {{"model", "llama3"}}).status, 404);
  EXPECT_EQ(post("/api/generate", {{"model", "llama3"}}).status, 404);
}

TEST_F(Protocols, LocalhostIsEachLoopbackAddress) {
  address.host = "localhost";
  start();
  const auto at = server->addresses();
  const std::string port = std::to_string(server->port());
  ASSERT_FALSE(at.empty());
  EXPECT_EQ(at.front(), "127.0.0.1:" + port);
  EXPECT_EQ(at.back(), at.size() > 1 ? "[::1]:" + port : at.front());
  EXPECT_LE(at.size(), 2u);
}

}  // namespace
}  // namespace llada::serve
