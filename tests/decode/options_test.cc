// Impossible combinations are refused with a line that names the option.
#include "decode/options.h"

#include <gmock/gmock.h>

#include <functional>
#include <limits>

#include "decode/script.h"

namespace llada::decode {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInf = std::numeric_limits<double>::infinity();
const int64_t kHuge = std::numeric_limits<int64_t>::max();

struct Refusal {
  std::string option;  // the line starts with its name
  std::function<void(DecodeOptions&)> set;
};

TEST(Options, RefusesWithOneLineThatNamesTheOption) {
  const std::vector<Refusal> cases = {
      {"gen_length: found 0", [](auto& o) { o.gen_length = 0; }},
      {"gen_length: found -5", [](auto& o) { o.gen_length = -5; }},
      {"gen_length", [](auto& o) { o.gen_length = kHuge; }},
      {"block_length", [](auto& o) { o.block_length = 0; }},
      {"block_length", [](auto& o) { o.block_length = kHuge; }},
      {"steps", [](auto& o) { o.steps = -1; }},
      {"steps", [](auto& o) { o.steps = kHuge; }},
      {"steps: found 3, needed at least one for each of 4 blocks", [](auto& o) { o.steps = 3; }},
      {"steps", [](auto& o) { o.steps = 128, o.acceptance = Acceptance::threshold; }},
      {"threshold", [](auto& o) { o.threshold = 0; }},
      {"threshold", [](auto& o) { o.threshold = 1.0001; }},
      {"threshold", [](auto& o) { o.threshold = kNan; }},
      {"factor", [](auto& o) { o.factor = 0; }},
      {"factor", [](auto& o) { o.factor = kInf; }},
      {"entropy_bound", [](auto& o) { o.entropy_bound = -0.1; }},
      {"entropy_bound", [](auto& o) { o.entropy_bound = kNan; }},
      {"temperature", [](auto& o) { o.temperature = -1; }},
      {"temperature", [](auto& o) { o.temperature = kInf; }},
      {"cfg_scale", [](auto& o) { o.cfg_scale = kNan; }},
      {"refresh", [](auto& o) { o.refresh = -1, o.kv = KvChoice::dual; }},
      {"refresh", [](auto& o) { o.refresh = 4; }},
      {"remasking", [](auto& o) { o.remasking = Remasking::random, o.acceptance = Acceptance::threshold; }},
      {"remasking", [](auto& o) { o.remasking = Remasking::random, o.acceptance = Acceptance::entropy; }},
      {"confidence_eos_eot_inf",
       [](auto& o) { o.confidence_eos_eot_inf = true, o.acceptance = Acceptance::entropy; }},
      {"confidence_eos_eot_inf",
       [](auto& o) { o.confidence_eos_eot_inf = true, o.remasking = Remasking::random; }},
      {"acceptance", [](auto& o) { o.acceptance = static_cast<Acceptance>(17); }},
  };
  for (const Refusal& refusal : cases) {
    DecodeOptions options;
    ASSERT_TRUE(validate(options));
    refusal.set(options);
    const Status status = validate(options);
    ASSERT_FALSE(status) << refusal.option;
    EXPECT_EQ(status.error().kind, ErrorKind::invalid_input);
    EXPECT_THAT(status.error().message, StartsWith(refusal.option));
    EXPECT_THAT(status.error().message, HasSubstr("eeded")) << refusal.option;
    EXPECT_THAT(status.error().message, Not(HasSubstr("\n")));
  }
}

TEST(Options, TakesWhatWorks) {
  DecodeOptions options;
  options.gen_length = 100;
  options.block_length = 33;
  options.steps = 4;
  EXPECT_TRUE(validate(options)) << "steps need not divide";
  options.steps = 100000;
  EXPECT_TRUE(validate(options)) << "more steps than tokens";
  options = {.acceptance = Acceptance::threshold, .threshold = 1};
  EXPECT_TRUE(validate(options));
  options = {.gen_length = 0, .steps = 1};
  EXPECT_TRUE(validate(options, true)) << "infilling has its own length";
}

TEST(Options, StrategyRefusesWhatOnlyTheCanvasShows) {
  const std::vector<int32_t> text(20, 1), gaps = {0, 5, 10, 15};
  const Canvas canvas = *lay_infill(text, gaps, test_ids());
  DecodeOptions options = {.block_length = 2, .steps = 3};
  EXPECT_THAT(make_strategy(options, test_ids(), canvas).error().message, HasSubstr("each of 4 blocks"));
  options.steps = 4;
  EXPECT_TRUE(make_strategy(options, test_ids(), canvas));

  SpecialIds ids = test_ids();
  ids.mask = -1;
  EXPECT_THAT(make_strategy(options, ids, canvas).error().message, StartsWith("mask token"));
  ids = test_ids();
  ids.end_ids.push_back(kMask);
  EXPECT_THAT(make_strategy(options, ids, canvas).error().message, StartsWith("end tokens"));
  Canvas broken = canvas;
  broken.states.pop_back();
  EXPECT_FALSE(make_strategy(options, test_ids(), broken));
}

TEST(Options, NamesGoBothWays) {
  for (auto v : {Acceptance::schedule, Acceptance::threshold, Acceptance::factor, Acceptance::entropy}) {
    EXPECT_EQ(acceptance_from_name(name(v)), v);
  }
  for (auto v : {KvChoice::none, KvChoice::prefix, KvChoice::dual, KvChoice::block})
    EXPECT_EQ(kv_from_name(name(v)), v);
  for (auto v : {EarlyStop::none, EarlyStop::block, EarlyStop::answer})
    EXPECT_EQ(early_stop_from_name(name(v)), v);
  for (auto v : {Remasking::low_confidence, Remasking::random}) EXPECT_EQ(remasking_from_name(name(v)), v);
  EXPECT_EQ(kv_from_name("duel").error().message,
            "kv: found 'duel', needed one of none, prefix, dual, block, delayed");
}

}  // namespace
}  // namespace llada::decode
