// dLLM's block diffusion: whole answers of Qwen3's class and of a loop that gives what its published sampler does
// (tools/upstream/bd3lm.py), over prompts that fill no whole number of blocks.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/class_goldens.h"
#include "engine/token_score.h"

namespace llada::bd3lm {
namespace {

using decode::Acceptance;
using nlohmann::json;

const std::string kMade = LLADA_SOURCE_DIR "/tests/data/bd3lm/";

const json& answers() {
  static const json all = json::parse(std::ifstream(kMade + "golden.json"));
  return all["answers"];
}

class Bd3lm : public testing::Test {
 protected:
  void SetUp() override { model_ = *must(Model::load(path_, {.threads = 2})); }
  Generation generate(const json& answer, const decode::DecodeOptions& o) const {
    return upstream::generate(model_, answer, o);
  }

  const upstream::Converted converted_{kMade + "tiny-bd3lm", "bd3lm"};
  const std::string& path_ = converted_.path;
  std::shared_ptr<const Model> model_;
};

decode::DecodeOptions by_schedule(const json& answer, decode::KvChoice kv) {
  decode::DecodeOptions o;
  o.gen_length = answer["length"], o.block_length = 32;
  const int64_t blocks = (o.gen_length + 31) / 32, steps = answer["steps"];
  o.steps = steps < 32 ? steps * blocks : 0;
  o.kv = kv, o.early_stop = decode::EarlyStop::block;
  return o;
}

TEST_F(Bd3lm, AnswersAreThoseOfItsSampler) {
  for (const json& answer : answers())
    for (const auto kv : {decode::KvChoice::block, decode::KvChoice::none}) {
      const Generation got = generate(answer, by_schedule(answer, kv));
      const std::string what = fmt::format("a prompt of {}", answer["prompt"].size());
      upstream::expect_answer(answer, got, what);
      EXPECT_EQ(got.stats.decode.nfe, answer["forwards"].get<int64_t>()) << what;
    }
}

// A prompt of whole blocks is tiled as one that is counted from its beginning.
TEST_F(Bd3lm, BlocksAreCountedFromTheEndOfThePrompt) {
  const decode::SpecialIds& ids = model_->special_ids();
  EXPECT_TRUE(ids.prompt_ends_block);
  EXPECT_EQ(ids.behind(64).block_origin, 0);
  const decode::SpecialIds behind = ids.behind(45);
  EXPECT_EQ(behind.block_origin, 13);
  EXPECT_EQ(behind.block_end(12), 13);
  EXPECT_EQ(behind.block_begin(44), 13);
  EXPECT_EQ(behind.block_end(45), 77);
  EXPECT_EQ(ids.prefix_unit(), 0) << "what stands before the answer says where the blocks begin";
}

// Revision, a rule without a schedule and drafts know the same blocks: what is stored is what would be computed.
TEST_F(Bd3lm, WhatIsKeptIsWhatWouldBeComputed) {
  for (const json& answer : answers())
    for (const bool revises : {false, true})
      for (const Acceptance rule : {Acceptance::threshold, Acceptance::causal}) {
        if (revises && rule == Acceptance::causal) continue;
        decode::DecodeOptions o = by_schedule(answer, decode::KvChoice::block);
        o.steps = 0, o.acceptance = rule, o.threshold = 0.3;
        if (revises) o.revision = decode::Revision::dual_path;
        const Generation kept = generate(answer, o);
        o.kv = decode::KvChoice::none;
        const Generation all = generate(answer, o);
        EXPECT_EQ(kept.tokens, all.tokens);
        EXPECT_EQ(kept.stats.decode.nfe, all.stats.decode.nfe);
        EXPECT_LT(kept.stats.decode.rows, all.stats.decode.rows);
      }
}

// The text of drafts that are verified causally is that of blocks of one token.
TEST_F(Bd3lm, DraftsThatAreVerifiedChangeNoToken) {
  const auto single = must(Model::load(path_, {.threads = 2, .overrides = {.attention_block = 1}}));
  for (const json& answer : answers()) {
    decode::DecodeOptions o = by_schedule(answer, decode::KvChoice::block);
    o.steps = 0, o.acceptance = Acceptance::causal;
    const Generation verified = generate(answer, o);
    o.acceptance = Acceptance::threshold, o.block_length = 1;
    const auto one =
        must((*Session::create(*single, {}))->generate(answer["prompt"].get<std::vector<int32_t>>(), o, {}));
    EXPECT_EQ(verified.tokens, one->tokens);
  }
}

std::vector<int32_t> some_tokens(size_t length, size_t from = 0) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < length; ++i) tokens.push_back(static_cast<int32_t>(3 + (i + from) * 7 % 80));
  return tokens;
}

// Each token by a forward of its own over the whole canvas: what is kept changes rows, and no bit.
TEST_F(Bd3lm, AChainIsTheProductOfItsForwards) {
  const auto session = Session::create(model_, {});
  const std::vector<int32_t> text = some_tokens(20, 5);
  for (const size_t length : {45, 64}) {
    const std::vector<int32_t> prompt = some_tokens(length);
    const auto got = must((*session)->score({prompt, {text, some_tokens(20, 6)}, {.method = ScoreMethod::chain}}));
    for (size_t i = 0; i < text.size(); ++i) {
      std::vector<int32_t> canvas = prompt;
      canvas.insert(canvas.end(), text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i));
      canvas.resize(length + 32, 90);
      const std::vector<int32_t> row = {static_cast<int32_t>(length + i)};
      EXPECT_EQ(got->continuations[0].tokens[i].log_probability,
                log_probability(*(*session)->logits(canvas, row, std::ssize(prompt)), text[i]));
    }
    // All of the first canvas, then its last block; the canvas with masks alone is that of both texts.
    EXPECT_EQ(got->rows, static_cast<int64_t>(length) + 32 + 38 * 32) << length;
  }
}

// A text that goes on in the next block is the same behind a prompt that ends with its first one.
TEST_F(Bd3lm, AScoreDoesNotKnowWhatWasKept) {
  const auto session = Session::create(model_, {});
  for (const ScoreMethod method : {ScoreMethod::chain, ScoreMethod::pseudo, ScoreMethod::duel}) {
    const std::vector<int32_t> prompt = some_tokens(45), text = some_tokens(40, 5);
    ScoreRequest request{prompt, {text}, {.method = method, .groups = 40}};
    request.options.order.kv = decode::KvChoice::block;
    const auto whole = must((*session)->score(request));
    request.prompt.insert(request.prompt.end(), text.begin(), text.begin() + 32);
    request.continuations = {{text.begin() + 32, text.end()}};
    const auto rest = must((*session)->score(request));
    for (size_t i = 0; i < 8; ++i)
      EXPECT_EQ(whole->continuations[0].tokens[32 + i].log_probability,
                rest->continuations[0].tokens[i].log_probability)
          << method_name(method) << " " << i;
  }
}

}  // namespace
}  // namespace llada::bd3lm
