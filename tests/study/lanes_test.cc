// The lanes against times worked out by hand.
#include "study/sim/lanes.h"

#include <gtest/gtest.h>

#include "devices/small_model.h"
#include "study/sim/cost.h"

namespace llada {
namespace {

TEST(Lanes, ALaneIsAQueueAndLanesRunTogether) {
  Lanes lanes(100);
  const TaskId a = lanes.add({.lane = Lane::npu, .fixed_s = 2});
  const TaskId b = lanes.add({.lane = Lane::npu, .fixed_s = 3});
  const TaskId c = lanes.add({.lane = Lane::cpu, .fixed_s = 4});
  const TaskId d = lanes.add({.lane = Lane::cpu, .fixed_s = 1, .after = b});
  lanes.finish_all();
  EXPECT_EQ(lanes.end_of(a), 2);
  EXPECT_EQ(lanes.end_of(b), 5);
  EXPECT_EQ(lanes.end_of(c), 4);
  EXPECT_EQ(lanes.end_of(d), 6);
  EXPECT_EQ(lanes.now(), 6);
  EXPECT_EQ(lanes.busy_s(Lane::npu), 5);
  EXPECT_EQ(lanes.busy_s(Lane::cpu), 5);
}

TEST(Lanes, ATaskComputesWhileItStreams) {
  Lanes lanes(100);
  const TaskId a = lanes.add({.lane = Lane::npu, .fixed_s = 1, .compute_s = 2, .bytes = 50, .bytes_per_s = 10});
  lanes.finish(a);
  EXPECT_EQ(lanes.now(), 6) << "1 + max(2, 50 / 10)";
}

// 30 and 90 bytes at up to 60/s each through 80/s: 40/s each until 0.75 s, then the second alone at 60/s.
TEST(Lanes, StreamsShareTheDram) {
  Lanes lanes(80);
  const TaskId a = lanes.add({.lane = Lane::npu, .bytes = 30, .bytes_per_s = 60});
  const TaskId b = lanes.add({.lane = Lane::cpu, .bytes = 90, .bytes_per_s = 60});
  lanes.finish_all();
  EXPECT_NEAR(lanes.end_of(a), 0.75, 1e-12);
  EXPECT_NEAR(lanes.end_of(b), 0.75 + 60.0 / 60, 1e-12);
}

// A slow stream gets all it asks for; the rest is for the fast one: 10 and 70 of 80.
TEST(Lanes, ASmallDemandIsMetInFull) {
  Lanes lanes(80);
  const TaskId a = lanes.add({.lane = Lane::npu, .bytes = 140, .bytes_per_s = 100});
  const TaskId b = lanes.add({.lane = Lane::dma, .bytes = 10, .bytes_per_s = 10});
  lanes.finish_all();
  EXPECT_NEAR(lanes.end_of(b), 1, 1e-12);
  EXPECT_NEAR(lanes.end_of(a), 1 + 70.0 / 80, 1e-12);
}

TEST(Lanes, OnlyWaitingForAMappingIsExposed) {
  Lanes lanes(100);
  const TaskId map = lanes.add({.lane = Lane::map, .fixed_s = 5});
  const TaskId before = lanes.add({.lane = Lane::npu, .fixed_s = 3});
  const TaskId op = lanes.add({.lane = Lane::npu, .fixed_s = 1, .after = before, .maps = {map, kNoTask}});
  lanes.finish(op);
  EXPECT_EQ(lanes.now(), 6);
  EXPECT_EQ(lanes.exposed_s(), 2) << "three of the five seconds were hidden";
  const TaskId hidden = lanes.add({.lane = Lane::map, .fixed_s = 1});
  const TaskId work = lanes.add({.lane = Lane::npu, .fixed_s = 4});
  lanes.finish(lanes.add({.lane = Lane::npu, .fixed_s = 1, .after = work, .maps = {hidden, kNoTask}}));
  EXPECT_EQ(lanes.exposed_s(), 2);
}

TEST(Lanes, AJoinWaitsForBothLanesAndNoMapping) {
  Lanes lanes(100);
  const TaskId here = lanes.add({.lane = Lane::npu, .fixed_s = 3});
  const TaskId there = lanes.add({.lane = Lane::cpu, .fixed_s = 5});
  const TaskId join = lanes.add({.lane = Lane::npu, .fixed_s = 1, .after = here, .joins = there});
  lanes.finish(join);
  EXPECT_EQ(lanes.now(), 6);
  EXPECT_EQ(lanes.busy_s(Lane::npu), 4);
  EXPECT_EQ(lanes.exposed_s(), 0);
}

TEST(Lanes, NothingStartsBeforeItWasAsked) {
  Lanes lanes(100);
  lanes.finish(lanes.add({.lane = Lane::npu, .fixed_s = 3}));
  const TaskId map = lanes.add({.lane = Lane::map, .fixed_s = 1});
  lanes.finish(map);
  EXPECT_EQ(lanes.end_of(map), 4) << "the map lane was free at 0, but nobody knew of the need";
}

// One op of each kind by hand: rows padded to 32, 18 bytes per 32 values.
TEST(Cost, FollowsTheShape) {
  const Profile p = *load_profile("v79-8elite");
  UnitProfile unit = p.npu;
  unit.matmul_gflops.value = 1000;
  unit.attention_gflops.value = 100;
  unit.elementwise_gb_per_s.value = 10;
  SmallModel m = make_small_model(DType::Q4_0, small_config(RopePairing::half_split, 4));
  std::vector<WeightSize> sizes;
  for (const TensorView& v : m.views) sizes.push_back({v.bytes(), v.type, v.shape.rank > 1});
  const Program program = m.graph.forward(plain_shape(33, 5));
  int products = 0, heads = 0;
  for (const Op& op : program.ops) {
    const OpCost cost = price_op(unit, program, op, m.graph.weights, sizes, 33 * 40.0);
    if (op.kind == OpKind::matmul && op.layer == 0 && op.weight[2] != kNoWeight) {
      EXPECT_EQ(cost.kernels, 3);
      EXPECT_NEAR(cost.compute_s, 3 * 2.0 * 64 * 64 * 64 / 1e12, 1e-18) << "33 rows cost 64";
      EXPECT_EQ(cost.stream_bytes, 3 * 64 * 64 / 32 * 18);
      ++products;
    } else if (op.kind == OpKind::head) {
      EXPECT_NEAR(cost.compute_s, 2.0 * 64 * 1500 * 32 / 1e12, 1e-18) << "5 rows cost 32";
      ++heads;
    } else if (op.kind == OpKind::attention && op.layer == 0) {
      EXPECT_NEAR(cost.compute_s, 4.0 * 33 * 40 * 64 / 1e11, 1e-18);
      EXPECT_EQ(cost.stream_bytes, 0);
    } else if (op.kind == OpKind::glu && op.layer == 0) {
      EXPECT_NEAR(cost.compute_s, 3 * 33 * 96 * 2 / 1e10, 1e-18) << "two values in, one out, two bytes each";
    }
  }
  EXPECT_EQ(products, 1);
  EXPECT_EQ(heads, 1);
}

}  // namespace
}  // namespace llada
