// The recorded runs of the shipped model, replayed without it: predictions are rebuilt so that only blocks,
// schedule, ties and threshold can bring about the recorded order. That the model gives these predictions is
// the engine's test.
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "decode/script.h"

namespace llada::decode {
namespace {

using Trace = std::vector<std::vector<std::pair<int32_t, int32_t>>>;

struct Recorded {
  Trace trace;
  std::map<int32_t, int64_t> step_of;  // position -> step
  std::map<int32_t, int32_t> token_of;

  explicit Recorded(const nlohmann::json& run) : trace(run.at("trace").get<Trace>()) {
    for (size_t step = 0; step < trace.size(); ++step) {
      for (const auto& [position, token] : trace[step]) {
        step_of[position] = static_cast<int64_t>(step);
        token_of[position] = token;
      }
    }
  }
};

void replay(const nlohmann::json& item, const nlohmann::json& run, DecodeOptions options, int32_t mask,
            const std::function<double(const Recorded&, int64_t forward, int32_t position)>& confidence) {
  const Recorded recorded(run);
  const auto prompt_length = item.at("prompt_len").get<size_t>();
  const auto canvas_tokens = item.at("canvas").get<std::vector<int32_t>>();
  options.gen_length = item.at("gen_length").get<int64_t>();
  options.block_length = run.at("block_length").get<int64_t>();
  options.early_stop = EarlyStop::none;
  const SpecialIds ids = {.mask = mask};
  Canvas canvas = lay_generation(std::span(canvas_tokens).first(prompt_length), options.gen_length, ids);
  ASSERT_EQ(canvas.tokens, canvas_tokens);
  auto strategy = make_strategy(options, ids, canvas);
  ASSERT_TRUE(strategy) << strategy.error().message;
  ScriptRunner runner([&](const StepPlan&, int64_t forward, int32_t position) {
    return Prediction{.position = position,
                      .token = recorded.token_of.at(position),
                      .probability = confidence(recorded, forward, position)};
  });
  Trace trace;
  const auto stats = denoise(canvas, **strategy, runner, [&](const StepEvent& event) {
    trace.emplace_back();
    for (const Edit& edit : event.edits) trace.back().emplace_back(edit.position, edit.token);
    return true;
  });
  ASSERT_TRUE(stats) << stats.error().message;
  EXPECT_EQ(trace, recorded.trace);
  EXPECT_EQ(stats->nfe, run.at("nfe").get<int64_t>());
  EXPECT_EQ(stats->full_forwards, stats->nfe) << "every forward is over the whole canvas";
  canvas.tokens.erase(canvas.tokens.begin(), canvas.tokens.begin() + static_cast<int64_t>(prompt_length));
  EXPECT_EQ(canvas.tokens, run.at("tokens").get<std::vector<int32_t>>());
}

TEST(Golden, RecordedRunsAreReplayed) {
  const std::string folder = std::string(LLADA_SOURCE_DIR) + "/models/tiny-llada/";
  const auto golden = nlohmann::json::parse(std::ifstream(folder + "golden.json"));
  const auto mask = nlohmann::json::parse(std::ifstream(folder + "config.json")).at("mask_token_id").get<int32_t>();
  ASSERT_GE(golden.at("items").size(), 4u);
  for (const auto& item : golden.at("items")) {
    SCOPED_TRACE(item.at("task").get<std::string>());
    const auto& one = item.at("one_token_per_step");
    // Unchanging confidences that fall in the recorded order.
    replay(item, one, {LengthOptions{.steps = one.at("steps").get<int64_t>()}}, mask,
           [](const Recorded& r, int64_t, int32_t position) {
             return 1.0 / static_cast<double>(2 + r.step_of.at(position));
           });
    // What was taken is on the threshold, all else just below it.
    const auto& several = item.at("threshold_0.9");
    const double threshold = several.at("thr").get<double>();
    replay(item, several, {AcceptanceOptions{.acceptance = Acceptance::threshold, .threshold = threshold}}, mask,
           [&](const Recorded& r, int64_t forward, int32_t position) {
             return r.step_of.at(position) == forward ? threshold : std::nextafter(threshold, 0.0);
           });
  }
}

}  // namespace
}  // namespace llada::decode
