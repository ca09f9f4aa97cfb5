// What a layer's experts are planned by: times as the device has them, and damage that is its rows' alone.
#include "sched/expert_split.h"

#include <gtest/gtest.h>

#include <limits>

#include "failing/stub_device.h"
#include "must.h"
#include "unit_costs.h"

namespace llada {
namespace {

// Shows given gates, and has a clock that the test moves.
class RoutedDevice final : public StubDevice, ExpertHost, Clock {
 public:
  DeviceInfo info() const override { return {"routed", "", 1, ""}; }
  Capabilities capabilities() override { return {.experts = this, .clock = this}; }
  std::span<const float> peek(const Program&, ValueId) const override { return gates; }
  EmulatedStats emulated() override { return {.profile = "", .seconds = seconds}; }
  void reset_emulated() override {}
  bool dry() const override { return false; }

  std::vector<float> gates = {0.5f, 0, 0, 0.5f};  // two rows of two experts
  double seconds = 100;
};

class ExpertSplits : public testing::Test {
 protected:
  ExpertSplits() {
    program_.shape = plain_shape(2, 0);
    inputs_.streams.resize(1);
    inputs_.positions = {0, 1};
  }
  Result<const ExpertsPlan*> plan(ExpertSplit& split, int16_t layer) {
    Op op{.kind = OpKind::experts};
    op.layer = layer;
    op.in = {0, 1, kNoValue};
    op.experts = 2;
    return split.plan(device_, program_, op, inputs_);
  }
  static ExpertSplitOptions options() {
    ExpertSplitOptions o;
    o.layers = 4, o.experts = 2;
    o.costs = unit_costs();
    o.moe.plan = MoeRule::all_cpu;  // a host expert of a row takes 3
    return o;
  }
  RoutedDevice device_;
  Program program_;
  StepInputs inputs_;
};

TEST_F(ExpertSplits, TheTimeBetweenLayersIsTheDevices) {
  ExpertSplit split(options());
  split.begin_step();
  const auto first = must(plan(split, 0));
  const double experts_s = (*first)->predicted_s;
  EXPECT_EQ(experts_s, 6);
  EXPECT_EQ(split.clock().between_s, 0) << "nothing is known yet";
  device_.seconds += experts_s + 5;
  ASSERT_TRUE(plan(split, 1));
  EXPECT_DOUBLE_EQ(split.clock().between_s, 5);
  device_.seconds += experts_s + 9;
  ASSERT_TRUE(plan(split, 2));
  const double moved = split.clock().between_s;
  EXPECT_GT(moved, 5) << "towards the newest";
  EXPECT_LT(moved, 9);
  // Experts that took less than planned leave nothing below zero; another step's layers do not follow on this one's.
  device_.seconds += 1;
  ASSERT_TRUE(plan(split, 3));
  const double last = split.clock().between_s;
  EXPECT_GT(last, 0);
  EXPECT_LT(last, moved);
  device_.seconds += 1000;
  split.begin_step();
  ASSERT_TRUE(plan(split, 0));
  EXPECT_EQ(split.clock().between_s, last);
}

// A row whose gate is not finite is planned like any other, and shows in its own results. A listener is told.
TEST_F(ExpertSplits, DamageStopsNobodyButAListener) {
  device_.gates = {std::numeric_limits<float>::quiet_NaN(), 0, 0, 0.5f};
  ExpertSplit split(options());
  split.begin_step();
  const auto made = must(plan(split, 0));
  EXPECT_EQ((*made)->work.size(), 2u);
  ExpertSplitOptions listening = options();
  listening.costs.reset();
  listening.listen = [](const RoutedLayer&) { return Status(); };
  ExpertSplit listener(listening);
  listener.begin_step();
  const auto heard = plan(listener, 1);
  ASSERT_FALSE(heard);
  EXPECT_EQ(heard.error().kind, ErrorKind::data);
  EXPECT_EQ(heard.error().message,
            "routed: the decision of layer 1's router is not finite; the weights or the activations are damaged");
}

}  // namespace
}  // namespace llada
