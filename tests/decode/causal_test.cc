// Blocks behind causal text, and drafts that are verified causally, over a scripted model that notices stale keys:
// equal to the loops written a second time, whose every forward computes everything.
#include <gmock/gmock.h>

#include "decode/answer.h"
#include "decode/block_causal.h"
#include "decode/options.h"
#include "must.h"

namespace llada::decode::causal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

enum class Kind { causal_text, block_causal, shifted };

SpecialIds ids_of(Kind kind, int64_t block) {
  SpecialIds ids = test_ids();
  ids.attention_block = block;
  ids.causal_text = kind == Kind::causal_text;
  ids.shift_logits = kind == Kind::shifted;
  return ids;
}

constexpr int64_t kAll = 1 << 20;  // of a model that sees all: causal_below is all that narrows it

BlockCausalModel model_of(Kind kind, int64_t block, uint64_t seed, uint64_t ends, uint64_t steady) {
  BlockCausalModel model(seed, kind == Kind::causal_text ? kAll : block, ends, steady);
  model.causal_says_next = kind == Kind::causal_text;
  return model;
}

struct Ran {
  std::vector<int32_t> tokens;
  RunStats stats;
  std::vector<StepPlan> plans;
};

Ran run(const DecodeOptions& options, const SpecialIds& ids, BlockCausalModel model,
        const std::vector<int32_t>& prompt) {
  Canvas canvas = lay_generation(prompt, options.gen_length, ids);
  auto strategy = make_strategy(options, ids, canvas);
  if (!strategy) {
    ADD_FAILURE() << strategy.error().message;
    return {};
  }
  const int64_t bound = (*strategy)->step_bound();
  const auto stats = denoise(canvas, **strategy, model, {});
  if (!stats) {
    ADD_FAILURE() << stats.error().message;
    return {};
  }
  EXPECT_LE(stats->steps, bound);
  const int64_t exact = (*strategy)->exact_prefix(canvas);
  EXPECT_EQ(model.keys(exact), model.exact_keys(canvas.tokens, exact, static_cast<int32_t>(canvas.size())));
  return {canvas.tokens, *stats, std::move(model.plans)};
}

// One token after the other, each from all before it.
std::vector<int32_t> one_by_one(const BlockCausalModel& model, Kind kind, std::vector<int32_t> tokens, int64_t size) {
  while (std::ssize(tokens) < size) {
    const auto n = static_cast<int32_t>(tokens.size());
    if (kind == Kind::block_causal) {
      tokens.push_back(kMask);
      tokens.back() = model.predict(tokens, n, n + 1).token;
    } else {
      tokens.push_back(model.predict(tokens, n - 1, n).token);
    }
  }
  return tokens;
}

DecodeOptions verifying(int64_t gen, int64_t block) {
  return {LengthOptions{.gen_length = gen, .block_length = block}, AcceptanceOptions{.acceptance = Acceptance::causal},
          EndingOptions{.early_stop = EarlyStop::none}, CacheOptions{.kv = KvChoice::block}};
}

TEST(SelfSpeculation, TheTextIsThatOfOneTokenAfterTheOther) {
  int64_t accepted = 0, proposed = 0, forwards = 0, tokens = 0;
  for (const Kind kind : {Kind::causal_text, Kind::block_causal, Kind::shifted})
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const int64_t block = std::vector{4, 8, 1}[seed % 3], own = seed % 2 ? block : std::max<int64_t>(block / 2, 1);
      const std::vector<int32_t> prompt(1 + seed % 9, 2);
      const uint64_t steady = seed % 4 * 30;
      const BlockCausalModel model = model_of(kind, block, seed, 0, steady);
      DecodeOptions o = verifying(11, own);
      const SpecialIds ids = ids_of(kind, block);
      const Ran ran = run(o, ids, model, prompt);
      ASSERT_EQ(ran.tokens, one_by_one(model, kind, prompt, std::ssize(ran.tokens)))
          << static_cast<int>(kind) << " seed " << seed;
      o.kv = KvChoice::none;
      const Ran none = run(o, ids, model, prompt);
      ASSERT_EQ(none.tokens, ran.tokens);
      EXPECT_EQ(none.stats.nfe, ran.stats.nfe);
      if (steady < 90 || block == 1) continue;
      accepted += ran.stats.counters.drafts_accepted, proposed += ran.stats.counters.drafts_proposed;
      forwards += ran.stats.nfe, tokens += ran.stats.committed;
    }
  EXPECT_GT(accepted, proposed / 4) << "drafts of a steady model are good for something";
  EXPECT_LT(accepted, proposed) << "and not always right";
  EXPECT_LT(forwards, tokens);
}

TEST(SelfSpeculation, EndsWithTheEndTokenOfTheSameText) {
  int ended = 0;
  for (const Kind kind : {Kind::causal_text, Kind::block_causal})
    for (uint64_t seed = 0; seed < 30; ++seed) {
      const std::vector<int32_t> prompt(1 + seed % 5, 2);
      const BlockCausalModel model = model_of(kind, 4, seed, 1, 60);
      DecodeOptions o = verifying(24, 4);
      o.early_stop = EarlyStop::answer;
      Canvas canvas = lay_generation(prompt, o.gen_length, ids_of(kind, 4));
      const std::vector<int32_t> all = one_by_one(model, kind, prompt, canvas.size());
      auto strategy = make_strategy(o, ids_of(kind, 4), canvas);
      BlockCausalModel own = model;
      ASSERT_TRUE(denoise(canvas, **strategy, own, {}));
      const auto is_end = [](int32_t t) { return t == kEos || t == kEot; };
      const auto end = std::find_if(all.begin() + std::ssize(prompt), all.end(), is_end);
      const auto length = std::min<int64_t>(end - all.begin() + 1, canvas.answer_end());
      ended += end != all.end();
      EXPECT_TRUE(std::equal(all.begin(), all.begin() + length, canvas.tokens.begin()));
      EXPECT_EQ(count_masked(canvas) > 0, canvas.tokens.back() == kMask);
      EXPECT_TRUE(count_masked(canvas) == 0 || end != all.end() || canvas.padding > 0);
    }
  EXPECT_GT(ended, 20);
}

// A prompt of 3; blocks of 4 that begin with the last token. Nothing of what was final is computed again.
TEST(SelfSpeculation, WorkedExampleOfRowsBehindCausalText) {
  const Ran ran =
      run(verifying(4, 4), ids_of(Kind::causal_text, 4), model_of(Kind::causal_text, 4, 1, 0, 100), {1, 2, 3});
  ASSERT_EQ(ran.plans.size(), 3u) << "a steady model's drafts are right";
  EXPECT_THAT(ran.plans[0].rows, ElementsAre(0, 1, 2));
  EXPECT_THAT(ran.plans[0].logits, ElementsAre(2));
  EXPECT_THAT(ran.plans[1].rows, ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(ran.plans[1].logits, ElementsAre(4, 5, 6)) << "the first is known";
  EXPECT_EQ(ran.plans[1].causal_below, 3);
  EXPECT_THAT(ran.plans[2].rows, ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(ran.plans[2].logits, ElementsAre(3, 4, 5)) << "the canvas ends behind the last";
  EXPECT_EQ(ran.plans[2].causal_below, 7);
}

TEST(SelfSpeculation, IsRefusedWhereItMakesNoSense) {
  const auto refused = [](const DecodeOptions& o, const SpecialIds& ids, int64_t prompt = 3) {
    const Canvas canvas = lay_generation(std::vector<int32_t>(static_cast<size_t>(prompt), 1), 8, ids);
    return why_not(make_strategy(o, ids, canvas));
  };
  DecodeOptions o = verifying(8, 4);
  EXPECT_THAT(refused(o, test_ids()), HasSubstr("accept: found causal with full attention"));
  EXPECT_THAT(refused(o, ids_of(Kind::causal_text, 4), 0), HasSubstr("without a prompt"));
  EXPECT_EQ(refused(o, ids_of(Kind::block_causal, 4), 0), "");
  o.revision = Revision::edit;
  EXPECT_THAT(refused(o, ids_of(Kind::block_causal, 4)), HasSubstr("revision: found edit with accept causal, which"));
  o = verifying(8, 4);
  o.tools = "[]";
  EXPECT_THAT(refused(o, ids_of(Kind::block_causal, 4)), HasSubstr("tools: found accept causal, which keeps"));
  o = verifying(8, 4);
  o.neighbour_penalty = 1;
  EXPECT_THAT(refused(o, ids_of(Kind::block_causal, 4)), HasSubstr("neighbour_penalty: found 1 with accept causal,"));
  o = verifying(8, 4);
  o.kv = KvChoice::frozen;
  EXPECT_THAT(refused(o, ids_of(Kind::block_causal, 4)), HasSubstr("kv: found frozen with accept causal, whose"));
}

// ---- Blocks

// As the published loop goes, and with everything computed in every forward.
std::vector<int32_t> in_blocks(const BlockCausalModel& model, std::vector<int32_t> tokens, int64_t blocks,
                               int64_t block, double threshold, int64_t* forwards) {
  *forwards = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    const auto begin = static_cast<int32_t>(tokens.size());
    if (begin > 0) tokens.push_back(model.predict(tokens, begin - 1, begin).token), ++*forwards;
    tokens.resize(static_cast<size_t>(begin + block), kMask);
    while (std::ranges::count(tokens, kMask) > 0) {
      const std::vector<int32_t> seen = tokens;
      const Prediction* best = nullptr;
      std::vector<Prediction> got;
      for (int32_t p = begin; p < begin + block; ++p)
        if (seen[static_cast<size_t>(p)] == kMask) got.push_back(model.predict(seen, p, begin));
      for (const Prediction& p : got) {
        if (best == nullptr || p.probability > best->probability) best = &p;
        if (p.probability >= threshold) tokens[static_cast<size_t>(p.position)] = p.token;
      }
      tokens[static_cast<size_t>(best->position)] = best->token;
      ++*forwards;
    }
  }
  return tokens;
}

TEST(CausalText, EqualsThePublishedLoop) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const int64_t block = std::vector{4, 6, 1}[seed % 3];
    const std::vector<int32_t> prompt(seed % 9, 1);
    const BlockCausalModel model = model_of(Kind::causal_text, block, seed, 0, 0);
    DecodeOptions o = {LengthOptions{.gen_length = 3 * block, .block_length = block},
                       AcceptanceOptions{.acceptance = Acceptance::threshold, .threshold = 0.8},
                       EndingOptions{.early_stop = EarlyStop::none}, CacheOptions{.kv = KvChoice::block}};
    const SpecialIds ids = ids_of(Kind::causal_text, block);
    const Ran ran = run(o, ids, model, prompt);
    int64_t forwards = 0;
    ASSERT_EQ(ran.tokens, in_blocks(model, prompt, 3, block, 0.8, &forwards)) << "seed " << seed;
    EXPECT_EQ(ran.stats.nfe, forwards);
    EXPECT_LE(ran.stats.rows, std::ssize(prompt) + forwards * block) << "nothing final is computed again";
    o.kv = KvChoice::none;
    const Ran none = run(o, ids, model, prompt);
    EXPECT_EQ(none.tokens, ran.tokens);
    EXPECT_EQ(none.stats.nfe, forwards);
  }
}

TEST(CausalText, KeptKeysOfThePromptChangeNothing) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const SpecialIds ids = ids_of(Kind::causal_text, 4);
    const std::vector<int32_t> prompt(8, 3);
    DecodeOptions o = {LengthOptions{.gen_length = 8, .block_length = 4}, EndingOptions{.early_stop = EarlyStop::none},
                       CacheOptions{.kv = KvChoice::block}};
    for (const Acceptance rule : {Acceptance::threshold, Acceptance::causal}) {
      o.acceptance = rule;
      const BlockCausalModel model = model_of(Kind::causal_text, 4, seed, 0, 50);
      const Ran whole = run(o, ids, model, prompt);
      BlockCausalModel kept = model;
      kept.give(model.exact_keys(whole.tokens, 8, 100));
      Canvas canvas = lay_generation(prompt, 8, ids);
      auto strategy = make_strategy(o, ids, canvas);
      (*strategy)->stored(canvas, 8);
      ASSERT_TRUE(denoise(canvas, **strategy, kept, {}));
      EXPECT_EQ(canvas.tokens, whole.tokens);
      EXPECT_THAT(kept.plans[0].rows, ElementsAre(7)) << "the row that says the first token";
    }
  }
}

TEST(CausalText, RefusesWhatLooksAtFinishedTextAgain) {
  const ModelKind kind(4, {}, true);
  DecodeOptions o = {LengthOptions{.gen_length = 8, .block_length = 4}};
  EXPECT_TRUE(validate(o, false, kind));
  o.revision = Revision::dual_path;
  EXPECT_THAT(validate(o, false, kind).error().message, HasSubstr("revision: found dual-path with a model that reads"));
  o.revision = Revision::none, o.neighbour_penalty = 1;
  EXPECT_THAT(validate(o, false, kind).error().message,
              HasSubstr("neighbour_penalty: found 1 with a model that reads"));
  o.neighbour_penalty = 0, o.kv = KvChoice::frozen;
  EXPECT_THAT(validate(o, false, kind).error().message, HasSubstr("kv: found frozen with a model that reads"));
}

// ---- Fast-dLLM v2: a block's first token off the row before it, then sub-blocks.

std::vector<int32_t> in_sub_blocks(const BlockCausalModel& model, std::vector<int32_t> tokens, int64_t size,
                                   int64_t block, int64_t own, double threshold, int64_t* forwards) {
  *forwards = 0;
  while (std::ssize(tokens) < size) {
    const auto given = static_cast<int64_t>(tokens.size());
    const int64_t begin = given / block * block;
    tokens.resize(static_cast<size_t>(begin + block), kMask);
    if (given == begin && begin > 0) {
      tokens[static_cast<size_t>(given)] = model.predict(tokens, static_cast<int32_t>(given - 1)).token;
      ++*forwards;
    }
    for (int64_t sub = begin; sub < begin + block; sub += own)
      for (;;) {
        const std::vector<int32_t> seen = tokens;
        double most = -1;
        for (int64_t p = sub; p < sub + own; ++p)
          if (seen[static_cast<size_t>(p)] == kMask)
            most = std::max(most, model.predict(seen, static_cast<int32_t>(std::max<int64_t>(p - 1, 0))).probability);
        if (most < 0) break;
        bool best = false;
        for (int64_t p = sub; p < sub + own; ++p) {
          if (seen[static_cast<size_t>(p)] != kMask) continue;
          const Prediction got = model.predict(seen, static_cast<int32_t>(std::max<int64_t>(p - 1, 0)));
          const bool first = !best && got.probability == most;
          best |= first;
          if (got.probability > threshold || first) tokens[static_cast<size_t>(p)] = got.token;
        }
        ++*forwards;
      }
  }
  return tokens;
}

TEST(SubBlocks, EqualThePublishedLoop) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const int64_t block = 8, own = seed % 2 ? 4 : 2;
    const std::vector<int32_t> prompt(seed % 18, 1);
    const BlockCausalModel model = model_of(Kind::shifted, block, seed, 0, 0);
    const DecodeOptions o = {LengthOptions{.gen_length = 13, .block_length = own},
                             AcceptanceOptions{.acceptance = Acceptance::llada2, .threshold = 0.8},
                             EndingOptions{.early_stop = EarlyStop::none}, CacheOptions{.kv = KvChoice::block}};
    const SpecialIds ids = ids_of(Kind::shifted, block);
    Canvas canvas = lay_generation(prompt, o.gen_length, ids);
    auto strategy = make_strategy(o, ids, canvas);
    BlockCausalModel runs = model;
    const auto stats = must(denoise(canvas, **strategy, runs, {}));
    int64_t forwards = 0;
    ASSERT_EQ(canvas.tokens, in_sub_blocks(model, prompt, canvas.size(), block, own, 0.8, &forwards)) << seed;
    EXPECT_EQ(stats->nfe, forwards);
  }
}

// Whose first step in a block takes one token where the schedule has more.
TEST(SubBlocks, EndWithinTheirBoundWhateverTheSteps) {
  for (const int64_t own : {2, 4, 8})
    for (const int64_t prompt : {1, 8, 13})
      for (int64_t steps = 24 / own; steps <= 24; ++steps) {
        const DecodeOptions o = {LengthOptions{.gen_length = 16, .block_length = own, .steps = steps},
                                 AcceptanceOptions{.acceptance = Acceptance::llada2, .threshold = 1},
                                 EndingOptions{.early_stop = EarlyStop::none}, CacheOptions{.kv = KvChoice::block}};
        const std::vector<int32_t> text(static_cast<size_t>(prompt), 1);
        const SpecialIds ids = ids_of(Kind::shifted, 8);
        Canvas canvas = lay_generation(text, o.gen_length, ids);
        auto strategy = must(make_strategy(o, ids, canvas));
        BlockCausalModel model = model_of(Kind::shifted, 8, 1, 0, 0);
        const auto stats = must(denoise(canvas, **strategy, model, {}));
        EXPECT_EQ(count_masked(canvas), 0) << own << " " << prompt << " " << steps;
      }
}

}  // namespace
}  // namespace llada::decode::causal
