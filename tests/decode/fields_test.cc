// The list of options: complete, its texts read back, its ranges hold, and the documentation shows it.
#include "decode/fields.h"

#include <gmock/gmock.h>

#include <fstream>
#include <set>
#include <sstream>

#include "decode/options.h"
#include "decode/settings.h"
#include "must.h"

namespace llada::decode {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Anything {
  template <class T>
  operator T() const;
};

// How many members the struct has: the longest list of values that makes one.
template <class T, class... Values>
constexpr size_t members() {
  if constexpr (requires { T{Values{}..., Anything{}}; })
    return members<T, Values..., Anything>();
  else
    return sizeof...(Values);
}

// How many options a part lists: all of its members. `together` of them are one option with another.
template <class Part>
size_t listed_of(std::span<const Field> list, size_t together = 0) {
  EXPECT_EQ(list.size() + together, members<Part>()) << "a member has no entry beside " << list.front().key;
  return list.size();
}

// Texts that the field takes, other than its default, the ends of its range among them.
std::vector<std::string> samples(const Field& f) {
  std::vector<std::string> texts;
  const std::string preset = f.show(f, {});
  if (f.key == "seed") return {"7", "1000000"};  // its range is a type's
  if (f.key == "latency_table") return {"device", "8:1,16:1.5", "1:0"};
  if (f.key == "json_schema") return {R"({"type": "null"})", "true"};
  if (f.text) return {"yes|no", "a it's b"};
  if (f.is_switch()) return {preset == "true" ? "false" : "true"};
  for (const std::string_view word : f.words) texts.emplace_back(word);
  if (f.words.empty()) {
    const bool whole = f.unit == "N";
    const double step = whole ? 1 : 0.0625, most = std::min(f.range.most, 1e6);
    texts.push_back(fmt::format("{}", f.range.least + (f.range.above_least ? step : 0)));
    texts.push_back(fmt::format("{}", most - (f.range.below_most ? step : 0)));
    texts.push_back(fmt::format("{}", f.range.least + 3 * step));
    for (const std::string_view word : {f.word, f.second_word})
      if (!word.empty()) texts.emplace_back(word);
  }
  std::erase(texts, preset);
  return texts;
}

std::vector<std::string> texts_of(const DecodeOptions& options) {
  std::vector<std::string> texts;
  for (const Field& f : fields()) texts.push_back(f.show(f, options));
  return texts;
}

TEST(Fields, EveryMemberIsInTheListOnce) {
  std::set<std::string_view> keys;
  std::set<std::string> flags;
  for (const Field& f : fields()) {
    EXPECT_TRUE(keys.insert(f.key).second) << f.key;
    EXPECT_TRUE(flags.insert(flag(f)).second) << f.key;
    EXPECT_FALSE(f.help.empty()) << f.key;
    EXPECT_EQ(find_field(f.key), &f);
  }
  // latency_table and device_latency are one option, and so are gen_length and auto_length; logit_bias, tools and
  // loose_schema are none, but of the server's requests.
  const size_t listed = listed_of<LengthOptions>(length_fields(), 1) +
                        listed_of<AcceptanceOptions>(acceptance_fields()) +
                        listed_of<SamplingOptions>(sampling_fields(), 1) + listed_of<EndingOptions>(ending_fields()) +
                        listed_of<FormOptions>(form_fields(), 2) + listed_of<CacheOptions>(cache_fields()) +
                        listed_of<SpeculationOptions>(speculation_fields(), 1) +
                        listed_of<RevisionOptions>(revision_fields()) + listed_of<UniformOptions>(uniform_fields());
  EXPECT_EQ(fields().size(), listed) << "the list is the sum of the parts' own";
  EXPECT_TRUE(check_fields({}, false));
}

TEST(Fields, ATextReadsBackAndChangesItsOwnMemberAlone) {
  const std::vector<std::string> before = texts_of({});
  size_t at = 0;
  for (const Field& f : fields()) {
    DecodeOptions options;
    // No text of a form is empty: without the option there is none.
    const bool is_form = f.text && before[at].empty();
    ASSERT_EQ(set_field(options, f.key, before[at]).has_value(), !is_form) << f.key;
    EXPECT_EQ(texts_of(options), before) << f.key << ": its default reads back";
    ASSERT_FALSE(samples(f).empty()) << f.key;
    for (const std::string& text : samples(f)) {
      const Status status = set_field(options, f.key, text);
      ASSERT_TRUE(status) << status.error().message;
      EXPECT_EQ(*get_field(options, f.key), text);
      EXPECT_TRUE(check_fields(options, false)) << f.key << " " << text;
      auto after = texts_of(options);
      EXPECT_NE(after[at], before[at]) << f.key;
      after[at] = before[at];
      EXPECT_EQ(after, before) << f.key << " changes another option";
    }
    ++at;
  }
}

TEST(Fields, HostileTextsAreRefusedAndChangeNothing) {
  const std::string with_nul("1\0", 2);
  for (const Field& f : fields()) {
    for (const std::string& text :
         {std::string(), std::string("nan"), std::string("inf"), std::string("-inf"), std::string("1e999"),
          std::string("-1"), std::string("-0.5"), std::string("99999999999999999999999"), std::string("0x10"),
          std::string(" 1"), std::string("1 "), std::string("+1"), std::string("1,5"), std::string("TRUE"), with_nul,
          std::string(1 << 16, '9'), std::string("\xff"), std::string("%s%n"), std::string("1;2")}) {
      if (f.text) continue;  // of which these are some
      DecodeOptions options;
      if (text.starts_with("999") && text.size() < 100 && f.words.empty() && f.unit != "N" &&
          f.key != "latency_table" && !f.is_switch() && std::isinf(f.range.most))
        continue;                                     // a number like another
      if (f.key == "seed" && text == "-1") continue;  // which has a sign
      const Status status = set_field(options, f.key, text);
      ASSERT_FALSE(status) << f.key << " took '" << text.substr(0, 40) << "'";
      EXPECT_EQ(status.error().kind, ErrorKind::invalid_input);
      EXPECT_THAT(status.error().message, HasSubstr("eeded")) << f.key;
      EXPECT_THAT(status.error().message, StartsWith(std::string(f.key) + ": "));
      EXPECT_EQ(texts_of(options), texts_of({})) << f.key;
    }
    // Just beyond the ends of its range.
    if (f.text || !f.words.empty() || f.is_switch() || f.key == "latency_table" || f.key == "seed") continue;
    const Range& r = f.range;
    std::vector<double> outside = {r.above_least ? r.least : r.least - 1};
    if (std::isfinite(r.most)) outside.push_back(r.below_most ? r.most : r.most + 1);
    for (const double value : outside) {
      DecodeOptions options;
      EXPECT_FALSE(set_field(options, f.key, fmt::format("{}", value))) << f.key << " took " << value;
    }
  }
  DecodeOptions options;
  EXPECT_EQ(set_field(options, "thresold", "1").error().message, "'thresold' is no decoding option");
  EXPECT_EQ(set_field(options, "early_stop", "credit").error().message,
            "early_stop: found 'credit', needed one of none, block, answer");
  EXPECT_FALSE(get_field(options, ""));
}

// Naming an option alone gives options that are valid or refused for what they go with, never by another name.
TEST(Fields, EveryOneAloneIsResolvedOrRefusedByItsName) {
  for (const Field& f : fields()) {
    for (const std::string& text : samples(f)) {
      Setting s = *setting(f.key, text);
      s.typed = "--typed";
      const auto options = decode_options({&s, 1});
      if (!options) {
        EXPECT_THAT(options.error().message, StartsWith("--typed: ")) << f.key << " " << text;
        continue;
      }
      EXPECT_EQ(f.show(f, *options), text) << f.key;
    }
  }
}

TEST(Fields, WhatTuningTriesIsReadAndHoldsTheDefault) {
  for (const Field& f : fields()) {
    if (f.tune.empty()) continue;
    std::stringstream words{std::string(f.tune)};
    bool has_default = false;
    for (std::string word; words >> word;) {
      DecodeOptions options;
      EXPECT_TRUE(set_field(options, f.key, word)) << f.key << " " << word;
      has_default |= word == f.show(f, {});
    }
    EXPECT_TRUE(has_default) << f.key;
  }
}

TEST(Fields, TheDocumentedTableIsTheCodes) {
  std::ifstream file(LLADA_SOURCE_DIR "/docs/strategies.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(field_table()), std::string::npos)
      << "docs/strategies.md should contain what `llada help options --markdown` prints";
}

Result<DecodeOptions> resolve(std::vector<std::pair<const char*, const char*>> given,
                              std::vector<std::pair<const char*, const char*>> preset = {}) {
  std::vector<Setting> settings[2];
  for (const auto& [key, text] : given) settings[0].push_back(*setting(key, text));
  for (const auto& [key, text] : preset) settings[1].push_back(*setting(key, text));
  return decode_options(settings[0], {"p", settings[1]});
}

TEST(Settings, APresetGivesWay) {
  const auto own = must(resolve({{"threshold", "0.5"}}, {{"threshold", "0.9"}, {"slide", "true"}}));
  EXPECT_EQ(own->threshold, 0.5);
  EXPECT_TRUE(own->slide);
  EXPECT_FALSE(resolve({{"slide", "false"}}, {{"slide", "true"}})->slide);
  // Another rule, another way of revising: the preset's parameters of its own are left out.
  const auto factor = must(resolve({{"factor", "2"}}, {{"threshold", "0.9"}, {"tail", "16"}}));
  EXPECT_EQ(factor->acceptance, Acceptance::factor);
  EXPECT_EQ(factor->tail, 16);
  const auto edit = must(resolve({{"edit_steps", "4"}}, {{"threshold", "0.8"}, {"stable_threshold", "0.5"}}));
  EXPECT_EQ(edit->revision, Revision::edit);
  EXPECT_EQ(edit->threshold, 0.8);
  EXPECT_EQ(edit->stable_threshold, DecodeOptions().stable_threshold);
  EXPECT_EQ(resolve({{"tail", "all"}}, {{"tail", "16"}})->tail, -1);
  EXPECT_FALSE(resolve({}, {{"factor", "2"}, {"threshold", "0.9"}})) << "a preset that contradicts itself";
}

using Pairs = std::vector<std::pair<const char*, const char*>>;

// A preset that says something of everything, as the default one does.
const Pairs kWhole = {
    {"kv", "dual"},        {"refresh_after", "2"},      {"slide", "true"}, {"tail", "16"}, {"revision", "dual-path"},
    {"threshold", "0.85"}, {"stable_threshold", "0.99"}};

TEST(Settings, AnOptionReplacesThatValueOfThePresetAlone) {
  const DecodeOptions whole = *resolve({}, kWhole);
  EXPECT_EQ(as_flags(whole),
            "--slide --accept=threshold --threshold=0.85 --kv=dual --tail=16 --refresh-after=2 "
            "--revision=dual-path --stable-threshold=0.99");
  const auto with = [&](auto change) {
    DecodeOptions changed = whole;
    change(changed);
    return as_flags(changed);
  };
  const std::pair<Pairs, std::string> cases[] = {
      {{{"kv", "prefix"}}, with([](auto& o) { o.kv = KvChoice::prefix; })},
      {{{"tail", "all"}}, with([](auto& o) { o.tail = -1; })},
      {{{"slide", "false"}}, with([](auto& o) { o.slide = false; })},
      {{{"threshold", "0.5"}}, with([](auto& o) { o.threshold = 0.5; })},
      {{{"stable_threshold", "0.9"}}, with([](auto& o) { o.stable_threshold = 0.9; })},
      {{{"entropy_gate", "1"}}, with([](auto& o) { o.entropy_gate = 1; })},
      {{{"gen_length", "64"}}, with([](auto& o) { o.gen_length = 64; })},
      // Another rule replaces the rule; caches and revision stay.
      {{{"factor", "2"}}, with([](auto& o) { o.acceptance = Acceptance::factor, o.factor = 2, o.threshold = 0.7; })},
      // Without the way of revising its threshold is still that of the rule.
      {{{"revision", "none"}},
       with([](auto& o) { o.revision = Revision::none, o.stable_threshold = DecodeOptions().stable_threshold; })},
      {{{"slide", "false"}, {"edit_steps", "4"}}, with([](auto& o) {
         o.slide = false, o.revision = Revision::edit, o.edit_steps = 4;
         o.stable_threshold = DecodeOptions().stable_threshold;
       })},
  };
  for (const auto& [given, expected] : cases) {
    const auto options = resolve(given, kWhole);
    ASSERT_TRUE(options) << given[0].first << ": " << options.error().message;
    EXPECT_EQ(as_flags(*options), expected) << given[0].first << " " << given[0].second;
  }
}

TEST(Settings, WhatDoesNotGoWithThePresetIsRefusedNamingBoth) {
  const std::pair<Pairs, const char*> cases[] = {
      {{{"kv", "none"}}, "kv none: does not go with preset p: refresh_after: found 2 with kv none"},
      {{{"tail", "8"}, {"kv", "none"}}, "kv none: does not go with preset p: refresh_after: found 2"},
      {{{"edit_steps", "4"}}, "edit_steps 4: does not go with preset p: slide: found revision edit, which"},
  };
  for (const auto& [given, message] : cases) EXPECT_THAT(resolve(given, kWhole).error().message, StartsWith(message));
  // What is wrong without it is said as without it.
  EXPECT_THAT(resolve({{"top_p", "0.5"}}, kWhole).error().message, StartsWith("top_p: found 0.5 with temperature 0"));
  // A block-causal model's objections are to the two together as well.
  const Setting frozen = *setting("kv", "frozen");
  const std::vector<Setting> preset = {*setting("kv", "block"), *setting("revision", "dual-path")};
  EXPECT_TRUE(decode_options({&frozen, 1}, {"p", preset}));
  EXPECT_THAT(decode_options({&frozen, 1}, {"p", preset}, {.kind = 32}).error().message,
              StartsWith("kv frozen: does not go with preset p: revision: found dual-path with kv frozen"));
}

TEST(Settings, AFixedScheduleIsAskedForByStepsAndRules) {
  const auto asks = [](const char* key, const char* text) { return asks_for_schedule(*setting(key, text)); };
  EXPECT_TRUE(asks("steps", "32"));
  EXPECT_TRUE(asks("steps", "0")) << "one token per forward";
  for (const Acceptance rule : all_values<Acceptance>())
    EXPECT_EQ(asks("accept", std::string(name(rule)).c_str()), has_schedule(rule)) << name(rule);
  for (const auto& [key, text] : {std::pair{"threshold", "0.9"}, {"kv", "dual"}, {"factor", "1"}})
    EXPECT_FALSE(asks(key, text)) << key;
}

TEST(Settings, AWayOfRevisingHasItsThreshold) {
  EXPECT_EQ(resolve({{"revision", "edit"}})->threshold, 0.7);
  EXPECT_FALSE(resolve({{"revision", "none"}, {"edit_steps", "4"}}));
}

TEST(Settings, ARefusalNamesWhatWasTyped) {
  Setting drafts = *setting("mbsd_trigger", "4");
  drafts.typed = "--mbsd-trigger";
  EXPECT_THAT(decode_options(std::vector<Setting>{drafts, *setting("tail", "0")}).error().message,
              StartsWith("--mbsd-trigger: found tail 0"));
}

}  // namespace
}  // namespace llada::decode
