// Laying canvases and the head rules that go with options.
#include "decode/canvas.h"

#include <gmock/gmock.h>

#include "decode/answer.h"
#include "decode/script.h"

namespace llada::decode {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using enum TokenState;

TEST(Canvas, GenerationIsPromptThenMasks) {
  // A mask id in the prompt is text: it is neither decoded nor counted.
  const Canvas canvas = lay_generation(std::vector<int32_t>{1, kMask, 2}, 2, test_ids());
  EXPECT_THAT(canvas.tokens, ElementsAre(1, kMask, 2, kMask, kMask));
  EXPECT_THAT(canvas.states, ElementsAre(fixed, fixed, fixed, masked, masked));
  EXPECT_EQ(generated_begin(canvas), 3);
  EXPECT_EQ(count_masked(canvas), 2);
  EXPECT_FALSE(canvas.infill);
}

TEST(Canvas, InfillMasksItsGapsOnly) {
  const std::vector<int32_t> text = {1, 2, kMask, 3, 4}, gaps = {3, 0};
  const auto canvas = lay_infill(text, gaps, test_ids());
  ASSERT_TRUE(canvas);
  EXPECT_THAT(canvas->tokens, ElementsAre(kMask, 2, kMask, kMask, 4));
  EXPECT_THAT(canvas->states, ElementsAre(masked, fixed, fixed, masked, fixed));
  EXPECT_TRUE(canvas->infill);
}

TEST(Canvas, InfillRefusesBadGaps) {
  const std::vector<int32_t> text = {1, 2, 3};
  const auto message = [&](std::vector<int32_t> gaps) {
    const auto canvas = lay_infill(text, gaps, test_ids());
    return canvas ? std::string() : canvas.error().message;
  };
  EXPECT_EQ(message({}), "infill: found no gap, needed at least one");
  EXPECT_EQ(message({1, 3}), "infill: found a gap at position 3, needed 0 to 2");
  EXPECT_EQ(message({-1}), "infill: found a gap at position -1, needed 0 to 2");
  EXPECT_EQ(message({1, 2, 1}), "infill: found position 1 twice among the gaps");
}

TEST(Canvas, HashIsFnvOfTheTokens) {
  Canvas canvas;
  EXPECT_EQ(canvas_hash(canvas), 0xcbf29ce484222325u);
  canvas.tokens = {'a', 0x01020304};
  uint64_t expected = 0xcbf29ce484222325u;
  for (const uint64_t byte : {0x61, 0, 0, 0, 4, 3, 2, 1}) expected = (expected ^ byte) * 0x100000001b3u;
  EXPECT_EQ(canvas_hash(canvas), expected);
}

TEST(SamplingRule, FollowsTheReferenceWithItsQuirk) {
  const SpecialIds ids = test_ids();
  DecodeOptions options;
  EXPECT_THAT(head_rule(options, ids).never_sampled, ElementsAre(kMask));
  EXPECT_THAT(head_rule(options, ids).out_of_softmax, IsEmpty()) << "the mask stays in the softmax";

  options.logits_eos_inf = true;
  EXPECT_THAT(head_rule(options, ids).never_sampled, ElementsAre(kEos, kMask));
  EXPECT_THAT(head_rule(options, ids).out_of_softmax, ElementsAre(kEos));

  options = {EndingOptions{.confidence_eos_eot_inf = true}};
  EXPECT_THAT(head_rule(options, ids).never_sampled, ElementsAre(kMask)) << "they may be sampled";
  EXPECT_THAT(head_rule(options, ids).out_of_softmax, ElementsAre(kEos, kEot));
  options.temperature = 0.5;
  options.seed = 42;
  EXPECT_THAT(head_rule(options, ids).out_of_softmax, ElementsAre(kEot));
  EXPECT_EQ(head_rule(options, ids).temperature, 0.5);
  EXPECT_EQ(head_rule(options, ids).seed, 42u);
  options.logits_eos_inf = true;
  EXPECT_THAT(head_rule(options, ids).out_of_softmax, ElementsAre(kEos, kEot));
}

TEST(SamplingRule, InfillNeverEnds) {
  SpecialIds ids = test_ids();
  ids.end_ids = {kEot, 5};
  EXPECT_THAT(head_rule({}, ids, true).never_sampled, ElementsAre(5, kEos, kEot, kMask));
  EXPECT_THAT(head_rule({}, ids, true).out_of_softmax, ElementsAre(5, kEos, kEot));
}

TEST(SamplingRule, LeavesOutAbsentTokens) {
  const SpecialIds ids = {.mask = kMask};
  const SamplingRule rule =
      head_rule({EndingOptions{.logits_eos_inf = true, .confidence_eos_eot_inf = true}}, ids, true);
  EXPECT_THAT(rule.never_sampled, ElementsAre(kMask));
  EXPECT_THAT(rule.out_of_softmax, IsEmpty());
}

Canvas answer_canvas(std::vector<int32_t> generated) {
  Canvas canvas = lay_generation(std::vector<int32_t>{kEos, 1}, static_cast<int64_t>(generated.size()), test_ids());
  for (size_t i = 0; i < generated.size(); ++i) {
    canvas.tokens[i + 2] = generated[i];
    canvas.states[i + 2] = generated[i] == kMask ? masked : stable;
  }
  return canvas;
}

TEST(Answer, EndsBeforeTheFirstGeneratedEndToken) {
  const Canvas canvas = answer_canvas({1, 2, kEot, 3, kEos});
  EXPECT_EQ(answer_length(canvas, 2, test_ids().end_ids), 2);
  EXPECT_EQ(answer_length(canvas, 0, test_ids().end_ids), 4) << "an end token in the prompt is text";
  EXPECT_EQ(content_tokens(canvas, test_ids()), 2);
  EXPECT_EQ(answer_length(answer_canvas({1, 2, 3}), 2, test_ids().end_ids), 3);
  EXPECT_EQ(answer_length(answer_canvas({kEos}), 2, test_ids().end_ids), 0);
}

TEST(Answer, MasksAreNoContent) {
  EXPECT_EQ(content_tokens(answer_canvas({1, kMask, 2, kMask}), test_ids()), 2);
  const std::vector<int32_t> text(6, 1), gaps = {1, 3};
  Canvas infill = *lay_infill(text, gaps, test_ids());
  infill.tokens[1] = 2;
  infill.states[1] = stable;
  EXPECT_EQ(content_tokens(infill, test_ids()), 1) << "nor is fixed text";
}

TEST(Answer, CanonicalTailKeepsTheEndTokenAndFillsBehindIt) {
  Canvas canvas = answer_canvas({1, kEot, 3, kMask, kEos, kMask});
  const auto edits = canonical_tail(canvas, test_ids());
  EXPECT_THAT(canvas.tokens, ElementsAre(kEos, 1, 1, kEot, kEos, kEos, kEos, kEos));
  EXPECT_THAT(canvas.states, ElementsAre(fixed, fixed, stable, stable, stable, stable, stable, stable));
  ASSERT_EQ(edits.size(), 3u);
  EXPECT_EQ(edits[0].position, 4);
  EXPECT_EQ(edits[2].position, 7);
  EXPECT_THAT(canonical_tail(canvas, test_ids()), IsEmpty()) << "idempotent";

  SpecialIds without_eos = {.mask = kMask, .eot = kEot, .end_ids = {kEot}};
  canvas = answer_canvas({1, kEot, 3, kMask});
  canonical_tail(canvas, without_eos);
  EXPECT_THAT(canvas.tokens, ElementsAre(kEos, 1, 1, kEot, kEot, kEot));
}

TEST(Answer, CanonicalTailWaitsForAFinalAnswer) {
  for (Canvas canvas : {answer_canvas({1, kMask, kEot, 3, kMask}), answer_canvas({1, 2, 3})}) {
    const Canvas before = canvas;
    EXPECT_THAT(canonical_tail(canvas, test_ids()), IsEmpty());
    EXPECT_EQ(canvas.tokens, before.tokens);
    EXPECT_EQ(canvas.states, before.states);
  }
  // A visible token may still change, and with it what the answer is.
  Canvas revisable = answer_canvas({1, kEot, 3, kMask});
  revisable.states[2] = visible;
  EXPECT_FALSE(answer_is_final(revisable, test_ids()));
  EXPECT_THAT(canonical_tail(revisable, test_ids()), IsEmpty());
}

}  // namespace
}  // namespace llada::decode
