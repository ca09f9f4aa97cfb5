// Gaps of open length: which lengths are tried, that the best one by definition is taken, and what it costs.
#include "engine/gap_lengths.h"

#include <cmath>
#include <limits>
#include <set>

#include "engine/engine.h"
#include "engine/infill_text.h"
#include "golden.h"

namespace llada {
namespace {

TEST(GapLadder, HasEveryPowerOfTwoAndWhatIsBetween) {
  using Lengths = std::vector<int64_t>;
  EXPECT_EQ(gap_ladder(1), Lengths({1}));
  EXPECT_EQ(gap_ladder(2), Lengths({1, 2}));
  EXPECT_EQ(gap_ladder(5), Lengths({1, 2, 3, 4, 5}));
  EXPECT_EQ(gap_ladder(32), Lengths({1, 2, 3, 4, 6, 8, 12, 16, 24, 32}));
  EXPECT_EQ(gap_ladder(kMaxGap).back(), kMaxGap);
}

TEST(GapLadder, GapsMoveWithThoseBeforeThem) {
  const std::vector<InfillGap> gaps = {{2, 4, true}, {6, 1}, {9, 8, true}, {20, 3}};
  const std::vector<InfillGap> laid = {{2, 1, true}, {3, 1}, {6, 6, true}, {15, 3}};
  EXPECT_EQ(laid_gaps(gaps, std::vector<int64_t>{1, 6}), laid);
}

class GapLengths : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = load_model(LLADA_SOURCE_DIR "/models/tiny-llada", 1); }
  static void TearDownTestSuite() { model_.reset(); }

  static Request request(const std::string& text) {
    InfillLayout layout = lay_out_infill(*model_, parse_infill_template(text).value()).value();
    Request request{.tokens = layout.tokens, .gaps = layout.positions, .auto_gaps = layout.automatic()};
    request.options.acceptance = decode::Acceptance::threshold;
    return request;
  }

  static Generation run(const Request& request) {
    return open_session(model_)->run(prepare(*model_, request).value(), {}).value();
  }

  // The mean log probability of the best tokens in the `index`-th gap, read off whole rows of logits.
  static double confidence(const std::string& text, size_t index) {
    const InfillLayout layout = lay_out_infill(*model_, parse_infill_template(text).value()).value();
    const InfillGap gap = layout.gaps[index];
    std::vector<int32_t> positions;
    for (int64_t i = 0; i < gap.length; ++i) positions.push_back(static_cast<int32_t>(gap.position + i));
    const std::vector<float> logits = open_session(model_)->logits(layout.tokens, positions).value();
    const decode::SpecialIds& ids = model_->special_ids();
    const auto vocab = static_cast<int32_t>(model_->config().vocab);
    double sum = 0;
    for (size_t row = 0; row < positions.size(); ++row) {
      double all = 0, best = -std::numeric_limits<double>::infinity();
      for (int32_t token = 0; token < vocab; ++token) {
        if (std::ranges::count(ids.end_ids, token) > 0) continue;  // the text goes on behind a gap
        const double logit = logits[row * static_cast<size_t>(vocab) + static_cast<size_t>(token)];
        all += std::exp(logit);
        if (token != ids.mask) best = std::max(best, logit);
      }
      sum += best - std::log(all);
    }
    return sum / static_cast<double>(positions.size());
  }

  // With "?" for the length that is tried.
  static int64_t best_length(const std::string& text, size_t index, std::initializer_list<int64_t> ladder) {
    int64_t best = 0;
    double most = -std::numeric_limits<double>::infinity();
    for (const int64_t length : ladder) {
      std::string tried = text;
      tried.replace(tried.find('?'), 1, std::to_string(length));
      if (const double mean = confidence(tried, index); mean > most) most = mean, best = length;
    }
    return best;
  }

  static inline std::shared_ptr<const Model> model_;
};

void expect_decoded_as(const Generation& open, const Generation& fixed, int64_t forwards) {
  EXPECT_EQ(open.tokens, fixed.tokens);
  EXPECT_EQ(open.text, fixed.text);
  EXPECT_EQ(open.stats.canvas_hash, fixed.stats.canvas_hash);
  EXPECT_EQ(open.stats.decode.steps, fixed.stats.decode.steps);
  EXPECT_EQ(open.stats.decode.nfe, fixed.stats.decode.nfe + forwards);
  EXPECT_EQ(open.stats.prompt_tokens, fixed.stats.prompt_tokens);
  EXPECT_EQ(open.stats.content_tokens, fixed.stats.content_tokens);
}

TEST_F(GapLengths, TheBestByDefinitionIsTaken) {
  std::set<int64_t> found;
  for (const std::string text : {"Ken has 20+6=<mask:?> puzzles.", "<mask:?> has 4 coins. Theo has 4+9=13 coins.",
                                 "Fred has 20 puzzles. Ken has <mask:?>. Theo has 26-3=23 puzzles.", "2 11 <mask:?>"}) {
    const int64_t best = best_length(text, 0, {1, 2, 3, 4, 6, 8, 12, 16});
    std::string open = text, fixed = text;
    const Generation taken = run(request(open.replace(open.find('?'), 1, "auto:16")));
    ASSERT_EQ(taken.gap_lengths, std::vector<int64_t>{best}) << text;
    expect_decoded_as(taken, run(request(fixed.replace(fixed.find('?'), 1, std::to_string(best)))), 8);
    found.insert(best);
  }
  EXPECT_GT(found.size(), 1u) << "the texts need different lengths";
}

TEST_F(GapLengths, FromLeftToRight) {
  const std::string first = "Ken has 20+6=<mask:?> puzzles. <mask:1>heo has 26-3=<mask:2> puzzles.";
  const int64_t one = best_length(first, 0, {1, 2, 3, 4, 6, 8});
  const std::string second = fmt::format("Ken has 20+6=<mask:{}> puzzles. <mask:1>heo has 26-3=<mask:?> puzzles.", one);
  const int64_t two = best_length(second, 2, {1, 2, 3, 4, 5});
  const Request both = request("Ken has 20+6=<mask:auto:8> puzzles. <mask:1>heo has 26-3=<mask:auto:5> puzzles.");
  const Generation taken = run(both);
  EXPECT_EQ(taken.gap_lengths, std::vector<int64_t>({one, two}));
  std::string fixed = second;
  expect_decoded_as(taken, run(request(fixed.replace(fixed.find('?'), 1, std::to_string(two)))), 6 + 5);

  // Beside others, as alone.
  const auto engine = Engine::create(model_, {.threads = 1}).value();
  const auto beside = engine->submit(prepare(*model_, request("Theo has 26-3=<mask:auto> puzzles.")).value());
  Request sampled = both;
  sampled.options.temperature = 0.5, sampled.options.seed = 7;
  const auto other = engine->submit(prepare(*model_, sampled).value()),
             same = engine->submit(prepare(*model_, both).value(), {.keep_steps = true});
  EXPECT_EQ((*same->wait()).tokens, taken.tokens);
  EXPECT_EQ((*same->wait()).stats.decode, taken.stats.decode);
  EXPECT_EQ((*other->wait()).gap_lengths, taken.gap_lengths) << "chosen greedily";
  EXPECT_EQ(std::ssize(same->next()->given), std::ssize(taken.tokens));
}

TEST_F(GapLengths, BrokenOffBeforeTheChoiceTheyAreTheLongest) {
  const Request asked = request("Ken has <mask:auto:6> puzzles.");
  auto running = RunningRequest::create(model_, prepare(*model_, asked).value(), 0, {}).value();
  running->cancel();
  EXPECT_TRUE(running->done());
  const Generation none = running->finish(model_->device());
  EXPECT_EQ(none.gap_lengths, std::vector<int64_t>{6});
  EXPECT_EQ(none.tokens.size(), asked.tokens.size());
  EXPECT_TRUE(none.stats.decode.cancelled);
}

TEST_F(GapLengths, AsLongAsTheContextAllows) {
  const int64_t context = model_->context();
  const auto texts = [&](int64_t fixed) { return request(fmt::format("<mask:auto:4><mask:{}><mask:auto:4>", fixed)); };
  const auto given = std::ssize(texts(1).tokens) - 1 - 8;  // what begins a text
  const int64_t most = context - given;
  ASSERT_LE(most, kMaxGap);
  EXPECT_EQ(texts(most - 8).auto_gaps.back().length, 4);
  const Request tight = texts(most - 5);
  EXPECT_EQ(std::ssize(tight.tokens), context);
  EXPECT_EQ(tight.auto_gaps.front().length, 4);
  EXPECT_EQ(tight.auto_gaps.back().length, 1);
  EXPECT_TRUE(prepare(*model_, texts(most - 2)));
  const auto full = prepare(*model_, texts(most - 1));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().message.rfind("the text has ", 0), 0u) << full.error().message;
}

}  // namespace
}  // namespace llada
