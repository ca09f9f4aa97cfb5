// What public clients send by themselves, and what they need of an answer or a refusal to go on by themselves.
#include <chrono>
#include <set>

#include "engine/prompt.h"
#include "serve/fixture.h"
#include "serve/protocols/reading.h"
#include "serve/work/answer_writer.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

using nlohmann::json;

const std::string kChat = "/v1/chat/completions", kPlain = "/v1/completions", kResponses = "/v1/responses";

class Clients : public ServeTest {
 protected:
  std::string chat(const std::string& text, const json& more = json::object()) {
    return ok(post(kChat, chat_body(text, more))).json()["choices"][0]["message"]["content"].get<std::string>();
  }
  json refusal(const std::string& path, const json& body, int status = 400) {
    return error_of(post(path, body), status);
  }
};

TEST_F(Clients, ValuesThatAskForWhatIsDoneAnyway) {
  start();
  const json tool = {{"type", "function"}, {"function", {{"name", "add"}, {"parameters", {{"type", "object"}}}}}};
  const std::vector<json> harmless = {
      {{"user", "me"}, {"metadata", {{"a", "b"}}}, {"store", true}, {"service_tier", "auto"}},
      {{"repetition_penalty", 1.0}, {"repeat_penalty", 1}, {"presence_penalty", 0}, {"frequency_penalty", 0.0}},
      {{"ignore_eos", false}, {"stop_token_ids", json::array()}, {"mirostat", 0}, {"use_beam_search", false}},
      {{"skip_special_tokens", true}, {"modalities", {"text"}}, {"echo", false}, {"add_generation_prompt", true}},
      {{"continue_final_message", false}, {"logit_bias", json::object()}, {"min_tokens", 0}, {"typical_p", 1.0}},
      {{"best_of", 1}},
      {{"cache_prompt", true}, {"id_slot", -1}, {"n_keep", 0}, {"samplers", {"top_k"}}, {"timings_per_token", false}},
      {{"samplers", json::array()}, {"top_p", 1}, {"post_sampling_probs", false}, {"temperature", 0}},
      {{"typ_p", 1}, {"top_a", 0}, {"min_keep", 0}, {"eta_cutoff", 0}, {"smoothing_factor", 0.0}},
      {{"tools", json::array()}, {"functions", json::array()}, {"parallel_tool_calls", true}},
      {{"tools", {tool}}, {"tool_choice", "none"}},
      {{"tool_choice", "auto"}},
      {{"response_format", {{"type", "text"}}}, {"logprobs", false}, {"top_logprobs", 0}, {"n", 1}},
      {{"reasoning_effort", "none"}, {"verbosity", "medium"}, {"chat_template_kwargs", json::object()}},
      {{"chat_template_kwargs", {{"enable_thinking", false}, {"thinking", nullptr}}}, {"enable_thinking", false}},
      {{"thinking", {{"type", "disabled"}}}, {"reasoning", {{"enabled", false}, {"exclude", true}}}},
      {{"stop", ""}},
      {{"stop", {""}}},
      {{"stop", {"", "never there", ""}}},
      {{"top_k", -1}, {"min_p", 0}, {"top_p", 1}},
      {{"top_p", nullptr}, {"model", "any"}, {"stop", nullptr}, {"tools", nullptr}},
      {{"safe_prompt", false}, {"random_seed", 7}},
      {{"stream_options", nullptr}, {"n", nullptr}, {"user", {{"id", 1}}}, {"stop", json::array()}},
      {{"n", 1.0}, {"seed", 3.0}, {"max_completion_tokens", 16.0}, {"top_k", 0.0}, {"top_logprobs", 0.0}},
      {{"logit_bias", json::object()}, {"stop", {"é", "🙂"}}, {"temperature", 0.0}},
  };
  const std::string alone = chat("Hi", {{"max_tokens", 16}});
  for (json more : harmless) {
    more["max_tokens"] = 16;
    EXPECT_EQ(chat("Hi", more), alone) << more;
  }
  const auto two = ok(post(kPlain, {{"prompt", "Hi"}, {"max_tokens", 4}, {"n", 2}, {"best_of", 2}}));
  const std::vector<json> of_responses = {
      {{"include", {"reasoning.encrypted_content"}}},
      {{"truncation", "auto"}},
      {{"reasoning", {{"effort", "none"}}}, {"text", {{"format", {{"type", "text"}}}, {"verbosity", "medium"}}}},
      {{"tools", json::array()}, {"background", false}, {"store", false}, {"max_tool_calls", 3}},
      {{"tools", {tool}}, {"tool_choice", "none"}},
  };
  for (json body : of_responses) {
    body.update({{"input", "Hi"}, {"max_output_tokens", 16}});
    const auto reply = ok(post(kResponses, body));
    EXPECT_EQ(reply.json()["output"][0]["content"][0]["text"], alone) << body;
  }
}

// A bias changes the token that is taken, where the answer is free.
TEST_F(Clients, BiasIsAddedToLogits) {
  start();
  const auto text = [&](json more) {
    more.update({{"prompt", "Ken has 20+6="}, {"max_tokens", 1}});
    return post(kPlain, more).json()["choices"][0]["text"].get<std::string>();
  };
  const std::string best = text(json::object());
  const auto taken = text_prompt(*tiny_model(), best).value();
  ASSERT_EQ(taken.size(), 1u);
  const std::string id = std::to_string(taken[0]);
  EXPECT_EQ(text({{"logit_bias", json::object()}}), best);
  EXPECT_EQ(text({{"logit_bias", {{id, 0.001}}}}), best);
  const std::string other = text({{"logit_bias", {{id, -100}}}});
  EXPECT_NE(other, best);
  const std::string wanted = std::to_string(text_prompt(*tiny_model(), "x").value()[0]);
  EXPECT_EQ(text({{"logit_bias", {{wanted, 100}}}}), "x");
  // llama-server's way of writing it.
  const json llama = {{"prompt", "Ken has 20+6="}, {"n_predict", 1}, {"logit_bias", {{taken[0], false}}}};
  EXPECT_EQ(post("/completion", llama).json()["content"], other);
  json formed = chat_body("Hi", {{"logit_bias", {{id, 1}}}, {"response_format", {{"type", "json_object"}}}});
  EXPECT_EQ(refusal(kChat, formed)["param"], "logit_bias");
}

// The same fields where they ask for more than there is.
TEST_F(Clients, ValuesThatAskForMoreAreRefused) {
  start();
  const std::vector<std::pair<std::string, json>> wishes = {{"repetition_penalty", 0},
                                                            {"stop_token_ids", {3}},
                                                            {"mirostat", "two"},
                                                            {"use_beam_search", true},
                                                            {"skip_special_tokens", false},
                                                            {"modalities", {"text", "audio"}},
                                                            {"best_of", 2},
                                                            {"add_generation_prompt", false},
                                                            {"continue_final_message", true},
                                                            {"min_tokens", 3},
                                                            {"logit_bias", {{"5", 101}}},
                                                            {"logit_bias", {{"five", 1}}},
                                                            {"logit_bias", {{"1024", 1}}},
                                                            {"logit_bias", {{"5", "much"}}},
                                                            {"logit_bias", {{5}}},
                                                            {"reasoning_effort", "hardly"},
                                                            {"enable_thinking", "no"},
                                                            {"text", {{"verbosity", "low"}}},
                                                            {"top_k", -2},
                                                            {"n", 1.5},
                                                            {"max_tokens", 16.5},
                                                            {"seed", 3.5},
                                                            {"top_p", 1.5},
                                                            {"min_p", -1}};
  for (const auto& [name, value] : wishes) {
    const json error = refusal(kChat, chat_body("Hi", {{name, value}}));
    EXPECT_EQ(error["param"], name) << error;
    EXPECT_TRUE(error["message"].get<std::string>().starts_with(name + ": ")) << error;
  }
  for (const char* older : {"functions", "function_call"})
    EXPECT_EQ(refusal(kChat, chat_body("Hi", {{older, {{"name", "f"}}}}))["message"],
              older + std::string(": found the older form of tools, needed tools and tool_choice"));
  EXPECT_EQ(refusal(kResponses, {{"input", "Hi"}, {"include", {"message.output_text.logprobs"}}})["param"], "include");
}

// Which many clients send by themselves: they are answered as without it, and are told.
TEST_F(Clients, WishesForThoughtsAreAnsweredWithANote) {
  start();
  const std::string because = ": the model has no such setting, so it has no effect";
  const json kwargs = {{"enable_thinking", true}, {"reasoning_effort", "low"}};
  const std::vector<std::pair<json, std::string>> wishes = {
      {{{"reasoning_effort", "minimal"}}, "reasoning_effort"},
      {{{"reasoning_effort", "low"}, {"verbosity", "low"}}, "reasoning_effort, verbosity"},
      {{{"reasoning", {{"effort", "high"}, {"summary", "auto"}}}}, "reasoning.effort"},
      {{{"chat_template_kwargs", kwargs}},
       "chat_template_kwargs.enable_thinking, chat_template_kwargs.reasoning_effort"},
      {{{"thinking", {{"type", "enabled"}, {"budget_tokens", 1024}}}}, "thinking.type, thinking.budget_tokens"}};
  const std::vector<std::pair<std::string, json>> routes = {
      {kChat, chat_body("Hi", {{"max_tokens", 8}})},
      {kPlain, {{"prompt", "Hi"}, {"max_tokens", 8}}},
      {kPlain, {{"prompt", "Hi"}, {"suffix", "."}, {"max_tokens", 4}}},
      {"/v1/fim/completions", {{"prompt", "Hi"}, {"suffix", "."}, {"max_tokens", 4}}},
      {"/infill", {{"text", "Hi<mask:4>."}}},
      {kResponses, {{"input", "Hi"}, {"max_output_tokens", 8}}}};
  const auto said = [](json answer) {
    for (const char* own : {"id", "created", "created_at", "usage", "llada", "warnings"}) answer.erase(own);
    if (answer.contains("output")) answer = answer["output"][0]["content"];
    return answer;
  };
  for (const auto& [path, body] : routes) {
    const json alone = post(path, body).json();
    for (const auto& [wish, names] : wishes) {
      json with = body;
      with.update(wish);
      const auto reply = ok(post(path, with));
      EXPECT_EQ(said(reply.json()), said(alone)) << with;
      EXPECT_EQ(reply.json()["llada"]["note"], names + because);
      EXPECT_EQ(reply.header("Llada-Note"), names + because);
    }
  }
  const auto verbose = post(kResponses, {{"input", "Hi"}, {"max_output_tokens", 8}, {"text", {{"verbosity", "high"}}}});
  EXPECT_EQ(verbose.header("Llada-Note"), "text.verbosity" + because);
  // Beside another note, and in a stream.
  const auto both = post(kChat, chat_body(kSum, {{"max_tokens", 300}, {"reasoning_effort", "low"}, {"stream", true}}));
  const std::string note = both.header("Llada-Note");
  EXPECT_TRUE(note.starts_with("reasoning_effort" + because + "; the answer may have ")) << note;
  EXPECT_EQ(post(kChat, chat_body("Hi", {{"chat_template_kwargs", {{"wish", 1}, {"a\nb", 2}}}})).header("Llada-Note"),
            "chat_template_kwargs.a\\x0ab, chat_template_kwargs.wish: the chat template does not read it, so it has no "
            "effect");
  EXPECT_EQ(refusal(kChat, chat_body("Hi", {{"reasoning", {{"wish", 1}}}}))["param"], "reasoning.wish");
}

// A sampler that llama-server would leave out is applied here all the same where the request sets it.
TEST_F(Clients, WhatLlamaServerWouldDoIsNamed) {
  start();
  const std::string because = ": of llama-server, without effect here";
  const json all = {"penalties", "dry", "top_k", "top-p", "min_p", "temp"};
  for (const auto& [more, names] : std::vector<std::pair<json, std::string>>{
           {{{"samplers", {"top_k"}}, {"temperature", 0.5}}, "samplers"},
           {{{"samplers", "kp"}, {"temperature", 0.5}}, "samplers"},
           {{{"samplers", {"temperature"}}, {"temperature", 0.5}, {"min_p", 0.1}}, "samplers"},
           {{{"samplers", all}, {"temperature", 0.5}, {"top_p", 0.9}, {"repeat_penalty", 1.1}}, ""},
           {{{"samplers", "edkypmxt"}, {"temperature", 0.5}, {"top_k", 3}}, ""},
           {{{"timings_per_token", true}, {"post_sampling_probs", true}}, "timings_per_token, post_sampling_probs"}}) {
    json body = {{"prompt", "Hi"}, {"n_predict", 4}};
    body.update(more);
    const auto reply = ok(post("/completion", body));
    EXPECT_EQ(reply.header("Llada-Note"), names.empty() ? "" : names + because) << body;
  }
  EXPECT_EQ(refusal("/completion", {{"prompt", "Hi"}, {"samplers", 5}})["message"],
            "samplers: found 5, needed a list of names");
  EXPECT_EQ(refusal("/completion", {{"prompt", "Hi"}, {"timings_per_token", 1}})["param"], "timings_per_token");
}

// Routes that answer with a prompt lay out the same conversation.
TEST_F(Clients, WishesWithoutEffectAreNamedWithAPromptToo) {
  start();
  const std::string because = ": the chat template does not read it, so it has no effect";
  for (const std::string path : {"/apply-template", "/v1/messages/count_tokens"}) {
    const json named = post(path, chat_body("Hi", {{"chat_template_kwargs", {{"foo", false}}}})).json();
    EXPECT_EQ(named["warnings"], json({"chat_template_kwargs.foo" + because}));
    const json silent = post(path, chat_body("Hi", {{"chat_template_kwargs", {{"foo", nullptr}}}})).json();
    EXPECT_FALSE(silent.contains("warnings")) << silent;
    json same = named;
    same.erase("warnings");
    EXPECT_EQ(same, silent);
    EXPECT_EQ(refusal(path, chat_body("Hi", {{"chat_template_kwargs", 5}}))["message"],
              "chat_template_kwargs: found 5, needed an object");
  }
}

TEST_F(Clients, TopPSaysNothingWithoutATemperature) {
  start();
  const std::string best = chat(kSum, {{"max_tokens", 24}});
  EXPECT_EQ(chat(kSum, {{"max_tokens", 24}, {"top_p", 0.9}}), best);
  EXPECT_EQ(chat(kSum, {{"max_tokens", 24}, {"top_p", 0.9}, {"top_k", 40}, {"min_p", 0.1}, {"temperature", 0}}), best);
  const json sampled = {{"max_tokens", 24}, {"temperature", 2}, {"seed", 3}, {"top_p", 0.5}, {"top_k", 9}};
  const auto like = run_alone(
      chat_prompt(kSum), {{"gen_length", "24"}, {"temperature", "2"}, {"seed", "3"}, {"top_p", "0.5"}, {"top_k", "9"}});
  EXPECT_EQ(chat(kSum, sampled), to_valid_utf8(like.text));
  EXPECT_NE(chat(kSum, {{"max_tokens", 24}, {"temperature", 2}, {"seed", 3}}), to_valid_utf8(like.text))
      << "what is sampled from matters here";
}

TEST_F(Clients, EndsAreIgnoredForBenchmarks) {
  start();
  const auto alone = run_alone(chat_prompt("Hi"), {{"gen_length", "64"}, {"early_stop", "none"}});
  const auto reply =
      ok(post(kChat, chat_body("Hi", {{"max_tokens", 64}, {"max_completion_tokens", 64}, {"ignore_eos", true}})));
  EXPECT_EQ(reply.json()["choices"][0]["message"]["content"], to_valid_utf8(alone.text));
  EXPECT_EQ(reply.json()["usage"]["forwards"], alone.stats.decode.nfe);
  EXPECT_GT(alone.stats.decode.nfe, run_alone(chat_prompt("Hi"), {{"gen_length", "64"}}).stats.decode.nfe);
}

// As vLLM counts in every piece, for programs that measure.
TEST_F(Clients, UsageComesInEveryPieceWhereAsked) {
  start();
  const auto reply = post(
      kChat,
      chat_body(kSum, {{"stream", true},
                       {"llada", {{"preset", "exact"}, {"block_length", 8}}},
                       {"stream_options",
                        {{"include_usage", true}, {"continuous_usage_stats", true}, {"include_obfuscation", true}}}}));
  std::vector<json> pieces;
  for (const std::string& event : reply.events())
    if (event != "[DONE]") pieces.push_back(json::parse(event));
  ASSERT_GE(pieces.size(), 5u) << reply.body;
  int64_t before = 0;
  for (size_t i = 1; i < pieces.size(); ++i) {  // the first says the role
    const json usage = pieces[i].at("usage");
    EXPECT_EQ(usage["prompt_tokens"], std::ssize(chat_prompt(kSum)));
    EXPECT_EQ(usage["total_tokens"], usage["prompt_tokens"].get<int64_t>() + usage["completion_tokens"].get<int64_t>());
    EXPECT_GE(usage["completion_tokens"].get<int64_t>(), before);
    before = usage["completion_tokens"];
  }
  EXPECT_GT(pieces[2]["usage"]["completion_tokens"], 0);
  EXPECT_LT(pieces[2]["usage"]["completion_tokens"], before);
}

// A client does not know how much room a prompt leaves.
TEST_F(Clients, LongerThanTheContextIsAsLongAsItLeaves) {
  start();
  const auto prompt = chat_prompt(kSum);
  const int64_t room = tiny_model()->context() - std::ssize(prompt);
  const auto alone = run_alone(prompt, {{"gen_length", std::to_string(room)}});
  for (const json& more : std::vector<json>{{{"max_tokens", 256}},
                                            {{"max_tokens", int64_t{1} << 40}},
                                            {{"max_completion_tokens", 4096}, {"max_tokens", 8}}}) {
    const auto reply = ok(post(kChat, chat_body(kSum, more)));
    EXPECT_EQ(reply.json()["choices"][0]["message"]["content"], to_valid_utf8(alone.text));
    EXPECT_EQ(reply.json()["usage"]["rows"], alone.stats.decode.rows);
    const std::string note = reply.header("Llada-Note");
    EXPECT_TRUE(note.starts_with(fmt::format("the answer may have {} tokens, not ", room))) << note;
    EXPECT_EQ(reply.json()["llada"]["note"], note);
  }
  const auto stream = post(kPlain, {{"prompt", "Hi"}, {"max_tokens", 256}, {"stream", true}});
  EXPECT_TRUE(stream.header("Llada-Note").contains("not 256")) << stream.head;
  const auto fits = post(kChat, chat_body(kSum, {{"max_tokens", room}}));
  EXPECT_EQ(fits.header("Llada-Note"), "");
  EXPECT_FALSE(fits.json()["llada"].contains("note"));
  // -1 is as long as is needed, as without a number; whoever names the engine's own option means it.
  EXPECT_EQ(post(kChat, chat_body(kSum, {{"max_tokens", -1}})).json()["usage"]["rows"],
            post(kChat, chat_body(kSum)).json()["usage"]["rows"]);
  const json error = refusal(kChat, chat_body(kSum, {{"llada", {{"gen_length", 256}}}}));
  EXPECT_EQ(error["param"], "llada.gen_length");
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_EQ(refusal(kChat, chat_body(kSum, {{"max_tokens", -2}}))["param"], "max_tokens");
  // A preset's length is nobody's wish.
  std::string words;
  while (chat_prompt(words).size() < 150) words += " 12";
  const auto preset = ok(post(kChat, chat_body(words, {{"llada", {{"preset", "exact"}}}})));
  EXPECT_TRUE(
      preset.header("Llada-Note")
          .contains(fmt::format("{} tokens, not 128", tiny_model()->context() - std::ssize(chat_prompt(words)))))
      << preset.head;
  // A gap beside a long text.
  const auto gap = ok(post("/v1/fim/completions", {{"prompt", words}, {"suffix", "."}, {"max_tokens", 500}}));
  EXPECT_EQ(
      gap.json()["usage"]["prompt_tokens"].get<int64_t>() + gap.json()["usage"]["completion_tokens"].get<int64_t>(),
      tiny_model()->context());
  EXPECT_TRUE(gap.header("Llada-Note").contains("not 500")) << gap.head;
}

TEST_F(Clients, PromptsBeyondTheContextAreToldApart) {
  start();
  std::string words;
  for (int i = 0; i < 600; ++i) words += " 12";
  const std::string huge(1'000'000, 'a');
  struct Case {
    std::string path;
    json body;
    std::string param;
  };
  for (const std::string& text : {words, huge}) {
    const std::vector<Case> cases = {
        {kChat, chat_body(text), "messages"},
        {kChat, chat_body(text, {{"max_tokens", 64}}), "messages"},
        {kChat, chat_body(text, {{"stream", true}, {"llada", {{"preset", "exact"}}}}), "messages"},
        {kPlain, {{"prompt", text}}, "prompt"},
        {kPlain, {{"prompt", {"Hi", text}}, {"max_tokens", 4}}, "prompt"},
        {kPlain, {{"prompt", text}, {"suffix", "."}}, "prompt"},
        {kResponses, {{"input", text}}, "input"},
        {kResponses, {{"input", text}, {"truncation", "auto"}}, "input"},
        {"/infill", {{"input_prefix", text}, {"input_suffix", "."}}, "input_prefix"},
        {"/infill", {{"text", text + "<mask:4>"}}, "text"},
    };
    for (const Case& c : cases) {
      const json error = refusal(c.path, c.body);
      EXPECT_EQ(error["code"], "context_length_exceeded") << c.path << error;
      EXPECT_EQ(error["param"], c.param) << c.path << error;
      const std::string message = error["message"];
      EXPECT_TRUE(message.starts_with(c.param + ": ")) << message;
      EXPECT_TRUE(message.contains("this model's maximum context length is 256 tokens")) << message;
      EXPECT_FALSE(message.contains("/")) << "no path of this machine: " << message;
    }
  }
  const json error = refusal(kChat, chat_body(words));
  EXPECT_TRUE(error["message"].get<std::string>().contains(
      fmt::format("the prompt is too long: {} tokens", chat_prompt(words).size())))
      << error;
}

TEST_F(Clients, AnswersHaveTheTimeOfTheirRequest) {
  start();
  const auto now = [] {
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  const int64_t before = now();
  for (const auto& [path, field] : {std::pair{kChat, "created"}, {kPlain, "created"}, {kResponses, "created_at"}}) {
    json body = chat_body("Hi", {{"max_tokens", 4}});
    if (path == kPlain) body = {{"prompt", "Hi"}, {"max_tokens", 4}};
    if (path == kResponses) body = {{"input", "Hi"}, {"max_output_tokens", 4}};
    const int64_t created = post(path, body).json()[field];
    EXPECT_GE(created, before) << path;
    EXPECT_LE(created, now()) << path;
  }
}

TEST_F(Clients, OfMistralFindWhatTheyReadFor) {
  start();
  const json choice =
      ok(post("/v1/fim/completions", {{"prompt", "Liam has "}, {"suffix", " rings."}, {"max_tokens", 4}}))
          .json()["choices"][0];
  EXPECT_EQ(choice["message"]["content"], choice["text"]);
  EXPECT_EQ(choice["message"]["role"], "assistant");
  const json model = get("/v1/models").json()["data"][0];
  EXPECT_EQ(model["type"], "base");
  EXPECT_EQ(model["max_context_length"], 256);
  EXPECT_EQ(model["capabilities"]["function_calling"], true);
}

TEST_F(Clients, GapsHaveSeveralAnswersWithProbabilities) {
  start();
  const json body = {{"prompt", "Liam has "}, {"suffix", " rings."}, {"max_tokens", 4}, {"temperature", 3}};
  json several = body, second = body;
  several.update({{"seed", 5}, {"n", 3}, {"logprobs", 2}});
  second.update({{"seed", 6}});
  const json choices = ok(post(kPlain, several)).json()["choices"];
  ASSERT_EQ(choices.size(), 3u);
  EXPECT_EQ(choices[1]["text"], post(kPlain, second).json()["choices"][0]["text"]);
  std::set<std::string> texts;
  for (const json& choice : choices) {
    texts.insert(choice["text"]);
    const json probs = choice["logprobs"];
    ASSERT_EQ(probs["tokens"].size(), 4u);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(probs["top_logprobs"][i].contains(probs["tokens"][i].get<std::string>())) << probs;
      EXPECT_LE(probs["token_logprobs"][i].get<double>(), 0);
      EXPECT_GE(probs["top_logprobs"][i].size(), 2u);
    }
  }
  EXPECT_GT(texts.size(), 1u);
  // The tokens are those of the gap, not of the text around it.
  json best = body;
  best.erase("temperature");
  best["logprobs"] = 0;
  const json one = post(kPlain, best).json()["choices"][0];
  std::string joined;
  for (const json& token : one["logprobs"]["tokens"]) joined += token.get<std::string>();
  EXPECT_EQ(joined, one["text"]);
}

// Counted in characters, as the text is, though each byte of these is a token.
TEST_F(Clients, OffsetsAreOfCharacters) {
  start();
  const std::string text = "\xC3\xA9\xE6\xBC\xA2 x";  // é漢 x
  const json probs = ok(post(kPlain, {{"prompt", text}, {"echo", true}, {"logprobs", 20}, {"max_tokens", 0}}))
                         .json()["choices"][0]["logprobs"];
  EXPECT_EQ(probs["text_offset"], (json{0, 0, 1, 1, 1, 2, 3})) << probs["tokens"];
  EXPECT_EQ(probs["tokens"],
            (json{"bytes:\\xc3", "bytes:\\xa9", "bytes:\\xe6", "bytes:\\xbc", "bytes:\\xa2", " ", "x"}));
  for (size_t i = 1; i < probs["tokens"].size(); ++i) {
    EXPECT_GE(probs["top_logprobs"][i].size(), 20u) << "alternatives that are parts of characters are told apart";
    EXPECT_LE(probs["top_logprobs"][i].size(), 21u);
    EXPECT_EQ(probs["top_logprobs"][i][probs["tokens"][i].get<std::string>()], probs["token_logprobs"][i]);
  }
}

TEST_F(Clients, SeedsHaveASign) {
  start();
  const auto with = [&](const json& seed) {
    return chat(kSum, {{"max_tokens", 16}, {"temperature", 3}, {"seed", seed}});
  };
  const auto alone = [&](const char* seed) {
    return to_valid_utf8(
        run_alone(chat_prompt(kSum), {{"gen_length", "16"}, {"temperature", "3"}, {"seed", seed}}).text);
  };
  EXPECT_EQ(with(-5), alone("-5"));
  EXPECT_EQ(with(-5), alone("18446744073709551611")) << "two's complement";
  EXPECT_NE(with(-5), with(5));
  EXPECT_EQ(with(5.0), with(5));
  EXPECT_EQ(with(INT64_MIN), alone("9223372036854775808"));
  std::set<std::string> drawn;
  for (int i = 0; i < 5; ++i) drawn.insert(with(-1));
  EXPECT_GT(drawn.size(), 1u) << "-1 is another one each time";
  EXPECT_EQ(refusal(kChat, chat_body("Hi", {{"seed", 0.5}}))["param"], "seed");
}

TEST_F(Clients, WhatCanNeverFitIsNotForAnotherTime) {
  options.admission = {.running = 1, .waiting = 2};
  start();
  for (const auto& [body, param] : {std::pair<json, std::string>{{{"prompt", "Hi"}, {"n", 4}}, "n"},
                                    {{{"prompt", {"a", "b", "c", "d"}}}, "prompt"},
                                    {{{"prompt", {"a", "b"}}, {"n", 2}}, "n"},
                                    {{{"prompt", "Hi"}, {"suffix", "."}, {"n", 4}}, "n"}}) {
    const json error = refusal(kPlain, body);
    EXPECT_EQ(error["param"], param) << error;
    EXPECT_TRUE(error["message"].get<std::string>().contains("needed 3 answers at most")) << error;
  }
  EXPECT_EQ(post(kPlain, {{"prompt", "Hi"}, {"n", 3}, {"max_tokens", 4}}).status, 200);
  // Programs that are made from the description do not ask for more.
  const json description = get("/openapi.json").json();
  const json& schemas = description["components"]["schemas"];
  const json& fim = description["paths"]["/v1/fim/completions"]["post"]["requestBody"]["content"]["application/json"];
  for (const json& properties :
       {schemas["Chat"]["properties"], schemas["Completion"]["properties"], fim["schema"]["properties"]})
    EXPECT_EQ(properties["n"]["maximum"], 3) << properties["n"];
}

TEST_F(Clients, OfOtherProtocolsAreToldWhichIsHere) {
  start();
  for (const auto& [path, says] : {std::pair{"/v1/api/tags", "needed /api/tags"},
                                   {"/v1/v1/messages", "needed /v1/messages"},
                                   {"/v1/messages/batches", "/v1/messages/count_tokens"},
                                   {"/v1/embeddings", "no embeddings"},
                                   {"/v1/v1/chat/completions", "needed /v1/chat/completions"},
                                   {"/v1//completions", "needed /v1/completions"},
                                   {"/v1/chat/completions/models", "needed /v1/models"},
                                   {"/openai/deployments/a/chat/completions", "needed /v1/chat/completions"},
                                   {"/v1/responses/resp_1", "nothing is stored here"},
                                   {"/v1", "needed /v1/chat/completions"},
                                   {"/v1/chat", "needed /v1/chat/completions"},
                                   {"/v1/complete", "needed /v1/completions"},
                                   {"/v1/chat/completion", "needed /v1/chat/completions"},
                                   {"/openai/v1/chat/completion", "needed /v1/chat/completions"},
                                   {"/chat/completion", "needed /v1/chat/completions"},
                                   {"/v1/completion", "needed /v1/completions"},
                                   {"/v1/chat/completion/x", "see /openapi.json"},
                                   {"/api", "of Ollama's routes"},
                                   {"/api/", "of Ollama's routes"},
                                   {"/apis", "see /openapi.json"},
                                   {"/x/api/chat", "needed /api/chat"},
                                   {"/generate", "needed /api/generate"},
                                   {"/tags", "needed /api/tags"},
                                   {"/nothing", "see /openapi.json"}}) {
    const json error = refusal(path, json::object(), 404);
    EXPECT_EQ(error["type"], "not_found_error");
    EXPECT_TRUE(error["message"].get<std::string>().contains(says)) << error;
  }
}

TEST_F(Clients, RoutesMayBeAskedForWithoutTheirVersion) {
  start();
  EXPECT_EQ(get("/models").body, get("/v1/models").body);
  EXPECT_EQ(get("/v1/health").body, get("/health").body);
  const auto asked = chat_body("Hi", {{"max_tokens", 4}});
  const auto with = post("/v1/chat/completions", asked), without = post("/chat/completions", asked);
  EXPECT_EQ(without.status, 200) << without.body;
  EXPECT_EQ(without.json()["choices"], with.json()["choices"]);
  EXPECT_EQ(ask(server->port(), "GET", "/completions").status, 404);
  const json slots = get("/slots").json();
  EXPECT_EQ(slots.size(), static_cast<size_t>(options.admission.running));
  EXPECT_EQ(slots[0], (json{{"id", 0}, {"n_ctx", 256}, {"is_processing", false}}));
}

TEST_F(Clients, BodiesGoOnBehindANul) {
  start();
  const std::string text = chat_body("Hi", {{"max_tokens", 4}}).dump();
  for (const std::string& body : {text + std::string("\0", 1), text + std::string("\0 wish", 6)}) {
    Client client(server->port());
    client.send(http_request("POST", kChat, body));
    const auto reply = client.receive();
    EXPECT_EQ(reply.status, 400) << reply.body;
    EXPECT_TRUE(reply.body.contains("NUL")) << reply.body;
  }
}

}  // namespace
}  // namespace llada::serve
