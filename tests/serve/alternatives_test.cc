// Log-probabilities of an answer's tokens and of those that might have stood in their place, against forwards of the
// same canvases on their own.
#include <algorithm>
#include <cmath>

#include "engine/request_memory.h"
#include "serve/fixture.h"
#include "text/utf8.h"

namespace llada::serve {
namespace {

using nlohmann::json;

class Alternatives : public ServeTest {
 protected:
  void SetUp() override { start(); }
};

// log softmax of the logits that decided each token of an answer: by position in the answer.
std::vector<std::vector<double>> deciding_rows(const std::vector<int32_t>& prompt, int64_t length) {
  struct Step {
    std::vector<int32_t> before;
    std::vector<int32_t> decided;
  };
  std::vector<Step> steps;
  DecodeChoice choice;
  choice.give_preset("exact");
  choice.give(decode::setting("gen_length", std::to_string(length)).value());
  if (!choice.resolve()) throw std::runtime_error("options");
  const auto session = open_session(tiny_model());
  const auto run = session->run(prepare(*tiny_model(), {.tokens = prompt, .options = choice.options}).value(),
                                [&](const decode::StepEvent& event) {
                                  Step step{event.canvas.tokens, {}};
                                  for (const decode::Edit& edit : event.edits) {
                                    step.decided.push_back(edit.position);
                                    step.before[static_cast<size_t>(edit.position)] = tiny_model()->special_ids().mask;
                                  }
                                  steps.push_back(std::move(step));
                                  return true;
                                });
  if (!run) throw std::runtime_error(run.error().message);
  std::vector<std::vector<double>> rows(static_cast<size_t>(length));
  for (const Step& step : steps)
    for (const int32_t position : step.decided) {
      const auto logits = session->logits(step.before, {{position}}).value();
      double sum = 0;
      for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
      auto& row = rows.at(static_cast<size_t>(position) - prompt.size());
      row.clear();
      for (const float logit : logits) row.push_back(logit - std::log(sum));
    }
  return rows;
}

std::vector<int32_t> best(const std::vector<double>& row, size_t count) {
  std::vector<int32_t> ids(row.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  std::ranges::stable_sort(
      ids, [&](int32_t a, int32_t b) { return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)]; });
  ids.resize(count);
  return ids;
}

TEST_F(Alternatives, AreThoseOfTheForwardThatDecided) {
  const auto prompt = chat_prompt(kSum);
  const auto rows = deciding_rows(prompt, 32);
  json body = {{"max_tokens", 32}, {"llada", {{"preset", "exact"}}}};
  const std::string without = post_chat(kSum, body).json()["choices"][0]["message"]["content"];
  body.update({{"logprobs", true}, {"top_logprobs", 5}});
  const json choice = ok(post_chat(kSum, body)).json()["choices"][0];
  EXPECT_EQ(choice["message"]["content"], without);
  const json content = choice["logprobs"]["content"];
  ASSERT_GT(content.size(), 3u);
  int unsure = 0;
  for (size_t i = 0; i < content.size(); ++i) {
    ASSERT_EQ(content[i]["top_logprobs"].size(), 5u);
    const auto ids = best(rows[i], 5);
    for (size_t a = 0; a < 5; ++a) {
      const json& found = content[i]["top_logprobs"][a];
      EXPECT_EQ(found["token"], to_valid_utf8(tiny_model()->tokenizer().decode({&ids[a], 1}, true))) << i << " " << a;
      EXPECT_NEAR(found["logprob"].get<double>(), rows[i][static_cast<size_t>(ids[a])], 1e-3) << i << " " << a;
    }
    EXPECT_EQ(content[i]["token"], content[i]["top_logprobs"][0]["token"]) << "nothing is sampled";
    EXPECT_EQ(content[i]["logprob"], content[i]["top_logprobs"][0]["logprob"]);
    unsure += content[i]["logprob"] < -0.01;
  }
  EXPECT_GT(unsure, 0) << "of a model that is sure of everything a test would say nothing";
}

TEST_F(Alternatives, OfCompletionsNameTheTokenToo) {
  int others = 0;
  for (int seed = 0; seed < 4; ++seed) {
    json body = {{"prompt", chat_prompt(kSum)}, {"max_tokens", 16}, {"temperature", 2}, {"seed", seed}};
    const std::string without = post("/v1/completions", body).json()["choices"][0]["text"];
    body["logprobs"] = 3;
    const json choice = ok(post("/v1/completions", body)).json()["choices"][0];
    EXPECT_EQ(choice["text"], without);
    const json probs = choice["logprobs"];
    EXPECT_EQ(probs["tokens"].size(), probs["top_logprobs"].size());
    for (size_t i = 0; i < probs["tokens"].size(); ++i) {
      const json& top = probs["top_logprobs"][i];
      ASSERT_TRUE(top.contains(probs["tokens"][i].get<std::string>())) << top;
      EXPECT_GE(top.size(), 2u);
      EXPECT_LE(top.size(), 4u);
      others += top.size() == 4;
      double sum = 0;
      for (const auto& [text, value] : top.items()) sum += std::exp(value.get<double>());
      EXPECT_LE(sum, 1 + 1e-6) << top;
    }
  }
  EXPECT_GT(others, 0) << "a sampled token is not always among the best three";
}

// A canvas of blocks with K/V that is reused, revised tokens and guidance: numbers for each token all the same.
TEST_F(Alternatives, OfEveryWayToDecode) {
  for (const char* text : {R"({"kv": "dual", "block_length": 16})", R"({"preset": "exact", "revision": "edit"})",
                           R"({"cfg_scale": 1})", R"({"threshold": 0.3, "stable_threshold": 1})",
                           R"({"threshold": 0.3, "stable_threshold": 1, "kv": "dual", "revise_lateness": 0})"}) {
    const json way = json::parse(text);
    const auto reply =
        ok(post_chat(kSum, {{"max_tokens", 32}, {"logprobs", true}, {"top_logprobs", 2}, {"llada", way}}));
    std::string joined;
    const json choice = reply.json()["choices"][0];
    for (const json& entry : choice["logprobs"]["content"]) {
      joined += entry["token"].get<std::string>();
      EXPECT_LE(entry["logprob"].get<double>(), 0);
      EXPECT_EQ(entry["top_logprobs"].size(), 2u) << entry;
    }
    EXPECT_EQ(joined, choice["message"]["content"]) << way;
  }
}

TEST_F(Alternatives, TakeRoomThatIsCounted) {
  Request request{.tokens = chat_prompt("Hi"), .options = {decode::LengthOptions{.gen_length = 64}}};
  const auto bytes = [&] { return prepare(*tiny_model(), request).value()->bytes.computed; };
  const double without = bytes();
  request.alternatives = 1;
  const double with = bytes();
  EXPECT_GT(with - without,
            static_cast<double>(request.options.block_length * tiny_model()->config().vocab) * sizeof(float));
  // What is looked at again has logits too.
  request.options.acceptance = decode::Acceptance::threshold;
  request.options.revision = decode::Revision::dual_path;
  request.options.revise_rows = 8;
  EXPECT_EQ(bytes() - with, 8.0 * tiny_model()->config().vocab * sizeof(float));
}

// A token that a trial has put there has the numbers of that trial.
TEST_F(Alternatives, OfATokenThatRevisionChanged) {
  const auto model = tiny_model();
  const auto session = *Session::create(model, {.threads = 1, .trace = nullptr});
  Request request{.tokens = chat_prompt("Once upon a time"),
                  .options = {decode::LengthOptions{.gen_length = 32, .block_length = 16}}};
  request.alternatives = 3;
  request.options.acceptance = decode::Acceptance::threshold;
  request.options.threshold = 0.1;
  request.options.revision = decode::Revision::dual_path;
  request.options.stable_threshold = 1;
  for (const int64_t lateness : {decode::kFused, int64_t{0}}) {
    request.options.revise_lateness = lateness;
    if (lateness != decode::kFused) request.options.kv = decode::KvChoice::dual;
    const auto g = must(session->run(prepare(*tiny_model(), request).value(), {}));
    ASSERT_GT(g->stats.decode.counters.revisions_changed, 0);
    for (const TokenScore& score : g->scores) {
      ASSERT_EQ(score.top.size(), 3u);
      EXPECT_LT(score.log_probability, 0);
    }
  }
}

}  // namespace
}  // namespace llada::serve
