// Dream's published schedule: how many masks each step reveals, step by step, and the ids that come of it.
#include <gmock/gmock.h>

#include <sstream>

#include "decode/script.h"

namespace llada::decode {
namespace {

// "0 1x30 2": no mask in the first step, one in each of the next 30, two in the last. Computed by PyTorch in
// single precision with the published expression, int(masks * (1 - t[i + 1] / t[i])), t = linspace(1, 1e-3,
// steps + 1).
struct Published {
  int64_t gen, steps;
  const char* counts;
};

std::vector<size_t> unpacked(const Published& row) {
  std::vector<size_t> counts;
  std::istringstream words(row.counts);
  for (std::string word; words >> word;) {
    const size_t x = word.find('x');
    counts.insert(counts.end(), x == std::string::npos ? 1 : std::stoul(word.substr(x + 1)), std::stoul(word));
  }
  return counts;
}

constexpr Published kPublished[] = {
    {1, 1, "1"},
    {1, 7, "0x6 1"},
    {2, 2, "0 2"},
    {3, 2, "1 2"},
    {5, 9, "0x5 1x3 2"},
    {8, 4, "1 2x2 3"},
    {16, 16, "0 1x14 2"},
    {32, 32, "0 1x30 2"},
    {32, 8, "3 4x6 5"},
    {33, 12, "2x4 3x7 4"},
    {44, 16, "2x5 3x10 4"},
    {64, 64, "0 1x62 2"},
    {64, 63, "1x62 2"},
    {64, 10, "6x7 7x2 8"},
    {100, 17, "5x3 6x13 7"},
    {128, 128, "0 1x126 2"},
    {128, 127, "1x126 2"},
    {128, 20, "6x13 7x6 8"},
    {128, 512, "0x385 1x126 2"},
    {256, 256, "0 1x254 2"},
    {256, 48, "5x33 6x14 7"},
    {512, 512, "0 1x510 2"},
    {20, 400, "0x381 1x18 2"},
    {7, 1000, "0x995 1x4 3"},
};

DecodeOptions options_of(const Published& row, Acceptance rule) {
  return {LengthOptions{.gen_length = row.gen, .block_length = row.gen, .steps = row.steps},
          AcceptanceOptions{.acceptance = rule}, EndingOptions{.early_stop = EarlyStop::none}};
}

TEST(Dream, EachStepRevealsWhatThePublishedOneDoes) {
  for (const Published& row : kPublished) {
    SCOPED_TRACE(fmt::format("gen {} steps {}", row.gen, row.steps));
    const auto counts = unpacked(row);
    ASSERT_EQ(counts.size(), static_cast<size_t>(row.steps));
    // A forward that reveals nothing leaves the canvas as it is: the next one would see the same.
    std::vector<size_t> revealing;
    std::ranges::copy_if(counts, std::back_inserter(revealing), [](size_t n) { return n > 0; });
    const Outcome got =
        run_script(options_of(row, Acceptance::dream_entropy), kPrompt, random_script(row.gen + row.steps));
    std::vector<size_t> revealed;
    for (const auto& edits : got.trace) revealed.push_back(edits.size());
    EXPECT_EQ(revealed, revealing);
    EXPECT_EQ(got.stats.nfe, static_cast<int64_t>(revealing.size()));
  }
}

// The published loop, its empty steps included: which position is revealed when.
std::vector<int32_t> published_ids(const Published& row, const Script& script, Acceptance rule) {
  std::vector<int32_t> tokens = kPrompt;
  tokens.resize(kPrompt.size() + static_cast<size_t>(row.gen), kMask);
  int64_t forward = 0;
  for (const size_t n : unpacked(row)) {
    StepPlan all;
    all.keys = static_cast<int32_t>(tokens.size());
    for (int32_t i = 0; i < all.keys; ++i) all.rows.push_back(i);
    all.inputs = tokens;
    std::vector<Prediction> masks;
    for (const int32_t i : all.rows)
      if (tokens[static_cast<size_t>(i)] == kMask) masks.push_back(script(all, forward, i));
    ++forward;
    std::ranges::stable_sort(masks, std::less<>(), [&](const Prediction& p) {
      return rule == Acceptance::dream_entropy  ? p.entropy
             : rule == Acceptance::dream_margin ? -p.margin
                                                : -p.probability;
    });
    for (size_t i = 0; i < n; ++i) tokens[static_cast<size_t>(masks[i].position)] = masks[i].token;
  }
  return tokens;
}

TEST(Dream, TheIdsAreThePublishedOnes) {
  for (const Published& row : kPublished) {
    for (const Acceptance rule : {Acceptance::dream_entropy, Acceptance::dream_margin, Acceptance::dream_maskgit}) {
      const auto seed = static_cast<uint64_t>(row.gen);
      const Outcome got = run_script(options_of(row, rule), kPrompt, random_script(seed, 0));
      EXPECT_EQ(got.canvas.tokens, published_ids(row, random_script(seed, 0), rule))
          << row.gen << " in " << row.steps << " by " << name(rule);
    }
  }
}

// The greatest number of steps that an option takes is walked over, not run.
TEST(Dream, AnyNumberOfSteps) {
  const Outcome got = run_script(options_of({12, kMaxSteps, ""}, Acceptance::dream_maskgit), kPrompt, random_script(3));
  EXPECT_LE(got.stats.nfe, 12);
  EXPECT_EQ(count_masked(got.canvas), 0);
}

}  // namespace
}  // namespace llada::decode
