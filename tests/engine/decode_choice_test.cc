// Who gets a length that follows the answer without having asked for it.
#include "engine/decode_choice.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

namespace llada::decode_choice {
namespace {

struct Case {
  const char* what;
  std::vector<std::pair<std::string, std::string>> given;
  std::string preset;
  int64_t length;
  bool open, by_default;
  bool causal_too = false;  // with a block-causal model the length is open, and by default
};

DecodeChoice chosen(const Case& c, DecodeChoice choice, int64_t attention_block = 0) {
  for (const auto& [key, value] : c.given) choice.give(decode::setting(key, value).value());
  choice.give_preset(c.preset);
  const Status status = choice.resolve(attention_block);
  EXPECT_TRUE(status) << c.what << ": " << (status ? "" : status.error().message);
  return choice;
}

TEST(DecodeChoice, TheLengthFollowsTheAnswerUnlessSomethingElseIsAskedFor) {
  const Case cases[] = {
      {"nothing", {}, "", 1024, true, true},
      {"a preset", {}, "fast", 1024, true, true},
      {"a rule", {{"threshold", "0.9"}}, "", 1024, true, true},
      {"a length", {{"gen_length", "96"}}, "", 96, false, false},
      {"auto itself", {{"gen_length", "auto:300"}}, "", 300, true, false},
      {"a length beside a preset", {{"gen_length", "96"}}, "exact", 96, false, false},
      {"a preset with a length", {}, "exact", 128, false, false},
      {"a schedule over a known length", {{"steps", "32"}}, "", 128, false, false},
      {"the canvas to its end", {{"early_stop", "none"}}, "", 128, false, false},
      {"rows left behind", {{"kv", "frozen"}, {"evict", "2"}, {"threshold", "0.9"}}, "", 128, false, false, true},
      {"rows left behind, and a tail",
       {{"kv", "frozen"}, {"evict", "2"}, {"threshold", "0.9"}, {"tail", "16"}},
       "",
       1024,
       true,
       true},
  };
  for (const Case& c : cases) {
    DecodeChoice choice;
    choice.use_defaults();
    choice = chosen(c, choice);
    EXPECT_EQ(choice.options.gen_length, c.length) << c.what;
    EXPECT_EQ(choice.options.auto_length, c.open) << c.what;
    EXPECT_EQ(choice.length_by_default(), c.by_default) << c.what;
    EXPECT_TRUE(choice.resolve(32)) << c.what;  // again, once the model is known
    EXPECT_EQ(choice.options.auto_length, c.open || c.causal_too) << c.what << ", block-causal";
    EXPECT_EQ(choice.length_by_default(), c.by_default || c.causal_too) << c.what << ", block-causal";
  }
}

// A built-in preset decodes the block that sees itself; what is said, or a tuned file was measured with, stays.
TEST(DecodeChoice, MinusOneStandsForASeedThatIsDrawn) {
  const auto seeds = [](const char* seed) {
    std::set<uint64_t> drawn;
    for (int i = 0; i < 4; ++i) {
      DecodeChoice choice =
          chosen({"a seed", {{"temperature", "1"}, {"seed", seed}}, "", 1024, true, true}, DecodeChoice());
      choice.draw_seed();
      drawn.insert(choice.options.seed);
    }
    return drawn;
  };
  EXPECT_GT(seeds("-1").size(), 1u);
  EXPECT_EQ(seeds("-2"), std::set<uint64_t>{UINT64_MAX - 1});
  EXPECT_EQ(seeds("18446744073709551615"), std::set<uint64_t>{UINT64_MAX}) << "the same bits, but meant";
}

TEST(DecodeChoice, BlocksAreTheModelsUnlessSomethingSaysOtherwise) {
  const auto file = std::filesystem::temp_directory_path() / fmt::format("llada_preset_{}.json", ::getpid());
  std::ofstream(file) << R"({"format":"llada-preset","version":1,"name":"n","options":"--kv block --threshold 0.9"})";
  const struct {
    Case of;
    int64_t length;
  } cases[] = {{{"a preset", {}, "balanced", 0, false, false}, 8},
               {{"the published one", {}, "llada2", 0, false, false}, 8},
               {{"said", {{"block_length", "4"}}, "balanced", 0, false, false}, 4},
               {{"a file", {}, file.string(), 0, false, false}, 32},
               {{"options alone", {{"threshold", "0.9"}}, "", 0, false, false}, 32}};
  for (const auto& [of, length] : cases) {
    DecodeChoice choice = chosen(of, DecodeChoice(), 8);
    EXPECT_EQ(choice.options.block_length, length) << of.what;
    EXPECT_EQ(choice.options.slide, false) << of.what;
    ASSERT_TRUE(choice.resolve(0)) << of.what;
    EXPECT_EQ(choice.options.block_length, of.what == std::string("said") ? 4 : 32) << of.what;
    EXPECT_EQ(choice.options.slide, of.preset == "balanced") << of.what;
  }
  std::filesystem::remove(file);
}

// Before the model is known nothing is refused that one kind of models can do.
TEST(DecodeChoice, AnUnknownModelMayBeBlockCausal) {
  DecodeChoice choice;
  choice.give_preset("balanced");
  choice.give(decode::setting("kv", "none").value());
  EXPECT_TRUE(choice.resolve());
  EXPECT_FALSE(choice.resolve(0));
  EXPECT_TRUE(choice.resolve(32));
  choice.give(decode::setting("threshold", "0.9").value());
  choice.give(decode::setting("accept", "llada2").value());
  choice.give(decode::setting("wino", "true").value());
  EXPECT_FALSE(choice.resolve()) << "nobody can do that";
}

// What help says is what a request without options gets.
TEST(DecodeChoice, DefaultsAreThoseOfNothingGiven) {
  for (const bool infill : {false, true})
    for (const bool by_default : {false, true}) {
      DecodeChoice choice(infill);
      if (by_default) choice.use_defaults();
      const decode::DecodeOptions defaults = choice.defaults();
      ASSERT_TRUE(choice.resolve());
      EXPECT_EQ(defaults.auto_length, by_default && !infill);
      EXPECT_EQ(defaults.auto_length, choice.options.auto_length);
      EXPECT_EQ(defaults.gen_length, choice.options.gen_length);
    }
}

TEST(DecodeChoice, WithoutDefaultsAndForGapsTheLengthIsFixed) {
  const DecodeChoice plain = chosen({"plain", {}, "balanced", 128, false, false}, DecodeChoice());
  EXPECT_EQ(plain.options.gen_length, 128);
  EXPECT_FALSE(plain.options.auto_length || plain.length_by_default());
  DecodeChoice gaps(true);
  gaps.use_defaults();
  gaps = chosen({"gaps", {{"threshold", "0.9"}}, "", 128, false, false}, gaps);
  EXPECT_FALSE(gaps.options.auto_length || gaps.length_by_default());
}

}  // namespace
}  // namespace llada::decode_choice
