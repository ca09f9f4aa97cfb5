// Properties over many random scripts and options, and a second, plain implementation of the reference to
// compare with.
#include <gmock/gmock.h>

#include <limits>

#include "decode/answer.h"
#include "decode/options.h"
#include "decode/random_options.h"
#include "decode/script.h"

namespace llada::decode {
namespace {

std::vector<int32_t> random_prompt(Rng& rng, int64_t longest) {
  std::vector<int32_t> prompt(static_cast<size_t>(between(rng, 0, longest)));
  for (int32_t& token : prompt) token = static_cast<int32_t>(between(rng, 0, 9));  // end tokens and mask ids too
  return prompt;
}

Canvas random_infill(Rng& rng) {
  std::vector<int32_t> text = random_prompt(rng, 60), gaps;
  text.push_back(0);
  for (size_t p = 0; p < text.size(); ++p) {
    if (rng() % 3 == 0) gaps.push_back(static_cast<int32_t>(p));
  }
  if (gaps.empty()) gaps.push_back(0);
  return *lay_infill(text, gaps, test_ids());
}

// The generation loop as its published definition says it, over the whole canvas, with no plan and no states.
std::vector<std::vector<std::pair<int32_t, int32_t>>> reference(std::vector<int32_t> canvas, int64_t gen, int64_t block,
                                                                int64_t steps, double threshold, Script script) {
  const auto prompt = static_cast<int64_t>(canvas.size());
  canvas.resize(canvas.size() + static_cast<size_t>(gen), kMask);
  std::vector<std::vector<std::pair<int32_t, int32_t>>> trace;
  for (int64_t lo = prompt; lo < prompt + gen; lo += block) {
    const int64_t per_block = steps / (gen / block);
    for (int64_t it = 0;; ++it) {
      StepPlan seen;
      for (size_t p = 0; p < canvas.size(); ++p) seen.rows.push_back(static_cast<int32_t>(p));
      seen.inputs = canvas;
      std::vector<std::pair<double, Prediction>> order;
      for (int64_t p = lo; p < lo + block; ++p) {
        if (canvas[static_cast<size_t>(p)] != kMask) continue;
        const Prediction got = script(seen, static_cast<int64_t>(trace.size()), static_cast<int32_t>(p));
        order.emplace_back(-got.probability, got);
      }
      if (order.empty()) break;
      std::ranges::sort(order, {}, [](const auto& e) { return std::pair(e.first, e.second.position); });
      size_t k = threshold > 0 ? 1 : static_cast<size_t>(block / per_block + (it < block % per_block));
      std::vector<std::pair<int32_t, int32_t>> chosen;
      for (size_t i = 0; i < order.size(); ++i) {
        const Prediction& p = order[i].second;
        if (i < k || (threshold > 0 && p.probability >= threshold)) chosen.emplace_back(p.position, p.token);
      }
      std::ranges::sort(chosen);
      for (const auto& [position, token] : chosen) canvas[static_cast<size_t>(position)] = token;
      trace.push_back(chosen);
    }
  }
  return trace;
}

TEST(Property, EqualsTheReferenceWhereItIsDefined) {
  Rng rng(1);
  for (int round = 0; round < 600; ++round) {
    const int64_t block = between(rng, 1, 12), blocks = between(rng, 1, 5);
    DecodeOptions options = {LengthOptions{.gen_length = block * blocks, .block_length = block},
                             EndingOptions{.early_stop = EarlyStop::none}};
    std::vector<int32_t> prompt(static_cast<size_t>(between(rng, 0, 6)), 1);
    double threshold = 0;
    int64_t steps = options.gen_length;
    if (round % 2) {
      options.acceptance = Acceptance::threshold;
      options.threshold = threshold = static_cast<double>(between(rng, 1, 20)) / 20;  // equal to some probabilities
    } else if (rng() % 4) {
      options.steps = steps = blocks * between(rng, 1, block + 2);
    }
    const uint64_t seed = rng();
    ASSERT_EQ(run_script(options, prompt, random_script(seed)).trace,
              reference(prompt, options.gen_length, block, steps, threshold, random_script(seed)))
        << "gen " << options.gen_length << " block " << block << " steps " << steps << " threshold " << threshold;
  }
}

// Sets one option to something nobody should pass.
void spoil(DecodeOptions& o, Rng& rng) {
  const std::vector<int64_t> integers = {0, -1, std::numeric_limits<int64_t>::min(),
                                         std::numeric_limits<int64_t>::max(), int64_t{1} << 32};
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> reals = {0, -1, inf, -inf, std::numeric_limits<double>::quiet_NaN(), 1e308};
  const int64_t integer = integers[rng() % integers.size()];
  const double real = reals[rng() % reals.size()];
  switch (rng() % 18) {
    case 0:
      o.gen_length = integer;
      break;
    case 1:
      o.block_length = integer;
      break;
    case 2:
      o.steps = integer;
      break;
    case 3:
      o.threshold = real;
      break;
    case 4:
      o.factor = real;
      break;
    case 5:
      o.entropy_bound = real;
      break;
    case 6:
      o.temperature = real;
      break;
    case 7:
      o.cfg_scale = real;
      break;
    case 8:
      o.refresh_after = integer;
      break;
    case 9:
      o.acceptance = static_cast<Acceptance>(rng() % 12);
      break;
    case 10:
      o.mbsd_trigger = integer;
      break;
    case 11:
      o.revise_rows = integer;
      break;
    case 12:
      o.stable_threshold = real;
      break;
    case 13:
      o.latency_table = {{integer, real}, {4, 1}};
      break;
    case 14:
      o.edit_steps = o.tail = integer;
      break;
    case 15:
      o.edit_threshold = real;
      break;
    case 16:
      o.revision = static_cast<Revision>(rng() % 8);
      break;
    default:
      o.acceptance = Acceptance::random;
  }
}

TEST(Property, AnyOptionsAreRefusedOrFinishWithinTheBound) {
  Rng rng(2);
  int ran = 0, refused = 0, causal = 0;
  for (int round = 0; round < 9000; ++round) {
    DecodeOptions options = random_options(rng);
    if (round % 3 == 0) spoil(options, rng);
    const bool infill = rng() % 3 == 0, block_causal = rng() % 5 == 0;
    SpecialIds ids = test_ids();
    if (block_causal) {  // whose blocks are the strategy's
      constexpr KvChoice kPolicies[] = {KvChoice::none, KvChoice::block, KvChoice::frozen};
      options.kv = kPolicies[rng() % 3];
      options.tail = -1, options.slide = options.mbsd = false, options.refresh_after = 0;
      ids.attention_block = std::clamp<int64_t>(options.block_length, 1, 1 << 20);
    }
    if (const Status status = validate(options, infill); !status) {
      ASSERT_EQ(status.error().kind, ErrorKind::invalid_input);
      ++refused;
      continue;
    }
    Canvas canvas =
        infill ? random_infill(rng) : lay_generation(random_prompt(rng, 12), options.gen_length, test_ids());
    const Canvas before = canvas;
    const int64_t masks = count_masked(canvas);
    auto strategy = make_strategy(options, ids, canvas);
    if (!strategy) {
      ASSERT_TRUE(infill || block_causal) << "validate() let it through: " << strategy.error().message;
      ++refused;
      continue;
    }
    ++ran;
    causal += block_causal;
    const bool revises = options.revision != Revision::none;
    if (!revises) {
      ASSERT_LE((*strategy)->step_bound(), options.steps > 0 ? options.steps : masks);
    }
    ScriptRunner runner(random_script(rng()));
    Canvas last = canvas;
    int64_t committed = 0;
    const auto stats = denoise(canvas, **strategy, runner, [&](const StepEvent& event) {
      EXPECT_TRUE(revises || !event.edits.empty()) << "every step makes progress";
      for (const Edit& edit : event.edits) {
        if (last.states[static_cast<size_t>(edit.position)] != TokenState::masked) continue;
        // Whatever fills a mask was predicted in this very step, from the mask: a draft is never the source.
        const auto& rows = event.plan.rows;
        const auto row = std::ranges::find(rows, edit.position);
        const auto made = std::ranges::find(event.predictions, edit.position, &Prediction::position);
        if (row == rows.end() || made == event.predictions.end()) {
          ADD_FAILURE() << "position " << edit.position << " was not predicted";
          continue;
        }
        EXPECT_EQ(event.plan.inputs[static_cast<size_t>(row - rows.begin())], kMask);
        EXPECT_EQ(edit.token, made->token);
      }
      EXPECT_GE(event.committed, committed);
      committed = event.committed;
      for (size_t i = 0; i < last.tokens.size(); ++i) {
        const bool changed = last.tokens[i] != event.canvas.tokens[i] || last.states[i] != event.canvas.states[i];
        const bool inside = static_cast<int64_t>(i) >= event.block_begin && static_cast<int64_t>(i) < event.block_end;
        EXPECT_TRUE(!changed || last.states[i] == TokenState::visible ||
                    (last.states[i] == TokenState::masked && inside));
        EXPECT_TRUE(!changed || last.states[i] == TokenState::masked || revises);
      }
      last = event.canvas;
      return !testing::Test::HasFailure();
    });
    ASSERT_TRUE(stats) << stats.error().message;
    ASSERT_FALSE(testing::Test::HasFailure());
    ASSERT_LE(stats->steps, (*strategy)->step_bound());
    ASSERT_EQ(stats->committed + count_masked(canvas), masks);
    ASSERT_EQ(stats->stopped_early, count_masked(canvas) > 0);
    if (infill || !revises) {
      ASSERT_EQ(std::ranges::count(canvas.states, TokenState::visible), 0) << "what is left is final";
    }
    for (size_t i = 0; i < canvas.tokens.size(); ++i) {
      if (before.states[i] == TokenState::fixed) {
        ASSERT_EQ(canvas.tokens[i], before.tokens[i]);
      } else {
        ASSERT_EQ(canvas.tokens[i] == kMask, canvas.states[i] == TokenState::masked);
      }
    }
    if (infill || options.early_stop == EarlyStop::none) {
      ASSERT_EQ(count_masked(canvas), 0);
    } else if (stats->stopped_early) {
      ASSERT_TRUE(answer_is_final(canvas, test_ids()));
    }
    if (options.acceptance == Acceptance::schedule && !revises && !options.mbsd && count_masked(canvas) == 0) {
      ASSERT_EQ(stats->steps, (*strategy)->step_bound()) << "the schedule takes its steps, no fewer";
    }
  }
  EXPECT_GT(ran, 1900);
  EXPECT_GT(refused, 500);
  EXPECT_GT(causal, 100);
}

TEST(Property, EarlyStopNeverChangesTheAnswer) {
  Rng rng(3);
  int64_t saved_by_answer = 0, saved_by_block = 0;
  for (int round = 0; round < 1000; ++round) {
    DecodeOptions options = random_options(rng);
    options.confidence_eos_eot_inf = options.auto_length = false;  // whose length needs early_stop
    if (!validate(options)) continue;
    const auto prompt = random_prompt(rng, 8);
    const auto begin = static_cast<int64_t>(prompt.size());
    const uint64_t script = rng(), ends = rng() % 5;
    const auto run = [&](EarlyStop stop) {
      options.early_stop = stop;
      return run_script(options, prompt, random_script(script, ends));
    };
    Outcome all = run(EarlyStop::none), block = run(EarlyStop::block), answer = run(EarlyStop::answer);
    const int64_t length = answer_length(all.canvas, begin, test_ids().end_ids);
    for (Outcome* other : {&block, &answer}) {
      ASSERT_EQ(answer_length(other->canvas, begin, test_ids().end_ids), length);
      for (int64_t p = begin; p < begin + length; ++p) {
        ASSERT_EQ(other->canvas.tokens[static_cast<size_t>(p)], all.canvas.tokens[static_cast<size_t>(p)]);
      }
      ASSERT_EQ(content_tokens(other->canvas, test_ids()), length);
      // It is the same run, cut off.
      ASSERT_LE(other->trace.size(), all.trace.size());
      ASSERT_TRUE(std::equal(other->trace.begin(), other->trace.end(), all.trace.begin()));
    }
    ASSERT_LE(answer.stats.nfe, block.stats.nfe);
    saved_by_answer += block.stats.nfe - answer.stats.nfe;
    saved_by_block += all.stats.nfe - block.stats.nfe;
    for (Outcome* outcome : {&all, &block, &answer}) canonical_tail(outcome->canvas, test_ids());
    ASSERT_EQ(canvas_hash(block.canvas), canvas_hash(all.canvas));
    ASSERT_EQ(canvas_hash(answer.canvas), canvas_hash(all.canvas));
    ASSERT_EQ(count_masked(answer.canvas), 0);
  }
  EXPECT_GT(saved_by_answer, 0);
  EXPECT_GT(saved_by_block, 0);
}

TEST(Property, TheSameSeedGivesTheSameTrace) {
  Rng rng(4);
  for (int round = 0; round < 300; ++round) {
    const DecodeOptions options = random_options(rng);
    if (!validate(options)) continue;
    const auto prompt = random_prompt(rng, 8);
    const uint64_t script = rng();
    ASSERT_EQ(run_script(options, prompt, random_script(script)).trace,
              run_script(options, prompt, random_script(script)).trace);
  }
}

TEST(Property, ThresholdOneIsOneTokenPerStep) {
  Rng rng(5);
  for (int round = 0; round < 100; ++round) {
    DecodeOptions options = {LengthOptions{.gen_length = between(rng, 1, 50), .block_length = between(rng, 1, 60)}};
    const uint64_t seed = rng();
    const auto never_sure = [&] {  // a confidence of 1 would be enough
      return Script([script = random_script(seed)](const StepPlan& plan, int64_t forward, int32_t position) mutable {
        Prediction p = script(plan, forward, position);
        p.probability *= 0.9;
        return p;
      });
    };
    const auto one = run_script(options, std::vector<int32_t>{1}, never_sure());
    options.acceptance = Acceptance::threshold;
    options.threshold = 1;
    ASSERT_EQ(run_script(options, std::vector<int32_t>{1}, never_sure()).trace, one.trace);
  }
}

}  // namespace
}  // namespace llada::decode
