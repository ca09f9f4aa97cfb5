// One request among others reads a damaged weight, the embedding of a token that nobody else has: the error is its own,
// the others keep their answers, nobody computes twice, and no device is given up for it.
// labels of this file: native
#include <cstring>
#include <limits>

#include "decode/canvas.h"
#include "devices/small_model.h"
#include "failing/stub_device.h"
#include "geometry/model_files.h"
#include "must.h"
#include "shared_forwards.h"

namespace llada {
namespace {

constexpr int32_t kBadToken = 77;
constexpr size_t kBadRequest = 3;

// Whose device counts what is asked of it.
class CountingDevice final : public PassingDevice {
 public:
  using PassingDevice::PassingDevice;
  Result<Ticket> submit(const Run& run) override {
    ++submitted;
    return PassingDevice::submit(run);
  }
  int submitted = 0;
};

class DamagedRequest : public testing::TestWithParam<bool> {
 protected:
  DamagedRequest() {
    ModelConfig config = GetParam() ? small_llada2() : small_config();
    config.vocab = 1024, config.context = 96, config.mask_id = 1005, config.eos_id = config.pad_id = 1001;
    model_ = make_small_model(DType::F32, config);
    for (size_t w = 0; w < model_.views.size(); ++w) {
      if (model_.graph.weights[w].name != "token_embd.weight") continue;
      const float bad = std::numeric_limits<float>::quiet_NaN();
      std::memcpy(model_.storage[w].data() + kBadToken * row_bytes(DType::F32, config.width) + 8, &bad, 4);
    }
  }
  std::shared_ptr<const Model> open(const std::string& device) const {
    return *must(Model::from_memory(in_memory(model_), {}, {.device = device, .threads = 1}, {}));
  }
  static std::vector<Wanted> eight() {
    std::vector<Wanted> list;
    for (int32_t i = 0; i < 8; ++i) {
      Request r;
      for (int32_t t = 0; t < 9 + i; ++t) r.tokens.push_back((100 + 31 * i + 7 * t) % 900 + 90);
      r.options.gen_length = 8, r.options.block_length = 8;
      r.options.acceptance = decode::Acceptance::threshold, r.options.threshold = 0.01;
      r.options.early_stop = decode::EarlyStop::none;
      list.push_back({std::to_string(i), r});
    }
    return list;
  }

  SmallModel model_;
};

TEST_P(DamagedRequest, OneForwardServesEverybody) {
  const auto model = open("cpu");
  CountingDevice device(model->device());
  std::vector<decode::StepPlan> plans;
  for (const Wanted& w : eight()) {
    decode::StepPlan& plan = plans.emplace_back();
    for (size_t p = 0; p < w.request.tokens.size(); ++p) plan.rows.push_back(static_cast<int32_t>(p));
    plan.inputs = w.request.tokens;
    plan.logits = {plan.rows.back()};
    plan.keys = static_cast<int32_t>(plan.rows.size());
  }
  const auto run = [&](std::span<const decode::StepPlan> some) {
    std::vector<RequestState> states;
    std::vector<RequestStep> steps;
    for (size_t i = 0; i < some.size(); ++i)
      states.push_back(*RequestState::create(*model, device, 40, false, SamplingRule()));
    std::vector<std::unique_ptr<decode::Denoiser>> denoisers;
    for (const decode::StepPlan& plan : some)
      denoisers.push_back(
          std::make_unique<decode::Denoiser>(decode::fixed_canvas(plan.inputs), decode::one_forward(plan)));
    for (size_t i = 0; i < some.size(); ++i) steps.push_back({denoisers[i].get(), &states[i]});
    ModelRunner(*model, device, nullptr, {}).run(steps);
    return steps;
  };
  std::vector<Prediction> alone;
  for (const decode::StepPlan& plan : plans) alone.push_back(run({&plan, 1})[0].result.predictions[0]);
  const int each = device.submitted / 8;
  plans[kBadRequest].inputs[4] = kBadToken;
  device.submitted = 0;
  const auto results = run(plans);
  EXPECT_EQ(device.submitted, each) << "as many as for one of them alone";
  for (size_t i = 0; i < results.size(); ++i) {
    ASSERT_EQ(results[i].status.has_value(), i != kBadRequest) << i;
    if (i == kBadRequest) {
      EXPECT_EQ(results[i].status.error().kind, ErrorKind::data);
      continue;
    }
    const Prediction &got = results[i].result.predictions[0], &expected = alone[i];
    EXPECT_EQ(got.token, expected.token) << i;
    EXPECT_EQ(got.logit, expected.logit) << i;
    EXPECT_EQ(got.probability, expected.probability) << i;
    EXPECT_EQ(got.entropy, expected.entropy) << i;
  }
}

TEST_P(DamagedRequest, TheOthersAnswersAndTheDeviceStay) {
  const auto model = open("cpu,fallback=cpu");
  const auto wanted = eight();
  const auto alone = run_alone(model, wanted);
  std::vector<std::string> warnings;
  auto scheduler = *Scheduler::create(
      model, {.row_budget = 4096, .warn = [&](const std::string& line) { warnings.push_back(line); }});
  std::vector<std::unique_ptr<Recorder>> recorders;
  std::vector<Ran> got(wanted.size());
  std::optional<Error> error;
  for (size_t i = 0; i < wanted.size(); ++i) {
    Request request = wanted[i].request;
    if (i == kBadRequest) request.tokens[4] = kBadToken;
    recorders.push_back(std::make_unique<Recorder>(wanted[i]));
    ASSERT_TRUE(
        scheduler->add(prepare(*model, request).value(), {recorders[i]->on_step()}, [&, i](Result<Generation> g) {
          if (g)
            got[i] = recorders[i]->ran(*g);
          else
            error = g.error();
          EXPECT_EQ(g.has_value(), i != kBadRequest) << i;
        }));
  }
  while (!scheduler->idle()) scheduler->run_forward();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, ErrorKind::data);
  EXPECT_EQ(exit_status(*error), 1);
  EXPECT_NE(error->message.find("are not finite; the weights or the activations are damaged"), std::string::npos);
  for (size_t i = 0; i < wanted.size(); ++i)
    if (i != kBadRequest) {
      EXPECT_TRUE(got[i] == alone[i]) << i;
    }
  EXPECT_FALSE(scheduler->fell_back());
  EXPECT_TRUE(warnings.empty());
}

INSTANTIATE_TEST_SUITE_P(All, DamagedRequest, testing::Bool(),
                         [](const auto& info) { return info.param ? "experts" : "dense"; });

}  // namespace
}  // namespace llada
