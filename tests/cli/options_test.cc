// Options are read strictly, from the command line and from one string alike.
#include "cli/options.h"

#include <gtest/gtest.h>

#include <set>

#include "cli/tune_axes.h"
#include "engine/decode_preset.h"
#include "must.h"

namespace llada::cli {
namespace {

using decode::Acceptance;
using decode::DecodeOptions;

TEST(ParseDecodeOptions, NothingGivenIsTheDefault) {
  const auto parsed = must(parse_decode_options("  \t "));
  const DecodeOptions plain;
  EXPECT_EQ(std::tuple(parsed->gen_length, parsed->acceptance, parsed->early_stop, parsed->kv),
            std::tuple(plain.gen_length, plain.acceptance, plain.early_stop, plain.kv));
}

TEST(ParseDecodeOptions, EveryOptionReachesItsField) {
  const auto a =
      must(parse_decode_options("--gen-length 96 --block-length=16 --steps 48 --accept random --temperature 0.5 --seed "
                                "18446744073709551615 "
                                "--cfg-scale 1.5 --early-stop block --logits-eos-inf --kv dual --refresh-after 7"));
  EXPECT_EQ(std::tuple(a->gen_length, a->block_length, a->steps, a->acceptance, a->temperature, a->seed, a->cfg_scale),
            std::tuple(96, 16, 48, decode::Acceptance::random, 0.5, UINT64_MAX, 1.5));
  EXPECT_EQ(std::tuple(a->early_stop, a->logits_eos_inf, a->confidence_eos_eot_inf, a->kv, a->refresh_after),
            std::tuple(decode::EarlyStop::block, true, false, decode::KvChoice::dual, 7));

  const auto b = must(parse_decode_options("--confidence-eos-eot-inf --accept schedule"));
  EXPECT_TRUE(b->confidence_eos_eot_inf);
  EXPECT_FALSE(b->logits_eos_inf);
}

TEST(ParseDecodeOptions, SeedsHaveASign) {
  EXPECT_EQ(parse_decode_options("--seed -5")->seed, UINT64_MAX - 4);
  EXPECT_EQ(parse_decode_options("--seed=-9223372036854775808")->seed, uint64_t{1} << 63);
}

TEST(ParseDecodeOptions, AParameterChoosesItsRule) {
  const auto threshold = must(parse_decode_options("--threshold 0.75"));
  EXPECT_EQ(threshold->acceptance, Acceptance::threshold);
  EXPECT_EQ(threshold->threshold, 0.75);
  const auto factor = must(parse_decode_options("--factor 2"));
  EXPECT_EQ(factor->acceptance, Acceptance::factor);
  EXPECT_EQ(factor->factor, 2);
  const auto entropy = must(parse_decode_options("--entropy-bound 0.25"));
  EXPECT_EQ(entropy->acceptance, Acceptance::entropy);
  EXPECT_EQ(entropy->entropy_bound, 0.25);
}

TEST(ParseDecodeOptions, EveryStrategyFlagReachesItsField) {
  const auto a =
      must(parse_decode_options("--threshold 0.8 --entropy-gate 0.6 --kv prefix --tail 16 --refresh-after 5 "
                                "--mbsd-trigger 5 --mbsd-threshold 0.75 --latency-table "
                                "8:1,16:1.5 --stable-threshold 0.95 --revise-lateness 3 --revise-rows 7"));
  EXPECT_EQ(std::tuple(a->acceptance, a->threshold, a->entropy_gate, a->kv, a->refresh_after, a->tail, a->mbsd),
            std::tuple(Acceptance::threshold, 0.8, 0.6, decode::KvChoice::prefix, 5, 16, true));
  EXPECT_EQ(std::tuple(a->mbsd_trigger, a->mbsd_threshold), std::tuple(5, 0.75));
  ASSERT_EQ(a->latency_table.size(), 2u);
  EXPECT_EQ(std::tuple(a->latency_table[1].rows, a->latency_table[1].ms, a->revision, a->stable_threshold),
            std::tuple(16, 1.5, decode::Revision::dual_path, 0.95));
  EXPECT_EQ(std::tuple(a->revise_lateness, a->revise_rows), std::tuple(3, 7));

  const auto edit = must(parse_decode_options("--edit-threshold 0.4 --edit-steps 3"));
  EXPECT_EQ(std::tuple(edit->revision, edit->edit_threshold, edit->edit_steps),
            std::tuple(decode::Revision::edit, 0.4, 3));
}

TEST(ParseDecodeOptions, TheOrderOfFlagsDoesNotMatter) {
  const std::pair<const char*, const char*> pairs[] = {
      {"--revision dual-path --accept threshold", "--accept threshold --revision dual-path"},
      {"--revision dual-path --threshold 0.8", "--threshold 0.8 --revision dual-path"},
      {"--revision dual-path --factor 1", "--factor 1 --revision dual-path"},
      {"--threshold 0.95 --accept llada2", "--accept llada2 --threshold 0.95"}};
  for (const auto& [first, second] : pairs) {
    const auto a = parse_decode_options(first), b = parse_decode_options(second);
    ASSERT_TRUE(a) << first << ": " << a.error().message;
    ASSERT_TRUE(b) << second << ": " << b.error().message;
    EXPECT_EQ(a->acceptance, b->acceptance) << first;
    EXPECT_EQ(a->threshold, b->threshold) << first;
    EXPECT_EQ(a->revision, b->revision) << first;
  }
  EXPECT_EQ(parse_decode_options("--revision dual-path")->threshold, 0.7) << "what its paper makes visible";
}

TEST(ParseDecodeOptions, DecimalOnly) {
  const auto parsed = must(parse_decode_options("--gen-length 010"));
  EXPECT_EQ(parsed->gen_length, 10);  // not octal
}

TEST(ParseDecodeOptions, RefusesWithTheNameOfTheOption) {
  const struct {
    const char* text;
    const char* names;
  } cases[] = {
      {"--threshold 0.9 --factor 1", "--threshold already chose"},
      {"--entropy-bound 1 --threshold 0.9", "--entropy-bound already chose"},
      {"--accept factor --threshold 0.9", "--accept already chose"},
      {"--threshold 0.9 --accept factor", "--threshold already chose"},
      {"--accept best", "found 'best', needed one of schedule"},
      {"-n 4 --gen-length 8", "-n already set"},
      {"--visible-threshold 0.8", "was removed: threshold=N is that of revision, too"},
      {"--edit-steps 4 --revision dual-path", "--edit-steps already chose edit revision"},
      {"--revision dual-path --steps 4", "--steps: found 4"},
      {"--wino", "'--wino' was removed: revision=dual-path checks doubtful tokens again"},
      {"--kv delayed", "--kv: found 'delayed', which was removed: kv=frozen with slide computes the fewest rows"},
      {"--latency-table 8", "found '8', needed ROWS:MS"},
      {"--latency-table 8:1,", "found '', needed ROWS:MS"},
      {"--tail -1", "--tail: found '-1'"},
      {"--threshold 0.9 --threshold 0.8", "--threshold: given twice"},
      {"--gen-length", "--gen-length: needs a value"},
      {"--gen-length 12x", "--gen-length: found '12x'"},
      {"--gen-length 1e3", "--gen-length: found '1e3'"},
      {"--gen-length=", "--gen-length: found ''"},
      {"--gen-length 99999999999999999999", "out of range"},
      {"--gen-length 0", "--gen-length: found 0"},
      {"--seed 1.5", "--seed: found '1.5', needed a whole number of 64 bits"},
      {"--seed 18446744073709551616", "out of range"},
      {"--seed -9223372036854775809", "out of range"},
      {"--threshold nan", "--threshold: found nan"},
      {"--temperature -1", "--temperature: found -1"},
      {"--kv lru", "--kv: found 'lru', needed one of none, prefix, dual, block, frozen"},
      {"--logits-eos-inf=1", "--logits-eos-inf: found '1', needed true or false"},
      {"--thresold 0.9", "'--thresold' is no decoding option"},
      {"threshold 0.9", "'threshold' is no decoding option"},
      {"--threshold 0.9 --steps 4", "--steps: found 4 with accept threshold"},
      {"--refresh-after 4", "--refresh-after: found 4 with kv none"},
  };
  for (const auto& c : cases) {
    const auto parsed = parse_decode_options(c.text);
    ASSERT_FALSE(parsed) << c.text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::invalid_input) << c.text;
    EXPECT_NE(parsed.error().message.find(c.names), std::string::npos) << c.text << " -> " << parsed.error().message;
  }
}

std::string join(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

std::string_view other_word(const decode::Field& field) {
  return field.words[field.words[0] == field.show(field, {}) ? 1 : 0];
}

// One option as text, as JSON in a preset file, and on the command line: the same options, or the same refusal.
TEST(Options, EveryFieldIsReachedThreeWays) {
  for (const decode::Field& field : decode::fields()) {
    // Another value than the default.
    const std::string text = field.is_switch()              ? "true"
                             : !field.words.empty()         ? std::string(other_word(field))
                             : field.key == "latency_table" ? "8:1,16:1.5"
                             : field.key == "json_schema"   ? "{}"
                             : field.text                   ? "it's a|b"
                             : field.unit == "N"            ? "3"
                                                            : "0.625";
    const std::string flag = decode::flag(field), word = field.is_switch() ? flag : flag + "=" + text;
    const bool quoted = !field.words.empty() || field.key == "latency_table" || field.text;
    const auto preset =
        parse_decode_preset(fmt::format(R"({{"format":"llada-preset","version":1,"name":"n","options":{{"{}":{}}}}})",
                                        field.key, field.is_switch() || !quoted ? text : fmt::format("\"{}\"", text)),
                            "f");
    ASSERT_TRUE(preset) << field.key << ": " << preset.error().message;
    const auto from_text = parse_decode_options(field.is_switch() ? word : flag + "=" + decode::as_word(text)),
               from_json = parse_decode_options(preset->options);

    CLI::App app;
    DecodeFlags flags;
    add_decode_options(app, flags);
    std::vector<std::string> line = {word};
    app.parse(line);
    const Status resolved = flags.resolve();

    ASSERT_EQ(from_text.has_value(), from_json.has_value()) << field.key;
    ASSERT_EQ(from_text.has_value(), resolved.has_value()) << field.key;
    if (!from_text) {
      EXPECT_TRUE(from_text.error().message.starts_with(flag + ": ")) << from_text.error().message;
      EXPECT_EQ(from_json.error().message, from_text.error().message);
      EXPECT_EQ(resolved.error().message, from_text.error().message);
      continue;
    }
    EXPECT_EQ(field.show(field, *from_text), text) << field.key;
    EXPECT_EQ(decode::as_flags(*from_json), decode::as_flags(*from_text));
    EXPECT_EQ(decode::as_flags(flags.options), decode::as_flags(*from_text));
    // What as_flags() says reads back.
    const auto again = must(parse_decode_options(decode::as_flags(*from_text)));
    EXPECT_EQ(decode::as_flags(*again), decode::as_flags(*from_text));
  }
}

TEST(Options, TuningKeepsItsTexts) {
  const auto axes = tune_axes();
  std::vector<std::string> all;
  for (const eval::Axis& axis : axes) {
    EXPECT_LT(axis.start, axis.choices.size()) << axis.name;
    for (const std::string& choice : axis.choices) {
      const auto goes_with = [&](const char* other) { return parse_decode_options(choice + " " + other).has_value(); };
      EXPECT_TRUE(goes_with("") || goes_with("--kv prefix") || goes_with("--threshold 0.9") || goes_with("--tail 16") ||
                  goes_with("--threshold 0.9 --kv frozen"))
          << choice;
    }
  }
  const auto choices = [&](const char* name) { return std::ranges::find(axes, name, &eval::Axis::name)->choices; };
  const eval::Axis& rules = axes.front();
  EXPECT_EQ(rules.name, "acceptance");
  EXPECT_EQ(rules.choices[rules.start], "--threshold 0.97");
  for (const char* rule : {"--threshold 0.9", "--factor 1", "--entropy-bound 0.1"})
    EXPECT_EQ(std::ranges::count(rules.choices, rule), 1) << rule << ", default or not";
  // Measurements that were taken before are found by these texts.
  EXPECT_EQ(join(choices("tail")), " --tail 64 --tail 32 --tail 16 --tail 8");
  EXPECT_EQ(join(choices("slide")), " --slide");
  EXPECT_EQ(join(choices("kv")), " --kv prefix --kv dual --kv frozen");
  EXPECT_EQ(join(choices("refresh_after")),
            " --refresh-after 64 --refresh-after 32 --refresh-after 16 --refresh-after 8");
  EXPECT_EQ(join(choices("block_length")), "--block-length 8 --block-length 16  --block-length 64 --block-length 128");
  EXPECT_EQ(join(choices("revise_rows")), " --revise-rows 8 --revise-rows 16 --revise-rows 32");
}

TEST(Options, TuningAsksWhatTheModelCanAnswer) {
  const auto names = [](bool block_causal) {
    std::set<std::string> found;
    for (const eval::Axis& axis : tune_axes(block_causal)) {
      EXPECT_TRUE(found.insert(axis.name).second) << axis.name << " is there twice";
      if (axis.name != "tail" && axis.name != "acceptance" && axis.name != "kv") {
        EXPECT_EQ(axis.choices[axis.start], "") << axis.name << " begins with the default";
      }
    }
    return found;
  };
  const auto without = [](std::set<std::string> all, std::initializer_list<const char*> gone) {
    for (const char* name : gone) EXPECT_EQ(all.erase(name), 1u) << name;
    return all;
  };
  std::set<std::string> every = {"acceptance", "way of revising", "speculation"};
  for (const decode::Field& field : decode::fields())
    if (!field.tune.empty() && field.rules == 0) every.emplace(field.key);  // rules are one question
  for (const char* key : {"kv", "tail", "refresh_after", "slide", "revise_rows"})
    EXPECT_TRUE(every.contains(key)) << key;
  EXPECT_EQ(names(false), every);
  EXPECT_EQ(names(true), without(every, {"tail", "refresh_after", "speculation"}));
  const auto axes = tune_axes(true);
  EXPECT_EQ(join(std::ranges::find(axes, "kv", &eval::Axis::name)->choices), "--kv block --kv frozen");
}

TEST(ParseInteger, HoldsItsBounds) {
  EXPECT_EQ(parse_integer("0", 0, 5), 0);
  EXPECT_EQ(parse_integer("-5", -5, 5), -5);
  for (const char* bad : {"", " 1", "1 ", "+1", "6", "0x1", "9223372036854775808"})
    EXPECT_FALSE(parse_integer(bad, 0, 5)) << bad;
}

}  // namespace
}  // namespace llada::cli
