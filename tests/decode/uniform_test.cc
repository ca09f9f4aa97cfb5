// Canvases of random tokens: against the steps of DiffusionGemma's own class (tools/upstream/uniform_canvas.py), and
// what holds for any predictions.
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "decode/answer.h"
#include "decode/script.h"
#include "decode/tempered.h"
#include "decode/uniform_canvas.h"
#include "must.h"

namespace llada::decode {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr int32_t kEnd = 1;

SpecialIds uniform_ids(int64_t length, int64_t vocab) {
  SpecialIds ids{.eos = kEnd, .end_ids = {kEnd}};
  ids.uniform.length = length;
  ids.vocab = vocab;
  return ids;
}

// Logits in the place of a model: the next step's are made of what is planned.
class LogitsModel : public StepRunner {
 public:
  using Logits = std::function<std::vector<float>(const StepPlan& plan, int64_t step, int32_t row)>;
  LogitsModel(int64_t vocab, Logits logits) : vocab_(vocab), logits_(std::move(logits)) {}

  Result<StepResult> run(const StepPlan& plan, int64_t /*forward*/) override {
    plans.push_back(plan);
    StepResult result;
    if (plan.encode) {
      step_ = 0;
      results.push_back(result);
      return result;
    }
    for (size_t i = 0; i < plan.logits.size(); ++i) {
      const std::vector<float> one = logits_(plan, step_, plan.logits[i]);
      EXPECT_EQ(std::ssize(one), vocab_);
      const TemperedOracle row = tempered(one, plan.temperature, plan.draws[i]);
      result.predictions.push_back(row.prediction);
      result.predictions.back().position = plan.logits[i];
      result.drawn.push_back(row.drawn);
    }
    ++step_;
    results.push_back(result);
    return result;
  }

  std::vector<StepPlan> plans;
  std::vector<StepResult> results;

 private:
  const int64_t vocab_;
  const Logits logits_;
  int64_t step_ = 0;  // of the canvas
};

std::vector<int32_t> tokens_of(const Canvas& canvas, int64_t begin, int64_t length) {
  return {canvas.tokens.begin() + begin, canvas.tokens.begin() + begin + length};
}

TEST(Uniform, EveryStepIsThatOfTheModelsOwnClass) {
  const auto cases = nlohmann::json::parse(std::ifstream(LLADA_SOURCE_DIR "/tests/data/uniform_canvas.json"));
  ASSERT_EQ(cases.size(), 6u);
  for (const auto& c : cases) {
    const int64_t vocab = c["vocab"], length = c["length"], canvases = c["canvases"];
    const double pull = c["pull"];
    const auto wanted = [&](int32_t row) {
      return static_cast<int32_t>(mix64(static_cast<uint64_t>(row) + 77) % static_cast<uint64_t>(vocab));
    };
    int64_t forward = -1, last = -1;
    LogitsModel model(vocab, [&](const StepPlan& plan, int64_t step, int32_t row) {
      forward += row == plan.rows.front();
      std::vector<float> logits;
      const int32_t fed = plan.inputs[static_cast<size_t>(row - plan.rows.front())];
      for (int32_t v = 0; v < vocab; ++v)
        logits.push_back(static_cast<float>(
            4 * uniform(99, static_cast<uint64_t>(forward), static_cast<uint64_t>(row), static_cast<uint64_t>(v)) +
            (v == wanted(row) ? pull * static_cast<double>(step + 1) + (fed == v ? 2 : 0) : 0)));
      last = step;
      return logits;
    });
    DecodeOptions options;
    options.gen_length = length * canvases;
    options.early_stop = EarlyStop::none;
    options.seed = c["seed"];
    options.denoising_steps = c["steps"];
    options.acceptance = Acceptance::entropy, options.entropy_bound = c["entropy_bound"];
    options.confidence_threshold = c["confidence_threshold"];
    SpecialIds ids = uniform_ids(length, vocab);
    ids.uniform.t_min = c["t_min"], ids.uniform.t_max = c["t_max"];
    ids.uniform.stability_threshold = c["stability_threshold"];
    const int64_t prompt = c["prompt"];
    Canvas canvas = lay_generation(std::vector<int32_t>(static_cast<size_t>(prompt), 3), options.gen_length, ids);
    const auto strategy = must(make_strategy(options, ids, canvas));
    std::vector<Canvas> seen;
    const auto stats = denoise(canvas, **strategy, model, [&](const StepEvent& event) {
      seen.push_back(event.canvas);
      return true;
    });
    ASSERT_TRUE(stats) << stats.error().message;
    const auto& rows = c["rows"];
    size_t step = 0;
    for (size_t i = 0; i < model.plans.size(); ++i) {
      const StepPlan& plan = model.plans[i];
      if (plan.encode) continue;
      ASSERT_LT(step, rows.size());
      const auto& row = rows[step++];
      ASSERT_EQ(plan.inputs, row["fed"].get<std::vector<int32_t>>()) << c["seed"] << " step " << step;
      ASSERT_EQ(model.results[i].drawn, row["drawn"].get<std::vector<int32_t>>()) << c["seed"] << " step " << step;
      for (size_t p = 0; p < plan.rows.size(); ++p) {
        ASSERT_EQ(model.results[i].predictions[p].token, row["best"][p].get<int32_t>());
        ASSERT_NEAR(model.results[i].predictions[p].entropy, row["entropy"][p].get<double>(), 2e-5);
      }
      const auto states = std::span(seen[i].states).subspan(static_cast<size_t>(plan.block_begin), plan.rows.size());
      if (states[0] == TokenState::stable) continue;  // committed
      for (size_t p = 0; p < states.size(); ++p)
        ASSERT_EQ(states[p] == TokenState::visible, row["accepted"][p].get<int>() == 1);
    }
    EXPECT_EQ(step, rows.size());
    for (int64_t k = 0; k < canvases; ++k)
      EXPECT_EQ(tokens_of(canvas, prompt + k * length, length), c["committed"][k].get<std::vector<int32_t>>());
  }
}

struct Asked {
  SpecialIds ids;
  int64_t length, vocab, prompt, gen;
  DecodeOptions options = {};
};

Asked random_case(std::mt19937_64& rng) {
  const auto between = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng() % static_cast<uint64_t>(high - low + 1));
  };
  const int64_t length = rng() % 2 == 0 ? between(1, 9) : between(17, 50), vocab = between(2, 12);
  Asked asked{uniform_ids(length, vocab), length, vocab, between(0, 6), between(1, 4 * length)};
  DecodeOptions& o = asked.options;
  UniformCanvas& canvas = asked.ids.uniform;
  o.gen_length = asked.gen;
  o.seed = rng();
  o.denoising_steps = between(1, 6);
  canvas.t_min = 0.2, canvas.t_max = 0.2 + static_cast<double>(between(1, 10)) / 10;
  o.acceptance = Acceptance::entropy, o.entropy_bound = static_cast<double>(between(0, 20)) / 10;
  canvas.stability_threshold = between(0, 3);
  o.confidence_threshold = static_cast<double>(between(1, 20)) / 10;
  return asked;
}

// Positions of the canvas that begins so many behind the prompt: whole ones, the last as short as a multiple of 16 is.
int64_t width_at(const Asked& asked, int64_t begin) {
  int64_t width = 16;
  while (width < asked.gen - begin) width += 16;
  return std::min(width, asked.length);
}

// What a canvas does is what its definition says of any predictions; what is committed stays; draws are functions.
TEST(Uniform, HoldsWhatItIsDefinedAs) {
  std::mt19937_64 rng(3);
  for (int round = 0; round < 300; ++round) {
    const Asked asked = random_case(rng);
    const DecodeOptions& o = asked.options;
    const uint64_t salt = rng();
    const auto logits = [&](const StepPlan& plan, int64_t, int32_t row) {
      std::vector<float> all;
      const uint64_t h = digest(plan) ^ salt;
      for (int64_t v = 0; v < asked.vocab; ++v)
        all.push_back(
            static_cast<float>(8 * draw(random_key(h, 0, static_cast<uint64_t>(row)), static_cast<uint64_t>(v))));
      return all;
    };
    const SpecialIds& ids = asked.ids;
    const std::vector<int32_t> prompt(static_cast<size_t>(asked.prompt), 0);
    std::vector<int32_t> first;
    for (int repeat = 0; repeat < 2; ++repeat) {
      LogitsModel model(asked.vocab, logits);
      Canvas canvas = lay_generation(prompt, asked.gen, ids);
      const int64_t last = (asked.gen - 1) / asked.length * asked.length;
      EXPECT_EQ(canvas.size(), asked.prompt + last + width_at(asked, last));
      EXPECT_EQ(canvas.answer_end(), asked.prompt + asked.gen);
      const auto strategy = must(make_strategy(o, ids, canvas));
      int64_t committed = 0, step = 0, encoded = 0, event_number = 0;
      std::vector<std::vector<int32_t>> bests;
      bool ended = false;
      const auto stats = denoise(canvas, **strategy, model, [&](const StepEvent& event) {
        const StepResult& result = model.results[static_cast<size_t>(event_number)];
        const StepPlan& plan = model.plans[static_cast<size_t>(event_number++)];
        EXPECT_FALSE(ended);
        EXPECT_EQ(event.plan, plan);
        EXPECT_GE(event.committed, committed);
        for (int64_t p = 0; p < committed; ++p)
          EXPECT_EQ(event.canvas.states[static_cast<size_t>(asked.prompt + p)], TokenState::stable);
        if (plan.encode) {  // what the store has not, up to the canvas
          EXPECT_EQ(plan.rows.front(), encoded);
          EXPECT_EQ(plan.keys, plan.block_begin);
          EXPECT_EQ(plan.inputs, tokens_of(event.canvas, encoded, std::ssize(plan.rows)));
          encoded = plan.keys;
          EXPECT_EQ((*strategy)->exact_prefix(event.canvas), encoded);
          return true;
        }
        EXPECT_EQ(plan.rows.front(), encoded);
        const int64_t width = width_at(asked, committed);
        EXPECT_EQ(std::ssize(plan.rows), width);
        const auto left = static_cast<double>(o.denoising_steps - step), all = static_cast<double>(o.denoising_steps);
        EXPECT_DOUBLE_EQ(plan.temperature, ids.uniform.t_min + (ids.uniform.t_max - ids.uniform.t_min) * left / all);
        EXPECT_EQ(plan.conditioned, step > 0);
        ++step;
        double mean = 0;
        std::vector<int32_t> best;
        for (const Prediction& p : result.predictions)
          mean += p.entropy / static_cast<double>(width), best.push_back(p.token);
        int64_t same = 0;
        while (same < std::ssize(bests) && bests[bests.size() - 1 - static_cast<size_t>(same)] == best) ++same;
        const bool stops =
            step == o.denoising_steps || (same >= ids.uniform.stability_threshold && mean < o.confidence_threshold);
        bests.push_back(best);
        const auto canvas_tokens = tokens_of(event.canvas, plan.block_begin, width);
        if (stops) {
          EXPECT_EQ(canvas_tokens, best);
          EXPECT_EQ(event.committed, plan.block_end - asked.prompt);
          ended = std::ranges::count(best, kEnd) > 0;
          bests.clear();
          step = 0;
        } else {
          EXPECT_EQ(event.committed, committed);
          for (size_t i = 0; i < best.size(); ++i) {
            // By the definition: how much entropy the surer ones have.
            double before = 0;
            const double own = result.predictions[i].entropy;
            for (size_t k = 0; k < best.size(); ++k) {
              const double other = result.predictions[k].entropy;
              if (other < own || (other == own && k < i)) before += other;
            }
            const bool accepted = before <= o.entropy_bound;
            const auto at = static_cast<size_t>(plan.block_begin) + i;
            EXPECT_EQ(event.canvas.states[at] == TokenState::visible, accepted);
            if (accepted)
              EXPECT_EQ(canvas_tokens[i], result.drawn[i]);
            else
              EXPECT_EQ(event.canvas.states[at], TokenState::masked);
            EXPECT_LT(canvas_tokens[i], asked.vocab);
          }
        }
        committed = event.committed;
        return true;
      });
      ASSERT_TRUE(stats) << stats.error().message;
      EXPECT_TRUE(ended || committed == canvas.size() - asked.prompt);
      EXPECT_EQ(ended, first_end(canvas, asked.prompt, canvas.size(), ids.end_ids) < canvas.size());
      if (repeat == 0) first = canvas.tokens;
      EXPECT_EQ(canvas.tokens, first);
    }
  }
}

// The tokens that are drawn have the frequencies of the softmax, random ones those of the vocabulary.
TEST(Uniform, DrawsHaveTheirProbabilities) {
  const std::vector<float> logits = {0, 1, 2, -1};
  constexpr int kDraws = 20000;
  std::vector<double> drawn(4), random(4);
  for (int i = 0; i < kDraws; ++i) {
    drawn[static_cast<size_t>(tempered(logits, 0.7, token_draw(5, i, 3)).drawn)] += 1.0 / kDraws;
    random[static_cast<size_t>(random_token(5, i, 3, 4))] += 1.0 / kDraws;
  }
  double sum = 0;
  for (const float x : logits) sum += std::exp(x / 0.7);
  for (size_t v = 0; v < 4; ++v) {
    EXPECT_NEAR(drawn[v], std::exp(logits[v] / 0.7) / sum, 0.015);
    EXPECT_NEAR(random[v], 0.25, 0.015);
  }
}

TEST(Uniform, OptionsOfOtherModelsAreRefused) {
  const ModelKind kind{0, {.length = 8}};
  const auto error = [&](auto change, bool uniform = true, bool infill = false) {
    DecodeOptions o;
    change(o);
    return why_not(validate(o, infill, uniform ? kind : ModelKind()));
  };
  EXPECT_EQ(error([](DecodeOptions& o) { o.confidence_threshold = 0.9, o.denoising_steps = 3; }), "");
  EXPECT_EQ(error([](DecodeOptions& o) { o.acceptance = Acceptance::entropy, o.temperature = 1.5; }), "");
  EXPECT_EQ(error([](DecodeOptions& o) { o.threshold = 0.5; }),
            "threshold: found 0.5 with a model whose canvases hold random tokens, which are decided in a way of their "
            "own; needed it left out");
  EXPECT_THAT(error([](DecodeOptions& o) { o.kv = KvChoice::dual; }), HasSubstr("kv: found dual with a model whose"));
  EXPECT_THAT(error([](DecodeOptions& o) { o.acceptance = Acceptance::threshold; }), HasSubstr("accept: found"));
  EXPECT_THAT(error([](DecodeOptions&) {}, true, true), HasSubstr("infill: a model whose canvases"));
  EXPECT_EQ(error([](DecodeOptions& o) { o.denoising_steps = 3; }, false),
            "denoising_steps: found 3, which is for models whose canvases hold random tokens; needed it left out");
}

}  // namespace
}  // namespace llada::decode
