// WeDLM: logits and whole answers of Qwen2's and Qwen3's classes over rows in the order in which they were decided, and
// of a loop that gives what its published engine does (tools/upstream/wedlm.py).
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/class_goldens.h"
#include "engine/token_score.h"
#include "kernels/kernels.h"
#include "memory/prefix_cache.h"

namespace llada::wedlm {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using upstream::Converted, upstream::expect_answer, upstream::expect_logits, upstream::generate;

const std::string kMade = LLADA_SOURCE_DIR "/tests/data/wedlm/";
constexpr const char* kKinds[] = {"qwen3", "qwen2"};

const json& golden(const std::string& kind) {
  static const json all = json::parse(std::ifstream(kMade + "golden.json"));
  return all["models"][kind];
}

// Made once.
const std::string& converted(const std::string& kind) {
  static const Converted qwen3(kMade + "qwen3", "wedlm_qwen3"), qwen2(kMade + "qwen2", "wedlm_qwen2");
  return kind == "qwen3" ? qwen3.path : qwen2.path;
}

std::shared_ptr<const Model> load(const std::string& kind, LoadOptions options = {}) {
  options.threads = 2;
  return *must(Model::load(converted(kind), options));
}

decode::DecodeOptions published(const json& answer, decode::KvChoice kv = decode::KvChoice::block) {
  decode::DecodeOptions o;
  o.gen_length = answer["length"], o.block_length = answer["window"];
  o.acceptance = decode::Acceptance::wedlm, o.entropy_bound = answer["bound"];
  o.kv = kv;
  return o;
}

void expect_published(const std::shared_ptr<const Model>& model, const std::string& kind, const std::string& what) {
  expect_logits(model, golden(kind)["logits"], what);
  for (const json& answer : golden(kind)["answers"]) {
    const Generation got = generate(model, answer, published(answer));
    expect_answer(answer, got, what);
    EXPECT_EQ(got.stats.decode.nfe, answer["forwards"].get<int64_t>()) << what;
  }
}

// labels: native
TEST(Wedlm, LogitsAndAnswersAreThoseOfItsClassAndLoop) {
  for (const std::string kind : kKinds)
    for (const auto* table : kernels::available())
      expect_published(load(kind, {.isa = std::string(table->isa)}), kind, fmt::format("{}, {}", kind, table->isa));
}

TEST(Wedlm, FoldersAndFilesSayTheSame) {
  for (const std::string kind : kKinds)
    for (const std::string& path : {kMade + kind, converted(kind)}) {
      const auto file = must(ModelFile::open(path));
      EXPECT_TRUE(file->config().decided_first);
      EXPECT_EQ(file->config().attention_block, 16);
      EXPECT_EQ(file->config().mask_id, 90);
      EXPECT_EQ(file->config().qk_norm, kind == "qwen3");
      EXPECT_EQ(file->config().qkv_bias, kind == "qwen2");
    }
}

TEST(Wedlm, WhatIsKeptIsWhatWouldBeComputed) {
  const auto model = load("qwen3");
  for (const json& answer : golden("qwen3")["answers"]) {
    const Generation kept = generate(model, answer, published(answer));
    const Generation all = generate(model, answer, published(answer, decode::KvChoice::none));
    EXPECT_EQ(kept.stats.canvas_hash, all.stats.canvas_hash);
    EXPECT_EQ(kept.stats.decode.nfe, all.stats.decode.nfe);
    EXPECT_LE(kept.stats.decode.rows, all.stats.decode.rows);
  }
}

// One window of one position is an autoregressive model that reads a mask, whatever the rule.
TEST(Wedlm, WindowsOfOneDecideOneTokenAfterTheOther) {
  const auto model = load("qwen3");
  json answer = golden("qwen3")["answers"][1];
  answer["window"] = 1;
  const Generation got = generate(model, answer, published(answer));
  const auto session = Session::create(model, {});
  auto text = answer["prompt"].get<std::vector<int32_t>>();
  const int32_t mask = model->special_ids().mask;
  for (const int32_t token : got.tokens) {
    text.push_back(mask);
    auto row = *(*session)->logits(text, std::vector{static_cast<int32_t>(text.size() - 1)});
    row[static_cast<size_t>(mask)] = -INFINITY;
    text.back() = static_cast<int32_t>(std::ranges::max_element(row) - row.begin());
    ASSERT_EQ(text.back(), token);
    if (token == model->special_ids().eos) break;
  }
}

TEST(Wedlm, KeptPrefixesChangeNothing) {
  const auto model = load("qwen3");
  const auto session = must(Session::create(model, {.prefixes = std::make_shared<PrefixCache>(int64_t{1} << 24)}));
  json asked = golden("qwen3")["answers"][2];
  int64_t reused = 0;
  for (int repeat = 0; repeat < 2; ++repeat) {
    const auto shared = must((*session)->generate(asked["prompt"].get<std::vector<int32_t>>(), published(asked), {}));
    EXPECT_EQ(shared->tokens, generate(model, asked, published(asked)).tokens);
    reused += shared->stats.reused_positions;
  }
  EXPECT_EQ(reused, 64) << "whole pages of a prompt of 70";
}

ScoreRequest scored(std::vector<int32_t> prompt, std::vector<std::vector<int32_t>> texts, ScoreMethod method) {
  return {std::move(prompt), std::move(texts), {.method = method, .draws = 24, .groups = 2}};
}

std::vector<double> token_logs(const ContinuationScore& score) {
  std::vector<double> logs;
  for (const TokenScore& token : score.tokens) logs.push_back(token.log_probability);
  return logs;
}

const std::vector<int32_t> kText = {17, 5, 61, 44, 8, 30, 12, 90, 71, 23, 9, 52, 33, 28, 64, 19, 40, 3, 7, 66};

std::vector<int32_t> prompt_with_a_mask(size_t length) {
  std::vector<int32_t> prompt;
  for (size_t i = 0; i < length; ++i) prompt.push_back(static_cast<int32_t>(3 + i * 7 % 80));
  prompt[length / 2] = 90;
  return prompt;
}

// Each token by a forward of its own over the whole canvas. A mask id of the text is text.
TEST(Wedlm, AChainIsTheProductOfItsForwards) {
  const auto model = load("qwen3");
  const auto session = Session::create(model, {});
  std::vector<int32_t> text = kText;
  text.erase(std::ranges::find(text, 90));
  const auto prompt = prompt_with_a_mask(41);
  const auto got = must((*session)->score(scored(prompt, {text}, ScoreMethod::chain)));
  const auto logs = token_logs(got->continuations[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    std::vector<int32_t> canvas = prompt;
    canvas.insert(canvas.end(), text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i));
    canvas.resize(prompt.size() + i / 16 * 16 + 16, 90);
    const std::vector<int32_t> row = {static_cast<int32_t>(prompt.size() + i)};
    EXPECT_EQ(logs[i], log_probability(*(*session)->logits(canvas, row, std::ssize(prompt)), text[i])) << i;
  }
  // 57 rows, then those behind 32 of the 41 that are known: up to the block's end, and that of the next one, of which
  // 64 tokens of what is before would be needed for more.
  EXPECT_EQ(got->rows, 57 + 15 * (57 - 32) + 3 * (73 - 32));
}

TEST(Wedlm, WhatDecodingWritesIsGreedy) {
  const auto model = load("qwen3");
  const auto session = Session::create(model, {});
  for (const size_t length : {5, 24, 40}) {
    json answer = golden("qwen3")["answers"][1];
    answer["window"] = 1, answer["length"] = 12, answer["prompt"] = prompt_with_a_mask(length);
    std::vector<int32_t> text = generate(model, answer, published(answer)).tokens;
    const auto got = must((*session)->score(scored(answer["prompt"], {text}, ScoreMethod::chain)));
    EXPECT_EQ(got->continuations[0].greedy, true) << length;
  }
}

TEST(Wedlm, AScoreDoesNotKnowItsCompany) {
  const auto model = load("qwen3");
  const auto session = Session::create(model, {});
  std::vector<int32_t> other = kText;
  other[3] = 11, other.resize(18);
  for (const ScoreMethod method :
       {ScoreMethod::chain, ScoreMethod::pseudo, ScoreMethod::monte_carlo, ScoreMethod::duel}) {
    auto request = scored(prompt_with_a_mask(70), {kText, other}, method);
    request.options.order.block_length = 16, request.options.order.acceptance = decode::Acceptance::wedlm;
    const auto together = must((*session)->score(request));
    int64_t rows = 0, forwards = 0;
    for (size_t c = 0; c < 2; ++c) {
      ScoreRequest one = request;
      one.continuations = {request.continuations[c]};
      const auto alone = must((*session)->score(one));
      EXPECT_EQ(token_logs(together->continuations[c]), token_logs(alone->continuations[0])) << method_name(method);
      EXPECT_EQ(together->continuations[c].greedy, alone->continuations[0].greedy);
      rows += alone->rows, forwards += alone->forwards;
    }
    EXPECT_LE(together->forwards, forwards);
    if (method == ScoreMethod::duel)
      EXPECT_EQ(together->rows, rows);
    else
      EXPECT_LT(together->rows, rows) << method_name(method) << ": the prompt is known to the second text";
  }
}

// Windows are shorter at the end of the context, up to which an answer may go.
TEST(Wedlm, AnswersReachTheEndOfTheContext) {
  const auto model = load("qwen3", {.context = 40});
  json answer = golden("qwen3")["answers"][1];
  answer["window"] = 16, answer["length"] = 10;
  const auto whole = generate(load("qwen3"), answer, published(answer));
  EXPECT_EQ(generate(model, answer, published(answer)).tokens.size(), whole.tokens.size());
  answer["length"] = 11;
  const auto refused =
      (*Session::create(model, {}))->generate(answer["prompt"].get<std::vector<int32_t>>(), published(answer), {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("gen_length: 11 and 30 tokens of prompt need 41 positions"));
  EXPECT_THAT(refused.error().message, HasSubstr("needed 10 at most"));
}

TEST(Wedlm, RefusesWhatItsWindowCannotDo) {
  const auto model = load("qwen3");
  json asked = golden("qwen3")["answers"][0];
  decode::DecodeOptions o = published(asked);
  o.neighbour_penalty = 1;
  EXPECT_THAT(why_not((*Session::create(model, {}))->generate(std::vector<int32_t>{5, 6}, o, {})),
              HasSubstr("neighbour_penalty: found 1 with a model that reads finished text"));
}

}  // namespace
}  // namespace llada::wedlm
