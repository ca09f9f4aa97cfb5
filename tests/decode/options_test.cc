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
      {"steps: found 3 with gen_length 128, block_length 32, which are 4 blocks; needed 4 at least",
       [](auto& o) { o.steps = 3; }},
      {"steps", [](auto& o) { o.steps = 128, o.acceptance = Acceptance::threshold; }},
      {"threshold", [](auto& o) { o.threshold = 0; }},
      {"threshold", [](auto& o) { o.threshold = 1.0001; }},
      {"threshold", [](auto& o) { o.threshold = kNan; }},
      {"factor", [](auto& o) { o.factor = 0; }},
      {"factor", [](auto& o) { o.factor = kInf; }},
      {"entropy_bound", [](auto& o) { o.entropy_bound = -0.1; }},
      {"entropy_gate", [](auto& o) { o.entropy_gate = -0.1; }},
      {"entropy_gate", [](auto& o) { o.entropy_gate = 1; }},  // with a schedule
      {"entropy_bound", [](auto& o) { o.entropy_bound = kNan; }},
      {"temperature", [](auto& o) { o.temperature = -1; }},
      {"temperature", [](auto& o) { o.temperature = kInf; }},
      {"cfg_scale", [](auto& o) { o.cfg_scale = kNan; }},
      {"cfg_scale", [](auto& o) { o.cfg_scale = 1e7; }},
      {"refresh_after", [](auto& o) { o.refresh_after = -1, o.kv = KvChoice::dual; }},
      {"refresh_after: found 4 with kv none", [](auto& o) { o.refresh_after = 4; }},
      {"confidence_eos_eot_inf", [](auto& o) { o.confidence_eos_eot_inf = true, o.acceptance = Acceptance::entropy; }},
      {"confidence_eos_eot_inf: found accept random, which does not read confidences, so that",
       [](auto& o) { o.confidence_eos_eot_inf = true, o.acceptance = Acceptance::random; }},
      {"tail", [](auto& o) { o.tail = -2; }},
      {"mbsd_trigger", [](auto& o) { o.mbsd_trigger = 0; }},
      {"mbsd_threshold", [](auto& o) { o.mbsd_threshold = 1; }},
      {"mbsd: found gen_length 128, block_length 128", [](auto& o) { o.mbsd = true, o.block_length = 128; }},
      {"mbsd: found tail 0", [](auto& o) { o.mbsd = true, o.tail = 0; }},
      {"latency_table: found 8 rows", [](auto& o) { o.latency_table = {{8, 1}, {8, 2}}; }},
      {"latency_table: found 16 rows in 0.5 ms", [](auto& o) { o.latency_table = {{8, 1}, {16, 0.5}}; }},
      {"stable_threshold", [](auto& o) { o.stable_threshold = kNan; }},
      {"revise_rows", [](auto& o) { o.revise_rows = 0; }},
      {"edit_threshold", [](auto& o) { o.edit_threshold = 1.1; }},
      {"edit_steps", [](auto& o) { o.edit_steps = -1; }},
      {"accept: found a value that has no name", [](auto& o) { o.acceptance = static_cast<Acceptance>(17); }},
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
  options = {AcceptanceOptions{.acceptance = Acceptance::threshold, .threshold = 1}};
  EXPECT_TRUE(validate(options));
  options = {};
  options.acceptance = Acceptance::threshold;
  options.revision = Revision::dual_path;
  for (const double threshold : {0.0, 1.0}) {
    options.stable_threshold = threshold;
    EXPECT_TRUE(validate(options)) << "the ends of a range belong to it: " << threshold;
  }
  options = {AcceptanceOptions{.acceptance = Acceptance::random}, SpeculationOptions{.mbsd = true},
             RevisionOptions{.revision = Revision::edit}};
  EXPECT_TRUE(validate(options)) << "drafts and edits read probabilities, whatever the schedule orders by";
  options = {LengthOptions{.gen_length = 0, .steps = 1}};
  EXPECT_TRUE(validate(options, true)) << "infilling has its own length";
}

TEST(Options, StrategyRefusesWhatOnlyTheCanvasShows) {
  const std::vector<int32_t> text(20, 1), gaps = {0, 5, 10, 15};
  const Canvas canvas = *lay_infill(text, gaps, test_ids());
  DecodeOptions options = {LengthOptions{.block_length = 2, .steps = 3}};
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

template <class T>
void expect_names_both_ways(size_t count) {
  EXPECT_EQ(all_values<T>().size(), count);
  for (const T value : all_values<T>()) EXPECT_EQ(from_name<T>(name(value)), value);
}

TEST(Options, NamesGoBothWays) {
  expect_names_both_ways<Acceptance>(12);
  expect_names_both_ways<KvChoice>(5);
  expect_names_both_ways<Revision>(4);
  expect_names_both_ways<EarlyStop>(3);
  // The words stand in the order of the enums; these are the ends of each.
  EXPECT_EQ(name(Acceptance::causal), "causal");
  EXPECT_EQ(name(KvChoice::frozen), "frozen");
  EXPECT_EQ(name(Revision::levenshtein), "levenshtein");
  EXPECT_EQ(name(EarlyStop::answer), "answer");
  EXPECT_EQ(from_name<KvChoice>("duel").error().message,
            "found 'duel', needed one of none, prefix, dual, block, frozen");
}

}  // namespace
}  // namespace llada::decode
