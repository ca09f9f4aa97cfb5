// Every pair of strategy and K/V policy works or is refused with one line; the table in the documentation is
// the one that the code makes.
#include <gmock/gmock.h>

#include <fstream>
#include <ranges>
#include <set>
#include <sstream>

#include "decode/script.h"
#include "decode/settings.h"
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
  EXPECT_EQ(worked, 11 * 3 * 2 * 5);
  EXPECT_EQ(refused, (11 + 4) * 2 * 5) << "what is left beside causal and levenshtein goes together";
}

// What a refusal calls for: "dual or block", "accept schedule, factor or wedlm, or slide false", less what is no word.
std::vector<Setting> cures(const std::string& refusal) {
  std::string needed = refusal.substr(refusal.rfind("needed ") + 7);
  for (const std::string_view by : {", or ", " or "})
    for (size_t at = 0; (at = needed.find(by)) != std::string::npos;) needed.replace(at, by.size(), ", ");
  std::string key = refusal.substr(0, refusal.find(':'));
  std::vector<Setting> all;
  for (const auto part : std::views::split(needed, std::string_view(", "))) {
    std::string word(part.begin(), part.end());
    const size_t blank = word.find(' ');
    if (blank != std::string::npos && find_field(word.substr(0, blank)) != nullptr)
      key = word.substr(0, blank), word.erase(0, blank + 1);
    DecodeOptions scratch;
    if (set_field(scratch, key, word)) all.push_back(*setting(key, word));
  }
  return all;
}

// Whoever does what a refusal says is not told of the same option, or of the new value, once more.
TEST(Pairs, WhatARefusalCallsForWorks) {
  constexpr std::pair<std::string_view, std::string_view> kSet[] = {
      {"steps", "64"},        {"slide", "true"},      {"confidence_eos_eot_inf", "true"},
      {"refresh_after", "2"}, {"gen_length", "auto"}, {"entropy_gate", "1"},
      {"early_stop", "none"}, {"cfg_scale", "0.5"},   {"revise_lateness", "0"},
      {"kv", "frozen"},       {"mbsd", "true"}};
  ModelKind window(16);
  window.decided_first = true;
  ModelKind together(32);
  together.whole_blocks = true, together.moves_text = false;
  int tried = 0;
  std::set<std::string> reasons;
  for (const ModelKind& kind : {ModelKind(), ModelKind(32), window, together})
    for (const Acceptance acceptance : all_values<Acceptance>())
      for (const Revision revision : all_values<Revision>())
        for (size_t i = 0; i < std::size(kSet); ++i)
          for (size_t j = 0; j <= i; ++j) {
            DecodeOptions o;
            o.acceptance = acceptance, o.revision = revision, o.block_length = 16;
            for (const auto& [key, value] : {kSet[i], kSet[j]}) ASSERT_TRUE(set_field(o, key, value));
            const Status status = validate(o, false, kind);
            if (status) continue;
            const std::string& message = status.error().message;
            reasons.insert(message);
            EXPECT_FALSE(message.contains('{')) << message;
            for (const Setting& cure : cures(message)) {
              DecodeOptions cured = o;
              ASSERT_TRUE(set_field(cured, cure.field->key, cure.text));
              const Status after = validate(cured, false, kind);
              const std::string refused = after ? "" : after.error().message;
              EXPECT_FALSE(refused.starts_with(message.substr(0, message.find(':') + 1)) ||
                           refused.starts_with(std::string(cure.field->key) + ":"))
                  << message << "\n  " << cure.field->key << " " << cure.text << "\n"
                  << refused;
              ++tried;
            }
          }
  EXPECT_GT(tried, 1000);
  EXPECT_GT(reasons.size(), 50u);
}

// Each in whole, as a user reads it.
TEST(Pairs, SayInPlainWordsWhatWouldWork) {
  const auto refused = [](std::vector<std::pair<std::string_view, std::string_view>> given, ModelKind kind = {}) {
    DecodeOptions o;
    for (const auto& [key, value] : given) EXPECT_TRUE(set_field(o, key, value)) << key;
    const Status status = validate(o, false, kind);
    return status ? std::string("accepted") : status.error().message;
  };
  EXPECT_EQ(refused({{"steps", "64"}, {"accept", "threshold"}}),
            "steps: found 64 with accept threshold, which decides itself how many tokens a step keeps, so that steps "
            "would change nothing; needed accept schedule, random, llada2, dream-entropy, dream-margin, dream-maskgit "
            "or rnd1");
  EXPECT_EQ(refused({{"entropy_gate", "1"}}),
            "entropy_gate: found 1 with accept schedule, which keeps a planned number of tokens in every step; needed "
            "accept threshold, factor, entropy or wedlm");
  EXPECT_EQ(refused({{"steps", "64"}, {"gen_length", "auto"}}),
            "steps: found 64 with gen_length auto, which leaves open how many blocks share the steps; needed it left "
            "out, or a number for gen_length");
  EXPECT_EQ(refused({{"early_stop", "none"}, {"gen_length", "auto"}}),
            "early_stop: found none with gen_length auto, which goes on until the answer ends; needed block or answer, "
            "or a number for gen_length");
  EXPECT_EQ(refused({{"mbsd", "true"}, {"tail", "0"}}),
            "mbsd: found tail 0, which leaves nothing behind the block to draft, so that mbsd would change nothing; "
            "needed tail all, or above 0");
  EXPECT_EQ(refused({{"mbsd", "true"}, {"gen_length", "16"}, {"block_length", "16"}}),
            "mbsd: found gen_length 16, block_length 16, which leaves nothing behind the block to draft, so that mbsd "
            "would change nothing; needed block_length below gen_length");
  EXPECT_EQ(refused({{"mbsd", "true"}, {"gen_length", "16"}, {"block_length", "16"}}, 16),
            "mbsd: found gen_length 16, block_length 16, which leaves nothing behind the block to draft, so that mbsd "
            "would change nothing; needed block_length below gen_length");
  EXPECT_EQ(refused({{"mbsd", "true"}, {"revision", "edit"}}, 32),
            "mbsd: found revision edit, which edits a block-causal model's blocks one after the other; needed revision "
            "none or dual-path");
  EXPECT_EQ(refused({{"mbsd", "true"}, {"accept", "causal"}}, 32),
            "mbsd: found accept causal, which keeps a causal forward's tokens as they are; needed it left out");
  EXPECT_EQ(refused({{"mbsd", "true"}}, {32, {}, true}),
            "mbsd: found true with a model that reads finished text causally, so that its K/V is final; needed it left "
            "out");
  EXPECT_EQ(refused({{"accept", "causal"}, {"kv", "frozen"}}, 32),
            "kv: found frozen with accept causal, whose causal forwards write the K/V for good; needed none or block");
}

// Those that work are run, and compared with each other, in block_causal_test.cc.
TEST(Pairs, BlockCausalModelsRefuseWithOneLine) {
  int worked = 0;
  for (const StrategyPair& pair : strategy_pairs(32)) {
    worked += pair.refusal.empty();
    const bool stale =
        pair.options.kv != KvChoice::none && pair.options.kv != KvChoice::block && pair.options.kv != KvChoice::frozen;
    EXPECT_TRUE(!pair.refusal.empty() || !stale);
    EXPECT_TRUE(pair.refusal.empty() || pair.refusal.find("needed") != std::string::npos) << pair.refusal;
    EXPECT_EQ(pair.refusal.find('\n'), std::string::npos);
  }
  EXPECT_EQ(worked, 11 * (2 * 6) + 2 + 2)
      << "mbsd with no revision and dual-path, frozen without revision; causal and levenshtein (beside threshold) "
         "without both";
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
