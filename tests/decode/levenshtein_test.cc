// LLaDA2.2's editing against goldens of a loop in Python (tools/upstream/levenshtein.py, which SGLang's class agrees
// with), over a model that is a hash; and what holds for any run.
#include "decode/levenshtein.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "decode/canvas.h"
#include "decode/denoiser.h"
#include "decode/sampling.h"
#include "decode/settings.h"
#include "must.h"

namespace llada::decode::hashed {  // its mask is another than that of the scripts
namespace {

using testing::HasSubstr;

constexpr int64_t kBlock = 8;
constexpr int32_t kText = 18, kMask = 18, kDelete = 19, kSplit = 20, kVocabulary = 21;

// As in tools/upstream/levenshtein.py.
uint64_t mixed(std::initializer_list<int64_t> values) {
  uint64_t h = 0x9E3779B97F4A7C15;
  for (const int64_t v : values) {
    h = (h ^ static_cast<uint64_t>(v)) * 0xBF58476D1CE4E5B9;
    h ^= h >> 27;
  }
  return h;
}

std::vector<float> logits_of(int64_t seed, std::span<const int32_t> block, size_t i) {
  const int64_t left = i > 0 ? block[i - 1] : -1, right = i + 1 < block.size() ? block[i + 1] : -1;
  const uint64_t h = mixed({seed, static_cast<int64_t>(i), left, block[i], right});
  const auto of = [&](int64_t v) { return static_cast<float>(mixed({static_cast<int64_t>(h), v}) % 4096); };
  std::vector<float> row;
  for (int32_t v = 0; v < kVocabulary; ++v) row.push_back(of(v) / 4096);
  auto best = static_cast<int32_t>((h >> 8) % kVocabulary);
  if (best == kMask || (block[i] != kMask && (h >> 20) % 8 < 4))
    best = block[i] != kMask ? block[i] : static_cast<int32_t>((h >> 30) % kText);
  row[static_cast<size_t>(best)] += 1 + of(99) / 1024;
  row[kMask] = -1e9f;
  return row;
}

SpecialIds ids() {
  SpecialIds ids{.mask = kMask, .attention_block = kBlock, .vocab = kVocabulary};
  ids.delete_id = kDelete, ids.split_id = kSplit;
  return ids;
}

DecodeOptions options(double threshold, double edit, int64_t post, int64_t gen) {
  DecodeOptions o;
  o.gen_length = gen, o.block_length = kBlock;
  o.acceptance = Acceptance::threshold, o.threshold = threshold;
  o.revision = Revision::levenshtein, o.edit_threshold = edit, o.edit_steps = post;
  o.early_stop = EarlyStop::none;
  o.kv = KvChoice::block;
  return o;
}

// What a forward of the hash brings: each block sees itself alone.
StepResult answer(const StepPlan& plan, const Canvas& canvas, int64_t seed, const SamplingRule& rule) {
  StepResult result;
  std::vector<float> all;
  for (const int32_t row : plan.logits) {
    const auto block = std::span(canvas.tokens).subspan(static_cast<size_t>(row / kBlock * kBlock), kBlock);
    const auto logits = logits_of(seed, block, static_cast<size_t>(row % kBlock));
    result.predictions.push_back(predict(logits, {}, rule, {}, {0, row}));
    all.insert(all.end(), logits.begin(), logits.end());
  }
  result.ranked = rank_tokens(all, plan.logits.size(), plan.ranked, rule);
  return result;
}

using Watch = std::function<bool(const Canvas& before, const StepEvent&)>;

// The canvas at the end, and the steps.
std::pair<Canvas, int64_t> decoded(int64_t seed, const std::vector<int32_t>& prompt, const DecodeOptions& o,
                                   const Watch& watch = {}) {
  const Canvas canvas = lay_generation(prompt, o.gen_length, ids());
  auto strategy = must(make_strategy(o, ids(), canvas));
  Denoiser denoiser(canvas, std::move(*strategy));
  while (!denoiser.done()) {
    const auto plan = must(denoiser.plan());
    const Canvas before = denoiser.canvas();
    const auto event = must(denoiser.take(answer(plan->get(), before, seed, head_rule(o, ids()))));
    if (watch && !watch(before, *event)) denoiser.cancel();
  }
  return {denoiser.canvas(), denoiser.stats().steps};
}

TEST(Levenshtein, EqualsThePublishedLoop) {
  std::ifstream file(LLADA_SOURCE_DIR "/tests/data/levenshtein.json");
  const auto golden = nlohmann::json::parse(file);
  int64_t moves = 0;
  for (const auto& c : golden.at("cases")) {
    const auto prompt = c[1].get<std::vector<int32_t>>();
    const DecodeOptions o = options(c[2], c[3], c[4], kBlock - std::ssize(prompt));
    const auto [canvas, steps] = decoded(c[0], prompt, o, [&](const Canvas&, const StepEvent& event) {
      moves += std::ranges::any_of(event.edits, [](const Edit& e) { return e.from >= 0; });
      return true;
    });
    EXPECT_EQ(canvas.tokens, c[5].get<std::vector<int32_t>>()) << "seed " << c[0];
    EXPECT_EQ(steps, c[6].get<int64_t>()) << "seed " << c[0];
  }
  EXPECT_GT(moves, 50);
}

// Of any run over several blocks: ids and positions fit each other after every step, and nothing but the block moves.
TEST(Levenshtein, EveryStepLeavesACanvasThatIsConsistent) {
  for (int64_t seed = 1000; seed < 1060; ++seed) {
    const std::vector<int32_t> prompt = {1, 2, kDelete, 4, kSplit, 6, 7, 8, 9, 10};  // text, whatever its ids mean
    const DecodeOptions o = options(0.5, 0, 1 + seed % 6, 20);
    const auto [canvas, steps] = decoded(seed, prompt, o, [&](const Canvas& before, const StepEvent& event) {
      EXPECT_TRUE(std::ranges::equal(prompt, std::span(event.canvas.tokens).first(prompt.size())));
      for (size_t p = prompt.size(); p < event.canvas.tokens.size(); ++p) {
        const int32_t token = event.canvas.tokens[p];
        EXPECT_TRUE(token < kDelete);
        EXPECT_EQ(token == kMask, event.canvas.states[p] == TokenState::masked);
        const bool inside = static_cast<int64_t>(p) >= event.block_begin && static_cast<int64_t>(p) < event.block_end;
        EXPECT_TRUE(inside || token == before.tokens[p]) << p;
      }
      int32_t last = -1;
      for (const Edit& edit : event.edits) {
        if (edit.from < 0) continue;
        // Moved tokens keep their order, and are those that stood there or were predicted there in this step.
        EXPECT_GT(edit.from, last);
        last = edit.from;
        EXPECT_GE(edit.from, event.block_begin);
        EXPECT_LT(edit.from, event.block_end);
        const auto row = std::ranges::find(event.predictions, edit.from, &Prediction::position);
        if (row == event.predictions.end()) return false;
        const auto each = static_cast<size_t>(event.plan.ranked);
        const auto known =
            std::span(event.result.ranked).subspan(static_cast<size_t>(row - event.predictions.begin()) * each, each);
        EXPECT_TRUE(edit.token == before.tokens[static_cast<size_t>(edit.from)] ||
                    std::ranges::count(known, edit.token) == 1);
      }
      // Every row whose token has moved is computed again: the block's are, in every step.
      for (int64_t p = event.block_begin; p < event.block_end; ++p)
        EXPECT_TRUE(std::ranges::binary_search(event.plan.rows, static_cast<int32_t>(p)));
      return true;
    });
    EXPECT_EQ(count_masked(canvas), 0) << seed;
    EXPECT_LE(steps, 3 * (kBlock + 1 + seed % 6 + 1));
  }
}

TEST(Levenshtein, ACancelledRunLeavesAValidCanvas) {
  for (int64_t stop = 0; stop < 12; ++stop) {
    int64_t step = 0;
    const auto [canvas, steps] =
        decoded(7, {1, 2, 3}, options(0.5, 0, 4, 21), [&](const Canvas&, const StepEvent&) { return step++ < stop; });
    for (size_t p = 0; p < canvas.tokens.size(); ++p) {
      EXPECT_LT(canvas.tokens[p], kDelete);
      EXPECT_EQ(canvas.tokens[p] == kMask, canvas.states[p] == TokenState::masked);
    }
  }
}

TEST(Levenshtein, OtherWaysNeverPredictAnEdit) {
  DecodeOptions o = options(0.5, 0, 4, 8);
  EXPECT_THAT(head_rule(o, ids()).never_sampled, testing::ElementsAre(kMask));
  o.revision = Revision::edit;
  EXPECT_THAT(head_rule(o, ids()).never_sampled, testing::ElementsAre(kMask, kDelete, kSplit));
}

TEST(Levenshtein, RankedTokensAreTheBestThatMayBeSampled) {
  const std::vector<float> logits = {1, 5, 5, 0, 7, 2, /**/ 3, 3, 3, 3, 9, 3};
  const SamplingRule rule{.never_sampled = {4}};
  EXPECT_THAT(rank_tokens(logits, 2, 3, rule), testing::ElementsAre(1, 2, 5, 0, 1, 2));
  EXPECT_THAT(rank_tokens(logits, 2, 6, rule), testing::ElementsAre(1, 2, 5, 0, 3, -1, 0, 1, 2, 3, 5, -1));
  EXPECT_THAT(rank_tokens(logits, 2, 0, rule), testing::IsEmpty());
}

TEST(Levenshtein, WhatDoesNotGoWithItIsOneLine) {
  ModelKind kind(kBlock);
  const auto refusal = [&](auto change) {
    DecodeOptions o = options(0.5, 0, 4, 8);
    change(o);
    return why_not(validate(o, false, kind));
  };
  EXPECT_EQ(refusal([](auto&) {}), "");
  kind.moves_text = false;
  EXPECT_THAT(refusal([](auto&) {}), HasSubstr("revision: found levenshtein with a model that has no tokens for"));
  kind.moves_text = true;
  EXPECT_THAT(refusal([](auto& o) { o.temperature = 0.5; }), HasSubstr("temperature: found 0.5"));
  EXPECT_THAT(refusal([](auto& o) { o.json_object = true; }), HasSubstr("revision levenshtein"));
  EXPECT_THAT(refusal([](auto& o) { o.acceptance = Acceptance::llada2; }), HasSubstr("needed accept threshold"));
  EXPECT_THAT(refusal([](auto& o) { o.tools = "[]"; }), HasSubstr("tools: found revision levenshtein, which takes"));
  EXPECT_THAT(refusal([](auto& o) { o.logit_bias = {{3, 1.0}}; }), HasSubstr("logit_bias: found revision levenshtein"));
  kind.whole_blocks = true;
  EXPECT_EQ(refusal([](auto&) {}), "");
  EXPECT_THAT(refusal([](auto& o) { o.revision = Revision::none, o.kv = KvChoice::frozen; }),
              HasSubstr("needed none or block"));
  EXPECT_THAT(refusal([](auto& o) { o.revision = Revision::dual_path; }), HasSubstr("no row is computed alone"));
}

TEST(Levenshtein, ReadsTheOptionsOfEditing) {
  using Given = std::vector<std::pair<const char*, const char*>>;
  const auto settings_of = [](const Given& given) {
    std::vector<Setting> settings;
    for (const auto& [key, text] : given) settings.push_back(*setting(key, text));
    return settings;
  };
  const auto asked = [&](const Given& given, const Given& preset = {}) {
    return decode_options(settings_of(given), {.name = "p", .settings = settings_of(preset)}, {});
  };
  // Whichever comes first.
  for (const Given& given : {Given{{"revision", "levenshtein"}, {"edit_threshold", "0"}, {"edit_steps", "3"}},
                             Given{{"edit_threshold", "0"}, {"edit_steps", "3"}, {"revision", "levenshtein"}}}) {
    const auto options = must(asked(given));
    EXPECT_EQ(options->revision, Revision::levenshtein);
    EXPECT_EQ(options->edit_threshold, 0);
    EXPECT_EQ(options->edit_steps, 3);
  }
  const Given preset = {{"revision", "levenshtein"}, {"threshold", "0.5"}, {"edit_threshold", "0"}};
  EXPECT_EQ(asked({{"edit_threshold", "0.4"}}, preset)->revision, Revision::levenshtein);
  EXPECT_EQ(asked({{"edit_threshold", "0.4"}}, preset)->edit_threshold, 0.4);
  EXPECT_EQ(asked({{"revision", "edit"}}, preset)->revision, Revision::edit);
  EXPECT_EQ(asked({{"edit_steps", "2"}})->revision, Revision::edit);
  EXPECT_THAT(asked({{"revision", "dual-path"}, {"edit_threshold", "0"}}).error().message,
              HasSubstr("already chose dual-path revision"));
}

// LLaDA2.1's penalty, as SGLang has it: off the logit of the token on the left in the block, before the softmax.
TEST(NeighbourPenalty, IsOffTheLogitOfTheTokenOnTheLeft) {
  DecodeOptions o;
  o.neighbour_penalty = 2;
  SpecialIds of_blocks{.mask = 3, .attention_block = 4, .vocab = 4};
  Canvas canvas = lay_generation(std::vector<int32_t>{0, 1, 2, 0, 1}, 3, of_blocks);
  const std::vector<float> row = {1, 2, 0.5f, -5};
  const auto predicted = [&](int32_t position) {
    StepResult result;
    result.predictions = {{.position = position}};
    const Status status = predict_all(row, {}, o, head_rule(o, of_blocks), of_blocks, canvas, canvas, 0, result);
    EXPECT_TRUE(status);
    return result.predictions[0];
  };
  const auto softmax = [](std::vector<double> logits, size_t token) {
    double sum = 0;
    for (const double x : logits) sum += std::exp(x);
    return std::exp(logits[token]) / sum;
  };
  EXPECT_EQ(predicted(4).token, 1) << "the first of its block";
  EXPECT_NEAR(predicted(4).probability, softmax({1, 2, 0.5, -5}, 1), 1e-12);
  EXPECT_EQ(predicted(5).token, 0) << "1 stands on the left";
  EXPECT_NEAR(predicted(5).probability, softmax({1, 0, 0.5, -5}, 0), 1e-12);
  EXPECT_EQ(predicted(6).token, 1) << "a mask stands on the left, and is in the softmax";
  EXPECT_NEAR(predicted(6).probability, softmax({1, 2, 0.5, -7}, 1), 1e-12);
}

}  // namespace
}  // namespace llada::decode::hashed
