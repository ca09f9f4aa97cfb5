// Options that there once were are refused with what replaced them, wherever a name is read.
#include "decode/removed.h"

#include <gmock/gmock.h>

#include <iterator>
#include <sstream>

#include "decode/settings.h"

namespace llada::decode {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// All that programs of an earlier version could write.
const auto kBefore = [] {
  std::istringstream words(
      "gen_length block_length slide steps accept threshold factor entropy_bound anchor_threshold "
      "settle_threshold settle_steps frechet_margin entropy_gate ahead_steps ahead_threshold credit remasking "
      "temperature seed top_k top_p min_p repeat_penalty repeat_window cfg_scale early_stop logits_eos_inf "
      "confidence_eos_eot_inf kv tail tail_last warmup refresh refresh_drift frozen_final evict evict_rows "
      "draft mbsd mbsd_trigger mbsd_lookahead mbsd_threshold mbsd_drafts mbsd_max_rows latency_table "
      "latency_slack revision revise visible_threshold stable_threshold stable_repeats revise_policy "
      "revise_path revise_rows revise_limit final_sweep wino wino_back edit_threshold edit_steps edit_mask "
      "remask_share remask_below remask_limit t_max t_min stability_threshold");
  return std::vector<std::string>(std::istream_iterator<std::string>(words), {});
}();

TEST(Removed, EveryNameThatWasThereIsAnOptionOrSaysWhatReplacedIt) {
  EXPECT_EQ(kBefore.size(), 67u);
  size_t still = 0;
  for (const std::string& key : kBefore) {
    still += find_field(key) != nullptr;
    EXPECT_TRUE(find_field(key) != nullptr || !replaced_by(key).empty()) << key;
    if (find_field(key) == nullptr) {
      EXPECT_EQ(no_option(key), fmt::format("'{}' was removed: {}", key, replaced_by(key)));
    }
  }
  EXPECT_EQ(still + 5 + form_fields().size(), fields().size())
      << "revise_lateness, neighbour_penalty, refresh_after, the forms and two of random canvases are new";
  EXPECT_EQ(no_option("thresold"), "'thresold' is no decoding option");
  EXPECT_EQ(no_option(""), "'' is no decoding option");
}

TEST(Removed, FlagsAreFoundAsKeysAre) {
  EXPECT_EQ(replaced_by("--wino-back"), replaced_by("wino_back"));
  EXPECT_EQ(no_option("--credit"), "'--credit' was removed: revision=dual-path checks doubtful tokens again");
  EXPECT_EQ(no_option("--"), "'--' is no decoding option");
}

TEST(Removed, SettingsAndFieldsRefuseAlike) {
  DecodeOptions options;
  for (const std::string& message :
       {setting("draft", "4").error().message, set_field(options, "draft", "4").error().message,
        get_field(options, "draft").error().message})
    EXPECT_EQ(message, "'draft' was removed: mbsd drafts blocks ahead");
}

TEST(Removed, WordsOfAChoiceToo) {
  const std::pair<const char*, const char*> cases[] = {
      {"accept", "anchored"}, {"accept", "settled"}, {"accept", "frechet"},  {"kv", "suffix"},
      {"kv", "delayed"},      {"revision", "wino"},  {"revision", "remask"}, {"revision", "edit-blocks"}};
  for (const auto& [key, word] : cases) {
    DecodeOptions options;
    const Status status = set_field(options, key, word);
    ASSERT_FALSE(status) << key << " " << word;
    EXPECT_THAT(status.error().message, StartsWith(fmt::format("{}: found '{}', which was removed: ", key, word)));
    EXPECT_EQ(status.error().message.substr(status.error().message.rfind(": ") + 2), replaced_by(key, word));
  }
  DecodeOptions options;
  EXPECT_THAT(set_field(options, "kv", "lru").error().message, HasSubstr("needed one of none"));
}

// What is named instead is there.
TEST(Removed, WhatReplacesIsAnOption) {
  for (const std::string& key : kBefore) {
    const std::string text(replaced_by(key));
    for (size_t at = 0; (at = text.find('=', at)) != std::string::npos; ++at) {
      const size_t begin = text.find_last_of(" ", at) + 1, end = std::min(text.find_first_of(" ,;", at), text.size());
      const std::string name = text.substr(begin, at - begin), value = text.substr(at + 1, end - at - 1);
      ASSERT_NE(find_field(name), nullptr) << text;
      DecodeOptions options;
      EXPECT_TRUE(set_field(options, name,
                            value == "N:1" ? "4:1"
                            : value == "N" ? (name == "threshold" ? "0.5" : "4")
                                           : value))
          << text;
    }
  }
}

}  // namespace
}  // namespace llada::decode
