// Block-causal models (LLaDA2): blocks from position 0, the padded canvas, exact block K/V, and the published
// loops written a second time.
#include "decode/block_causal.h"

#include <gmock/gmock.h>

#include "decode/answer.h"
#include "decode/strategy_pairs.h"

namespace llada::decode {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

struct Ran {
  Canvas canvas;
  RunStats stats;
  std::vector<StepPlan> plans;
  std::vector<std::vector<Edit>> edits;
};

Ran run_blocks(const DecodeOptions& options, const std::vector<int32_t>& prompt, int64_t block, uint64_t seed,
               uint64_t ends = 0) {
  Ran ran;
  ran.canvas = lay_generation(prompt, options.gen_length, ids_of(block));
  auto strategy = make_strategy(options, ids_of(block), ran.canvas);
  if (!strategy) {
    ADD_FAILURE() << strategy.error().message;
    return ran;
  }
  BlockCausalModel model(seed, block, ends);
  const auto stats = denoise(ran.canvas, **strategy, model, [&](const StepEvent& event) {
    ran.edits.emplace_back(event.edits.begin(), event.edits.end());
    return true;
  });
  if (!stats) {
    ADD_FAILURE() << stats.error().message;
    return ran;
  }
  ran.stats = *stats;
  ran.plans = std::move(model.plans);
  return ran;
}

bool same(const Ran& a, const Ran& b) {
  const auto equal = [](const Edit& x, const Edit& y) {
    return x.position == y.position && x.token == y.token && x.state == y.state && x.confidence == y.confidence;
  };
  return a.canvas.tokens == b.canvas.tokens && a.canvas.states == b.canvas.states &&
         std::ranges::equal(a.edits, b.edits,
                            [&](const auto& x, const auto& y) { return std::ranges::equal(x, y, equal); });
}

std::pair<int32_t, int32_t> span_of(const StepPlan& plan) {
  EXPECT_EQ(plan.rows.back() - plan.rows.front() + 1, static_cast<int32_t>(plan.rows.size())) << "one stretch";
  return {plan.rows.front(), plan.rows.back() + 1};
}

TEST(BlockCausal, TheCanvasIsPaddedToWholeBlocks) {
  for (const auto& [prompt, gen, padding] : {std::tuple{3, 6, 3}, std::tuple{3, 5, 0}, std::tuple{0, 1, 3}}) {
    const Canvas canvas = lay_generation(std::vector<int32_t>(static_cast<size_t>(prompt), 1), gen, ids_of(4));
    EXPECT_EQ(canvas.padding, padding);
    EXPECT_EQ(canvas.size(), prompt + gen + padding);
    EXPECT_EQ(canvas.answer_end(), prompt + gen);
    EXPECT_EQ(count_masked(canvas), gen + padding);
  }
  EXPECT_EQ(lay_generation(std::vector<int32_t>(3, 1), 6, test_ids()).padding, 0);
  SpecialIds cut = ids_of(4);
  cut.cuts_last_block = true;  // Stable-DiffCoder
  EXPECT_EQ(lay_generation(std::vector<int32_t>(3, 1), 6, cut).size(), 9);
}

// Prompt [0, 3): its tail shares the block [0, 4) with the first mask. Then [4, 8) and [8, 12), the last
// three of which are padding. One token per step.
TEST(BlockCausal, WorkedExampleOfExactBlockKv) {
  DecodeOptions options = {LengthOptions{.gen_length = 6, .block_length = 4},
                           EndingOptions{.early_stop = EarlyStop::none}, CacheOptions{.kv = KvChoice::block}};
  const std::vector<int32_t> prompt = {1, 2, 3};
  const Ran block = run_blocks(options, prompt, 4, 5);
  std::vector<std::pair<int32_t, int32_t>> spans;
  std::vector<int32_t> keys;
  for (const StepPlan& plan : block.plans) spans.push_back(span_of(plan)), keys.push_back(plan.keys);
  using S = std::pair<int32_t, int32_t>;
  // The first forward of a block also writes the finished block before it; in between only the block itself.
  EXPECT_THAT(spans, ElementsAre(S{0, 4}, S{0, 8}, S{4, 8}, S{4, 8}, S{4, 8}, S{4, 12}, S{8, 12}, S{8, 12}, S{8, 12}));
  EXPECT_THAT(keys, ElementsAre(4, 8, 8, 8, 8, 12, 12, 12, 12)) << "nothing behind the block is read";
  EXPECT_THAT(block.plans[0].logits, ElementsAre(3));
  EXPECT_THAT(block.plans[1].logits, ElementsAre(4, 5, 6, 7));

  options.kv = KvChoice::none;
  const Ran none = run_blocks(options, prompt, 4, 5);
  for (size_t i = 0; i < none.plans.size(); ++i) EXPECT_EQ(span_of(none.plans[i]), S(0, keys[i]));
  EXPECT_TRUE(same(none, block));
}

// Padding is seen as what is asked for is, and nobody waits for it: shorter answers are beginnings of longer ones, and
// take as many forwards as lead to their last token.
TEST(BlockCausal, AnAnswerEndsWithItsLength) {
  const std::vector<int32_t> prompt = {1, 2, 3};
  for (const EarlyStop when : {EarlyStop::block, EarlyStop::answer}) {
    DecodeOptions options = {LengthOptions{.gen_length = 9, .block_length = 4}, EndingOptions{.early_stop = when},
                             CacheOptions{.kv = KvChoice::block}};
    const Ran whole = run_blocks(options, prompt, 4, 5);  // no end token among its answers
    int64_t fewer = 0;
    for (int64_t length = 1; length <= 9; ++length) {
      options.gen_length = length;
      const Ran part = run_blocks(options, prompt, 4, 5);
      const auto end = whole.canvas.tokens.begin() + 3 + length;
      EXPECT_TRUE(std::equal(whole.canvas.tokens.begin(), end, part.canvas.tokens.begin())) << length;
      fewer += std::ssize(part.plans) < (length == 1 ? 1 : length <= 5 ? 5 : 9);
      EXPECT_LE(part.plans.size(), length == 1 ? 1u : length <= 5 ? 5u : 9u) << length;
    }
    EXPECT_GT(fewer, 0) << "a block whose last token comes early";
  }
}

TEST(BlockCausal, TheScriptedModelNoticesStaleKv) {
  const std::vector<int32_t> before = {1, 2, kMask, kMask, kMask, kMask}, after = {1, 5, kMask, kMask, kMask, kMask};
  BlockCausalModel model(3, 2);
  const auto plan = [](int32_t begin, int32_t end, const std::vector<int32_t>& tokens) {
    StepPlan p{.rows = {}, .inputs = {}, .logits = {end - 1}, .keys = end};
    for (int32_t i = begin; i < end; ++i) p.rows.push_back(i), p.inputs.push_back(tokens[static_cast<size_t>(i)]);
    return p;
  };
  const auto probability = [&](const StepPlan& p) { return model.run(p, 0)->predictions[0]; };
  probability(plan(0, 4, before));
  // Only the changed token's row: its neighbour's deep key still knows the old token.
  const Prediction stale = probability({.rows = {1, 2, 3}, .inputs = {5, kMask, kMask}, .logits = {3}, .keys = 4});
  const Prediction exact = probability(plan(0, 4, after));
  const std::vector<int32_t> seen(after.begin(), after.begin() + 4);
  EXPECT_EQ(
      std::tuple(exact.token, exact.probability, exact.entropy),
      std::tuple(model.predict(seen, 3).token, model.predict(seen, 3).probability, model.predict(seen, 3).entropy));
  EXPECT_NE(std::tuple(stale.token, stale.probability, stale.entropy),
            std::tuple(exact.token, exact.probability, exact.entropy));
  // A later block is not seen.
  EXPECT_EQ(model.predict(seen, 1).entropy, model.predict({1, 5, 6, 6}, 1).entropy);
}

// Every combination that is allowed, with sub-blocks, guidance and prompts of every length within a block.
TEST(BlockCausal, EveryPolicyGivesTheSameBits) {
  int ran = 0;
  int64_t rows_none = 0, rows_block = 0;
  for (StrategyPair pair : strategy_pairs(32)) {
    if (!pair.refusal.empty() || pair.options.kv != KvChoice::block) continue;
    if (pair.options.acceptance == Acceptance::causal) continue;   // causal_test.cc
    if (pair.options.revision == Revision::levenshtein) continue;  // levenshtein_test.cc
    for (uint64_t seed = 0; seed < 4; ++seed) {
      DecodeOptions& o = pair.options;
      o.gen_length = 13 + static_cast<int64_t>(seed);
      o.block_length = seed == 3 ? 2 : 4;
      o.threshold = 0.6;
      o.edit_threshold = 0.7;
      o.stable_threshold = 0.85;
      o.mbsd_trigger = 1 + static_cast<int64_t>(seed), o.mbsd_threshold = 0.5;
      o.cfg_scale = seed == 2 ? 1 : 0;
      o.early_stop = seed % 2 ? EarlyStop::answer : EarlyStop::none;
      const std::vector<int32_t> prompt(seed + 3 * (ran % 2 != 0), 1);
      o.kv = KvChoice::block;
      const Ran block = run_blocks(o, prompt, 4, seed, seed % 3);
      o.kv = KvChoice::none;
      const Ran none = run_blocks(o, prompt, 4, seed, seed % 3);
      ASSERT_TRUE(same(none, block)) << name(o.acceptance) << " " << name(o.revision) << " " << seed;
      ASSERT_LE(block.stats.rows, none.stats.rows);
      rows_none += none.stats.rows, rows_block += block.stats.rows;
      ++ran;
    }
  }
  EXPECT_EQ(ran, 4 * 11 * 5) << "eleven rules with no revision and dual-path, with mbsd or not, and edit";
  EXPECT_LT(2 * rows_block, rows_none + 0) << "what is stored is used";
}

// Checks beside the steps read the K/V as a step found it, which is exact whether it is stored or computed anew.
TEST(BlockCausal, ChecksBesideTheStepsGiveTheSameBits) {
  int64_t late = 0, changed = 0;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    DecodeOptions o = {LengthOptions{.gen_length = 18, .block_length = 4}, CacheOptions{.kv = KvChoice::block}};
    o.acceptance = Acceptance::threshold, o.threshold = 0.6;
    o.revision = Revision::dual_path, o.stable_threshold = 0.95;
    o.revise_lateness = static_cast<int64_t>(seed % 4);
    o.early_stop = EarlyStop::none;
    const std::vector<int32_t> prompt(seed % 5, 1);
    const Ran block = run_blocks(o, prompt, 4, seed, 0);
    o.kv = KvChoice::none;
    const Ran none = run_blocks(o, prompt, 4, seed, 0);
    ASSERT_TRUE(same(none, block)) << seed;
    EXPECT_LT(block.stats.rows, none.stats.rows);
    late += block.stats.sparse_forwards;
    changed += block.stats.counters.revisions_changed;
  }
  EXPECT_GT(late, 24);
  EXPECT_GT(changed, 0);
}

// LLaDA2's generate() as published (arXiv 2512.15745; 2.1's joint threshold with edits): no store, no plans,
// the whole window recomputed from its tokens in every step.
std::vector<int32_t> published(const BlockCausalModel& model, std::vector<int32_t> tokens, int64_t gen, int64_t block,
                               double threshold, double edit, int64_t* forwards) {
  const auto prompt = static_cast<int64_t>(tokens.size());
  tokens.resize(static_cast<size_t>((prompt + gen + block - 1) / block * block), kMask);
  *forwards = 0;
  for (int64_t b = prompt / block * block; b < static_cast<int64_t>(tokens.size()); b += block) {
    for (int64_t alone = 0;;) {
      const bool masks = std::count(tokens.begin() + b, tokens.begin() + b + block, kMask) > 0;
      if (!masks && (edit < 0 || alone++ == 16)) break;
      const std::vector<int32_t> window(tokens.begin(), tokens.begin() + b + block);
      std::vector<Prediction> got;
      for (int64_t p = std::max(b, prompt); p < b + block; ++p)
        got.push_back(model.predict(window, static_cast<int32_t>(p)));
      ++*forwards;
      const Prediction* best = nullptr;
      bool changed = false;
      for (const Prediction& p : got) {
        int32_t& token = tokens[static_cast<size_t>(p.position)];
        const int32_t was = window[static_cast<size_t>(p.position)];
        if (was == kMask && (best == nullptr || p.probability > best->probability)) best = &p;
        const bool write =
            was == kMask ? p.probability > threshold : edit >= 0 && p.token != was && p.probability > edit;
        if (write) token = p.token, changed = true;
      }
      if (best != nullptr) tokens[static_cast<size_t>(best->position)] = best->token, changed = true;
      if (!masks && !changed) break;
    }
  }
  return tokens;
}

TEST(BlockCausal, EqualsThePublishedLoops) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const std::vector<int32_t> prompt(seed % 9, 1);
    const bool edits = seed % 2 == 1;
    DecodeOptions o = {
        LengthOptions{.gen_length = 7 + static_cast<int64_t>(seed % 5), .block_length = 4},
        AcceptanceOptions{.acceptance = edits ? Acceptance::threshold : Acceptance::llada2, .threshold = 0.8},
        EndingOptions{.early_stop = EarlyStop::none}, CacheOptions{.kv = KvChoice::block}};
    if (edits) o.revision = Revision::edit, o.edit_threshold = 0.9;
    const Ran ran = run_blocks(o, prompt, 4, seed);
    int64_t forwards = 0;
    EXPECT_EQ(ran.canvas.tokens,
              published(BlockCausalModel(seed, 4), prompt, o.gen_length, 4, 0.8, edits ? 0.9 : -1, &forwards));
    EXPECT_EQ(ran.stats.nfe, forwards) << "writing a finished block's K/V costs no forward";
  }
}

// LLaDA2.0's generate() with fewer steps than a block has positions: each step of a block is due its share of
// the block's length, also in the block that the prompt ends in.
std::vector<int32_t> published_schedule(const BlockCausalModel& model, std::vector<int32_t> tokens, int64_t gen,
                                        int64_t block, int64_t steps, double threshold, int64_t* forwards) {
  const auto prompt = static_cast<int64_t>(tokens.size());
  tokens.resize(static_cast<size_t>((prompt + gen + block - 1) / block * block), kMask);
  *forwards = 0;
  for (int64_t b = prompt / block * block; b < static_cast<int64_t>(tokens.size()); b += block) {
    for (int64_t step = 0; step < steps; ++step) {
      const std::vector<int32_t> window(tokens.begin(), tokens.begin() + b + block);
      std::vector<Prediction> got;
      for (int64_t p = b; p < b + block; ++p)
        if (window[static_cast<size_t>(p)] == kMask) got.push_back(model.predict(window, static_cast<int32_t>(p)));
      if (got.empty()) break;
      ++*forwards;
      std::ranges::stable_sort(got, std::greater<>(), &Prediction::probability);
      const auto due = static_cast<size_t>(block / steps + (step < block % steps));
      const auto sure = static_cast<size_t>(
          std::ranges::count_if(got, [&](const Prediction& p) { return p.probability > threshold; }));
      got.resize(std::min(got.size(), std::max(due, sure)));
      for (const Prediction& p : got) tokens[static_cast<size_t>(p.position)] = p.token;
    }
  }
  return tokens;
}

TEST(BlockCausal, EqualsThePublishedScheduleWithFewerSteps) {
  int64_t shorter = 0;
  for (const int64_t block : {4, 8}) {
    for (int64_t prompt = 0; prompt <= block + 1; ++prompt) {
      for (const int64_t gen : {int64_t{1}, block - 1, block, 2 * block + 3}) {
        for (int64_t steps = 1; steps <= block + 1; ++steps) {
          for (const double threshold : {1.0, 0.7}) {
            SCOPED_TRACE(
                fmt::format("block {} prompt {} gen {} steps {} threshold {}", block, prompt, gen, steps, threshold));
            const std::vector<int32_t> ids(static_cast<size_t>(prompt), 1);
            const int64_t blocks = (prompt + gen + block - 1) / block - prompt / block;
            const DecodeOptions o = {LengthOptions{.gen_length = gen, .block_length = block, .steps = steps * blocks},
                                     AcceptanceOptions{.acceptance = Acceptance::llada2, .threshold = threshold},
                                     EndingOptions{.early_stop = EarlyStop::none}, CacheOptions{.kv = KvChoice::block}};
            const auto seed = static_cast<uint64_t>(7 * prompt + steps);
            const Ran ran = run_blocks(o, ids, block, seed);
            int64_t forwards = 0;
            ASSERT_EQ(ran.canvas.tokens,
                      published_schedule(BlockCausalModel(seed, block), ids, gen, block, steps, threshold, &forwards));
            ASSERT_EQ(ran.stats.nfe, forwards);
            shorter += forwards < steps * blocks;
          }
        }
      }
    }
  }
  EXPECT_GT(shorter, 100) << "blocks that the prompt shares end before their steps do";
}

// Prompt 20, 44 positions, 8 steps for each of the two blocks: 4 positions a step, so 3 + 8.
TEST(BlockCausal, WorkedExampleOfFewerSteps) {
  const DecodeOptions o = {LengthOptions{.gen_length = 44, .block_length = 32, .steps = 16},
                           AcceptanceOptions{.acceptance = Acceptance::llada2, .threshold = 1},
                           EndingOptions{.early_stop = EarlyStop::none}, CacheOptions{.kv = KvChoice::block}};
  EXPECT_EQ(run_blocks(o, std::vector<int32_t>(20, 1), 32, 1).stats.nfe, 11);
}

// An edit-only step that changes nothing has seen the block as it stays: its K/V are clean already.
TEST(BlockCausal, ACleanBlockIsNotComputedAgain) {
  DecodeOptions o = {LengthOptions{.gen_length = 8, .block_length = 4},
                     AcceptanceOptions{.acceptance = Acceptance::threshold},
                     EndingOptions{.early_stop = EarlyStop::none}, CacheOptions{.kv = KvChoice::block},
                     RevisionOptions{.revision = Revision::edit, .edit_threshold = 1}};
  const Ran ran = run_blocks(o, {}, 4, 1);
  bool entered = false;
  for (const StepPlan& plan : ran.plans) {
    if (plan.block_begin != 4) continue;
    EXPECT_EQ(plan.rows.front(), 4);
    entered = true;
  }
  EXPECT_TRUE(entered);
}

TEST(BlockCausal, PaddingIsNoPartOfTheAnswer) {
  DecodeOptions o = {LengthOptions{.gen_length = 5, .block_length = 8}, EndingOptions{.early_stop = EarlyStop::none},
                     CacheOptions{.kv = KvChoice::block}};
  const SpecialIds ids = ids_of(8);
  Ran all = run_blocks(o, {1, 2}, 8, 4);
  EXPECT_EQ(content_tokens(all.canvas, ids), 5);
  EXPECT_EQ(answer_length(all.canvas, 2, ids.end_ids), 5);
  o.early_stop = EarlyStop::answer;
  Ran stopped = run_blocks(o, {1, 2}, 8, 4);
  EXPECT_LE(stopped.stats.steps, all.stats.steps);
  canonical_tail(all.canvas, ids);
  canonical_tail(stopped.canvas, ids);
  EXPECT_EQ(canvas_hash(all.canvas), canvas_hash(stopped.canvas));
  EXPECT_EQ(all.canvas.tokens.back(), kEos);
  // No end token of the model's own to fill with: padding stays.
  SpecialIds bare = ids;
  bare.eos = -1;
  Canvas masked = stopped.canvas;
  masked.tokens.back() = 3;
  EXPECT_TRUE(canonical_tail(masked, bare).empty());
}

TEST(BlockCausal, StopsOnceAllButPaddingIsFinal) {
  DecodeOptions o = {LengthOptions{.gen_length = 4, .block_length = 4}, CacheOptions{.kv = KvChoice::block}};
  int64_t saved = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    o.early_stop = EarlyStop::answer;
    const Ran early = run_blocks(o, {1, 2}, 4, seed);
    o.early_stop = EarlyStop::none;
    const Ran all = run_blocks(o, {1, 2}, 4, seed);
    EXPECT_TRUE(std::equal(all.canvas.tokens.begin(), all.canvas.tokens.begin() + 6, early.canvas.tokens.begin()));
    saved += all.stats.steps - early.stats.steps;
  }
  EXPECT_GT(saved, 0);
}

// What is called exact is what any run over these tokens would hold, it only grows, and a run that starts with it
// decides the same with fewer rows.
TEST(BlockCausal, AnExactPrefixSavesRowsAndNothingElse) {
  struct Way {
    Revision revision = Revision::none;
    KvChoice kv = KvChoice::block;
    bool mbsd = false;
  };
  for (const auto& [revision, kv, mbsd] :
       {Way{}, Way{Revision::dual_path}, Way{Revision::edit}, Way{Revision::none, KvChoice::frozen}, Way{.mbsd = true},
        Way{.revision = Revision::dual_path, .mbsd = true}, Way{.kv = KvChoice::frozen, .mbsd = true}}) {
    int64_t answered = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      DecodeOptions o = {LengthOptions{.gen_length = 22, .block_length = 4}, CacheOptions{.kv = kv}};
      o.acceptance = Acceptance::threshold, o.threshold = 0.6, o.revision = revision, o.mbsd = mbsd;
      const std::vector<int32_t> prompt = {1, 2, 3, 4, 5, 6, 1, 2, 3, 4};
      SCOPED_TRACE(fmt::format("{} {} seed {}", name(revision), name(kv), seed));
      const auto run = [&](const BlockCausalModel::Keys& given) {
        Canvas canvas = lay_generation(prompt, o.gen_length, ids_of(4));
        auto strategy = *make_strategy(o, ids_of(4), canvas);
        Denoiser denoiser(std::move(canvas), std::move(strategy));
        BlockCausalModel model(seed, 4, 1);
        model.give(given);
        denoiser.stored(static_cast<int64_t>(given.size()));
        for (int64_t before = 0; !denoiser.done();) {
          auto result = model.run(denoiser.plan()->get(), denoiser.forward_number());
          EXPECT_TRUE(result && denoiser.take(std::move(*result)));
          const int64_t exact = denoiser.exact_prefix();
          EXPECT_GE(exact, std::max<int64_t>(before, 8)) << "the prompt's whole blocks at least";
          before = exact;
          EXPECT_EQ(exact % 4, 0);
          // What a revision may still change is final only when it says so.
          EXPECT_EQ(model.keys(exact), model.exact_keys(denoiser.canvas().tokens, exact));
        }
        return std::tuple(denoiser.canvas().tokens, denoiser.stats(), model.keys(denoiser.exact_prefix()));
      };
      auto [tokens, stats, keys] = run({});
      answered += static_cast<int64_t>(keys.size()) - 8;
      keys.resize(8);
      const auto [again, less, more] = run(keys);
      EXPECT_EQ(again, tokens);
      EXPECT_EQ(less.rows, stats.rows - 8);
      RunStats rest = less;
      rest.rows = stats.rows, rest.full_forwards = stats.full_forwards;
      EXPECT_EQ(rest, stats);
    }
    EXPECT_GT(answered, 20 * 4) << "of the answer as well";
  }
}

TEST(BlockCausal, FullAttentionHasNoExactPrefix) {
  Canvas canvas = lay_generation(std::vector<int32_t>(8, 1), 8, test_ids());
  auto strategy = *make_strategy(
      {LengthOptions{.gen_length = 8, .block_length = 4}, CacheOptions{.kv = KvChoice::block}}, test_ids(), canvas);
  Denoiser denoiser(std::move(canvas), std::move(strategy));
  ScriptRunner runner(random_script(1, 0));
  while (!denoiser.done()) {
    ASSERT_TRUE(denoiser.take(*runner.run(*denoiser.plan(), denoiser.forward_number())));
    EXPECT_EQ(denoiser.exact_prefix(), 0);
  }
}

TEST(BlockCausal, RefusesWhatHasNoMeaningThere) {
  const auto refusal = [](auto set, bool infill = false) {
    DecodeOptions o;
    set(o);
    const Status status = validate(o, infill, 32);
    EXPECT_FALSE(status);
    EXPECT_TRUE(validate(o, infill)) << "a model with full attention takes it";
    if (status) return std::string();
    EXPECT_EQ(status.error().kind, ErrorKind::invalid_input);
    EXPECT_THAT(status.error().message, HasSubstr("needed"));
    return status.error().message;
  };
  for (const KvChoice kv : {KvChoice::prefix, KvChoice::dual})
    EXPECT_THAT(refusal([&](auto& o) { o.kv = kv; }), StartsWith("kv: found " + std::string(name(kv))));
  EXPECT_THAT(refusal([](auto& o) { o.kv = KvChoice::block, o.refresh_after = 4; }), StartsWith("refresh_after:"));
  EXPECT_THAT(refusal([](auto& o) { o.tail = 16; }), StartsWith("tail:"));
  EXPECT_THAT(refusal([](auto& o) { o.mbsd = true, o.revision = Revision::edit; }), StartsWith("mbsd: found revision"));
  EXPECT_THAT(refusal([](auto& o) { o.block_length = 64; }),
              StartsWith("block_length: found 64 with a block-causal model of blocks of 32; needed 32"));
  EXPECT_THAT(refusal([](auto& o) { o.block_length = 12; }), StartsWith("block_length: found 12"));
  EXPECT_THAT(refusal([](auto&) {}, true), StartsWith("infill:"));
  EXPECT_THAT(refusal([](auto& o) { o.kv = KvChoice::frozen, o.revision = Revision::edit; }), StartsWith("revision:"));
  EXPECT_TRUE(validate({LengthOptions{.block_length = 8}, CacheOptions{.kv = KvChoice::block}}, false, 32));
  EXPECT_TRUE(validate({LengthOptions{.block_length = 8}, CacheOptions{.kv = KvChoice::frozen}}, false, 32));
}

}  // namespace
}  // namespace llada::decode
