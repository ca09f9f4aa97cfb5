// What one client may take from others: their turns, the threads that read bodies, memory, time.
#include <unistd.h>

#include <fstream>
#include <future>

#include "serve/fixture.h"
#include "serve/http/reading_pace.h"
#include "serve/work/waiting_room.h"
#include "serve/work/workers.h"

namespace llada::serve {
namespace {

using nlohmann::json;

// What an WaitingRoom starts, in its order.
struct Turns {
  explicit Turns(const RoomLimits& limits) : admission(limits) {}

  // A request whose answers are named by a letter and their number.
  bool enter(char name, int answers, AnswerBytes bytes = {}, bool low_priority = false) {
    std::vector<WaitingRoom::Reservation> places;
    for (int i = 0; i < answers; ++i) {
      const std::string answer = name + std::to_string(i);
      places.push_back({bytes, [this, answer] { started.push_back(answer); }, [this, name] { expired += name; }});
    }
    return admission.acquire(
        std::move(places),
        [&](const std::vector<WaitingRoom::Id>& known) {
          for (size_t i = 0; i < known.size(); ++i) ids[name + std::to_string(i)] = known[i];
        },
        low_priority);
  }
  void computed(const std::string& answer) { admission.shrink(ids.at(answer)); }
  void leave(const std::string& answer) { admission.release(ids.at(answer)); }
  double bytes() const { return admission.counts().kv_bytes; }
  std::vector<std::string> take_started() { return std::exchange(started, {}); }

  WaitingRoom admission;
  std::vector<std::string> started;
  std::string expired;
  std::map<std::string, WaitingRoom::Id> ids;
};

using Names = std::vector<std::string>;

TEST(WaitingRoomTest, RequestsTakeTurns) {
  Turns turns({.running = 1, .waiting = 4});
  EXPECT_TRUE(turns.enter('a', 3));
  EXPECT_TRUE(turns.enter('b', 3));
  EXPECT_FALSE(turns.enter('z', 3)) << "four answers beyond the first of each request";
  EXPECT_TRUE(turns.enter('c', 1)) << "the first of each has a place of its own";
  for (const char* next : {"a1", "b0", "c0", "a2", "b1", "b2"}) {
    ASSERT_EQ(turns.started.size(), 1u);
    const std::string running = turns.take_started()[0];
    turns.leave(running);
    EXPECT_EQ(turns.started, Names{next}) << "behind " << running;
  }
}

TEST(WaitingRoomTest, AFewLargeRequestsLeaveOthersTheirPlaces) {
  Turns turns({.running = 8, .waiting = 256});
  EXPECT_TRUE(turns.enter('a', 128) && turns.enter('b', 128));
  EXPECT_EQ(turns.admission.counts().waiting, 248);
  EXPECT_FALSE(turns.enter('z', 128));
  int taken = 0;
  while (taken < 1000 && turns.enter('c', 1)) ++taken;
  EXPECT_EQ(taken, 254) << "places for 256 requests";
  turns.take_started();
  turns.leave("a0");
  turns.leave("a1");
  EXPECT_EQ(turns.started, (Names{"a8", "b0"})) << "then those for one answer";
  turns.take_started();
  for (const char* running : {"a2", "a3"}) turns.leave(running);
  EXPECT_EQ(turns.started, (Names{"c0", "c0"}));
}

TEST(WaitingRoomTest, WhatIsKeptUntilItIsHandedOnIsCounted) {
  Turns turns({.running = 4, .waiting = 8, .kv_bytes = 100});
  EXPECT_TRUE(turns.enter('a', 2, {30, 10}));  // keeps 20, and 20 more for each that is computed
  EXPECT_EQ(turns.take_started(), (Names{"a0", "a1"}));
  EXPECT_EQ(turns.bytes(), 60);
  EXPECT_TRUE(turns.enter('b', 1, {60, 20}));
  turns.computed("a0");
  EXPECT_EQ(turns.take_started(), Names{"b0"});
  EXPECT_EQ(turns.bytes(), 100);
  turns.computed("b0");
  turns.computed("a1");
  turns.computed("a1");
  EXPECT_EQ(turns.bytes(), 40);
  EXPECT_EQ(turns.admission.counts().running, 0);
  EXPECT_TRUE(turns.enter('c', 1, {61, 1}));
  EXPECT_TRUE(turns.started.empty()) << "nothing is computed, and yet there is no room";
  turns.leave("a1");
  EXPECT_EQ(turns.take_started(), Names{"c0"});
  for (const char* answer : {"a0", "b0", "c0"}) turns.leave(answer);
  EXPECT_EQ(turns.bytes(), 0);
}

// A request that has begun comes to its end, whoever waits before it and whatever the others keep.
TEST(WaitingRoomTest, NoRequestsWaitForEachOther) {
  Turns turns({.running = 1, .waiting = 8, .kv_bytes = 100});
  EXPECT_TRUE(turns.enter('a', 3, {60, 20}));   // 60, and 40 more while one is computed
  EXPECT_TRUE(turns.enter('b', 1, {30, 25}));   // 25, and 5 more
  EXPECT_TRUE(turns.enter('c', 1, {100, 10}));  // does not fit beside any other
  EXPECT_EQ(turns.take_started(), Names{"a0"});
  turns.computed("a0");
  EXPECT_EQ(turns.take_started(), Names{"a1"});
  turns.computed("a1");
  EXPECT_EQ(turns.take_started(), Names{"b0"});
  turns.computed("b0");
  EXPECT_TRUE(turns.started.empty()) << "a has no room beside what is kept of b, and c none beside a";
  turns.leave("b0");
  EXPECT_EQ(turns.take_started(), Names{"a2"}) << "c is before it, and waits for it";
  turns.computed("a2");
  for (const char* answer : {"a0", "a1"}) turns.leave(answer);
  EXPECT_TRUE(turns.started.empty());
  turns.leave("a2");
  EXPECT_EQ(turns.take_started(), Names{"c0"});
  turns.leave("c0");
  EXPECT_EQ(turns.bytes(), 0);
}

TEST(WaitingRoomTest, OfThatWhichNeedNotBeginNothingStaysCounted) {
  Turns turns({.running = 1, .waiting = 8, .kv_bytes = 100, .wait_seconds = 0});
  EXPECT_TRUE(turns.enter('a', 3, {20, 10}));
  EXPECT_TRUE(turns.enter('b', 3, {20, 10}));
  EXPECT_EQ(turns.bytes(), 40);
  turns.leave("a1");
  turns.leave("b2");
  EXPECT_EQ(turns.bytes(), 30);
  turns.admission.expire();
  EXPECT_EQ(turns.expired, "abb");
  EXPECT_EQ(turns.bytes(), 20);
  EXPECT_EQ(turns.admission.counts().waiting, 0);
  turns.leave("a0");
  EXPECT_EQ(turns.bytes(), 0);
  EXPECT_EQ(turns.admission.counts().running, 0);
}

// Whoever leaves gives its place and all of its bytes at once: who is before a request that has begun has them.
TEST(WaitingRoomTest, APlaceAndItsBytesAreGivenTogether) {
  Turns turns({.running = 1, .waiting = 8, .kv_bytes = 100});
  EXPECT_TRUE(turns.enter('a', 3, {20, 10}));
  EXPECT_TRUE(turns.enter('b', 1, {85, 0}));
  turns.leave("a0");
  EXPECT_EQ(turns.take_started(), (Names{"a0", "a1"}));
  EXPECT_EQ(turns.bytes(), 30);
  turns.leave("a1");
  EXPECT_EQ(turns.take_started(), Names{"b0"}) << "beside what is kept of a2";
  turns.leave("a1");
  EXPECT_EQ(turns.bytes(), 95) << "it has left";
  turns.leave("b0");
  EXPECT_EQ(turns.take_started(), Names{"a2"});
  turns.leave("a2");
  EXPECT_EQ(turns.bytes(), 0);
}

// Destructors release, and so do threads that nobody could tell of an exception.
TEST(WaitingRoomTest, LeavingDoesNotThrow) {
  WaitingRoom room({.running = 1, .waiting = 8, .kv_bytes = 100});
  std::vector<WaitingRoom::Id> ids;
  const auto enter = [&](std::function<void()> start) {
    return room.acquire({{{20, 10}, std::move(start), [] {}}}, [&](const auto& known) { ids.push_back(known[0]); });
  };
  bool started = false;
  EXPECT_TRUE(enter([] {}) && enter([] { throw std::bad_alloc(); }));
  // Its call owns who releases another, as an answer owns its parts.
  EXPECT_TRUE(enter([owned = std::shared_ptr<void>(&room, [&](void*) { room.release(ids[0]); })] {}));
  EXPECT_TRUE(enter([&] { started = true; }));
  static_assert(noexcept(room.release(0)) && noexcept(room.shrink(0)));
  room.release(ids[2]);
  EXPECT_EQ(room.counts().running, 1) << "the second has begun in the place of the first, and found no memory";
  EXPECT_FALSE(started);
  room.release(ids[1]);
  EXPECT_TRUE(started) << "behind who began in vain";
  room.release(ids[3]);
  EXPECT_EQ(room.counts().kv_bytes, 0);
  EXPECT_EQ(room.counts().running, 0);
}

// A batch's waits for as long as others come: it has the time of its batch.
TEST(WaitingRoomTest, WhoGivesWayWaitsLonger) {
  Turns turns({.running = 1, .waiting = 8, .wait_seconds = 0});
  EXPECT_TRUE(turns.enter('a', 1) && turns.enter('b', 1, {}, true) && turns.enter('c', 1));
  EXPECT_EQ(turns.take_started(), Names{"a0"});
  turns.admission.expire();
  EXPECT_EQ(turns.expired, "c");
  turns.leave("a0");
  EXPECT_EQ(turns.take_started(), Names{"b0"});
}

TEST(Workers, SmallWorkDoesNotWaitForLarge) {
  Workers workers(2);
  std::promise<void> go_on, begun, small;
  std::atomic<bool> second = false;
  const auto going = go_on.get_future().share();
  workers.give([&] { begun.set_value(), going.wait(); }, WorkSize::large);
  begun.get_future().wait();
  workers.give([&] { second = true; }, WorkSize::large);
  workers.give([&] { small.set_value(); });
  small.get_future().wait();
  EXPECT_FALSE(second) << "one thread is kept for small work";
  go_on.set_value();
  workers.finish();
  EXPECT_TRUE(second);
}

TEST(Workers, WorkOfOneSizeIsDoneInItsOrder) {
  for (const WorkSize size : {WorkSize::small, WorkSize::large}) {
    std::vector<int> done;
    Workers one(1);
    for (int i = 0; i < 100; ++i) one.give([&done, i] { done.push_back(i); }, i % 2 == 0 ? size : WorkSize::small);
    one.finish();
    ASSERT_EQ(done.size(), 100u);
    EXPECT_TRUE(std::ranges::is_sorted(done));
  }
}

TEST(ReadingPace, EachPieceHasItsTime) {
  using namespace std::chrono_literals;
  const ReadingPace::Clock::time_point start{};
  const auto seconds = [&](const ReadingPace& pace) { return (pace.end() - start) / 1s; };
  constexpr size_t kPiece = ReadingPace::kPiece;
  ReadingPace pace;
  pace.begin(start, 60s);
  EXPECT_EQ(seconds(pace), 60);
  // A byte a minute gets one minute; 300 bytes a second all the time that they need.
  pace.took(1, start + 59s);
  EXPECT_EQ(seconds(pace), 60);
  pace.took(kPiece - 1, start + 59s);
  EXPECT_EQ(seconds(pace), 119);
  for (int second = 60; second < 4000; ++second) {
    ASSERT_LT(start + std::chrono::seconds(second), pace.end());
    pace.took(300, start + std::chrono::seconds(second));
  }
  pace.took(10 * kPiece, start + 5000s);
  EXPECT_EQ(seconds(pace), 5060);
}

class Fairness : public ServeTest {
 protected:
  std::string chat(const json& more) { return chat_request(chat_body("Hi", more)); }
  json frames(int tokens) {
    return {{"stream", true}, {"diffusing", "frames"}, {"max_tokens", tokens}, {"llada", {{"preset", "exact"}}}};
  }
};

TEST_F(Fairness, AChatHasItsTurnBesideRequestsForManyAnswers) {
  options.admission.running = 1;
  start();
  const std::string many = chat({{"n", 128}, {"max_tokens", 16}, {"llada", {{"preset", "exact"}}}});
  Client one(server->port()), two(server->port());
  one.send(many);
  ASSERT_TRUE(becomes("llada_requests_running", 1));
  two.send(many);
  const auto waiting = [&] { return metric("llada_requests_waiting"); };
  for (int i = 0; i < 1000 && waiting() < 130; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_GE(waiting(), 130);
  const auto reply = ok(post_chat("Hi", {{"max_tokens", 8}}));
  EXPECT_GT(waiting(), 50) << "before most of the others' answers";
}

TEST_F(Fairness, ASmallBodyDoesNotWaitForLongOnes) {
  start();
  std::promise<void> go_on;
  const std::shared_future<void> going = go_on.get_future().share();
  service->workers().give([going] { going.wait(); }, WorkSize::large);
  const auto tokenize = [&](size_t bytes) {
    return http_request("POST", "/tokenize", json{{"prompt", std::string(bytes, ' ')}}.dump());
  };
  Client large(server->port()), small(server->port());
  large.send(tokenize(BodyBytes::kFree));
  ASSERT_TRUE(becomes("llada_body_bytes", static_cast<double>(json{{"prompt", ""}}.dump().size())));
  small.send(tokenize(BodyBytes::kFree / 2));
  EXPECT_EQ(small.receive(10).status, 200);
  EXPECT_EQ(metric("llada_requests_total{route=\"/tokenize\",status=\"200\"}"), 1);
  go_on.set_value();
  EXPECT_EQ(large.receive(10).status, 200);
}

// The answer is there, and its reader has not come to it.
TEST_F(Fairness, AnAnswerThatNobodyReadsHoldsItsMemory) {
  limits.send_buffer_bytes = 4096;
  DecodeChoice choice;
  choice.use_defaults();
  choice.give_preset("exact");
  choice.give(decode::setting("gen_length", "100").value());
  ASSERT_TRUE(choice.resolve());
  const AnswerBytes bytes = bytes_of({.tokens = chat_prompt("Hi"), .options = choice.options});
  EXPECT_GT(bytes.kept, 0);
  EXPECT_LT(bytes.kept, bytes.computed);
  options.admission.kv_bytes = bytes.computed + bytes.kept / 2;
  start();
  Client slow(server->port(), 2048);
  slow.send(chat(frames(100)));
  ASSERT_TRUE(becomes("llada_answers_total", 1));
  ASSERT_TRUE(becomes("llada_requests_running", 0));
  EXPECT_EQ(metric("llada_kv_bytes"), bytes.kept);
  Client other(server->port());
  other.send(chat(frames(100)));
  ASSERT_TRUE(becomes("llada_requests_waiting", 1)) << "for memory alone";
  slow.close();
  ASSERT_TRUE(becomes("llada_answers_total", 2));
  EXPECT_TRUE(other.receive().complete);
  EXPECT_TRUE(becomes("llada_kv_bytes", 0));
}

// What requests hold while they wait is bounded by what those that wait need to come to their end.
TEST(WaitingRoomTest, TextsOfThoseThatWaitAreCounted) {
  constexpr double kMb = 1e6, kFree = 64 << 10;
  Turns turns({.running = 2, .waiting = 8, .kv_bytes = 10 * kMb});
  EXPECT_TRUE(turns.admission.hold(kFree));
  EXPECT_EQ(turns.bytes(), 0) << "an ordinary one";
  auto text = turns.admission.hold(3 * kMb + kFree);
  EXPECT_EQ(turns.bytes(), 3 * kMb);
  EXPECT_FALSE(turns.admission.hold(8 * kMb));
  EXPECT_TRUE(turns.admission.hold(kFree)) << "ordinary ones have room";
  EXPECT_FALSE(turns.enter('z', 1, {8 * kMb, 0})) << "with a text that may stay it could wait for ever";
  EXPECT_TRUE(turns.enter('a', 1, {6 * kMb, 0}));
  EXPECT_TRUE(turns.enter('b', 1, {6 * kMb, 0}));
  EXPECT_EQ(turns.take_started(), Names{"a0"});
  EXPECT_FALSE(turns.admission.hold(1.5 * kMb)) << "beside what runs";
  turns.leave("a0");
  EXPECT_EQ(turns.take_started(), Names{"b0"});
  EXPECT_TRUE(turns.enter('c', 1, {7 * kMb, 0}));
  turns.computed("b0");
  EXPECT_EQ(turns.take_started(), Names{"c0"});
  EXPECT_TRUE(turns.enter('d', 1, {4 * kMb, 0}));
  text.reset();
  EXPECT_EQ(turns.bytes(), 7 * kMb);
  turns.leave("c0");
  EXPECT_EQ(turns.take_started(), Names{"d0"});
  turns.leave("d0"), turns.leave("b0");
  EXPECT_EQ(turns.bytes(), 0);
}

// Many answers to one request have its text once. Under the thread sanitizer the body takes longer than a test waits.
// labels: -threads
TEST_F(Fairness, ManyAnswersShareTheirRequest) {
  options.admission.running = 1;
  start();
  const auto resident = [] {
    int64_t all = 0, pages = 0;
    std::ifstream("/proc/self/statm") >> all >> pages;
    return pages * ::sysconf(_SC_PAGESIZE);
  };
  const json one = {{"type", "integer"}, {"description", std::string(60'000, 'x')}};
  const std::string schema = json{{"anyOf", std::vector<json>(16, one)}}.dump();
  const auto body = [&](int n) {
    return chat(chat_body("Hi", {{"n", n}, {"max_tokens", 8}, {"llada", {{"json_schema", schema}}}}));
  };
  Client first(server->port()), running(server->port()), waiting(server->port());
  first.send(body(1));
  ASSERT_EQ(first.receive().status, 200) << "its form is there from now on";
  running.send(chat(frames(200)));
  ASSERT_TRUE(becomes("llada_requests_running", 1));
  const double before = metric("llada_kv_bytes");
  const int64_t pages = resident();
  waiting.send(body(128));
  ASSERT_TRUE(becomes("llada_requests_waiting", 128));
  EXPECT_NEAR(metric("llada_kv_bytes") - before, static_cast<double>(schema.size()) - (64 << 10), 10'000);
  EXPECT_LT(resident() - pages, 30 << 20);
  waiting.close();
  ASSERT_TRUE(becomes("llada_requests_waiting", 0));
  EXPECT_TRUE(becomes("llada_kv_bytes", before)) << "what waits is let go behind its place";
}

TEST_F(Fairness, WhatIsHandedOnIsNotCounted) {
  start();
  for (const json& more : {json{{"n", 3}, {"logprobs", true}}, json{{"n", 3}, {"stream", true}}}) {
    json body = more;
    body["max_tokens"] = 8;
    EXPECT_EQ(post_chat("Hi", body).status, 200);
    EXPECT_TRUE(becomes("llada_kv_bytes", 0));
    EXPECT_EQ(metric("llada_requests_running"), 0);
  }
}

TEST_F(Fairness, WhoReadsNothingIsCut) {
  limits.send_buffer_bytes = 4096;
  limits.write_seconds = 0.05;
  start();
  const std::string request = http_request("POST", "/tokenize", json{{"prompt", std::string(1'000'000, '7')}}.dump());
  Client nothing(server->port(), 4096);
  nothing.send(request);
  ASSERT_TRUE(becomes("llada_requests_total{route=\"/tokenize\",status=\"200\"}", 1));
  ASSERT_TRUE(becomes("llada_connections", 1));
  EXPECT_FALSE(nothing.receive(10).complete);
}

}  // namespace
}  // namespace llada::serve
