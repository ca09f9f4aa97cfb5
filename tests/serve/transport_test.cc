// What stands between a socket and a route: requests in a row, connections that are half open or too many, heads that
// are refused, where the server listens.
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "serve/fixture.h"
#include "serve/http/access.h"
#include "serve/work/route.h"

namespace llada::serve {
namespace {

using nlohmann::json;

class Transport : public ServeTest {
 protected:
  // A forward for each token.
  json slow_body(json more = json::object(), int tokens = 200) {
    more["max_tokens"] = tokens;
    more["llada"] = {{"preset", "exact"}};
    return chat_body("Count.", std::move(more));
  }
  json short_body(int tokens) { return chat_body("Hi", {{"max_tokens", tokens}}); }
};

// More clients than descriptors, of which the system's limit leaves few: those that ask nothing keep nobody out.
TEST_F(Transport, WithoutDescriptorsIdleConnectionsMakeRoom) {
  start();
  const auto ask_behind_idle = [&] {
    sockaddr_in address{};
    address.sin_family = AF_INET, address.sin_port = htons(static_cast<uint16_t>(server->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int socket = -1;
    for (int i = 0; i < 50; ++i) {
      socket = ::socket(AF_INET, SOCK_STREAM, 0);
      if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return 2;
    }
    constexpr std::string_view kAsk = "GET /health HTTP/1.0\r\n\r\n";
    if (::write(socket, kAsk.data(), kAsk.size()) != std::ssize(kAsk)) return 3;
    ::alarm(20);
    char reply[12] = {};
    return ::read(socket, reply, sizeof(reply)) == 12 && std::string_view(reply, 12) == "HTTP/1.0 200" ? 0 : 4;
  };
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ::close(next);
  const rlimit low{static_cast<rlim_t>(next) + 12, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setrlimit(RLIMIT_NOFILE, &before);
    ::_exit(ask_behind_idle());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_GE(metric("llada_connections_pushed_out_total"), 30);
}

TEST_F(Transport, RequestsInARowAreAnsweredInTheirOrder) {
  start();
  Client client(server->port());
  std::string row;
  for (int i = 0; i < 10; ++i)
    row += http_request("GET", "/health") + http_request("GET", "/nothing") +
           http_request("POST", "/tokenize", json{{"prompt", std::string(200, 'a')}}.dump()) + "\r\n";
  for (int tokens = 1; tokens <= 3; ++tokens) row += chat_request(short_body(tokens));
  client.send(row);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(client.receive().body, "{\"status\":\"ok\"}") << i;
    EXPECT_EQ(client.receive().status, 404) << i;
    EXPECT_TRUE(client.receive().json().contains("tokens")) << i;
  }
  for (int tokens = 1; tokens <= 3; ++tokens)
    EXPECT_EQ(client.receive().json()["usage"]["completion_tokens"], tokens) << "in their order";
}

TEST_F(Transport, ARequestThatComesEarlyWaits) {
  start();
  for (const bool stream : {false, true}) {
    Client client(server->port());
    client.send(chat_request(slow_body({{"stream", stream}}, 64)));
    ASSERT_TRUE(becomes("llada_requests_running", 1));
    client.send("\r\n" + http_request("GET", "/health"));
    const auto first = client.receive(), second = client.receive();
    EXPECT_EQ(first.status, 200) << first.body;
    EXPECT_TRUE(first.complete);
    if (stream) {
      EXPECT_EQ(first.events().back(), "[DONE]");
    }
    EXPECT_EQ(second.body, "{\"status\":\"ok\"}");
  }
}

TEST_F(Transport, AClientThatLeavesBehindAnEarlyRequestIsNotComputedFor) {
  keep_log();
  start();
  Client client(server->port());
  client.send(chat_request(slow_body()));
  ASSERT_TRUE(becomes("llada_requests_running", 1));
  client.send(http_request("GET", "/props"));
  client.close();
  ASSERT_TRUE(becomes("llada_requests_running", 0));
  EXPECT_EQ(metric("llada_answers_cancelled_total"), 1);
  EXPECT_TRUE(logged("/props").empty()) << "nobody was there to ask";
}

// As nc -N, and programs that shut down what they have written to the end.
TEST_F(Transport, AClientThatHasNothingMoreToSayGetsItsReply) {
  start();
  for (const bool stream : {false, true}) {
    Client client(server->port());
    client.send(chat_request(slow_body({{"stream", stream}}, 48)));
    client.shut_down_writing();
    const auto reply = ok(client.receive());
    EXPECT_TRUE(reply.complete);
    EXPECT_TRUE(client.closed(5));
  }
  Client old(server->port());
  old.send("GET /health HTTP/1.0\r\n\r\n");
  old.shut_down_writing();
  EXPECT_EQ(old.receive().status, 200);
  EXPECT_EQ(metric("llada_answers_cancelled_total"), 0);
}

TEST_F(Transport, HeadsThatAProxyCouldReadInAnotherWayAreRefused) {
  keep_log();
  start();
  const std::string host = "Host: localhost\r\n";
  const std::vector<std::pair<std::string, int>> cases = {
      {"GET /health HTTP/1.1\r\n\r\n", 400},
      {"GET /health HTTP/1.1\r\nHost:\r\n\r\n", 400},
      {"GET /health HTTP/1.1\r\n" + host + host + "\r\n", 400},
      {"GET /health HTTP/1.0\r\n" + host + host + "\r\n", 400},
      {"GET /health HTTP/1.0\r\n\r\n", 200},
      {"\r\n\r\nGET /health HTTP/1.1\r\n" + host + "\r\n", 200},
      {"GET /health/ HTTP/1.1\r\n" + host + "\r\n", 200},
      {"GET http://localhost/health HTTP/1.1\r\n" + host + "\r\n", 200},
      {"GET HTTP://127.0.0.1:1?x HTTP/1.1\r\n" + host + "\r\n", 200},
      {"GET http://evil.example/health HTTP/1.1\r\n" + host + "\r\n", 403},
      {"GET http://localhost@evil.example/health HTTP/1.1\r\n" + host + "\r\n", 403},
      {"GET http:///health HTTP/1.1\r\nHost: evil.example\r\n\r\n", 400},
      {"GET HTTPS://?x HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /health HTTP/1.1\r\n" + host + "X: a\r\n b\r\n\r\n", 400},
      {"GET /health HTTP/1.1\r\n" + host + "X: a\r\n\tHost: b\r\n\r\n", 400},
      {"GET /health HTTP/1.1\r\n" + host + "Host : b\r\n\r\n", 400},
      {"\x16\x03\x01", 400},
      {"*", 400},
  };
  for (const auto& [bytes, status] : cases) {
    Client client(server->port());
    client.send(bytes);
    EXPECT_EQ(client.receive(5).status, status) << bytes;
    EXPECT_EQ(client.closed(status == 400 ? 5 : 0), status == 400) << bytes;
  }
  // A body of which a lax proxy knows the end and this server does not must not be read as requests.
  const std::string inner = http_request("GET", "/props");
  for (const std::string coding :
       {"Transfer-Encoding: xchunked\r\n", "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: identity\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n"}) {
    Client client(server->port());
    client.send("POST /tokenize HTTP/1.1\r\n" + host + coding + "\r\n" + inner);
    EXPECT_EQ(client.receive(5).status, 400) << coding;
    EXPECT_TRUE(client.closed(5)) << coding;
  }
  EXPECT_TRUE(logged("/props").empty());
}

TEST_F(Transport, OldClientsKeepTheirConnectionWhereTheyAsk) {
  start();
  Client client(server->port());
  for (int i = 0; i < 3; ++i) {
    client.send("GET /health HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
    const auto reply = client.receive(5);
    EXPECT_TRUE(reply.head.starts_with("HTTP/1.0 200")) << reply.head;
    EXPECT_EQ(reply.header("Connection"), "keep-alive");
  }
  client.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.receive(5).status, 200);
  EXPECT_TRUE(client.closed(5));
  Client waits(server->port());
  waits.send("POST /tokenize HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 14\r\n\r\n{\"prompt\":\"x\"}");
  EXPECT_FALSE(waits.wait_for("100 Continue", 5)) << "HTTP/1.0 has none";
  EXPECT_EQ(waits.receive(5).status, 200);
}

TEST_F(Transport, WhoAsksNothingKeepsNobodyOut) {
  limits = {.connections = 4};
  start();
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 40; ++i) idle.push_back(std::make_unique<Client>(server->port()));
  const auto reply = ok(post("/tokenize", {{"prompt", "x"}}));
  EXPECT_TRUE(idle.front()->closed(5)) << "the one that waited for longest";
  EXPECT_FALSE(idle.back()->closed(0));
  EXPECT_LE(metric("llada_connections"), 4);
  EXPECT_GE(metric("llada_connections_pushed_out_total"), 36);
}

TEST_F(Transport, ThereIsRoomForTheStateWhereAllAreAnswered) {
  limits = {.connections = 2};
  start();
  Client one(server->port()), two(server->port());
  for (Client* client : {&one, &two}) {
    client->send(chat_request(slow_body({{"stream", true}})));
    ASSERT_TRUE(client->wait_for("data: "));
  }
  EXPECT_EQ(metric("llada_requests_running"), 2);
  EXPECT_EQ(get("/health").status, 200);
  const json refused = error_of(post("/tokenize", {{"prompt", "x"}}), 503);
  EXPECT_EQ(refused["code"], "too_many_connections");
}

// Whatever the threads that read bodies do.
TEST_F(Transport, TheStateIsToldWhileBodiesAreRead) {
  start();
  std::promise<void> go_on;
  const std::shared_future<void> going = go_on.get_future().share();
  for (int i = 0; i < 2; ++i) service->workers().give([going] { going.wait(); });
  for (const char* path : {"/health", "/ready", "/metrics"}) EXPECT_EQ(get(path).status, 200) << path;
  {
    Client gone(server->port());
    gone.send(http_request("POST", "/tokenize", json{{"prompt", "x"}}.dump()));
    ASSERT_TRUE(becomes("llada_connections", 2));
  }
  ASSERT_TRUE(becomes("llada_connections", 1));
  go_on.set_value();
  ASSERT_TRUE(becomes("llada_requests_total{route=\"/tokenize\",status=\"499\"}", 1)) << "and nothing is read for it";
}

TEST_F(Transport, ClientsThatLeaveAreNoErrorOfTheServer) {
  keep_log();
  start();
  for (const bool stream : {false, true}) {
    Client client(server->port());
    client.send(chat_request(slow_body({{"stream", stream}})));
    ASSERT_TRUE(becomes("llada_requests_running", 1));
    if (stream) {
      ASSERT_TRUE(client.wait_for("data: "));
    }
    client.close();
    ASSERT_TRUE(becomes("llada_requests_running", 0));
  }
  ASSERT_TRUE(becomes("llada_requests_total{route=\"/v1/chat/completions\",status=\"499\"}", 2));
  EXPECT_EQ(metric("llada_requests_total{route=\"/v1/chat/completions\",status=\"503\"}"), -1);
  const auto lines = logged("/v1/chat/completions");
  ASSERT_EQ(lines.size(), 2u);
  for (const bool stream : {false, true}) {
    EXPECT_EQ(lines[stream]["status"], 499);
    EXPECT_EQ(lines[stream]["stream"], stream);
  }
  EXPECT_GT(lines[1]["bytes"], 0);
}

TEST_F(Transport, TheLogSaysWhoAskedAndWhatWasWrong) {
  limits = {.header_bytes = 1024, .body_bytes = 2048};
  keep_log();
  start();
  const auto sent = [&](const std::string& bytes) {
    Client client(server->port());
    client.send(bytes);
    return client.receive(10);
  };
  const auto refused = sent(chat_request(chat_body("Hi", {{"max_tokens", "many"}})));
  EXPECT_EQ(refused.status, 400);
  auto line = logged("/v1/chat/completions").at(0);
  EXPECT_EQ(line["error"], refused.json()["error"]["message"]);
  EXPECT_EQ(line["param"], "max_tokens");
  EXPECT_EQ(line["id"], refused.header("X-Request-Id")) << "one that was made";
  EXPECT_TRUE(line["peer"].get<std::string>().starts_with("127.0.0.1:")) << line;
  const auto ts = line["ts"].get<std::string>();
  EXPECT_TRUE(ts.size() == 24 && ts[10] == 'T' && ts.ends_with('Z')) << ts;

  // A stream's line is written when it ends.
  const auto stream = sent(chat_request(chat_body("Hi", {{"max_tokens", 8}, {"stream", true}})));
  ASSERT_TRUE(becomes("llada_requests_total{route=\"/v1/chat/completions\",status=\"200\"}", 1));
  line = logged("/v1/chat/completions").at(1);
  EXPECT_EQ(line["status"], 200);
  EXPECT_EQ(line["bytes"], stream.body.size());
  EXPECT_EQ(line["stream"], true);
  EXPECT_FALSE(line.contains("error"));

  // What could not be read is logged and counted like the rest.
  const std::pair<std::string, int> unread[] = {
      {http_request("POST", "/tokenize", std::string(3000, ' ')), 413},
      {http_request("GET", "/", "", "X: " + std::string(2000, 'a') + "\r\n"), 431},
      {"no request\r\n\r\n", 400}};
  for (const auto& [bytes, status] : unread) EXPECT_EQ(sent(bytes).status, status);
  EXPECT_EQ(logged("/tokenize").at(0)["error"], "the body is longer than 2048 bytes");
  ASSERT_EQ(logged("").size(), 2u);
  EXPECT_EQ(logged("")[0]["status"], 431);
  EXPECT_EQ(logged("")[1]["status"], 400);
  EXPECT_EQ(metric("llada_requests_total{route=\"/tokenize\",status=\"413\"}"), 1);
  EXPECT_EQ(metric("llada_requests_total{route=\"other\",status=\"431\"}"), 1);
  EXPECT_EQ(metric("llada_requests_total{route=\"other\",status=\"400\"}"), 1);

  // Neither a method nor a path fills the log.
  sent(std::string(300, 'A') + " /" + std::string(300, 'b') + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  line = logged("/" + std::string(99, 'b')).at(0);
  EXPECT_EQ(line["method"], std::string(20, 'A'));
}

TEST_F(Transport, AClientsOwnNameOfItsRequestIsKept) {
  keep_log();
  start();
  const auto named = [&](const std::string& id) {
    return ask(server->port(), "GET", "/props", nullptr, "X-Request-Id: " + id + "\r\n").header("X-Request-Id");
  };
  EXPECT_EQ(named("trace-1/2.3"), "trace-1/2.3");
  EXPECT_EQ(logged("/props").at(0)["request_id"], "trace-1/2.3");
  const std::string quoted = named("a\"b"), longer = named(std::string(200, 'a'));
  EXPECT_EQ(quoted, logged("/props").at(1)["id"]);
  EXPECT_EQ(longer, logged("/props").at(2)["id"]);
}

TEST_F(Transport, RepliesSayWhenTheyWereMade) {
  start();
  const std::string date = get("/health").header("Date");
  EXPECT_EQ(date.size(), 29u) << date;
  EXPECT_TRUE(date.ends_with(" GMT")) << date;
  const std::chrono::system_clock::time_point then(std::chrono::milliseconds(784'111'777'042));
  EXPECT_EQ(http_date(then), "Sun, 06 Nov 1994 08:49:37 GMT") << "RFC 9110's example";
  EXPECT_EQ(timestamp(then), "1994-11-06T08:49:37.042Z");
}

TEST_F(Transport, PackedBodiesAreRefused) {
  start();
  const auto with = [&](const std::string& coding) {
    return ask(server->port(), "POST", "/tokenize", {{"content", "a"}}, "Content-Encoding: " + coding + "\r\n");
  };
  EXPECT_EQ(with("identity").status, 200);
  const auto reply = with("gzip");
  EXPECT_EQ(reply.status, 415);
  EXPECT_EQ(reply.header("Accept-Encoding"), "identity");
  EXPECT_EQ(reply.json()["error"]["param"], "Content-Encoding");
}

TEST_F(Transport, OnlyThePageAndTheStateNeedNoKey) {
  start();
  service->set_keys({"secret"});
  std::vector<std::string> open;
  for (const Route& route : routes()) {
    std::string path(route.path);
    if (const size_t at = path.find(kPathId); at != std::string::npos) path.replace(at, kPathId.size(), "tiny");
    const auto reply = ask(server->port(), std::string(route.method), path);
    if (reply.status != 401) open.push_back(path);
  }
  EXPECT_EQ(open, (std::vector<std::string>{"/", "/health", "/v1/health", "/ready"}));
  EXPECT_EQ(ask(server->port(), "GET", "/v1/models", nullptr, "Authorization: Bearer secret\r\n").status, 200);
}

// A web page whose own name leads here asks by that name, and its browser holds the answer for the page's own.
TEST_F(Transport, ForeignNamesAreRefusedOnEveryRoute) {
  options.hosts = HostNames::parse({"llada.example.org"}).value();
  start();
  const auto status = [&](const std::string& method, const std::string& path, const std::string& host) {
    Client client(server->port());
    client.send(method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\nOrigin: http://" + host +
                "\r\nContent-Length: 2\r\n\r\n{}");
    return client.receive(5).status;
  };
  for (const Route& route : routes()) {
    const std::string method(route.method), path(route.path);
    EXPECT_EQ(status(method, path, "evil.example:" + std::to_string(server->port())), 403) << path;
    EXPECT_NE(status(method, path, "llada.example.org"), 403) << path;
    EXPECT_NE(status(method, path, "localhost:" + std::to_string(server->port())), 403) << path;
  }
  EXPECT_EQ(status("GET", "/nothing", "evil.example"), 403);
  EXPECT_EQ(status("OPTIONS", "/", "evil.example"), 403);
}

TEST(Hosts, NamesThatOthersCannotGive) {
  const HostNames own = HostNames::parse({"llada.example.org", "Box"}).value();
  for (const char* host :
       {"localhost", "LocalHost:8080", "localhost.", "a.localhost:1", "127.0.0.1", "127.0.0.1:80", "192.168.1.7:80",
        "[::1]", "[::1]:8080", "[fe80::1%eth0]:80", "llada.example.org", "LLADA.example.org:443", "box:", "BOX."})
    EXPECT_TRUE(own.allows(host)) << host;
  for (const char* host :
       {"", ":", ":80", "evil.example", "localhost.evil.example", "evil-localhost", "127.0.0.1.evil.example", "1.2.3",
        "0x7f.1", "[::1", "[localhost]", "::1", "localhost:80:80", "localhost:x", "evil.example@localhost", "a b",
        "xllada.example.org", "localhost/", "127.0.0.1\xff"})
    EXPECT_FALSE(own.allows(host)) << host;
  EXPECT_FALSE(HostNames().allows("box"));
  EXPECT_TRUE(HostNames::parse({"*"}).value().allows("evil.example"));
  EXPECT_FALSE(HostNames::parse({"http://a.example"}));
  EXPECT_FALSE(HostNames::parse({""}));
}

TEST(Hosts, AddressesInUrls) {
  EXPECT_EQ(parse_host("[::1]").value(), "::1");
  EXPECT_EQ(parse_host("::").value(), "::");
  EXPECT_EQ(parse_host("0.0.0.0").value(), "0.0.0.0");
  EXPECT_EQ(parse_host("MyHost.local").value(), "MyHost.local");
  for (const char* wrong : {"", "[]", "[a]", "[127.0.0.1]", "a b", "http://localhost", "localhost:80", "a/b"})
    EXPECT_FALSE(parse_host(wrong)) << wrong;
  EXPECT_EQ(parse_host("").error().message,
            "--host: found \"\", needed a name or an address, as localhost, 0.0.0.0 or ::1");
  EXPECT_EQ(host_and_port("::1", 80), "[::1]:80");
  EXPECT_EQ(host_and_port("127.0.0.1", 80), "127.0.0.1:80");
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3", "::1"}) EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "192.168.0.1", "127.evil", "box"}) EXPECT_FALSE(is_loopback(host)) << host;
}

TEST_F(Transport, PagesOfOtherOriginsAreKeptOut) {
  start();
  const auto origin = [&](const std::string& from) {
    return ask(server->port(), "POST", "/tokenize", {{"prompt", "x"}}, "Origin: " + from + "\r\n");
  };
  EXPECT_EQ(origin("http://evil.example").status, 403);
  EXPECT_EQ(origin("null").status, 403);
  EXPECT_EQ(origin("http://localhost").status, 200) << "the page itself";
  EXPECT_EQ(origin("http://evil.example").header("Access-Control-Allow-Origin"), "");
  EXPECT_EQ(ask(server->port(), "OPTIONS", "/tokenize", nullptr, "Origin: http://evil.example\r\n").status, 403);
}

TEST_F(Transport, PagesThatWereLetInMayAsk) {
  options.cors = Origins::parse({"http://good.example,https://better.example:8443", "http://localhost:3000"}).value();
  limits.body_bytes = 1024;
  start();
  const auto with = [&](const std::string& from, const json& body, const std::string& more = "") {
    return ask(server->port(), "POST", "/tokenize", body, "Origin: " + from + "\r\n" + more);
  };
  EXPECT_EQ(with("http://evil.example", {{"prompt", "x"}}).status, 403);
  for (const char* good : {"http://good.example", "https://better.example:8443", "http://localhost:3000"}) {
    const auto reply = ok(with(good, {{"prompt", "x"}}));
    EXPECT_EQ(reply.header("Access-Control-Allow-Origin"), good);
    EXPECT_EQ(reply.header("Vary"), "Origin");
  }
  EXPECT_EQ(get("/health").header("Vary"), "Origin") << "no origin, too, is one that a cache must not mix up";
  // A browser reads no reply without the header, and the reader's refusals are for it as well.
  const auto too_long = with("http://good.example", {{"prompt", std::string(2000, 'x')}});
  EXPECT_EQ(too_long.status, 413);
  EXPECT_EQ(too_long.header("Access-Control-Allow-Origin"), "http://good.example");
  const auto coded = with("http://good.example", nullptr, "Transfer-Encoding: xchunked\r\n");
  EXPECT_EQ(coded.status, 400);
  EXPECT_EQ(coded.header("Access-Control-Allow-Origin"), "http://good.example");

  const auto preflight = [&](const std::string& asked) {
    return ask(server->port(), "OPTIONS", "/v1/chat/completions", nullptr,
               "Origin: http://good.example\r\nAccess-Control-Request-Method: POST\r\n" + asked);
  };
  const auto sdk = preflight("Access-Control-Request-Headers: content-type,x-stainless-retry-count\r\n");
  EXPECT_EQ(sdk.status, 204);
  EXPECT_EQ(sdk.header("Access-Control-Allow-Headers"), "content-type,x-stainless-retry-count");
  EXPECT_EQ(sdk.header("Access-Control-Allow-Origin"), "http://good.example");
  EXPECT_EQ(preflight("").header("Access-Control-Allow-Headers"), "Authorization, Content-Type, X-Api-Key");
  EXPECT_EQ(preflight("Access-Control-Request-Headers: a\"b\r\n").header("Access-Control-Allow-Headers"),
            "Authorization, Content-Type, X-Api-Key");
}

TEST(Cors, OriginsThatCouldNeverMatchAreRefused) {
  for (const char* wrong : {"", "a.example", "https://a.example/", "https://A.example", "https://a.example:", "null",
                            "https://", "https://a.example,", "https://a example", "https://*"})
    EXPECT_FALSE(Origins::parse({wrong})) << wrong;
  EXPECT_EQ(Origins::parse({"a.example/"}).error().message,
            "--cors: found \"a.example/\", needed an origin, as https://a.example or http://localhost:3000, or *");
  for (const char* right : {"*", "https://a.example", "http://localhost:3000", "http://[::1]:80",
                            "chrome-extension://a", "https://a.example, https://b.example"})
    EXPECT_TRUE(Origins::parse({right})) << right;
}

bool connects_on_ipv6(int port) {
  const int fd = ::socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<uint16_t>(port));
  address.sin6_addr = in6addr_loopback;
  const bool connects = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return connects;
}

TEST_F(Transport, ANameIsAllItsAddresses) {
  address.host = "::1";
  const auto alone = Server::open(address, limits, [](auto) {});
  if (!alone) GTEST_SKIP() << "no IPv6 here";
  EXPECT_TRUE(connects_on_ipv6((*alone)->port()));
  address.host = "localhost";
  start(false);
  EXPECT_EQ(get("/health").status, 200) << "127.0.0.1";
  EXPECT_TRUE(connects_on_ipv6(server->port())) << "::1, though the hosts file may not name it";
  address.port = server->port();
  EXPECT_FALSE(Server::open(address, limits, [](auto) {})) << "at no address in use by another";
}

TEST_F(Transport, ASocketThatWasLeftBehindIsTakenOver) {
  address.socket = testing::TempDir() + "llada-left-behind.sock";
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un left{};
  left.sun_family = AF_UNIX;
  std::strncpy(left.sun_path, address.socket.c_str(), sizeof left.sun_path - 1);
  std::filesystem::remove(address.socket);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&left), sizeof left), 0);
  ::close(fd);  // and the file stays
  start(false);
  Client client(address.socket);
  client.send(http_request("GET", "/health"));
  EXPECT_EQ(client.receive().status, 200);
  server.reset();
  EXPECT_FALSE(std::filesystem::exists(address.socket));
  // A file is none.
  std::ofstream(address.socket) << "mine";
  EXPECT_FALSE(Server::open(address, limits, [](auto) {}));
  EXPECT_TRUE(std::filesystem::exists(address.socket));
  std::filesystem::remove(address.socket);
}

TEST_F(Transport, NoExceptionEndsTheServer) {
  std::atomic<int> calls = 0;
  const auto opened = Server::open(address, limits, [&](const std::shared_ptr<Exchange>& exchange) {
    switch (calls++) {
      case 0:
        throw std::bad_alloc();
      case 1:
        throw std::runtime_error("a reason");
      case 2:
        throw 1;
      default:
        exchange->respond(json_reply({{"status", "ok"}}));
    }
  });
  ASSERT_TRUE(opened);
  Client client((*opened)->port());
  for (const int status : {503, 500, 500, 200}) {
    client.send(http_request("GET", "/health"));
    EXPECT_EQ(client.receive(5).status, status);
  }
}

TEST_F(Transport, NoExceptionEndsTheService) {
  bool throws = false;
  options.log = [&](const std::string&) {
    if (throws) throw std::bad_alloc();
  };
  start();
  service->workers().give([] { throw std::bad_alloc(); });
  service->workers().give([] { throw std::runtime_error("of a worker"); });
  throws = true;  // from here on also on the engine's thread
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(post("/v1/chat/completions", short_body(4)).status, 200);
    EXPECT_EQ(post_chat("Hi", {{"max_tokens", 4}, {"stream", true}}).events().back(), "[DONE]");
  }
  EXPECT_EQ(metric("llada_answers_total"), 6);
}

// Whoever works on a request may be late: neither the server nor its connection is there any more.
TEST_F(Transport, AReplyAfterTheEndGoesNowhere) {
  struct Slow : Outflow {
    Piece take() override { return {}; }
    void listen(std::function<void()> call) override { ready.set_value(std::move(call)); }
    void ping() override {}
    std::promise<std::function<void()>> ready;
  };
  std::promise<std::shared_ptr<Exchange>> asked;
  const auto slow = std::make_shared<Slow>();
  auto opened = Server::open(address, limits, [&](const std::shared_ptr<Exchange>& exchange) {
    if (exchange->request.path == "/stream") return exchange->respond(HttpReply{.stream = slow});
    asked.set_value(exchange);
  });
  ASSERT_TRUE(opened);
  Client client((*opened)->port()), streaming((*opened)->port());
  client.send(http_request("GET", "/"));
  streaming.send(http_request("GET", "/stream"));
  const auto exchange = asked.get_future().get();
  const auto ready = slow->ready.get_future().get();
  opened->reset();
  exchange->respond(json_reply({{"status", "late"}}));
  ready();
  EXPECT_TRUE(exchange->is_gone());
  EXPECT_TRUE(client.closed(5));
}

// The engine's thread hands finished answers to the workers, and may still be on its way out of that when the last
// answer has been given and everything ends. (A race, for tsan to see.)
TEST_F(Transport, TheEndWaitsForWhoStillTellsOfIt) {
  for (int i = 0; i < 10; ++i) {
    start();
    EXPECT_EQ(post("/v1/chat/completions", short_body(1)).status, 200);
    server.reset();
    service.reset();
  }
}

}  // namespace
}  // namespace llada::serve
