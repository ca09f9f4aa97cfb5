// Options are read strictly, from the command line and from one string alike.
#include "cli/options.h"

#include <gtest/gtest.h>

namespace llada::cli {
namespace {

using decode::Acceptance;
using decode::DecodeOptions;

TEST(ParseDecodeOptions, NothingGivenIsTheDefault) {
  const auto parsed = parse_decode_options("  \t ");
  ASSERT_TRUE(parsed);
  const DecodeOptions plain;
  EXPECT_EQ(parsed->gen_length, plain.gen_length);
  EXPECT_EQ(parsed->acceptance, plain.acceptance);
  EXPECT_EQ(parsed->early_stop, plain.early_stop);
  EXPECT_EQ(parsed->kv, plain.kv);
}

TEST(ParseDecodeOptions, EveryOptionReachesItsField) {
  const auto a = parse_decode_options(
      "--gen-length 96 --block-length=16 --steps 48 --remasking random --temperature 0.5 --seed "
      "18446744073709551615 "
      "--cfg-scale 1.5 --early-stop block --logits-eos-inf --kv dual --refresh 7");
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_EQ(a->gen_length, 96);
  EXPECT_EQ(a->block_length, 16);
  EXPECT_EQ(a->steps, 48);
  EXPECT_EQ(a->acceptance, Acceptance::schedule);
  EXPECT_EQ(a->remasking, decode::Remasking::random);
  EXPECT_EQ(a->temperature, 0.5);
  EXPECT_EQ(a->seed, UINT64_MAX);
  EXPECT_EQ(a->cfg_scale, 1.5);
  EXPECT_EQ(a->early_stop, decode::EarlyStop::block);
  EXPECT_TRUE(a->logits_eos_inf);
  EXPECT_FALSE(a->confidence_eos_eot_inf);
  EXPECT_EQ(a->kv, decode::KvChoice::dual);
  EXPECT_EQ(a->refresh, 7);

  const auto b = parse_decode_options("--confidence-eos-eot-inf --remasking low_confidence");
  ASSERT_TRUE(b);
  EXPECT_TRUE(b->confidence_eos_eot_inf);
  EXPECT_FALSE(b->logits_eos_inf);
}

TEST(ParseDecodeOptions, AParameterChoosesItsRule) {
  const auto threshold = parse_decode_options("--threshold 0.75");
  ASSERT_TRUE(threshold);
  EXPECT_EQ(threshold->acceptance, Acceptance::threshold);
  EXPECT_EQ(threshold->threshold, 0.75);
  const auto factor = parse_decode_options("--factor 2");
  ASSERT_TRUE(factor);
  EXPECT_EQ(factor->acceptance, Acceptance::factor);
  EXPECT_EQ(factor->factor, 2);
  const auto entropy = parse_decode_options("--entropy-bound 0.25");
  ASSERT_TRUE(entropy);
  EXPECT_EQ(entropy->acceptance, Acceptance::entropy);
  EXPECT_EQ(entropy->entropy_bound, 0.25);
}

TEST(ParseDecodeOptions, DecimalOnly) {
  const auto parsed = parse_decode_options("--gen-length 010");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->gen_length, 10);  // not octal
}

TEST(ParseDecodeOptions, RefusesWithTheNameOfTheOption) {
  const struct {
    const char* text;
    const char* names;
  } cases[] = {
      {"--threshold 0.9 --factor 1", "--threshold already chose"},
      {"--entropy-bound 1 --threshold 0.9", "--entropy-bound already chose"},
      {"--threshold 0.9 --threshold 0.8", "--threshold: given twice"},
      {"--gen-length", "--gen-length: needs a value"},
      {"--gen-length 12x", "--gen-length: found '12x'"},
      {"--gen-length 1e3", "--gen-length: found '1e3'"},
      {"--gen-length=", "--gen-length: found ''"},
      {"--gen-length 99999999999999999999", "out of range"},
      {"--gen-length 0", "gen_length: found 0"},
      {"--seed -1", "--seed: found '-1'"},
      {"--threshold nan", "threshold: found nan"},
      {"--temperature -1", "temperature: found -1"},
      {"--kv lru", "--kv: found 'lru', needed one of none, prefix, dual, block, delayed"},
      {"--logits-eos-inf=1", "--logits-eos-inf: takes no value"},
      {"--thresold 0.9", "'--thresold' is no decoding option"},
      {"threshold 0.9", "'threshold' is no decoding option"},
      {"--threshold 0.9 --steps 4", "steps: found 4 with acceptance threshold"},
      {"--refresh 4", "refresh: found 4 with kv none"},
  };
  for (const auto& c : cases) {
    const auto parsed = parse_decode_options(c.text);
    ASSERT_FALSE(parsed) << c.text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::invalid_input) << c.text;
    EXPECT_NE(parsed.error().message.find(c.names), std::string::npos)
        << c.text << " -> " << parsed.error().message;
  }
}

TEST(ParseInteger, HoldsItsBounds) {
  EXPECT_EQ(parse_integer("0", 0, 5), 0);
  EXPECT_EQ(parse_integer("-5", -5, 5), -5);
  for (const char* bad : {"", " 1", "1 ", "+1", "6", "0x1", "9223372036854775808"})
    EXPECT_FALSE(parse_integer(bad, 0, 5)) << bad;
}

}  // namespace
}  // namespace llada::cli
