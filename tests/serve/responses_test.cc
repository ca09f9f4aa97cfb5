// /v1/responses and /v1/models/{id}: the newer protocol's shapes, against the answers of the engine alone.

#include "serve/fixture.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

using nlohmann::json;

class Responses : public ServeTest {
 protected:
  struct Event {
    std::string name;
    json data;
  };
  static std::vector<Event> named_events(const Received& reply) {
    std::vector<Event> events;
    const auto data = reply.events();
    size_t at = 0;
    for (const std::string& text : data) {
      at = reply.body.find("event: ", at);
      const size_t end = reply.body.find('\n', at);
      if (at == std::string::npos) break;
      events.push_back({reply.body.substr(at + 7, end - at - 7), json::parse(text)});
      at = end;
    }
    EXPECT_EQ(events.size(), data.size()) << "every event has a name";
    return events;
  }
};

std::string text_of(const json& response) { return response.at("output").at(0).at("content").at(0).at("text"); }

TEST_F(Responses, AreTheAnswersOfAChat) {
  start();
  const Generation alone = run_alone(chat_prompt(kSum), {});
  const json response =
      ok(post("/v1/responses", {{"model", "any"}, {"input", kSum}, {"store", true}, {"tools", json::array()}})).json();
  EXPECT_EQ(text_of(response), alone.text);
  EXPECT_EQ(response["object"], "response");
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(response["store"], false) << "whatever was asked";
  EXPECT_TRUE(response["id"].get<std::string>().starts_with("resp_"));
  EXPECT_EQ(response["output"][0]["role"], "assistant");
  EXPECT_EQ(response["usage"]["output_tokens"], alone.stats.content_tokens);
  EXPECT_EQ(response["usage"]["input_tokens"], std::ssize(chat_prompt(kSum)));
  EXPECT_EQ(response["usage"]["forwards"], alone.stats.decode.nfe);
  const json list = {{{"role", "user"}, {"content", {{{"type", "input_text"}, {"text", kSum}}}}}};
  EXPECT_EQ(text_of(post("/v1/responses", {{"input", list}}).json()), alone.text);
}

TEST_F(Responses, TakeInstructionsAndEarlierTurns) {
  start();
  const std::vector<ChatMessage> messages = {
      {"system", "Be brief."}, {"user", "Hi"}, {"assistant", "Hello."}, {"user", kSum}};
  const auto ids = tiny_model()->chat_ids(messages).value();
  const Generation alone = run_alone(ids, {{"temperature", "0.7"}, {"seed", "5"}, {"gen_length", "40"}});
  const json input = {{{"type", "message"}, {"role", "user"}, {"content", "Hi"}},
                      {{"type", "message"},
                       {"id", "msg_1"},
                       {"status", "completed"},
                       {"role", "assistant"},
                       {"content", {{{"type", "output_text"}, {"text", "Hello."}, {"annotations", json::array()}}}}},
                      {{"role", "user"}, {"content", kSum}}};
  const auto reply = ok(post("/v1/responses", {{"input", input},
                                               {"instructions", "Be brief."},
                                               {"temperature", 0.7},
                                               {"seed", 5},
                                               {"max_output_tokens", 40},
                                               {"metadata", {{"run", "7"}}},
                                               {"parallel_tool_calls", false}}));
  EXPECT_EQ(text_of(reply.json()), to_valid_utf8(alone.text));
  EXPECT_EQ(reply.json()["usage"]["input_tokens"], std::ssize(ids));
  EXPECT_EQ(reply.json()["instructions"], "Be brief.");
  EXPECT_EQ(reply.json()["max_output_tokens"], 40);
  EXPECT_EQ(reply.json()["temperature"], 0.7);
  EXPECT_EQ(reply.json()["metadata"], (json{{"run", "7"}}));
  EXPECT_EQ(reply.json()["parallel_tool_calls"], false);
}

// It stays in memory for as long as the answer takes.
TEST_F(Responses, RepeatABoundedPartOfTheRequest) {
  start();
  const std::string long_text(size_t{1} << 20, 'a');
  const json tool = {{"type", "function"}, {"name", "f"}}, long_tool = {{"type", "function"}, {"name", long_text}};
  for (const auto& [more, field] : std::vector<std::pair<json, std::string>>{
           {{{"text", {{"format", {{"type", "text"}, {"x", long_text}}}}}}, "text.format.x"},
           {{{"tools", {long_tool}}, {"tool_choice", "none"}}, "tools"},
           {{{"metadata", {{"x", long_text}}}}, "metadata"}}) {
    json body = {{"input", kSum}};
    body.update(more);
    const json reply = error_of(post("/v1/responses", body));
    EXPECT_EQ(reply["param"], field);
  }
  const json body = {{"input", kSum}, {"max_output_tokens", 4}, {"tools", {tool}}, {"tool_choice", "none"}};
  const json response = post("/v1/responses", body).json();
  EXPECT_EQ(response["tools"], json::array()) << "none that the answer may call";
  EXPECT_EQ(response["tool_choice"], "none");
}

TEST_F(Responses, ThatReachTheirLengthAreIncomplete) {
  start();
  const json response = post("/v1/responses", {{"input", kSum}, {"max_output_tokens", 4}}).json();
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(response["output"][0]["status"], "incomplete");
}

TEST_F(Responses, StreamInTheProtocolsOrder) {
  start();
  for (const int length : {64, 4}) {
    const auto reply = ok(post("/v1/responses", {{"input", kSum}, {"max_output_tokens", length}, {"stream", true}}));
    const auto events = named_events(reply);
    const std::string alone = run_alone(chat_prompt(kSum), {{"gen_length", std::to_string(length)}}).text;
    std::string names, text;
    for (size_t i = 0; i < events.size(); ++i) {
      EXPECT_EQ(events[i].data["type"], events[i].name);
      EXPECT_EQ(events[i].data["sequence_number"], i);
      if (events[i].name == "response.output_text.delta") {
        text += events[i].data["delta"].get<std::string>();
        if (names.ends_with("text.delta ")) continue;
      }
      names += events[i].name.substr(9) + " ";
    }
    EXPECT_EQ(names,
              std::string("created in_progress output_item.added content_part.added output_text.delta output_text.done "
                          "content_part.done output_item.done ") +
                  (length == 4 ? "incomplete " : "completed "));
    EXPECT_EQ(text, alone);
    EXPECT_EQ(events[events.size() - 4].data["text"], alone);
    EXPECT_EQ(text_of(events.back().data["response"]), alone);
    EXPECT_EQ(events.back().data["response"]["id"], events[0].data["response"]["id"]);
    EXPECT_EQ(events[2].data["item"]["id"], events.back().data["response"]["output"][0]["id"]);
    EXPECT_FALSE(events.back().data["response"]["usage"].is_null());
    EXPECT_FALSE(reply.body.contains("[DONE]"));
  }
}

TEST_F(Responses, ThatCannotBeFinishedFail) {
  start();
  Client client(server->port());
  const json body = {{"input", kSum}, {"stream", true}, {"max_output_tokens", 200}, {"llada", {{"preset", "exact"}}}};
  client.send(http_request("POST", "/v1/responses", body.dump()));
  ASSERT_TRUE(becomes("llada_requests_running", 1));
  service->drain(0.05);
  const auto events = named_events(client.receive());
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().name, "response.failed");
  EXPECT_EQ(events.back().data["response"]["status"], "failed");
  EXPECT_EQ(events.back().data["response"]["error"]["message"], "the server is shutting down");
}

TEST_F(Responses, RefuseWithTheNameOfTheField) {
  start();
  const std::vector<std::pair<json, std::string>> cases = {
      {{{"previous_response_id", "resp_1"}}, "previous_response_id"},
      {{{"tools", {{{"type", "web_search"}}}}}, "tools[0].type"},
      {{{"background", true}}, "background"},
      {{{"include", {"message.output_text.logprobs"}}}, "include"},
      {{{"truncation", "middle"}}, "truncation"},
      {{{"reasoning", {{"effort", "hardly"}}}}, "reasoning.effort"},
      {{{"reasoning", {{"wish", true}}}}, "reasoning.wish"},
      {{{"reasoning", "low"}}, "reasoning"},
      {{{"text", {{"format", {{"type", "json_schema"}}}}}}, "text.format"},
      {{{"text", {{"verbosity", "loud"}}}}, "text.verbosity"},
      {{{"max_output_tokens", 0}}, "max_output_tokens"},
      {{{"max_tokens", 5}}, "max_tokens"},
      {{{"diffusing", true}}, "diffusing"},
      {{{"instructions", 5}}, "instructions"},
      {{{"input", nullptr}}, "input"},
      {{{"input", json::array()}}, "input"},
      {{{"input", {{{"type", "function_call_output"}, {"output", "x"}}}}}, "input[0].call_id"},
      {{{"input", {{{"type", 5}}}}}, "input[0].type"},
      {{{"input", {{{"role", "user"}, {"content", {{{"type", "input_image"}}}}}}}}, "input[0].content"},
  };
  for (const auto& [more, param] : cases) {
    json body = {{"input", "Hi"}};
    body.update(more);
    const json reply = error_of(post("/v1/responses", body));
    EXPECT_EQ(reply["param"], param) << body << " " << reply;
  }
  const auto stored = post("/v1/responses", {{"input", "Hi"}, {"previous_response_id", "resp_1"}});
  EXPECT_TRUE(stored.json()["error"]["message"].get<std::string>().contains("nothing is stored")) << stored.body;
}

TEST_F(Responses, ModelsAreFoundByName) {
  options.name = "some/model v1";
  start();
  for (const char* path :
       {"/v1/models/some/model%20v1", "/v1/models/some%2fmodel%20v1", "/v1/models/some%2Fmodel%20v1"}) {
    const auto found = ok(get(path));
    EXPECT_EQ(found.json(), get("/v1/models").json()["data"][0]);
  }
  for (const char* path :
       {"/v1/models/other", "/v1/models/some", "/v1/models/some%2fmodel%20v1%", "/v1/models/%zz%2"}) {
    const json missing = error_of(get(path), 404);
    EXPECT_EQ(missing["code"], "model_not_found") << path;
    EXPECT_EQ(missing["param"], "model") << path;
  }
  EXPECT_EQ(get("/v1/models/").json()["error"]["code"], nullptr) << "no route";
  EXPECT_EQ(ask(server->port(), "POST", "/v1/models/other").status, 405);
  EXPECT_EQ(metric("llada_requests_total{route=\"/v1/models/{id}\",status=\"404\"}"), 4);
}

}  // namespace
}  // namespace llada::serve
