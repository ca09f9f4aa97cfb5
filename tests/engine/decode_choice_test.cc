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
  choice.give(decode::setting("revision", "edit").value());
  for (const int64_t block : {0, 32}) EXPECT_FALSE(choice.resolve(block)) << "nobody can do that, for two reasons";
  DecodeChoice nobody;
  nobody.give(decode::setting("top_k", "5").value());
  EXPECT_FALSE(nobody.resolve()) << "nor that, for one";
}

// Where every kind of models refuses for another reason, the model says which one counts.
TEST(DecodeChoice, AReasonOfAnotherKindOfModelsIsNotTold) {
  for (const auto& [key, text] : {std::pair{"kv", "frozen"}, {"revision", "edit"}}) {
    DecodeChoice choice;
    choice.give_preset("exact");
    choice.give(decode::setting("accept", "causal").value());
    choice.give(decode::setting(key, text).value());
    EXPECT_EQ(choice.resolve().error().message, choice.resolve(32).error().message) << "whatever the model is";
    EXPECT_TRUE(choice.resolve(0).error().message.starts_with("accept: found causal with full attention")) << key;
    EXPECT_TRUE(
        choice.resolve(32).error().message.starts_with(std::string(key) + ": found " + text + " with accept causal"))
        << choice.resolve(32).error().message;
  }
}

// What the model cannot do at all is told before what two options cannot do together.
TEST(DecodeChoice, TheModelsReasonComesBeforeThatOfAPair) {
  const auto refused = [](const decode::ModelKind& kind, std::vector<std::pair<std::string, std::string>> given) {
    DecodeChoice choice;
    choice.use_defaults();
    for (const auto& [key, text] : given) choice.give(decode::setting(key, text).value());
    const Status status = choice.resolve(kind);
    return status ? std::string("accepted") : status.error().message;
  };
  decode::ModelKind plain;
  plain.moves_text = false;
  EXPECT_TRUE(refused(plain, {{"revision", "levenshtein"}})
                  .contains("revision: found levenshtein with a model that has no tokens for deletions"))
      << refused(plain, {{"revision", "levenshtein"}});
  EXPECT_TRUE(
      refused(32, {{"accept", "llada2"}, {"slide", "true"}}).contains("slide: found true with a block-causal model"))
      << refused(32, {{"accept", "llada2"}, {"slide", "true"}});
}

// What help says is what a request without options gets.
TEST(DecodeChoice, DefaultsAreThoseOfNothingGiven) {
  for (const bool infill : {false, true})
    for (const bool by_default : {false, true}) {
      DecodeChoice choice(infill);
      if (by_default) choice.use_defaults();
      const DecodeChoice defaults = choice.defaults();
      ASSERT_TRUE(choice.resolve(0));
      EXPECT_EQ(defaults.options.auto_length, by_default && !infill);
      EXPECT_EQ(decode::as_flags(defaults.options), decode::as_flags(choice.options));
      EXPECT_EQ(defaults.preset(), by_default ? "balanced" : "");
    }
}

// Named or not, a preset is changed by one value; only a fixed schedule takes the place of the unnamed one, and says so.
TEST(DecodeChoice, AnOptionReplacesOneValueOfTheDefaultPreset) {
  const auto asked = [](std::vector<std::pair<std::string, std::string>> given, std::string preset = "") {
    DecodeChoice choice;
    choice.use_defaults();
    return chosen({"", std::move(given), std::move(preset), 0, false, false}, choice);
  };
  const decode::DecodeOptions plain = asked({}).options;
  EXPECT_EQ(decode::as_flags(plain), decode::as_flags(asked({}, "balanced").options));
  for (const auto& [key, text] : {std::pair{"kv", "prefix"},
                                  {"tail", "32"},
                                  {"refresh_after", "4"},
                                  {"threshold", "0.5"},
                                  {"entropy_gate", "0.2"},
                                  {"slide", "false"}}) {
    const DecodeChoice choice = asked({{key, text}});
    EXPECT_EQ(choice.preset(), "balanced") << key;
    EXPECT_EQ(choice.note(), "") << key;
    decode::DecodeOptions expected = plain;
    ASSERT_TRUE(decode::set_field(expected, key, text));
    EXPECT_EQ(decode::as_flags(choice.options), decode::as_flags(expected)) << key;
  }
  const DecodeChoice steps = asked({{"steps", "32"}, {"kv", "dual"}});
  EXPECT_EQ(steps.preset(), "");
  EXPECT_EQ(decode::as_flags(steps.options), "--steps=32 --kv=dual");
  EXPECT_EQ(steps.note(), "steps asks for a fixed schedule, so preset balanced is not used");
  EXPECT_EQ(asked({{"accept", "llada2"}, {"threshold", "0.95"}}).preset(), "");
  EXPECT_EQ(decode::as_flags(asked({{"threshold", "0.8"}}, "exact").options), "--accept=threshold --threshold=0.8");
}

TEST(DecodeChoice, WhatDoesNotGoWithThePresetNamesBothAndTheWayOut) {
  const auto refused = [](DecodeChoice choice, const char* key, const char* text) {
    decode::Setting s = decode::setting(key, text).value();
    choice.give(std::move(s));
    return choice.resolve(0).error().message;
  };
  DecodeChoice flags, keys;
  flags.use_defaults(), keys.use_defaults();
  keys.call_preset("llada.preset");
  const std::string rest =
      "found 80 with kv none, which computes everything in every step, so that refresh_after would change nothing; "
      "needed kv "
      "prefix, dual, block or frozen; ";
  EXPECT_EQ(refused(flags, "kv", "none"),
            "kv none: does not go with preset balanced: --refresh-after (of preset balanced): " + rest +
                "--preset-decode exact starts without it");
  EXPECT_EQ(refused(keys, "kv", "none"),
            "kv none: does not go with preset balanced: refresh_after (of preset balanced): " + rest +
                "llada.preset exact starts without it");
  EXPECT_EQ(refused(flags, "steps", "2"),
            "steps: found 2 with gen_length 128, block_length 32, which are 4 blocks; needed 4 at least "
            "(steps is decoded without preset balanced)");
  keys.give_preset("exact");
  ASSERT_TRUE(keys.resolve(0));
  EXPECT_EQ(keys.as_typed({ErrorKind::invalid_input, "gen_length: too long"}).message,
            "gen_length (of preset exact): too long");
}

TEST(DecodeChoice, HelpTellsWhatAnOptionIsWhereNobodySaysIt) {
  DecodeChoice choice;
  choice.use_defaults();
  const DecodeChoice defaults = choice.defaults(), plain = DecodeChoice().defaults();
  for (const auto& [key, with, without] : {std::tuple{"kv", "preset: dual", "none"},
                                           {"accept", "preset: threshold", "schedule"},
                                           {"tail", "preset: 16", "all"},
                                           {"seed", "drawn", "0"},
                                           {"gen_length", "auto", "128"},
                                           {"block_length", "32", "32"},
                                           {"stable_threshold", "preset: 0.99", "0.9"}}) {
    EXPECT_EQ(defaults.described(*decode::find_field(key)), with);
    EXPECT_EQ(plain.described(*decode::find_field(key)), without);
  }
}

// Before the model is known, what one kind of models can do is not refused.
TEST(DecodeChoice, CausalVerificationIsOfTheModelsThatHaveIt) {
  DecodeChoice choice;
  choice.use_defaults();
  choice.give(decode::setting("accept", "causal").value());
  EXPECT_TRUE(choice.resolve());
  const Status causal = choice.resolve(decode::ModelKind(32, {}, true));
  ASSERT_TRUE(causal) << causal.error().message;
  EXPECT_EQ(choice.options.acceptance, decode::Acceptance::causal);
  EXPECT_EQ(choice.options.kv, decode::KvChoice::block);
  EXPECT_TRUE(choice.length_by_default());
  EXPECT_FALSE(choice.resolve(decode::ModelKind()));
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
