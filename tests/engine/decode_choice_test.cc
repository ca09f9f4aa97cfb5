// Who gets a length that follows the answer without having asked for it.
#include "engine/decode_choice.h"

#include <gtest/gtest.h>

namespace llada::decode_choice {
namespace {

struct Case {
  const char* what;
  std::vector<std::pair<std::string, std::string>> given;
  std::string preset;
  int64_t length;
  bool open, by_default;
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
      {"rows left behind", {{"kv", "frozen"}, {"evict", "2"}, {"threshold", "0.9"}}, "", 128, false, false},
  };
  for (const Case& c : cases) {
    DecodeChoice choice;
    choice.use_defaults();
    choice = chosen(c, choice);
    EXPECT_EQ(choice.options.gen_length, c.length) << c.what;
    EXPECT_EQ(choice.options.auto_length, c.open) << c.what;
    EXPECT_EQ(choice.length_by_default(), c.by_default) << c.what;
    if (choice.options.evict > 0) continue;     // its own test
    EXPECT_TRUE(choice.resolve(32)) << c.what;  // again, once the model is known
    EXPECT_EQ(choice.options.auto_length, c.open) << c.what << ", block-causal";
    EXPECT_EQ(choice.length_by_default(), c.by_default) << c.what << ", block-causal";
  }
}

// Where the end is found without predictions behind the block, leaving rows behind does not need to know the length.
TEST(DecodeChoice, RowsLeftBehindKeepTheLengthOpenWhereNothingIsMissing) {
  const auto resolved = [](decltype(Case::given) given, int64_t attention_block) {
    DecodeChoice choice;
    choice.use_defaults();
    return chosen({"rows left behind", std::move(given), "", 0, false, false}, choice, attention_block);
  };
  decltype(Case::given) given = {{"kv", "frozen"}, {"evict", "2"}, {"threshold", "0.9"}};
  EXPECT_TRUE(resolved(given, 32).length_by_default());
  EXPECT_FALSE(resolved(given, 0).length_by_default());
  given.push_back({"tail", "16"});
  EXPECT_TRUE(resolved(given, 0).length_by_default());
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
