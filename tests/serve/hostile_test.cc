// Clients that go away, send garbage, too much or too little; queues that are full; keys; the end of the server.
#include <gmock/gmock.h>

#include <future>

#include "base/memory_usage.h"
#include "serve/fixture.h"
#include "serve/http/access.h"
#include "serve/work/waiting_room.h"

namespace llada::serve {
namespace {

using nlohmann::json;

class Hostile : public ServeTest {};

// Long enough to be interrupted: a forward for each of its tokens.
json long_body(json more = json::object()) {
  more["max_tokens"] = 200;
  more["llada"] = {{"preset", "exact"}};
  return chat_body("Count.", std::move(more));
}

TEST_F(Hostile, AClientThatGoesAwayIsNotComputedFor) {
  start();
  for (const bool stream : {false, true}) {
    Client client(server->port());
    client.send(chat_request(long_body({{"stream", stream}})));
    ASSERT_TRUE(becomes("llada_requests_running", 1));
    const double forwards = metric("llada_forwards_total");
    client.close();
    ASSERT_TRUE(becomes("llada_requests_running", 0));
    EXPECT_EQ(metric("llada_answers_cancelled_total"), stream ? 2 : 1);
    EXPECT_LT(metric("llada_forwards_total") - forwards, 150) << "of 200";
    EXPECT_TRUE(becomes("llada_kv_bytes", 0)) << "a worker frees it";
  }
  EXPECT_EQ(post_chat("Hi", {{"max_tokens", 16}}).status, 200);
}

TEST_F(Hostile, AFullQueueSaysWhenToComeBack) {
  options.admission = {.running = 1, .waiting = 1};
  start();
  Client first(server->port()), second(server->port());
  first.send(chat_request(long_body()));
  ASSERT_TRUE(becomes("llada_requests_running", 1));
  second.send(chat_request(long_body()));
  ASSERT_TRUE(becomes("llada_requests_waiting", 1));
  const auto refused = post_chat("Hi");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.header("Retry-After"), "1");
  EXPECT_EQ(refused.json()["error"]["code"], "queue_full");
  // One that waits and goes away makes room, and does not end the one that runs.
  second.close();
  ASSERT_TRUE(becomes("llada_requests_waiting", 0));
  EXPECT_EQ(metric("llada_requests_running"), 1);
  first.close();
  ASSERT_TRUE(becomes("llada_requests_running", 0));
  EXPECT_EQ(post_chat("Hi", {{"max_tokens", 16}}).status, 200);
}

TEST_F(Hostile, MemoryIsCountedBeforeItIsUsed) {
  const Request request{.tokens = chat_prompt("Count."), .options = {decode::LengthOptions{.gen_length = 200}}};
  options.admission.kv_bytes = 1.5 * bytes_of(request).computed;
  start();
  Client first(server->port()), second(server->port());
  for (Client* client : {&first, &second}) client->send(chat_request(long_body()));
  ASSERT_TRUE(becomes("llada_requests_waiting", 1)) << "two do not fit";
  EXPECT_EQ(metric("llada_requests_running"), 1);
  const json never = error_of(post_chat("Hi", {{"max_tokens", 200}, {"llada", {{"cfg_scale", 1}}}}));
  EXPECT_EQ(never["param"], "max_tokens");
  EXPECT_TRUE(never["message"].get<std::string>().starts_with("max_tokens: the answer needs "));
  const json response =
      error_of(post("/v1/responses", {{"input", "Hi"}, {"max_output_tokens", 200}, {"llada", {{"cfg_scale", 1}}}}));
  EXPECT_EQ(response["param"], "max_output_tokens") << "as it was typed";
}

// To come back later would not help it.
TEST_F(Hostile, WhatNeverFitsIsNotToldToComeAgain) {
  const Request request{.tokens = chat_prompt("Count."), .options = {decode::LengthOptions{.gen_length = 200}}};
  options.admission = {.running = 1, .waiting = 1, .kv_bytes = bytes_of(request).computed};
  start();
  Client first(server->port()), second(server->port());
  for (Client* client : {&first, &second}) client->send(chat_request(long_body()));
  ASSERT_TRUE(becomes("llada_requests_waiting", 1));
  EXPECT_EQ(post_chat("Hi").status, 429);
  const json answers = error_of(post_chat("Count.", {{"n", 2}, {"max_tokens", 200}}));
  EXPECT_THAT(answers["message"].get<std::string>(), testing::StartsWith("the answers need "));
}

// Its form would be made first, which holds the request's text meanwhile.
TEST_F(Hostile, ATextThatNeverFitsIsNotToldToComeAgain) {
  options.admission.kv_bytes = 5e5;
  start();
  const auto with_schema_of = [&](size_t letters) {
    json schema = {{"type", "integer"}};
    for (size_t i = 0; i < letters / 50'000; ++i) schema["x-" + std::to_string(i)] = std::string(50'000, 'a');
    return post_chat("Hi", {{"max_tokens", 8}, {"llada", {{"json_schema", schema.dump()}}}});
  };
  const json refused = error_of(with_schema_of(700'000));
  EXPECT_THAT(refused["message"].get<std::string>(),
              testing::AllOf(testing::StartsWith("the request needs "), testing::HasSubstr("0.5 MB at most")));
  EXPECT_TRUE(becomes("llada_kv_bytes", 0));
  EXPECT_THAT(with_schema_of(100'000).body, testing::Not(testing::HasSubstr("the request needs"))) << "that fits";
}

TEST_F(Hostile, AnswersOfNoGivenLengthShareTheMemory) {
  const auto prompt = chat_prompt("Count.");
  const auto bytes = [&](int64_t length) {
    const decode::DecodeOptions open{decode::LengthOptions{.gen_length = length, .auto_length = true}};
    return bytes_of({.tokens = prompt, .options = open}).computed;
  };
  // Noise in which no end token happens to be is as long as it may be, and all of a block is decided at once.
  const json noise = {{"logits_eos_inf", true}, {"factor", 1e6}, {"tail", 16}, {"temperature", 1000}};
  const std::pair<double, int64_t> cases[] = {{0, tiny_model()->context() - std::ssize(prompt)},
                                              {2 * bytes(160), 160},
                                              {2 * bytes(128), 128},
                                              {1.5 * bytes(128), 128}};
  for (const auto& [bound, length] : cases) {
    options.admission = {.running = 2, .kv_bytes = bound};
    start();
    int64_t longest = 0;
    for (int seed = 0; seed < 20 && longest < length; ++seed) {
      const auto reply = ok(post_chat("Count.", {{"llada", noise}, {"seed", seed}}));
      longest = std::max(longest, reply.json()["usage"]["completion_tokens"].get<int64_t>());
    }
    EXPECT_EQ(longest, length) << bound;
    TearDown();
  }
}

// What an answer may become is laid when it begins, and clamped to what the model's context leaves: 8 MiB of
// confidences for each of 64 answers that wait would be 512.
TEST_F(Hostile, AnswersThatWaitTakeNoMemory) {
  options.admission = {.running = 1, .waiting = 100};
  start();
  const int64_t before = peak_memory_bytes();
  const json body = {
      {"prompt", "hi"}, {"logprobs", 0}, {"n", 64}, {"llada", {{"gen_length", "auto:1048576"}, {"steps", 0}}}};
  Client client(server->port());
  client.send(http_request("POST", "/v1/completions", body.dump()));
  ASSERT_TRUE(becomes("llada_requests_running", 1));
  EXPECT_GT(metric("llada_requests_waiting"), 32);
  client.close();
  ASSERT_TRUE(becomes("llada_requests_running", 0));
  EXPECT_LT(peak_memory_bytes() - before, int64_t{64} << 20);
  EXPECT_EQ(post_chat("Hi", {{"max_tokens", 16}}).status, 200);
}

TEST(BodyBytes, TheFirstOfEachAreFree) {
  const auto budget = std::make_shared<BodyBudget>(100);
  const std::string free(BodyBytes::kFree, 'a');
  {
    BodyBytes one(budget), two(budget);
    EXPECT_TRUE(one.append(free) && two.append(free));
    EXPECT_EQ(budget->held(), 0u);
    EXPECT_TRUE(one.append(std::string(60, 'b')));
    EXPECT_FALSE(two.append(std::string(41, 'b')));
    EXPECT_EQ(budget->held(), 60u);
    EXPECT_TRUE(two.append(std::string(40, 'b')));
    BodyBytes moved = std::move(one);
    EXPECT_EQ(moved.text().size(), free.size() + 60);
    EXPECT_EQ(budget->held(), 100u);
    BodyBytes third(budget);
    EXPECT_TRUE(third.append(free));
    EXPECT_FALSE(third.append("c"));
  }
  EXPECT_EQ(budget->held(), 0u);
}

// Connections times the longest body would be gigabytes.
TEST_F(Hostile, BodiesHaveABoundTogether) {
  limits = {.body_bytes = size_t{1} << 20, .all_body_bytes = size_t{1} << 20};
  start();
  const std::string head =
      "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(limits.body_bytes) + "\r\n\r\n";
  const size_t most = limits.body_bytes - 1;
  Client slow(server->port());
  slow.send(head);
  slow.send(std::string(most, ' '));
  ASSERT_TRUE(becomes("llada_body_bytes", static_cast<double>(most - BodyBytes::kFree)));
  for (const bool chunked : {false, true}) {
    Client second(server->port());
    second.send(chunked ? "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n80000\r\n"
                        : head);
    second.send(std::string(size_t{1} << 19, ' '));
    const auto refused = second.receive(10);
    EXPECT_EQ(refused.status, 503) << refused.body;
    EXPECT_EQ(refused.header("Retry-After"), "1");
  }
  EXPECT_EQ(post("/tokenize", {{"prompt", std::string(60000, 'a')}}).status, 200) << "an ordinary one has room";
  slow.close();
  ASSERT_TRUE(becomes("llada_body_bytes", 0));
  EXPECT_EQ(post("/tokenize", {{"prompt", std::string(500000, ' ')}}).status, 200);
}

TEST_F(Hostile, ABodyIsNotKeptBesideItsAnswer) {
  start();
  Client client(server->port());
  client.send(chat_request(long_body({{"user", std::string(300000, 'u')}})));
  ASSERT_TRUE(becomes("llada_requests_running", 1));
  EXPECT_EQ(metric("llada_body_bytes"), 0);
}

TEST_F(Hostile, RepliesThatNobodyReadsHaveABoundTogether) {
  limits.unread_bytes = int64_t{1} << 19;
  limits.send_buffer_bytes = 4096;
  start();
  const auto request = [](size_t size) {
    return http_request("POST", "/tokenize", json{{"prompt", std::string(size, '7')}}.dump());
  };
  Client longer(server->port(), 4096), other(server->port(), 4096);
  longer.send(request(160'000));  // each token takes two or more bytes of the reply
  ASSERT_TRUE(becomes("llada_requests_total{route=\"/tokenize\",status=\"200\"}", 1));
  other.send(request(110'000));
  ASSERT_TRUE(becomes("llada_connections_pushed_out_total", 1));
  EXPECT_FALSE(longer.receive(10).complete);
  EXPECT_TRUE(other.receive(10).complete);
}

TEST_F(Hostile, WhatARequestRepeatsIsBounded) {
  start();
  const auto refused = [&](const std::string& path, const json& body, const std::string& message) {
    const auto reply = post(path, body);
    EXPECT_EQ(reply.status, 400) << reply.body.substr(0, 200);
    ASSERT_TRUE(reply.complete);
    EXPECT_EQ(reply.json()["error"]["message"], message);
  };
  const json stops(16, std::string(4097, 'a'));
  const std::string stop = "stop: found a text of 4097 bytes, needed 4096 at most";
  refused("/v1/completions", {{"prompt", "x"}, {"n", 128}, {"stop", stops}}, stop);
  refused("/v1/chat/completions", chat_body("x", {{"stop", stops}}), stop);
  refused("/v1/fim/completions", {{"prompt", "x"}, {"stop", stops}}, stop);
  refused("/v1/completions", {{"prompt", json(1000, "a")}},
          "prompt: found 1000 prompts and n 1, needed 128 answers at most");
  const std::string repeated = json(std::string(20000, 'a')).dump().substr(0, 57);
  refused("/v1/responses", {{"input", "x"}, {"metadata", std::string(20000, 'a')}},
          "metadata: found " + repeated + "..., needed 16384 bytes of JSON at most");
  // The longest token, more often than its text has room.
  int32_t longest = 0;
  const Tokenizer& tokenizer = tiny_model()->tokenizer();
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id)
    if (tokenizer.piece(id).size() > tokenizer.piece(longest).size()) longest = id;
  const size_t piece = tokenizer.piece(longest).size(), count = (size_t{4} << 20) / piece + 1, bytes = count * piece;
  refused("/detokenize", {{"tokens", std::vector<int32_t>(count, longest)}},
          "tokens: found " + std::to_string(bytes) + " bytes of text, needed 4194304 at most");
}

TEST(Http, ErrorsOfTheEngineNameNoFolders) {
  const auto told = [](ErrorKind kind, const char* message) { return ApiError(Error{kind, message}); };
  EXPECT_EQ(told(ErrorKind::failed, "/home/me/my models/m.gguf: it was written to").message,
            "m.gguf: it was written to");
  EXPECT_EQ(told(ErrorKind::invalid_input, "models/tiny: 1/2: found 3").message, "tiny: 1/2: found 3");
  EXPECT_EQ(told(ErrorKind::invalid_input, "m.gguf: a/b").message, "m.gguf: a/b");
  EXPECT_EQ(told(ErrorKind::failed, "no name: here/there").message, "no name: here/there");
  EXPECT_EQ(told(ErrorKind::failed, "on/off").message, "on/off");
  const ApiError memory = told(ErrorKind::memory, "memory ran out");
  EXPECT_EQ(memory.status, 503);
  EXPECT_EQ(memory.code, "out_of_memory");
}

TEST_F(Hostile, AnAnswerHasATimeLimit) {
  options.answer_seconds = 0.05;
  start();
  const auto reply = post("/v1/chat/completions", long_body());
  EXPECT_EQ(reply.status, 504);
  EXPECT_EQ(reply.json()["error"]["message"], "the answer took too long");
  // OpenAI's clients repeat what ends so unless they are told that it would take as long again.
  EXPECT_EQ(reply.header("x-should-retry"), "false");
  EXPECT_EQ(reply.header("Retry-After"), "");
}

TEST_F(Hostile, WaitingHasATimeLimit) {
  options.admission = {.running = 1, .waiting = 4, .wait_seconds = 0.1};
  start();
  Client first(server->port());
  first.send(chat_request(long_body()));
  ASSERT_TRUE(becomes("llada_requests_running", 1));
  const auto reply = post_chat("Hi", {{"stream", true}});
  const auto events = reply.events();
  ASSERT_EQ(events.size(), 3u) << reply.body;
  EXPECT_TRUE(json::parse(events[1])["error"]["message"].get<std::string>().contains("too long"));
}

TEST_F(Hostile, BytesThatAreNoRequest) {
  limits = {.header_bytes = 2048, .body_bytes = 4096, .connections = 64, .read_seconds = 1};
  start();
  const std::vector<std::pair<std::string, int>> cases = {
      {"nonsense\r\n\r\n", 400},
      {std::string(3000, 'a'), 431},
      {"GET / HTTP/1.1\r\nX: " + std::string(3000, 'a') + "\r\n\r\n", 431},
      {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n", 413},
      {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFF\r\n", 413},
      {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5;" + std::string(3000, 'a'),
       400},
      {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 9) + "\r\n\r\n", 400},
  };
  for (const auto& [bytes, status] : cases) {
    Client client(server->port());
    client.send(bytes);
    EXPECT_EQ(client.receive(5).status, status) << bytes.substr(0, 60);
    EXPECT_TRUE(client.closed(5)) << bytes.substr(0, 60);
  }
  // Requests that never end: the time for them does.
  for (const char* begin :
       {"", "GET / HT", "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc"}) {
    Client client(server->port());
    client.send(begin);
    EXPECT_TRUE(client.closed(5)) << begin;
  }
  EXPECT_TRUE(becomes("llada_connections", 1)) << "that which asks";
}

TEST_F(Hostile, NamesOfFieldsStayOnOneLine) {
  start();
  const std::string name = "a\nlevel=error\x7f";
  for (const nlohmann::json& more : {nlohmann::json{{name, {1}}}, nlohmann::json{{"llada", {{name, 1}}}},
                                     nlohmann::json{{"stream_options", {{name, 1}}}}}) {
    const auto reply = post_chat("Hi", more);
    ASSERT_EQ(reply.status, 400) << reply.body;
    const auto message = reply.json()["error"]["message"].get<std::string>();
    EXPECT_NE(message.find("a\\x0alevel=error\\x7f"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST_F(Hostile, KeysAreNeededWhereTheyAreSet) {
  start();
  service->set_keys({"secret", "other"});
  const auto with = [&](const std::string& header) {
    return ask(server->port(), "POST", "/tokenize", {{"prompt", "x"}}, header).status;
  };
  EXPECT_EQ(with(""), 401);
  EXPECT_EQ(with("Authorization: Bearer wrong\r\n"), 401);
  EXPECT_EQ(with("Authorization: Bearer secret2\r\n"), 401);
  EXPECT_EQ(with("Authorization: Bearer secre\r\n"), 401);
  EXPECT_EQ(with("Authorization: Bearer \r\n"), 401);
  EXPECT_EQ(with("Authorization: Bearer secret\r\n"), 200);
  EXPECT_EQ(with("Authorization: bearer secret\r\n"), 200) << "a scheme has no case";
  EXPECT_EQ(with("Authorization: BEARER   other \r\n"), 200);
  EXPECT_EQ(with("Authorization: Bearersecret\r\n"), 401);
  EXPECT_EQ(with("Authorization: Basic secret\r\n"), 401);
  EXPECT_EQ(with("X-Api-Key: other\r\n"), 200);
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/metrics").status, 401);
  service->set_keys({"new"});
  EXPECT_EQ(with("Authorization: Bearer secret\r\n"), 401);
  EXPECT_EQ(with("Authorization: Bearer new\r\n"), 200);
}

TEST(Keys, OneALine) {
  EXPECT_EQ(parse_keys("# mine\na-b_c\r\n\nsecond\n", "f").value(), (std::vector<std::string>{"a-b_c", "second"}));
  EXPECT_EQ(parse_keys("# none\n", "f").error().message, "f: found no key, needed one a line");
  EXPECT_TRUE(parse_keys("ok\ntwo words", "f").error().message.starts_with("f:2: "));
}

TEST_F(Hostile, KeysAreInNoLogLine) {
  std::mutex mutex;
  std::string lines;
  log_ = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    lines += line + "\n";
  };
  start();
  service->set_keys({"topsecret"});
  ask(server->port(), "POST", "/tokenize", {{"prompt", "x"}}, "Authorization: Bearer topsecret\r\n");
  ask(server->port(), "POST", "/tokenize", {{"prompt", "x"}}, "Authorization: Bearer topsecrets\r\n");
  const std::lock_guard lock(mutex);
  EXPECT_FALSE(lines.contains("topsecret"));
  const json first = json::parse(lines.substr(0, lines.find('\n')));
  EXPECT_EQ(first["path"], "/tokenize");
  EXPECT_EQ(first["status"], 200);
}

TEST_F(Hostile, NothingIsAnsweredBeforeTheModelIsThere) {
  start(false);
  EXPECT_EQ(get("/health").status, 200) << "it lives, and is not to be killed";
  EXPECT_EQ(get("/health").json()["status"], "loading");
  EXPECT_EQ(get("/ready").status, 503);
  EXPECT_EQ(get("/metrics").status, 200);
  const json early = error_of(post_chat("Hi"), 503);
  EXPECT_EQ(early["code"], "loading");
  ASSERT_TRUE(service->set_model(tiny_model()));
  EXPECT_EQ(get("/ready").status, 200);
  EXPECT_EQ(get("/health").json()["status"], "ok");
}

TEST_F(Hostile, TheEndAnswersWhatWasTakenOn) {
  start();
  Client under_way(server->port());
  under_way.send(chat_request(chat_body("Hi", {{"max_tokens", 64}, {"llada", {{"preset", "exact"}}}})));
  ASSERT_TRUE(becomes("llada_requests_running", 1));
  auto drained = std::async(std::launch::async, [&] { service->drain(60); });
  while (get("/ready").status != 503) continue;
  EXPECT_EQ(post_chat("Hi").json()["error"]["code"], "shutting_down");
  EXPECT_EQ(under_way.receive().status, 200);
  drained.get();
}

TEST_F(Hostile, TheEndHasADeadline) {
  options.admission = {.running = 1, .waiting = 8};
  start();
  Client running(server->port()), streaming(server->port());
  running.send(chat_request(long_body()));
  ASSERT_TRUE(becomes("llada_requests_running", 1));
  streaming.send(chat_request(long_body({{"stream", true}})));
  ASSERT_TRUE(becomes("llada_requests_waiting", 1));
  service->drain(0.05);
  server->finish(5);
  const auto one = running.receive(), two = streaming.receive();
  EXPECT_EQ(one.status, 503);
  EXPECT_EQ(one.json()["error"]["message"], "the server is shutting down");
  ASSERT_TRUE(two.complete);
  EXPECT_EQ(two.events().back(), "[DONE]");
  EXPECT_EQ(json::parse(two.events()[two.events().size() - 2])["error"]["message"], "the server is shutting down");
}

TEST_F(Hostile, AUnixSocketServes) {
  address.socket = testing::TempDir() + "llada-serve-test.sock";
  start();
  Client client(address.socket);
  client.send("GET /health HTTP/1.1\r\nHost: any name\r\n\r\n");  // no name leads to the socket
  EXPECT_EQ(client.receive().status, 200);
  const auto second = Server::open(address, limits, [](auto) {});
  ASSERT_FALSE(second);
  EXPECT_TRUE(second.error().message.starts_with(address.socket));
}

TEST(WaitingRoomTest, AllOrNoneInTheirOrder) {
  WaitingRoom admission({.running = 2, .waiting = 1, .kv_bytes = 100});
  std::vector<int> started;
  std::vector<WaitingRoom::Id> ids;
  const auto enter = [&](std::vector<double> bytes) {
    std::vector<WaitingRoom::Reservation> places;
    for (const double b : bytes)
      places.push_back({{b, 0}, [&started, n = static_cast<int>(b)] { started.push_back(n); }, [] {}});
    return admission.acquire(std::move(places),
                             [&](const auto& known) { ids.insert(ids.end(), known.begin(), known.end()); });
  };
  EXPECT_TRUE(enter({60}));
  EXPECT_TRUE(enter({50, 10}));  // 50 does not fit beside 60; 10 would, and does not overtake
  EXPECT_EQ(started, (std::vector<int>{60}));
  EXPECT_FALSE(enter({1})) << "a request waits";
  admission.release(ids[0]);
  EXPECT_EQ(started, (std::vector<int>{60, 50, 10}));
  EXPECT_EQ(admission.counts().kv_bytes, 60);
  EXPECT_FALSE(enter({1, 1, 1}));
  EXPECT_TRUE(enter({1, 1}));
  admission.release(ids[3]);  // of those that wait
  admission.release(ids[1]);
  EXPECT_EQ(started, (std::vector<int>{60, 50, 10, 1}));
}

TEST(WaitingRoomTest, ThoseThatGiveWayLeaveAPlace) {
  WaitingRoom admission({.running = 3, .waiting = 1});
  std::string started;
  std::map<char, WaitingRoom::Id> ids;
  const auto enter = [&](const std::string& names, bool low_priority) {
    std::vector<WaitingRoom::Reservation> places;
    for (const char name : names) places.push_back({{1, 1}, [&started, name] { started += name; }, [] {}});
    return admission.acquire(
        std::move(places),
        [&](const auto& known) {
          for (size_t i = 0; i < names.size(); ++i) ids[names[i]] = known[i];
        },
        low_priority);
  };
  EXPECT_TRUE(enter("abc", true));
  EXPECT_EQ(started, "ab");
  EXPECT_TRUE(enter("A", false)) << "the place that was left";
  EXPECT_EQ(started, "abA");
  EXPECT_TRUE(enter("B", false)) << "c waits, and takes no place of the queue";
  EXPECT_FALSE(enter("C", false));
  EXPECT_FALSE(enter("d", true));
  admission.release(ids['b']);  // c was there before, and B
  admission.release(ids['A']);
  EXPECT_EQ(started, "abAcB");
  admission.release(ids['c']);
  EXPECT_TRUE(enter("C", false));
  EXPECT_TRUE(enter("D", false));
  admission.release(ids['a']);
  EXPECT_EQ(started, "abAcBCD");
  EXPECT_TRUE(enter("e", true));
  EXPECT_EQ(started, "abAcBCD");
  EXPECT_TRUE(enter("E", false));
  admission.release(ids['B']);  // E begins, since it waits, and e after it
  EXPECT_EQ(started, "abAcBCDE");
  admission.release(ids['C']);
  EXPECT_EQ(started, "abAcBCDEe");

  WaitingRoom one({.running = 1, .waiting = 4});  // whose only place nobody can be left
  started.clear();
  std::vector<WaitingRoom::Reservation> place;
  place.push_back({{1, 1}, [&] { started += 'a'; }, [] {}});
  EXPECT_TRUE(one.acquire(std::move(place), [](const auto&) {}, true));
  EXPECT_EQ(started, "a");
}

// Bodies of a few KB that cut 70 KB into tokens leave the other worker to others.
TEST_F(Hostile, SmallBodiesOfMuchWorkAreLargeWork) {
  start();
  std::promise<void> go_on;
  service->workers().give([&] { go_on.get_future().wait(); }, WorkSize::large);
  std::string prompt;
  for (int i = 0; i < 140; ++i) prompt += " and";
  const json texts(std::vector<std::string>(128, " a"));
  const json scored = {{"prompt", prompt}, {"continuations", texts}, {"method", "exact"}};
  const json question = {{"type", "predicate"}, {"instructions", "Is it?"}};
  const json decided = {{"input", prompt.substr(0, 200)}, {"questions", std::vector<json>(340, question)}};
  Client scoring(server->port()), deciding(server->port());
  scoring.send(http_request("POST", "/v1/llada/score", scored.dump()));
  deciding.send(http_request("POST", "/v1/decisions", decided.dump()));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(get("/v1/models").status, 200);
  EXPECT_EQ(metric("llada_requests_running"), 0);
  // Nobody waits for them any more, so that nothing is computed: they were no requests that are refused.
  scoring.close();
  deciding.close();
  EXPECT_TRUE(becomes("llada_connections", 1));
  go_on.set_value();
  for (const char* path : {"/v1/llada/score", "/v1/decisions"})
    EXPECT_TRUE(becomes(std::string("llada_requests_total{route=\"") + path + "\",status=\"499\"}", 1));
}

}  // namespace
}  // namespace llada::serve
