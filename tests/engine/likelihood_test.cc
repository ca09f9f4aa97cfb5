// Scores of continuations: canvases drawn as published, sums over everything that could have been written, the forward
// in double arithmetic, and the same bits alone and in company.
// labels of this file: native -threads
#include "engine/likelihood.h"

#include <unistd.h>

#include <filesystem>
#include <map>
#include <random>

#include "decode/canvas.h"
#include "decode/random_options.h"
#include "engine/score_canvases.h"
#include "golden.h"
#include "llada2_files.h"
#include "shared_forwards.h"

namespace llada {
namespace {

using enum ScoreMethod;
using Ids = std::vector<int32_t>;

constexpr int32_t kVocab = 11, kMask = 9;

// Random models with so few tokens that every continuation can be asked for.
class Likelihoods : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("llada_likelihoods_{}", ::getpid());
    std::filesystem::create_directories(folder_);
    ModelConfig full = small_config(), shifted = small_dream(), causal = small_llada2(), one = small_llada2();
    full.rope_pairing = RopePairing::adjacent;  // as a GGUF file of this architecture has it
    shifted.family = &kDreamFamily;
    shifted.shift_logits = true;
    causal.attention_block = 4;
    one.attention_block = 1;
    for (auto& [name, config] : {std::pair{"full", &full}, {"shifted", &shifted}, {"causal", &causal}, {"one", &one}}) {
      config->layers = 2, config->vocab = kVocab, config->mask_id = kMask, config->eos_id = config->pad_id = 10;
      config->rms_eps = 1e-5f, config->rope_theta = 10000;
      models_[name] = make_small_model(DType::F32, *config);
      write_gguf(models_[name], path(name));
    }
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }
  static std::string path(const std::string& name) { return (folder_ / (name + ".gguf")).string(); }

  static std::shared_ptr<const Model> model(const std::string& name) {
    return *must(Model::load(path(name), {.isa = isa_from_environment(), .threads = 1}));
  }
  static ScoreResult score(const std::string& name, const ScoreRequest& request) {
    return *must(open_session(model(name))->score(request));
  }
  // log softmax in double of the token at `position`, with the given canvas, by the independent forward.
  static double reference(const std::string& name, const Ids& canvas, size_t position, double cfg = 0,
                          size_t prompt = 0, int32_t token = -1) {
    const SmallModel& m = models_[name];
    const size_t row = m.config.shift_logits && position > 0 ? position - 1 : position;
    std::vector<double> logits = reference_forward(m, canvas)[row];
    if (cfg > 0) {
      Ids without = canvas;
      std::fill_n(without.begin(), prompt, kMask);
      const std::vector<double> u = reference_forward(m, without)[row];
      for (size_t i = 0; i < logits.size(); ++i) logits[i] = u[i] + (cfg + 1) * (logits[i] - u[i]);
    }
    double sum = 0;
    for (const double l : logits) sum += std::exp(l);
    return logits[static_cast<size_t>(token)] - std::log(sum);
  }

  static inline std::filesystem::path folder_;
  static inline std::map<std::string, SmallModel> models_;
};

const Ids kPrompt = {3, 1, 4, 1, 5, 2};

std::vector<Ids> all_texts(int length) {
  std::vector<Ids> texts = {{}};
  for (int i = 0; i < length; ++i) {
    std::vector<Ids> longer;
    for (const Ids& text : texts)
      for (int32_t token = 0; token < kVocab; ++token) {
        longer.push_back(text);
        longer.back().push_back(token);
      }
    texts = std::move(longer);
  }
  return texts;
}

double total(const ScoreResult& result) {
  double sum = 0;
  for (const ContinuationScore& score : result.continuations) sum += std::exp(score.log_probability);
  return sum;
}

// ---- What is drawn

// torch.round(torch.linspace(k, k + (b - 1) * (L / b), b)) wrapped, as LLaDA's forward_process() gives it.
TEST(ScoreCanvases, CountsAreThePublishedOnes) {
  EXPECT_EQ(stratified_counts(10, 4, 1), (std::vector<int64_t>{1, 4, 6, 8})) << "1, 3.5, 6, 8.5: halves to even";
  EXPECT_EQ(stratified_counts(10, 4, 9), (std::vector<int64_t>{9, 2, 4, 6})) << "9, 11.5, 14, 16.5";
  EXPECT_EQ(stratified_counts(3, 8, 3), (std::vector<int64_t>{3, 3, 1, 1, 1, 2, 2, 3}));
  EXPECT_EQ(stratified_counts(1, 3, 1), (std::vector<int64_t>{1, 1, 1}));
}

// Over many seeds each set of masks has the weight that the bound's definition gives it: 1 / L for its size, 1 over the
// number of sets of that size, L / size for the division by the masked share.
TEST(ScoreCanvases, TheEstimateIsUnbiased) {
  constexpr int kSeeds = 10000;
  for (const bool rates : {false, true}) {
    std::map<Ids, double> weights;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      const ScoreRequest request = {
          kPrompt, {{1, 2, 3, 4}}, {.method = monte_carlo, .draws = 7, .batch = 4, .mask_rates = rates, .seed = seed}};
      for (const ScoreCanvas& canvas : score_canvases(request, {.mask = kMask})) {
        ASSERT_EQ(canvas.targets.size(), canvas.masked.size());
        for (const ScoreTarget& target : canvas.targets) ASSERT_EQ(target.weight, canvas.targets[0].weight);
        weights[canvas.masked] += canvas.targets[0].weight / kSeeds;
      }
    }
    ASSERT_EQ(weights.size(), 15u);
    const double sets[] = {1, 4, 6, 4, 1};
    for (const auto& [masked, weight] : weights) {
      const double size = static_cast<double>(masked.size());
      const double expected = 1 / size / sets[masked.size()];  // also the integral of t^(size-1) (1-t)^(4-size) dt
      EXPECT_NEAR(weight, expected, rates ? 0.04 : 0.018) << rates << " " << fmt::format("{}", fmt::join(masked, " "));
    }
  }
}

// The options of a question meet the same chances.
TEST(ScoreCanvases, OptionsShareTheirDraws) {
  const ScoreOptions options = {.method = monte_carlo, .draws = 32, .seed = 5};
  const ScoreRequest request = {kPrompt, {{1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1}}, options};
  std::map<Ids, double> by_option[2];
  size_t common = 0;
  for (const ScoreCanvas& canvas : score_canvases(request, {.mask = kMask})) {
    for (const ScoreTarget& target : canvas.targets) by_option[target.continuation][canvas.masked] = target.weight;
    common += canvas.targets.size() == 12;
  }
  EXPECT_EQ(by_option[0], by_option[1]);
  EXPECT_EQ(common, 1u) << "where everything is masked they are one canvas";
  ScoreRequest other = request;
  other.options.seed = 6;
  EXPECT_NE(score_canvases(other, {.mask = kMask})[0].masked, score_canvases(request, {.mask = kMask})[0].masked);
}

// Terms of a sum in the order that a continuation alone has, though canvases with masks alone are shared.
TEST(ScoreCanvases, TheOrderOfTermsDoesNotKnowTheCompany) {
  using Term =
      std::tuple<int64_t, std::vector<int32_t>, int64_t, size_t, double>;  // order, masked, end, offset, weight
  const auto terms = [](const ScoreRequest& request, size_t continuation) {
    std::vector<Term> found;
    for (const ScoreCanvas& canvas : score_canvases(request, {.mask = 9}))
      for (const ScoreTarget& t : canvas.targets)
        if (t.continuation == continuation) found.emplace_back(t.order, canvas.masked, canvas.end, t.offset, t.weight);
    std::ranges::sort(found);
    return found;
  };
  for (const ScoreMethod method : {ScoreMethod::monte_carlo, ScoreMethod::pseudo, ScoreMethod::chain}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      ScoreRequest together = {.prompt = {1, 2}, .continuations = {{3, 4, 5}, {6, 5, 4}, {1, 2, 3}}};
      together.options.method = method, together.options.draws = 9, together.options.seed = seed;
      for (size_t i = 0; i < 3; ++i) {
        ScoreRequest alone = together;
        alone.continuations = {together.continuations[i]};
        const auto own = terms(alone, 0);
        EXPECT_EQ(terms(together, i), own) << method_name(method) << " seed " << seed << " continuation " << i;
        EXPECT_FALSE(own.empty());
      }
    }
  }
}

TEST(ScoreCanvases, ATailThatIsFixedIsNeverMasked) {
  for (const bool rates : {false, true}) {
    const ScoreRequest request = {
        kPrompt, {{1, 2, 3, 10}}, {.method = monte_carlo, .draws = 64, .mask_rates = rates, .fixed_tail = 1}};
    for (const ScoreCanvas& canvas : score_canvases(request, {.mask = kMask}))
      for (const int32_t offset : canvas.masked) EXPECT_LT(offset, 3);
  }
}

// ---- What it means

// A chain, and a decoding order, give every text a probability, and together 1.
TEST_F(Likelihoods, AllTextsTogetherHaveProbabilityOne) {
  for (const char* name : {"full", "shifted", "causal", "one"}) {
    // Six tokens of prompt and four to a block: with three more the second block of "causal" ends within the text.
    for (const Ids& prompt : {kPrompt, Ids{3, 1, 4, 1, 5, 2, 6}}) {
      EXPECT_NEAR(total(score(name, {prompt, all_texts(2), {.method = chain}})), 1, 1e-5) << name;
      ScoreRequest request = {prompt, all_texts(2), {.method = duel}};
      decode::DecodeOptions& order = request.options.order;
      order.block_length = std::string_view(name) == "one" ? 1 : 4;
      EXPECT_NEAR(total(score(name, request)), 1, 1e-5) << name;
      order.acceptance = decode::Acceptance::threshold, order.threshold = 0.15;
      EXPECT_NEAR(total(score(name, request)), 1, 1e-5) << name;
      order.acceptance = decode::Acceptance::entropy, order.entropy_bound = 2;
      EXPECT_NEAR(total(score(name, request)), 1, 1e-5) << name;
    }
    EXPECT_NEAR(total(score(name, {kPrompt, all_texts(1), {.method = exact}})), 1, 1e-5) << name;
    // Which a pseudo-likelihood is only where no token sees what is behind it.
    const double apart = std::abs(total(score(name, {kPrompt, all_texts(2), {.method = pseudo}})) - 1);
    EXPECT_EQ(apart < 1e-5, std::string_view(name) == "one") << name << " " << apart;
  }
}

TEST_F(Likelihoods, ASingleTokenIsTheSoftmaxInDouble) {
  for (const char* name : {"full", "shifted", "causal", "one"}) {
    for (const double cfg : {0.0, 0.5}) {
      Ids canvas = kPrompt;
      canvas.push_back(kMask);
      const bool causal = std::string_view(name) == "causal";
      if (causal) canvas.resize(8, kMask);  // to the end of the block
      const std::vector<Ids> options = all_texts(1);
      const ScoreResult once = score(name, {kPrompt, options, {.method = exact, .cfg_scale = cfg}});
      EXPECT_EQ(once.forwards, 1);
      EXPECT_EQ(once.rows, static_cast<int64_t>(canvas.size()) * (cfg > 0 ? 2 : 1));
      int64_t greedy = 0;
      for (size_t c = 0; c < options.size(); ++c) {
        const double expected = reference(name, canvas, 6, cfg, 6, options[c][0]);
        EXPECT_NEAR(once.continuations[c].log_probability, expected, 2e-5) << name << " " << cfg;
        greedy += *once.continuations[c].greedy;
      }
      EXPECT_EQ(greedy, 1);
      // Nothing is left to chance in one token, however many draws.
      const ScoreResult drawn = score(name, {kPrompt, options, {.method = monte_carlo, .cfg_scale = cfg}});
      EXPECT_EQ(drawn.forwards, 1);
      for (size_t c = 0; c < options.size(); ++c)
        EXPECT_EQ(drawn.continuations[c].log_probability, once.continuations[c].log_probability);
    }
  }
}

// Token by token against the independent forward over the whole canvas; the blocks of "causal" begin at 4 and 8.
TEST_F(Likelihoods, TheChainIsTheProductOfItsForwards) {
  const Ids text = {7, 0, 8, 2, 10, 3, 3};
  for (const char* name : {"full", "shifted", "causal", "one"}) {
    const ScoreResult result = score(name, {kPrompt, {text}, {.method = chain, .top = 3}});
    const ContinuationScore& got = result.continuations[0];
    double sum = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      Ids canvas = kPrompt;
      canvas.insert(canvas.end(), text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i));
      canvas.resize(kPrompt.size() + text.size(), kMask);
      if (std::string_view(name) == "causal") canvas.resize(16, kMask);
      const auto at = [&](int32_t token) { return reference(name, canvas, kPrompt.size() + i, 0, 0, token); };
      EXPECT_NEAR(got.tokens[i].log_probability, at(text[i]), 3e-5) << name << " " << i;
      EXPECT_EQ(got.tokens[i].token, text[i]);
      ASSERT_EQ(got.tokens[i].top.size(), 3u);
      for (const auto& other : got.tokens[i].top) EXPECT_NEAR(other.log_probability, at(other.token), 3e-5);
      for (int32_t token = 0; token < kVocab; ++token)
        EXPECT_LE(at(token), got.tokens[i].top[0].log_probability + 3e-5) << "the first is the best";
      EXPECT_GE(got.tokens[i].top[1].log_probability, got.tokens[i].top[2].log_probability);
      sum += got.tokens[i].log_probability;
    }
    EXPECT_DOUBLE_EQ(got.log_probability, sum);
    EXPECT_EQ(result.forwards, static_cast<int64_t>(text.size()));
  }
}

// What a block-causal model keeps between forwards changes rows, and nothing else.
TEST_F(Likelihoods, KeptBlocksChangeNoBit) {
  const Ids text = {7, 0, 8, 2, 10, 3, 3};
  const auto causal = model("causal");
  const auto session = open_session(causal);
  const ScoreResult result = *session->score({kPrompt, {text, {7, 0, 8, 1}}, {.method = chain}});
  for (size_t i = 0; i < text.size(); ++i) {
    Ids canvas = kPrompt;
    canvas.insert(canvas.end(), text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i));
    canvas.resize(16, kMask);
    const Ids row = {static_cast<int32_t>(kPrompt.size() + i)};
    EXPECT_EQ(result.continuations[0].tokens[i].log_probability,
              log_probability(*session->logits(canvas, row), text[i]));
  }
  // 8 + 4 rows in the prompt's block, 8 in the first forward of the next, then 4 a forward. The second text shares
  // canvases 0 (all masks) and begins behind the first block, which has not changed.
  EXPECT_EQ(result.rows, (8 + 4) + (8 + 4 + 4 + 4) + 8 + (4 + 8 + 4));
  EXPECT_EQ(result.forwards, 7 + 3);
}

// The mean over all masks, each size as likely as another, from single forwards; and what many draws come to. They are
// one batch: with the published 16 a batch, rounding makes some sizes of so short a text likelier than others.
TEST_F(Likelihoods, TheEstimateConvergesToTheMeanOverAllMasks) {
  const Ids text = {7, 0, 8};
  for (const char* name : {"full", "shifted"}) {
    double expected = 0;
    for (uint32_t set = 1; set < 8; ++set) {
      const int size = std::popcount(set);
      const double sets = size == 3 ? 1 : 3;
      Ids canvas = kPrompt;
      for (size_t i = 0; i < 3; ++i) canvas.push_back((set >> i & 1) != 0 ? kMask : text[i]);
      for (size_t i = 0; i < 3; ++i)
        if ((set >> i & 1) != 0) expected += reference(name, canvas, 6 + i, 0, 0, text[i]) / size / sets;
    }
    for (const bool rates : {false, true}) {
      const ScoreOptions many = {
          .method = monte_carlo, .draws = 1 << 16, .batch = 1 << 16, .mask_rates = rates, .seed = 3};
      const ScoreResult result = score(name, {kPrompt, {text}, many});
      EXPECT_NEAR(result.continuations[0].log_probability, expected, rates ? 0.15 : 0.03) << name;
      EXPECT_EQ(result.forwards, 7) << "equal canvases are computed once";
      EXPECT_FALSE(result.continuations[0].greedy);
    }
    EXPECT_LT(expected, score(name, {kPrompt, {text}, {.method = chain}}).continuations[0].log_probability + 10);
  }
}

// Two blocks of a block-causal model: the sum of what each has alone, given the text before it.
TEST_F(Likelihoods, BlocksAddUp) {
  const Ids first = {7, 0}, second = {8, 2, 10};
  Ids both = first, longer = kPrompt;
  both.insert(both.end(), second.begin(), second.end());
  longer.insert(longer.end(), first.begin(), first.end());
  const ScoreOptions many = {.method = monte_carlo, .draws = 1 << 15};
  const auto of = [&](const Ids& prompt, const Ids& text) {
    return score("causal", {prompt, {text}, many}).continuations[0].log_probability;
  };
  EXPECT_NEAR(of(kPrompt, both), of(kPrompt, first) + of(longer, second), 0.03);
}

// One position at a time and the most confident first, by hand.
TEST_F(Likelihoods, ADecodingOrderIsFollowed) {
  const Ids text = {7, 0, 8, 2};
  Ids canvas = kPrompt;
  canvas.resize(10, kMask);
  double expected = 0;
  std::vector<bool> open(4, true);
  for (int step = 0; step < 4; ++step) {
    size_t best = 0;
    double most = -1;
    for (size_t i = 0; i < 4; ++i) {
      if (!open[i]) continue;
      for (int32_t token = 0; token < kVocab; ++token) {
        const double p = std::exp(reference("full", canvas, 6 + i, 0, 0, token));
        if (token != kMask && p > most) most = p, best = i;
      }
    }
    expected += reference("full", canvas, 6 + best, 0, 0, text[best]);
    canvas[6 + best] = text[best], open[best] = false;
  }
  const ScoreResult result = score("full", {kPrompt, {text}, {.method = duel}});
  EXPECT_NEAR(result.continuations[0].log_probability, expected, 5e-5);
  EXPECT_EQ(result.forwards, 4);
  // The text says how long it is, whatever length the options have.
  ScoreOptions open_length = {.method = duel};
  open_length.order.auto_length = true, open_length.order.gen_length = decode::kAutoLength;
  EXPECT_EQ(score("full", {kPrompt, {text}, open_length}).continuations[0].log_probability,
            result.continuations[0].log_probability);
}

// What decoding writes is greedy in its own order, and a text with another token is not.
TEST_F(Likelihoods, WhatDecodingWritesIsGreedy) {
  const auto full = model("full");
  const auto session = open_session(full);
  ScoreOptions options = {.method = duel};
  options.order.acceptance = decode::Acceptance::threshold, options.order.threshold = 0.2;
  options.order.gen_length = 8, options.order.block_length = 4, options.order.early_stop = decode::EarlyStop::none;
  const Generation written = *session->generate(kPrompt, options.order, {});
  Ids other = written.tokens;
  other.back() = other.back() == 1 ? 2 : 1;
  const ScoreResult result = *session->score({kPrompt, {written.tokens, other}, options});
  EXPECT_TRUE(*result.continuations[0].greedy);
  EXPECT_FALSE(*result.continuations[1].greedy);
  EXPECT_GE(result.forwards, 2 * written.stats.decode.steps - 1);
  EXPECT_LT(written.stats.decode.steps, 8) << "some steps decide several tokens";
}

// Whatever decoding takes, its order is followed to the last token or refused by name: 40 tokens in blocks of all
// lengths, behind every cache. An order that leaves predictions out read behind the end of the logits.
TEST_F(Likelihoods, AnyOrderIsFollowedOrRefused) {
  std::mt19937_64 rng(7);
  Ids text(40);
  for (int32_t& token : text) token = static_cast<int32_t>(rng() % 9);
  const auto full = model("full"), causal = model("causal");
  const auto on_full = open_session(full), on_causal = open_session(causal);
  int followed = 0, refused = 0;
  for (int round = 0; round < 400; ++round) {
    ScoreOptions options = {.method = duel, .top = 1};
    options.order = decode::random_options(rng);
    options.order.temperature = 0, options.order.mbsd = false;
    if (rng() % 8 != 0) options.order.revision = decode::Revision::none;
    const auto result = (rng() % 4 ? *on_full : *on_causal).score({kPrompt, {text}, options});
    if (!result) {
      ++refused;
      ASSERT_EQ(result.error().kind, ErrorKind::invalid_input) << result.error().message;
      EXPECT_FALSE(result.error().message.starts_with("continuation")) << result.error().message;
      continue;
    }
    ++followed;
    const ContinuationScore& score = result->continuations[0];
    ASSERT_EQ(score.tokens.size(), text.size());
    double sum = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      EXPECT_EQ(score.tokens[i].token, text[i]);
      EXPECT_LT(score.tokens[i].log_probability, 0);
      EXPECT_EQ(score.tokens[i].top.size(), 1u);
      sum += score.tokens[i].log_probability;
    }
    EXPECT_NEAR(score.log_probability, sum, 1e-9);
    EXPECT_LE(result->forwards, 40);
  }
  EXPECT_GT(followed, 40);
  EXPECT_GT(refused, 40);
}

// ---- In company

std::vector<ScoreRequest> every_method() {
  std::vector<ScoreRequest> list;
  for (const ScoreMethod method : {monte_carlo, chain, exact, duel, pseudo}) {
    ScoreRequest request = {kPrompt, {{7, 0, 8, 2}, {1, 2}, {}, {5, 5, 5}}, {.method = method, .draws = 12, .top = 2}};
    if (method == exact) request.continuations = {{7}, {1}};
    request.options.order.block_length = 4;
    list.push_back(request);
  }
  list.push_back(list.front());
  list.back().options.cfg_scale = 0.5, list.back().options.mask_rates = true;
  return list;
}

std::string bits(const ScoreResult& result) {
  std::string text = fmt::format("{} {}:", result.forwards, result.rows);
  for (const ContinuationScore& score : result.continuations) {
    text += fmt::format(" [{:a} {}", score.log_probability, score.greedy ? *score.greedy : -1);
    for (const TokenScore& token : score.tokens) {
      text += fmt::format(" {}:{:a}", token.token, token.log_probability);
      for (const auto& other : token.top) text += fmt::format(",{}:{:a}", other.token, other.log_probability);
    }
    text += "]";
  }
  return text;
}

// With generations, with each other, in many lanes or in one.
TEST_F(Likelihoods, AScoreDoesNotKnowItsCompany) {
  for (const char* name : {"full", "causal"}) {
    const auto m = model(name);
    Request generation = {.tokens = kPrompt};
    generation.options.gen_length = 12, generation.options.block_length = 4;
    const Generation alone = *open_session(m)->generate(kPrompt, generation.options, {});
    std::vector<std::string> expected;
    for (const ScoreRequest& request : every_method()) expected.push_back(bits(*open_session(m)->score(request)));
    for (const int64_t budget : {1, 25, 1000}) {
      const auto scheduler = *Scheduler::create(m, {.row_budget = budget, .patience = 2});
      std::vector<std::string> got(expected.size());
      int generations = 0;
      const auto generate = [&] {
        ASSERT_TRUE(scheduler->add(prepare(*m, generation).value(), {}, [&](Result<Generation> g) {
          ASSERT_TRUE(g);
          EXPECT_EQ(g->tokens, alone.tokens);
          ++generations;
        }));
      };
      generate();
      const auto requests = every_method();
      for (size_t i = 0; i < requests.size(); ++i)
        ASSERT_TRUE(scheduler->add_score(requests[i], [&, i](Result<ScoreResult> s) { got[i] = bits(*s); }));
      scheduler->run_forward();
      generate();
      while (!scheduler->idle()) scheduler->run_forward();
      EXPECT_EQ(got, expected) << name << " " << budget;
      EXPECT_EQ(generations, 2);
      EXPECT_LE(scheduler->stats().most_passed_over, 2 + 8);
      if (budget == 1000 && std::string_view(name) == "full") {
        EXPECT_LT(scheduler->stats().forwards, 30) << "canvases share forwards";
      }
    }
  }
}

// A budget is learned from times, so it may shrink between any two forwards: what was planned for many rows is still
// computed, canvas by canvas, and nothing twice.
TEST_F(Likelihoods, AShrinkingBudgetLeavesNoCanvasBehind) {
  const auto m = model("full");
  const OwnDevices own = *share_devices(*m, 0);
  for (const ScoreRequest& request : every_method()) {
    const ScoreResult alone = *open_session(m)->score(request);
    for (const size_t taken_first : {0, 1, 2}) {
      ModelRunner runner(*m, device_of(*m, own), nullptr, executor_options(*m, own, {}));
      const auto job = *start_score(m, request);
      ASSERT_TRUE(job->allocate(device_of(*m, own), nullptr));
      int64_t forwards = 0;
      const auto take = [&](RequestStep& step) {
        ++forwards;
        runner.run({&step, 1});
        ASSERT_TRUE(step.status && job->take(step, 0, nullptr));
      };
      std::vector<RequestStep> steps = job->steps(1000);
      for (size_t i = 0; i < std::min(taken_first, steps.size()); ++i) take(steps[i]);
      while (!job->done() && !HasFatalFailure()) {
        steps = job->steps(1);
        ASSERT_EQ(steps.size(), 1u) << "after " << forwards << " of " << alone.forwards << " forwards";
        take(steps[0]);
      }
      EXPECT_EQ(forwards, alone.forwards);
      EXPECT_EQ(bits(job->finish()), bits(alone));
    }
  }
}

// labels: threads
TEST_F(Likelihoods, AnEngineScoresAndGenerates) {
  const auto m = model("full");
  std::vector<std::string> expected;
  for (const ScoreRequest& request : every_method()) expected.push_back(bits(*open_session(m)->score(request)));
  const auto engine = *Engine::create(m, {.row_budget = 64});
  std::vector<std::shared_ptr<ScoreSubmission>> scores;
  Request generation = {.tokens = kPrompt};
  generation.options.gen_length = 8, generation.options.block_length = 8;
  const auto text = engine->submit(prepare(*m, generation).value());
  int called = 0;
  for (const ScoreRequest& request : every_method())
    scores.push_back(engine->submit_score(request, [&](const Result<ScoreResult>& s) { called += s.has_value(); }));
  const auto refused = engine->submit_score({kPrompt, {{99}}});
  const ScoreRequest long_work = {kPrompt, {Ids(50, 1)}, {.method = monte_carlo, .draws = 5000}};
  const auto cancelled = engine->submit_score(long_work);
  cancelled->cancel();
  for (size_t i = 0; i < scores.size(); ++i) {
    ASSERT_TRUE(scores[i]->wait());
    EXPECT_EQ(bits(*scores[i]->wait()), expected[i]);
  }
  EXPECT_TRUE(text->wait());
  EXPECT_EQ(called, static_cast<int>(scores.size()));
  ASSERT_FALSE(refused->wait());
  EXPECT_EQ(refused->wait().error().message, "continuation 1: token id 99 is outside the vocabulary of 11");
  ASSERT_FALSE(cancelled->wait());
  EXPECT_EQ(cancelled->wait().error().message, "score: cancelled");
}

// ---- What cannot be

TEST_F(Likelihoods, WhatCannotBeIsRefusedInOneLine) {
  const auto session = open_session(model("full"));
  const auto message = [&](const ScoreRequest& request) {
    const auto result = session->score(request);
    EXPECT_TRUE(result || exit_status(result.error()) == 2);
    return why_not(result);
  };
  EXPECT_EQ(message({kPrompt, {}}), "continuations: found none, needed one or more");
  EXPECT_EQ(message({{-1}, {{1}}}), "prompt: token id -1 is outside the vocabulary of 11");
  EXPECT_EQ(message({kPrompt, {{1}, {1, 2}}, {.method = exact}}),
            "continuation 2: found 2 tokens, needed 1 for the method exact");
  EXPECT_EQ(message({kPrompt, {Ids(59, 1)}}),
            "continuation 1: with the prompt it needs 65 positions; the model was trained for 64");
  EXPECT_EQ(message({kPrompt, {{1}}, {.method = monte_carlo, .draws = 0}}), "draws: found 0, needed 1 to 65536");
  EXPECT_EQ(message({kPrompt, {{1}}, {.method = monte_carlo, .batch = 0}}), "batch: found 0, needed 1 or more");
  EXPECT_EQ(message({kPrompt, {{1}}, {.method = monte_carlo, .fixed_tail = 2}}),
            "fixed_tail: found 2, needed 1 at most, the tokens of continuation 1");
  EXPECT_EQ(message({kPrompt, std::vector<Ids>(400, Ids(50, 1)), {.method = monte_carlo, .draws = 1000}}),
            "draws: found 1000 of 20000 tokens, needed 838 at most for so many tokens");
  EXPECT_EQ(message({kPrompt, {{1}}, {.cfg_scale = -1}}), "cfg_scale: found -1, needed 0 or more");
  EXPECT_EQ(message({kPrompt, {{1}}, {.cfg_scale = std::nan("")}}), "cfg_scale: found nan, needed 0 or more");
  ScoreRequest order = {kPrompt, {{1, 2}}, {.method = duel}};
  order.options.order.mbsd = true;
  EXPECT_EQ(message(order), "order: found revision or drafts, needed a rule whose commits are final");
  order.options.order = {decode::SamplingOptions{.temperature = 1}};
  EXPECT_EQ(message(order), "order: found sampling or penalties, needed none: the given text is written");
  order.options.order = {decode::LengthOptions{.block_length = 1, .steps = 1}};
  EXPECT_NE(message(order), "") << "what decoding refuses is refused before the first forward";
  // An empty prompt and an empty continuation are texts.
  EXPECT_EQ(message({{}, {{1, 2}, {}}}), "");
  EXPECT_EQ(message({kPrompt, {{}}, {.method = duel}}), "");
}

TEST(ScoreMethods, HaveNames) {
  for (const ScoreMethod method : {monte_carlo, chain, exact, duel, pseudo})
    EXPECT_EQ(*parse_method(method_name(method)), method);
  EXPECT_EQ(parse_method("best").error().message, "method: found 'best', needed mc, chain, exact, duel or pseudo");
}

}  // namespace
}  // namespace llada
