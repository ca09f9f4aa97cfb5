// The work of reading a body grows as the body does, whatever its fields hold and whichever route reads it; and others
// are answered meanwhile.
#include <ctime>

#include "serve/fixture.h"
#include "serve/http/body.h"

namespace llada::serve {
namespace {

// A body of about `bytes`, by repeating items in one of its places.
struct Growing {
  std::string path, begin, item, end;  // "#" in an item: its number
  std::string text(size_t bytes) const {
    std::string out = begin;
    for (size_t i = 0; out.size() + end.size() + item.size() < bytes; ++i) {
      if (i > 0) out += item.starts_with('~') ? "" : ",";
      for (const char c : item)
        if (c == '#')
          out += std::to_string(i);
        else if (c != '~')
          out += c;
    }
    return out + end;
  }
};

constexpr std::string_view kHi = R"("messages":[{"role":"user","content":"Hi"}],"max_tokens":1)";

std::vector<Growing> growing_bodies() {
  const std::string chat = "/v1/chat/completions", hi(kHi);
  std::vector<Growing> all;
  const auto add = [&](std::string path, std::string begin, std::string item, std::string end) {
    all.push_back({std::move(path), std::move(begin), std::move(item), std::move(end)});
  };
  // Schemas, wherever they stand.
  const std::string object = R"({"type":"integer"})", property = R"("p#":{"type":"integer"})";
  const std::pair<std::string, std::string> formats[] = {
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"x","schema":)", "}}"},
      {R"("response_format":{"type":"json_object","schema":)", "}"},
      {R"("llada":{"json_schema":)", "}"},
      {R"("guided_json":)", ""},
      {R"("tools":[{"type":"function","function":{"name":"f","parameters":)", "}}]"}};
  for (const auto& [before, behind] : formats) {
    add(chat, "{" + hi + "," + before + R"({"anyOf":[)", object, "]}" + behind + "}");
    add(chat, "{" + hi + "," + before + R"({"type":"object","properties":{)", property, "}}" + behind + "}");
    add(chat, "{" + hi + "," + before + R"({"enum":[)", "\"#\"", "]}" + behind + "}");
    add(chat, "{" + hi + "," + before + R"({"description":")", "~describe me, ", "\"}" + behind + "}");
  }
  add("/v1/responses", R"({"input":"Hi","text":{"format":{"type":"json_schema","name":"x","schema":{"anyOf":[)", object,
      "]}}}}");
  add("/v1/messages", "{" + hi + R"(,"output_config":{"format":{"type":"json_schema","schema":{"anyOf":[)", object,
      "]}}}}");
  add("/v1/messages", "{" + hi + R"(,"tools":[{"name":"f","input_schema":{"type":"object","properties":{)", property,
      "}}}]}");
  add("/api/chat", "{" + hi + R"(,"stream":false,"format":{"anyOf":[)", object, "]}}");
  add("/completion", R"({"prompt":"Hi","json_schema":{"anyOf":[)", object, "]}}");
  // Tools, texts, numbers.
  add(chat, "{" + hi + R"(,"tools":[)", R"({"type":"function","function":{"name":"f#"}})", "]}");
  add(chat, "{" + hi + R"(,"stop":[)", "\"stop#\"", "]}");
  add(chat, "{" + hi + R"(,"guided_choice":[)", "\"choice#\"", "]}");
  add(chat, "{" + hi + R"(,"logit_bias":{)", "\"#\":1", "}}");
  add(chat, "{" + hi + R"(,"llada":{)", "\"o#\":null", "}}");
  add(chat, "{" + hi + R"(,"metadata":{)", "\"m#\":{\"a\":1.10}", "}}");
  add(chat, "{" + hi + ",", "\"unknown#\":[]", "}");
  add("/v1/responses", R"({"input":"Hi","metadata":{)", "\"m#\":\"x\"", "}}");
  // Conversations.
  add(chat, R"({"messages":[)", R"({"role":"user","content":"Hi"})", "]}");
  add(chat, R"({"messages":[{"role":"user","content":[)", R"({"type":"text","text":"Hi"})", "]}]}");
  add(chat, R"({"messages":[{"role":"user","content":")", "~a word, ", "\"}]}");
  add(chat, R"({"messages":[{"role":"assistant","content":"","tool_calls":[)",
      R"({"id":"#","type":"function","function":{"name":"f","arguments":{"a":1.10}}})", "]}]}");
  add("/v1/messages", R"({"messages":[{"role":"assistant","content":[)",
      R"({"type":"tool_use","id":"#","name":"f","input":{"a":[1.10]}})", "]}]}");
  add("/v1/messages", R"({"messages":[{"role":"user","content":"Hi"}],"system":[)", R"({"type":"text","text":"Hi"})",
      "]}");
  add("/v1/responses", R"({"input":[)", R"({"type":"message","role":"user","content":"Hi"})", "]}");
  // Prompts and ids.
  add("/v1/completions", R"({"prompt":[)", "7", "]}");
  add("/v1/completions", R"({"prompt":[)", "[1,2]", "]}");
  add("/completion", R"({"prompt":[)", "\"Hi\"", "]}");
  add("/detokenize", R"({"tokens":[)", "7", "]}");
  add("/tokenize", R"({"content":")", "~some words, ", "\"}");
  add("/infill", R"({"input_prefix":"a","input_suffix":"b","n_predict":0,"input_extra":[)", R"({"text":"Hi"})", "]}");
  add("/infill", R"({"text":")", "~a <mask:4> b ", "\"}");
  add("/v1/llada/score", R"({"prompt":"Hi","continuations":[)", "\"a\"", "]}");
  // Decisions.
  add("/v1/decisions", R"({"input":"Hi","questions":[)", R"({"type":"predicate","instructions":"Is it?"})", "]}");
  add("/v1/decisions", R"({"input":[)", R"({"role":"user","content":"Hi"})", R"(],"questions":[]})");
  add("/v1/systemone", R"({"questions":{},"state":{)", "\"s#\":{\"b\":1}", "}}");
  add("/v1/systemone", R"({"state":"Hi","questions":{)", R"("q#":{"type":"noul","instructions":"Is it?"})", "}}");
  return all;
}

double processor_seconds() {
  timespec now;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Four times the bytes cost about four times the work, and 16 times where something looks through all that came before.
template <class Work>
void expect_linear(const std::string& name, size_t most, const Work& work) {
  double few = 0, many = 0;
  for (int tries = 0; tries < 3; ++tries) {
    const auto seconds = [&](size_t bytes) {
      const double begin = processor_seconds();
      work(bytes);
      return processor_seconds() - begin;
    };
    few = seconds(most / 4), many = seconds(most);
    if (many < 0.1 || many < 8 * few) return;
  }
  ADD_FAILURE() << name << ": " << few << " s, four times the bytes " << many << " s";
}

class Growth : public ServeTest {
 protected:
  Received send_text(const std::string& path, const std::string& body) {
    Client client(server->port());
    client.send(http_request("POST", path, body, "Content-Type: application/json\r\n"));
    return client.receive(60);
  }

  void expect_linear_bodies(size_t most) {
    start();
    for (const Growing& kind : growing_bodies())
      expect_linear(kind.path + " " + kind.begin + kind.item, most, [&](size_t bytes) {
        const Received reply = send_text(kind.path, kind.text(bytes));
        EXPECT_TRUE(reply.status == 200 || reply.status == 400)
            << kind.path << kind.begin << reply.status << reply.body;
      });
    expect_linear("a form of files", most, [](size_t bytes) {
      const std::string part = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n";
      std::string body = part;
      while (body.size() < bytes) body += "{\"custom_id\": \"a\"}\r\n-";
      EXPECT_TRUE(parse_form("multipart/form-data; boundary=b", body + "\r\n--b--\r\n"));
    });
  }

  // An honest body that is as long as those which wait for a worker of their own.
  void expect_answers_beside(size_t bytes) {
    start();
    std::string notes;
    for (int i = 0; i < 3000; ++i) notes += fmt::format(",\"note {}\":\"some words\"", i);
    const std::string honest = fmt::format("{{{},\"metadata\":{{\"a\":1{}}}}}", kHi, notes);
    ASSERT_GT(honest.size(), BodyBytes::kFree);
    for (const Growing& kind : growing_bodies()) {
      Client hostile(server->port());
      hostile.send(http_request("POST", kind.path, kind.text(bytes), "Content-Type: application/json\r\n"));
      const double begin = processor_seconds();
      EXPECT_EQ(send_text("/v1/chat/completions", honest).status, 200) << kind.path << kind.begin;
      EXPECT_LT(processor_seconds() - begin, 3) << kind.path << kind.begin;
    }
  }
};

// Short bodies whose forms take long to read wait apart from others.
// labels: -threads
TEST_F(Growth, OfAFormHoldsNobodyUp) {
  start();
  const Growing kinds[] = {
      {"", R"({"type":"string","allOf":[)", R"({"not":{"pattern":"s[a-z]{#}"}})", "]}"},
      {"", R"({"type":"object","patternProperties":{)", R"("^b#":{"type":"string"})", "}}"},
      {"", R"({"type":"object","patternProperties":{)", R"x("(a|b)*a(a|b){9}#":{})x", "}}"},
      {"", R"({"type":"object","properties":{)", R"("p#":{"type":"integer","multipleOf":900#})", "}}"}};
  std::vector<std::unique_ptr<Client>> hostile;
  for (const Growing& kind : kinds) {
    hostile.push_back(std::make_unique<Client>(server->port()));
    const std::string body =
        fmt::format(R"({{{},"response_format":{{"type":"json_schema","json_schema":{{"name":"x","schema":{}}}}}}})",
                    kHi, kind.text(1'500));
    hostile.back()->send(http_request("POST", "/v1/chat/completions", body, "Content-Type: application/json\r\n"));
  }
  const double begin = processor_seconds();
  EXPECT_EQ(send_text("/v1/chat/completions", fmt::format("{{{}}}", kHi)).status, 200);
  EXPECT_LT(processor_seconds() - begin, 2);
}

// labels: -threads
TEST_F(Growth, OfABodyIsThatOfItsWork) { expect_linear_bodies(200'000); }

// labels: -threads
TEST_F(Growth, HoldsNobodyUp) { expect_answers_beside(200'000); }

// labels: long -threads
TEST_F(Growth, OfLongBodiesIsThatOfTheirWork) { expect_linear_bodies(3'000'000); }

// labels: long -threads
TEST_F(Growth, OfLongBodiesHoldsNobodyUp) { expect_answers_beside(3'000'000); }

}  // namespace
}  // namespace llada::serve
