// Every pair of strategy and K/V policy works or is refused with one line; the table in the documentation is
// the one that the code makes.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "decode/script.h"
#include "decode/strategy_pairs.h"

namespace llada::decode {
namespace {

TEST(Pairs, EveryOneWorksOrIsRefusedWithOneLine) {
  int worked = 0, refused = 0;
  for (StrategyPair pair : strategy_pairs()) {
    DecodeOptions& o = pair.options;
    const std::string what = std::string(name(o.acceptance)) + " " + std::string(name(o.revision)) +
                             (o.mbsd ? " mbsd " : " ") + std::string(name(o.kv));
    if (!pair.refusal.empty()) {
      ++refused;
      EXPECT_THAT(pair.refusal, testing::HasSubstr("needed")) << what;
      EXPECT_EQ(pair.refusal.find('\n'), std::string::npos) << what;
      continue;
    }
    ++worked;
    o.gen_length = 40;
    o.block_length = 16;
    o.threshold = 0.6;
    for (uint64_t seed = 0; seed < 3; ++seed) {
      for (const EarlyStop stop : {EarlyStop::none, EarlyStop::answer}) {
        o.early_stop = stop;
        const Outcome outcome = run_script(o, std::vector<int32_t>{1, 2, 3}, random_script(seed, seed));
        ASSERT_FALSE(testing::Test::HasFailure()) << what;
        ASSERT_EQ(std::ranges::count(outcome.canvas.tokens, kMask) > 0, outcome.stats.stopped_early) << what;
      }
    }
  }
  EXPECT_EQ(worked, 9 * 3 * 2 * 5);
  EXPECT_EQ(refused, (10 + 3) * 2 * 5) << "what is left beside causal and levenshtein goes together";
}

// Those that work are run, and compared with each other, in block_causal_test.cc.
TEST(Pairs, BlockCausalModelsRefuseWithOneLine) {
  int worked = 0;
  for (const StrategyPair& pair : strategy_pairs(32)) {
    worked += pair.refusal.empty();
    const bool stale =
        pair.options.kv != KvChoice::none && pair.options.kv != KvChoice::block && pair.options.kv != KvChoice::frozen;
    EXPECT_TRUE(!pair.refusal.empty() || !(stale || pair.options.mbsd));
    EXPECT_TRUE(pair.refusal.empty() || pair.refusal.find("needed") != std::string::npos) << pair.refusal;
    EXPECT_EQ(pair.refusal.find('\n'), std::string::npos);
  }
  EXPECT_EQ(worked, 9 * (2 * 3 + 1) + 2 + 2)
      << "frozen without revision, causal without it and never frozen, levenshtein beside threshold and never frozen";
}

// A refusal below a table stands there because a cell names it.
TEST(Pairs, EveryFootnoteIsNamedInTheTable) {
  for (const int64_t attention_block : {0, 32}) {
    const std::string table = strategy_table(attention_block);
    int notes = 0;
    for (int n = 1; table.contains(fmt::format("\n{}. `", n)); ++n, ++notes)
      EXPECT_TRUE(table.contains(fmt::format("no ({})", n))) << n << " of block " << attention_block;
    EXPECT_FALSE(table.contains(fmt::format("no ({})", notes + 1)));
    EXPECT_GT(notes, 0);
  }
}

TEST(Pairs, TheDocumentedTableIsTheCodes) {
  std::ifstream file(LLADA_SOURCE_DIR "/docs/strategies.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const int64_t attention_block : {0, 32}) {
    const std::string table = strategy_table(attention_block);
    EXPECT_NE(text.str().find(table), std::string::npos) << "docs/strategies.md should contain:\n" << table;
  }
}

}  // namespace
}  // namespace llada::decode
