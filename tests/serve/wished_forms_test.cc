// The form of an answer as clients of each protocol and of other programs ask for it, what of a schema is left out or
// refused, and by which name; fields that ask for nothing.
#include "serve/fixture.h"

namespace llada::serve {
namespace {

using nlohmann::json;

constexpr const char *kChatPath = "/v1/chat/completions", *kTextPath = "/v1/completions", *kLlamaPath = "/completion";

// Properties that are not in the order of their names: the answer has the schema's order.
const nlohmann::ordered_json kWishedSchema = nlohmann::ordered_json::parse(
    R"({"type":"object","properties":{"z":{"enum":["r","g"]},"a":{"type":"integer","minimum":3,"maximum":4}},)"
    R"("required":["z","a"],"additionalProperties":false})");

class WishedForms : public ServeTest {
 protected:
  // The body's text is sent as it stands: a sorted tree would lose the order.
  Received send(const std::string& path, const nlohmann::ordered_json& body) {
    Client client(server->port());
    client.send(http_request("POST", path, body.dump(), "Content-Type: application/json\r\n"));
    return client.receive();
  }
  json refusal(const std::string& path, const nlohmann::ordered_json& body) { return error_of(send(path, body)); }
};

nlohmann::ordered_json with_field(nlohmann::ordered_json body, const std::string& field, nlohmann::ordered_json value) {
  body[field] = std::move(value);
  return body;
}

const nlohmann::ordered_json kFormAsk = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 24}};
const nlohmann::ordered_json kFormPrompt = {{"prompt", "Hi"}, {"max_tokens", 24}};

std::string said_in(const json& reply) {
  if (reply.contains("choices")) {
    const json& choice = reply["choices"][0];
    return choice.contains("text") ? choice["text"] : choice["message"]["content"];
  }
  if (reply.contains("output")) return reply["output"][0]["content"][0]["text"];
  if (reply.contains("message")) return reply["message"]["content"];
  if (reply.contains("response")) return reply["response"];
  return reply["content"].is_string() ? reply["content"] : reply["content"][0]["text"];
}

TEST_F(WishedForms, ASchemaIsFollowedWhereverItStands) {
  start();
  const nlohmann::ordered_json beside = {{"type", "json_object"}, {"schema", kWishedSchema}},
                               flat = {{"type", "json_schema"}, {"schema", kWishedSchema}, {"name", "x"}},
                               inside = {{"type", "json_schema"}, {"json_schema", {{"schema", kWishedSchema}}}};
  const nlohmann::ordered_json input = {{"input", "Hi"}, {"max_output_tokens", 24}};
  nlohmann::ordered_json ollama = {{"messages", kFormAsk["messages"]}, {"stream", false}},
                         generate = {{"prompt", "Hi"}, {"stream", false}};
  ollama["options"] = generate["options"] = {{"num_predict", 24}};
  const std::vector<std::pair<std::string, nlohmann::ordered_json>> asks = {
      {kChatPath, with_field(kFormAsk, "response_format", beside)},
      {kChatPath, with_field(kFormAsk, "response_format", inside)},
      {kChatPath, with_field(kFormAsk, "response_format", {{"type", "json_schema"}, {"schema", kWishedSchema}})},
      {kChatPath, with_field(kFormAsk, "guided_json", kWishedSchema)},
      {kChatPath, with_field(kFormAsk, "guided_json", kWishedSchema.dump())},
      {kChatPath, with_field(kFormAsk, "json_schema", kWishedSchema)},
      {kChatPath, with_field(kFormAsk, "structured_outputs", {{"json", kWishedSchema}, {"regex", nullptr}})},
      {kTextPath, with_field(kFormPrompt, "response_format", beside)},
      {kTextPath, with_field(kFormPrompt, "structured_outputs", {{"json", kWishedSchema}})},
      {"/v1/responses", with_field(input, "text", {{"format", beside}})},
      {"/v1/responses", with_field(input, "text", {{"format", flat}})},
      {"/v1/messages", with_field(kFormAsk, "output_config", {{"format", beside}})},
      {"/v1/messages", with_field(kFormAsk, "output_format", {{"type", "json_schema"}, {"schema", kWishedSchema}})},
      {"/api/chat", with_field(ollama, "format", kWishedSchema)},
      {"/api/chat", with_field(ollama, "format", beside)},
      {"/api/generate", with_field(generate, "format", kWishedSchema)},
      {kLlamaPath, with_field(kFormPrompt, "json_schema", kWishedSchema)},
      {kLlamaPath, with_field(kFormPrompt, "response_format", beside)},
  };
  for (const auto& [path, body] : asks) {
    const Received reply = ok(send(path, body));
    const std::string text = said_in(reply.json());
    EXPECT_TRUE(text == R"({"z": "r", "a": 3})" || text == R"({"z": "r", "a": 4})" || text == R"({"z": "g", "a": 3})" ||
                text == R"({"z": "g", "a": 4})")
        << path << body << text;
  }
  for (const auto& [name, value] : std::vector<std::pair<std::string, nlohmann::ordered_json>>{
           {"guided_choice", {"a|b", "c\\d"}}, {"structured_outputs", {{"choice", {"a|b", "c\\d"}}}}}) {
    const std::string text = said_in(send(kChatPath, with_field(kFormAsk, name, value)).json());
    EXPECT_TRUE(text == "a|b" || text == "c\\d") << name << text;
  }
  for (const auto& [name, value] : std::vector<std::pair<std::string, nlohmann::ordered_json>>{
           {"guided_regex", "[xy]{3}"}, {"regex", "[xy]{3}"}, {"structured_outputs", {{"regex", "[xy]{3}"}}}}) {
    const std::string text = said_in(send(kTextPath, with_field(kFormPrompt, name, value)).json());
    EXPECT_TRUE(text.size() == 3 && text.find_first_not_of("xy") == std::string::npos) << name << text;
  }
}

TEST_F(WishedForms, WhatIsNotKnownInsideIsNamed) {
  start();
  const auto param = [&](const nlohmann::ordered_json& format) {
    return refusal(kChatPath, with_field(kFormAsk, "response_format", format))["param"].get<std::string>();
  };
  EXPECT_EQ(param({{"type", "json_object"}, {"foo", 1}}), "response_format.foo");
  EXPECT_EQ(param({{"type", "text"}, {"schema", kWishedSchema}}), "response_format.schema");
  EXPECT_EQ(param({{"type", "json_object"}, {"json_schema", {{"schema", kWishedSchema}}}}),
            "response_format.json_schema");
  EXPECT_EQ(param({{"type", "json_schema"}, {"json_schema", {{"schema", kWishedSchema}, {"bogus", 1}}}}),
            "response_format.json_schema.bogus");
  EXPECT_EQ(param({{"type", "json_schema"}, {"json_schema", {{"name", "x"}}}}), "response_format");
  EXPECT_EQ(send(kChatPath, with_field(kFormAsk, "response_format", {{"type", "text"}, {"schema", nullptr}})).status,
            200);
  const json two = refusal(kChatPath, with_field(with_field(kFormAsk, "regex", "a"), "guided_choice", {"b"}));
  EXPECT_EQ(two["message"], "regex: guided_choice says it too; needed one of the two");
  EXPECT_EQ(refusal(kChatPath, with_field(with_field(kFormAsk, "regex", "a"), "response_format",
                                          {{"type", "json_object"}}))["param"],
            "regex");
  EXPECT_EQ(refusal(kChatPath, with_field(kFormAsk, "structured_outputs", {{"grammar", "root ::= x"}}))["param"],
            "structured_outputs.grammar");
}

// Of a schema what no automaton can follow.
TEST_F(WishedForms, WhatCannotBeFollowedIsLeftOutOrRefusedByItsPath) {
  start();
  nlohmann::ordered_json schema = kWishedSchema;
  schema["properties"]["z"] = {{"type", "string"}, {"pattern", "(a)\\1"}, {"maxLength", 3}};
  nlohmann::ordered_json format = {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", schema}}}};
  const Received loose = ok(send(kChatPath, with_field(kFormAsk, "response_format", format)));
  const std::string path = "response_format.json_schema.schema.properties.z.pattern: ";
  EXPECT_TRUE(loose.json()["warnings"][0].get<std::string>().starts_with(path)) << loose.body;
  EXPECT_TRUE(loose.header("Llada-Note").contains(path)) << loose.head;
  format["json_schema"]["strict"] = true;
  const json strict = refusal(kChatPath, with_field(kFormAsk, "response_format", format));
  EXPECT_TRUE(strict["message"].get<std::string>().starts_with(path)) << strict;
  EXPECT_EQ(strict["param"], "response_format");
  EXPECT_TRUE(refusal(kChatPath, with_field(kFormAsk, "llada", {{"json_schema", schema}}))["message"]
                  .get<std::string>()
                  .starts_with("llada.json_schema"));
  // A tool by the name of its field, though only one of several may be called.
  const nlohmann::ordered_json tools = {
      {{"type", "function"}, {"function", {{"name", "f"}}}},
      {{"type", "function"}, {"function", {{"name", "g"}, {"strict", true}, {"parameters", schema}}}}};
  nlohmann::ordered_json body = with_field(with_field(kFormAsk, "tools", tools), "tool_choice", "required");
  EXPECT_TRUE(refusal(kChatPath, body)["message"].get<std::string>().starts_with(
      "tools[1].function.parameters.properties.z.pattern: "));
  body["tool_choice"] = {{"type", "function"}, {"function", {{"name", "g"}}}};
  EXPECT_TRUE(refusal(kChatPath, body)["message"].get<std::string>().starts_with(
      "tools[1].function.parameters.properties.z.pattern: "));
  const json claude =
      send("/v1/messages", with_field(kFormAsk, "tools", {{{"name", "g"}, {"input_schema", schema}}})).json();
  EXPECT_TRUE(claude["warnings"][0].get<std::string>().starts_with("tools[0].input_schema.properties.z.pattern: "))
      << claude;
  // Too large: by what takes most of it.
  schema["properties"]["z"] = {{"type", "string"}, {"pattern", "[ -~]*a[ -~]{30}"}};
  format["json_schema"]["schema"] = schema;
  EXPECT_TRUE(
      refusal(kChatPath, with_field(kFormAsk, "response_format", format))["message"].get<std::string>().ends_with(
          "; most of it is response_format.json_schema.schema.properties.z.pattern"));
  const json large = refusal(
      kChatPath,
      with_field(kFormAsk, "tools", {{{"type", "function"}, {"function", {{"name", "g"}, {"parameters", schema}}}}}));
  EXPECT_TRUE(large["message"].get<std::string>().ends_with(
      "; most of it is tools[0].function.parameters.properties.z.pattern"))
      << large;
  // No text fits, or not in so many tokens: the field that was sent.
  const json never =
      refusal(kChatPath, with_field(kFormAsk, "response_format",
                                    {{"type", "json_object"}, {"schema", {{"type", "string"}, {"enum", {5}}}}}));
  EXPECT_EQ(never["param"], "response_format") << never;
}

// A client shortens what it sends, where it is told that the context is the limit.
TEST_F(WishedForms, AContextThatLeavesTooLittleIsSaid) {
  start();
  const int64_t context = tiny_model()->context();
  std::string words = "a";
  while (std::ssize(chat_prompt(words + " 12")) <= context - 2) words += " 12";
  const int64_t room = context - std::ssize(chat_prompt(words));
  ASSERT_GE(room, 1);
  nlohmann::ordered_json body =
      with_field(kFormAsk, "response_format", {{"type", "json_object"}, {"schema", kWishedSchema}});
  body["messages"][0]["content"] = words;
  body["max_tokens"] = 64;
  json error = refusal(kChatPath, body);
  EXPECT_TRUE(error["message"].get<std::string>().starts_with(
      fmt::format("max_tokens: found 64, of which the context leaves {}, needed ", room)))
      << error;
  EXPECT_TRUE(error["message"].get<std::string>().ends_with(" at least for response_format")) << error;
  EXPECT_EQ(error["param"], "messages");
  EXPECT_EQ(error["code"], "context_length_exceeded");
  body.erase("max_tokens");
  error = refusal(kChatPath, body);
  EXPECT_TRUE(error["message"].get<std::string>().starts_with(
      fmt::format("messages: the context leaves {} tokens behind it, needed ", room)))
      << error;
  EXPECT_EQ(error["code"], "context_length_exceeded");
  // Where the client's own number is the limit, that is named.
  body = with_field(kFormAsk, "response_format", {{"type", "json_object"}, {"schema", kWishedSchema}});
  body["max_tokens"] = 2;
  error = refusal(kChatPath, body);
  EXPECT_TRUE(error["message"].get<std::string>().starts_with("max_tokens: found 2, needed ")) << error;
  EXPECT_EQ(error["param"], "max_tokens");
  EXPECT_EQ(error["code"], nullptr);
}

TEST_F(WishedForms, FieldsThatAskForNothingArePassedOver) {
  start();
  const json nothing[] = {nullptr, false, 0, 0.0, "", json::array(), json::object()};
  for (const json& value : nothing) {
    for (const char* name : {"image_data", "typical", "provider", "char_name"}) {
      EXPECT_EQ(send(kLlamaPath, with_field(with_field(kFormPrompt, "max_tokens", 1), name, value)).status, 200)
          << name << value;
      EXPECT_EQ(send(kChatPath, with_field(with_field(kFormAsk, "max_tokens", 1), name, value)).status, 200)
          << name << value;
    }
    nlohmann::ordered_json inner = with_field(kFormAsk, "max_tokens", 1);
    inner["messages"][0]["anything"] = value;
    inner["stream_options"] = {{"anything", value}};
    EXPECT_EQ(send(kChatPath, inner).status, 200) << value;
  }
  EXPECT_EQ(refusal("/infill", {{"input_prefix", "a"}, {"input_suffix", "b"}, {"max_tokens", 0}})["param"],
            "max_tokens");
  EXPECT_EQ(refusal("/v1/responses", {{"input", "a"}, {"max_tokens", 0}})["param"], "max_tokens");
  EXPECT_EQ(refusal(kChatPath, with_field(kFormAsk, "n_predict", 0))["param"], "n_predict");
  const json more[] = {true, 1, "x", {1}, {{"a", 0}}};
  for (const json& value : more)
    EXPECT_EQ(refusal(kChatPath, with_field(kFormAsk, "provider", value))["param"], "provider") << value;
}

TEST_F(WishedForms, WithoutTokensThereIsNoText) {
  start();
  const auto before = metric("llada_forwards_total");
  for (const bool stream : {false, true}) {
    const Received reply =
        ok(post("/infill", {{"input_prefix", "a"}, {"input_suffix", "b"}, {"n_predict", 0}, {"stream", stream}}));
    const json answer = stream ? json::parse(reply.events().front()) : reply.json();
    EXPECT_EQ(answer["content"], "");
    EXPECT_EQ(answer["stop"], true);
  }
  EXPECT_EQ(metric("llada_forwards_total"), before);
  // A form needs no tokens where there is no answer.
  const json schema = {{"type", "object"}, {"required", {"a"}}, {"properties", {{"a", {{"const", "a long text"}}}}}};
  for (const bool stream : {false, true})
    for (const json& form : {json::object(), json{{"json_schema", schema}}}) {
      json body = {{"prompt", "Ken has 20+6="}, {"n_predict", 0}, {"stream", stream}};
      body.update(form);
      const Received reply = ok(post(kLlamaPath, body));
      const json answer = stream ? json::parse(reply.events().back()) : reply.json();
      EXPECT_EQ(answer["content"], "");
      EXPECT_EQ(answer["tokens_predicted"], 0);
      EXPECT_EQ(answer["stop_type"], "limit");
    }
}

TEST_F(WishedForms, PromptsOfAListAreAnsweredInTheirOrder) {
  start();
  const std::vector<std::string> prompts = {"Ken has 20+6=", "Liam has 10+7="};
  const json list = post(kLlamaPath, {{"prompt", prompts}, {"n_predict", 2}}).json();
  ASSERT_EQ(list.size(), 2) << list;
  for (size_t i = 0; i < 2; ++i) {
    const json alone = post(kLlamaPath, {{"prompt", prompts[i]}, {"n_predict", 2}}).json();
    EXPECT_EQ(list[i]["content"], alone["content"]);
    EXPECT_EQ(list[i]["tokens_evaluated"], alone["tokens_evaluated"]);
    EXPECT_EQ(list[i]["index"], i);
  }
  EXPECT_EQ(post(kLlamaPath, {{"prompt", prompts}, {"stream", true}}).json()["error"]["param"], "stream");
}

TEST_F(WishedForms, OtherWaysToSayATextAreRead) {
  start();
  const auto count = [&](const json& content) {
    return post("/v1/messages/count_tokens", {{"messages", {{{"role", "user"}, {"content", content}}}}})
        .json()["input_tokens"];
  };
  const json document = {{"type", "document"},
                         {"source", {{"type", "text"}, {"media_type", "text/plain"}, {"data", "rings"}}}};
  EXPECT_EQ(count(json::array({document})), count("rings"));
  const std::string long_text(27'000, 'a');
  EXPECT_GT(count(long_text).get<int64_t>(), tiny_model()->context());
  const auto rows = [&](const json& said) {
    return post(kChatPath,
                {{"messages", {{{"role", "user"}, {"content", "Hi"}}, said, {{"role", "user"}, {"content", "Go"}}}},
                 {"max_tokens", 1}})
        .json()["usage"]["prompt_tokens"];
  };
  const json plain = rows({{"role", "assistant"}, {"content", "No."}});
  EXPECT_EQ(rows({{"role", "assistant"}, {"content", nullptr}, {"refusal", "No."}}), plain);
  EXPECT_EQ(rows({{"role", "assistant"}, {"content", {{{"type", "refusal"}, {"refusal", "No."}}}}}), plain);
  json claude = {{"messages", kFormAsk["messages"]}, {"max_tokens", 1}, {"thread", {{"type", "create"}}}};
  EXPECT_EQ(post("/v1/messages", claude).status, 200);
  claude["thread"] = {{"type", "existing"}, {"id", "thr_1"}};
  EXPECT_TRUE(post("/v1/messages", claude).body.contains("nothing is stored here"));
  EXPECT_EQ(get("/v1/models").json()["data"][0]["capabilities"]["function_calling"], true);
}

}  // namespace
}  // namespace llada::serve
