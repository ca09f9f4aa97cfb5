// How a canvas is cut into blocks, with gaps, short last blocks and fixed text inside.
#include "decode/blocks.h"

#include <gmock/gmock.h>

#include <numeric>

#include "decode/script.h"

namespace llada::decode {
namespace {

using testing::ElementsAre;

std::vector<int64_t> transfers(int64_t gen, int64_t block, int64_t steps) {
  const Canvas canvas = lay_generation(std::vector<int32_t>{1, 2, 3}, gen, test_ids());
  const auto blocks = tile_blocks(canvas, 3, block);
  const auto shares = share_steps(blocks, steps);
  std::vector<int64_t> counts;
  for (size_t b = 0; b < blocks.size(); ++b) {
    for (int64_t s = 0; s < shares[b]; ++s) counts.push_back(transfer_count(blocks[b].masks, shares[b], s));
  }
  return counts;
}

TEST(Blocks, ScheduleWhereStepsDivide) {
  EXPECT_EQ(transfers(128, 32, 128), std::vector<int64_t>(128, 1));
  EXPECT_EQ(transfers(128, 32, 32), std::vector<int64_t>(32, 4));
  // 32 masks in 5 steps: the first two take one more.
  EXPECT_THAT(transfers(64, 32, 10), ElementsAre(7, 7, 6, 6, 6, 7, 7, 6, 6, 6));
  EXPECT_THAT(transfers(8, 8, 3), ElementsAre(3, 3, 2));
  EXPECT_THAT(transfers(64, 16, 4), ElementsAre(16, 16, 16, 16));
}

TEST(Blocks, ScheduleWhereStepsDoNotDivide) {
  // Two blocks, five steps: 2 + floor(3 * 3 / 6) = 2, then 3.
  EXPECT_THAT(transfers(8, 4, 5), ElementsAre(2, 2, 2, 1, 1));
  // 10 = 4 + 4 + 2 masks, six steps: three to share over 3, 3 and 1 masks; floors of 9/7, 18/7, 21/7.
  EXPECT_THAT(transfers(10, 4, 6), ElementsAre(2, 2, 2, 2, 1, 1));
  // One mask left over for the last block.
  EXPECT_THAT(transfers(9, 4, 3), ElementsAre(4, 4, 1));
  // More steps than masks are of no use.
  EXPECT_EQ(transfers(9, 4, 1000000000), std::vector<int64_t>(9, 1));
}

TEST(Blocks, SharesKeepTheirPromise) {
  for (int64_t gen = 1; gen <= 40; ++gen) {
    for (int64_t block = 1; block <= gen + 3; ++block) {
      const Canvas canvas = lay_generation({}, gen, test_ids());
      const auto blocks = tile_blocks(canvas, 0, block);
      for (auto steps = static_cast<int64_t>(blocks.size()); steps <= gen + 2; ++steps) {
        const auto shares = share_steps(blocks, steps);
        ASSERT_EQ(std::accumulate(shares.begin(), shares.end(), int64_t{0}), std::min(steps, gen));
        for (size_t b = 0; b < blocks.size(); ++b) {
          ASSERT_GE(shares[b], 1);
          ASSERT_LE(shares[b], blocks[b].masks);
          // Where the reference is defined, it is the reference.
          if (gen % block == 0 && steps <= gen && steps % (gen / block) == 0) {
            ASSERT_EQ(shares[b], steps / (gen / block));
          }
        }
      }
    }
  }
}

TEST(Blocks, StepsBeyondTheMasks) {
  const Canvas canvas = lay_generation({}, 8, test_ids());
  EXPECT_THAT(share_steps(tile_blocks(canvas, 0, 8), 50, true), ElementsAre(50));
  EXPECT_THAT(share_steps(tile_blocks(canvas, 0, 4), 50, true), ElementsAre(25, 25));
}

TEST(Blocks, EvenSteps) {
  EXPECT_THAT(even_steps(3, 0, 32), ElementsAre(32, 32, 32)) << "one token per step";
  EXPECT_THAT(even_steps(3, 24, 32), ElementsAre(8, 8, 8));
  EXPECT_THAT(even_steps(3, 8, 32), ElementsAre(2, 3, 3));
  EXPECT_THAT(even_steps(2, 1000, 4), ElementsAre(500, 500));
}

std::vector<std::vector<int64_t>> spans(const Canvas& canvas, int64_t from, int64_t length) {
  std::vector<std::vector<int64_t>> out;
  for (const Block& b : tile_blocks(canvas, from, length)) out.push_back({b.begin, b.end, b.masks});
  return out;
}

TEST(Blocks, TilesFromTheEndOfThePrompt) {
  const Canvas canvas = lay_generation(std::vector<int32_t>{1, 2, 3}, 10, test_ids());
  EXPECT_THAT(spans(canvas, 3, 4), ElementsAre(ElementsAre(3, 7, 4), ElementsAre(7, 11, 4), ElementsAre(11, 13, 2)));
  EXPECT_THAT(spans(canvas, 3, 100), ElementsAre(ElementsAre(3, 13, 10)));
  // From absolute zero the prompt's tail shares the first block.
  EXPECT_THAT(spans(canvas, 0, 4),
              ElementsAre(ElementsAre(0, 4, 1), ElementsAre(4, 8, 4), ElementsAre(8, 12, 4), ElementsAre(12, 13, 1)));
}

TEST(Blocks, LeavesOutSpansWithoutGaps) {
  const std::vector<int32_t> text(20, 1), gaps = {2, 4, 15};
  const Canvas canvas = *lay_infill(text, gaps, test_ids());
  // [6, 10) and [10, 14) hold fixed text only; the last span ends behind the last gap.
  EXPECT_THAT(spans(canvas, 2, 4), ElementsAre(ElementsAre(2, 6, 2), ElementsAre(14, 16, 1)));
}

}  // namespace
}  // namespace llada::decode
