// /v1/decisions and /v1/systemone: the answers of the engine alone, whoever else asks; limits, fields, clients that go.
#include <thread>

#include "serve/fixture.h"
#include "wire/decide_json.h"

namespace llada::serve {
namespace {

using nlohmann::json;

const std::string kDecisions = "/v1/decisions", kSystemOne = "/v1/systemone";

class DecisionRoutes : public ServeTest {
 protected:
  static json spam() { return {{"type", "predicate"}, {"instructions", "Is Jane older than Paul?"}}; }
  static json tone(const std::string& name = "") {
    json q = {{"type", "choice"},
              {"instructions", "Which one is an animal?"},
              {"choices", {{{"value", "sheep"}}, {{"value", "van"}, {"description", "a car"}}, {{"value", true}}}}};
    if (!name.empty()) q["name"] = name;
    return q;
  }
  static json body(json questions, json more = json::object()) {
    more["input"] = "Jane is 52 years old. Paul is 84 years old.";
    more["questions"] = std::move(questions);
    return more;
  }
  // What the engine says to that, without a server.
  static json alone(const json& body) {
    const auto request = parse_decide(Fields(JsonDocument{.root = Json(body)}, "")).value();
    const auto engine = Engine::create(tiny_model(), {}).value();
    const Result<DecideResult> result = engine->submit_decide(start_decide(tiny_model(), request).value())->wait();
    return decide_json(request, *result, "tiny");
  }
};

TEST_F(DecisionRoutes, AnswerAsTheEngineAlone) {
  start();
  const json asked = body({spam(),
                           tone("animal"),
                           {{"type", "score"},
                            {"instructions", "How old is Jane?"},
                            {"levels", {{{"label", "young"}}, {{"label", "old"}}}}}},
                          {{"model", "any"},
                           {"safety_identifier", "me"},
                           {"prompt_cache_key", "k"},
                           {"prompt_cache_options", {{"ttl", "30m"}}}});
  const auto reply = ok(post(kDecisions, asked));
  EXPECT_EQ(reply.json(), alone(asked));
  const json answers = reply.json()["answers"];
  EXPECT_EQ(answers[0]["type"], "predicate");
  EXPECT_TRUE(answers[0]["name"].is_null());
  EXPECT_EQ(answers[1]["name"], "animal");
  EXPECT_EQ(answers[1]["probabilities"][2]["value"], true);
  double sum = 0;
  for (const json& p : answers[1]["probabilities"]) sum += p["probability"].get<double>();
  EXPECT_NEAR(sum, 1, 1e-9);
  EXPECT_EQ(reply.json()["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
  EXPECT_EQ(metric("llada_decisions_total"), 3);
  EXPECT_TRUE(becomes("llada_requests_running", 0));
  EXPECT_EQ(metric("llada_kv_bytes"), 0) << "nothing is held any more";
}

TEST_F(DecisionRoutes, SystemOneHasItsOwnShape) {
  start();
  const json asked = {{"state", {{"Jane", 52}, {"Paul", 84}}},
                      {"questions",
                       {{"older", {{"type", "noul"}, {"instructions", "Is Jane older than Paul?"}}},
                        {"who", {{"type", "choice"}, {"criteria", {{"Jane", nullptr}, {"Paul", "a man"}}}}},
                        {"age", {{"type", "score"}, {"instructions", "Age?"}, {"criteria", {"young", "old"}}}}}},
                      {"joint", true}};
  const auto reply = ok(post(kSystemOne, asked));
  EXPECT_EQ(reply.json(), alone(asked));
  EXPECT_EQ(reply.json()["answers"]["age"]["legend"], (json{{"0", "young"}, {"1", "old"}}));
  EXPECT_EQ(reply.json()["joint"]["canvases"], 1) << "one for all questions";
  const json by_criteria = {
      {"state", "1"}, {"questions", {{"a/b", {{"type", "noul"}, {"criteria", {{"true", "odd"}, {"false", "even"}}}}}}}};
  EXPECT_EQ(post(kSystemOne, by_criteria).status, 200);
  const json wrong = error_of(post(kSystemOne, {{"state", 1}, {"questions", {{"a\nb", {{"type", "x\ny"}}}}}}));
  EXPECT_EQ(wrong["message"].get<std::string>().find('\n'), std::string::npos);
}

TEST_F(DecisionRoutes, OneOptionIsCertainAndNotAsked) {
  start();
  json asked = {{"state", nullptr},
                {"questions",
                 {{"who", {{"type", "choice"}, {"criteria", {{"Jane", nullptr}}}}},
                  {"size", {{"type", "score"}, {"criteria", {"big"}}}}}}};
  for (const bool joint : {false, true}) {
    asked["joint"] = joint;
    const auto reply = ok(post(kSystemOne, asked));
    const json answers = reply.json()["answers"];
    EXPECT_EQ(answers["who"]["choice"], "Jane");
    EXPECT_EQ(answers["who"]["probabilities"], (json{{"Jane", 1.0}}));
    EXPECT_EQ(answers["size"]["score"], 0);
    for (const char* name : {"who", "size"}) EXPECT_EQ(answers[name]["confidence"], 1) << name;
    EXPECT_EQ(reply.json()["usage"]["forwards"], 0);
  }
  // Beside others it changes nothing.
  const json older = {{"type", "noul"}, {"instructions", "Is Jane older than Paul?"}};
  for (const bool joint : {false, true}) {
    const auto ask = [&](json questions) {
      return post(kSystemOne, {{"state", "Jane is 52."}, {"questions", std::move(questions)}, {"joint", joint}}).json();
    };
    const json among = ask({{"a", asked["questions"]["who"]}, {"older", older}}), by_itself = ask({{"older", older}});
    EXPECT_EQ(among["answers"]["older"], by_itself["answers"]["older"]);
    EXPECT_EQ(among["usage"], by_itself["usage"]);
  }
  EXPECT_EQ(
      post(kDecisions, body({{{"type", "choice"}, {"instructions", "a"}, {"choices", {{{"value", "b"}}}}}})).status,
      400)
      << "OpenAI's protocol has two or more";
}

TEST_F(DecisionRoutes, WhatSaysLittleIsWarnedOf) {
  start();
  const json asked = body({spam(), tone()}, {{"temperature", 0}});
  const json reply = post(kDecisions, asked).json();
  std::vector<std::string> low;
  for (size_t i = 0; i < 2; ++i)
    if (reply["answers"][i]["diagnostics"]["label_mass"] < 0.01) low.push_back(fmt::format("questions[{}]", i));
  ASSERT_FALSE(low.empty()) << "the model has learned no such questions";
  ASSERT_EQ(reply["warnings"].size(), 2u) << reply;
  EXPECT_TRUE(reply["warnings"][0].get<std::string>().starts_with("temperature: without effect"));
  EXPECT_TRUE(reply["warnings"][1].get<std::string>().starts_with("label_mass: below 0.01 for " + low[0])) << reply;
  EXPECT_EQ(post(kDecisions, body({spam()}, {{"temperature", "warm"}})).status, 400);
  EXPECT_EQ(post(kDecisions, body({spam()}, {{"llada", {{"samples", 33}}}})).status, 400);
  const json samples = body({spam()}, {{"llada", {{"samples", 3}}}});
  EXPECT_EQ(post(kDecisions, samples).json(), post(kDecisions, body({spam()})).json()) << "a mask is no noise";
}

TEST_F(DecisionRoutes, ManyClientsGetWhatEachGetsAlone) {
  options.admission.running = 4;
  start();
  std::vector<json> bodies, wanted;
  for (int i = 0; i < 4; ++i) {
    json questions = json::array();
    for (int q = 0; q <= i; ++q) questions.push_back(q == 1 ? spam() : tone());
    bodies.push_back(body(std::move(questions), {{"llada", {{"rotations", 1 + i % 2}}}}));
    wanted.push_back(alone(bodies.back()));
  }
  std::vector<json> got(32);
  std::vector<std::thread> clients;
  for (size_t c = 0; c < got.size(); ++c)
    clients.emplace_back([&, c] { got[c] = post(kDecisions, bodies[c % 4]).json(); });
  for (std::thread& client : clients) client.join();
  for (size_t c = 0; c < got.size(); ++c) EXPECT_EQ(got[c], wanted[c % 4]);
}

TEST_F(DecisionRoutes, TheFieldThatIsWrongIsNamed) {
  start();
  const auto error = [&](const std::string& path, const json& asked) { return error_of(post(path, asked)); };
  EXPECT_EQ(error(kDecisions, body({{{"type", "guess"}, {"instructions", "a"}}}))["message"],
            "questions[0].type: found \"guess\", needed predicate, choice or score");
  EXPECT_EQ(error(kDecisions, body({{{"type", "guess"}, {"instructions", "a"}}}))["param"], "questions");
  EXPECT_EQ(error(kDecisions, {{"questions", {spam()}}})["param"], "input");
  EXPECT_EQ(error(kDecisions, body({spam()}, {{"nonsense", 1}}))["param"], "nonsense");
  EXPECT_EQ(error(kDecisions, body(json(401, spam())))["message"], "questions: found 401, needed 1 to 400");
  EXPECT_EQ(error(kSystemOne, {{"state", "a"}, {"questions", {{"q", {{"type", "box"}}}}}})["message"],
            "questions.q.type: found \"box\", needed noul, choice or score");
  const auto of_criteria = [&](const json& question) {
    return error(kSystemOne, {{"state", "a"}, {"questions", {{"size", question}}}})["message"].get<std::string>();
  };
  EXPECT_EQ(of_criteria({{"type", "choice"}, {"criteria", json::object()}}),
            "questions.size.criteria: found 0, needed 1 to 255");
  EXPECT_EQ(of_criteria({{"type", "score"}, {"criteria", {"low", "low"}}}),
            "questions.size.criteria[1]: found 'low' again, needed each once");
  EXPECT_EQ(of_criteria({{"type", "choice"}, {"criteria", {{"", "e"}, {"b", "x"}}}}),
            "questions.size.criteria[0]: found no text, needed some");
  for (const size_t bytes : {3000u, 300'000u}) {
    json longer = body({spam()});
    longer["input"] = std::string(bytes, '7');
    const json too_long = error(kDecisions, longer);
    EXPECT_TRUE(too_long["message"].get<std::string>().contains("the model was trained for 256")) << too_long;
    EXPECT_EQ(too_long["code"], "context_length_exceeded");
    EXPECT_EQ(too_long["param"], "input");
    const json state = error(kSystemOne, {{"state", std::string(bytes, '7')},
                                          {"questions", {{"q", {{"type", "noul"}, {"instructions", "a"}}}}}});
    EXPECT_EQ(state["code"], "context_length_exceeded");
    EXPECT_EQ(state["param"], "state");
    const json prompt = error("/v1/llada/score", {{"prompt", std::string(bytes, '7')}, {"continuations", {" a"}}});
    EXPECT_EQ(prompt["code"], "context_length_exceeded") << prompt;
    EXPECT_EQ(prompt["param"], "prompt");
  }
}

TEST_F(DecisionRoutes, WhatTheMemoryCannotHoldIsRefused) {
  options.admission.kv_bytes = 1e5;
  start();
  const json reply = error_of(post(kDecisions, body({spam()})));
  EXPECT_TRUE(reply["message"].get<std::string>().starts_with("the decisions need")) << reply;
}

// A client that goes away ends its own work alone, and nothing of it is held.
TEST_F(DecisionRoutes, AClientThatGoesIsForgotten) {
  start();
  json many = body(json(400, tone()), {{"llada", {{"rotations", 3}}}});
  {
    Client client(server->port());
    const std::string text = many.dump();
    client.send("POST " + kDecisions +
                " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text);
    EXPECT_TRUE(becomes("llada_requests_running", 1));
  }
  EXPECT_TRUE(becomes("llada_requests_running", 0));
  EXPECT_TRUE(becomes("llada_kv_bytes", 0));
  EXPECT_EQ(post(kDecisions, body({spam()})).json(), alone(body({spam()})));
}

TEST_F(DecisionRoutes, TemperaturesOfTheServerAreUsed) {
  const auto odds = [&] {
    const double p = post(kDecisions, body({spam()})).json()["answers"][0]["probability"].get<double>();
    return std::log(p / (1 - p));
  };
  start();
  const double plain = odds();
  TearDown();
  options.temperatures = {2, 1, 1};
  start();
  EXPECT_NEAR(odds(), plain / 2, 1e-6);
}

}  // namespace
}  // namespace llada::serve
