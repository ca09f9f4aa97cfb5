// What devices and the executor keep per program: when its values live, where they lie, and the last ones of each.
#include "devices/value_plan.h"

#include <gtest/gtest.h>

#include <map>

#include "devices/cpu/cpu_device.h"
#include "must.h"
#include "one_stream.h"
#include "sched/executor.h"
#include "sched/memory_runtime.h"
#include "small_model.h"

namespace llada {
namespace {

// 0 -> 1 and 2 -> 3, in place on 3, and 0 is read again at the end; nobody names 4.
Program chain() {
  Program p;
  p.shape = plain_shape(3, 2);
  p.values = {{10, RowSet::all}, {10, RowSet::all}, {64, RowSet::all}, {7, RowSet::wanted}, {5, RowSet::all}};
  const auto op = [](OpKind kind, std::array<ValueId, 3> in, std::array<ValueId, 3> out) {
    Op o;
    o.kind = kind;
    o.in = in;
    o.out = out;
    return o;
  };
  const ValueId none = kNoValue;
  p.ops = {op(OpKind::embed, {none, none, none}, {0, none, none}), op(OpKind::matmul, {0, none, none}, {1, 2, none}),
           op(OpKind::select_rows, {1, none, none}, {3, none, none}), op(OpKind::add, {3, none, none}, {3, none, none}),
           op(OpKind::add, {0, 2, none}, {0, none, none})};
  return p;
}

TEST(ValuePlan, AValueLivesFromTheFirstToTheLastOpThatNamesIt) {
  const auto lives = value_lifetimes(chain(), 2);
  ASSERT_EQ(lives.size(), 5U);
  const std::array<std::pair<int, int>, 4> expected{{{0, 4}, {1, 2}, {1, 4}, {2, 3}}};
  for (size_t v = 0; v < expected.size(); ++v) {
    EXPECT_EQ(lives[v].first, expected[v].first) << v;
    EXPECT_EQ(lives[v].last, expected[v].second) << v;
  }
  EXPECT_GT(lives[4].first, lives[4].last);
  EXPECT_EQ(lives[0].bytes, 3 * 10 * 2);
  EXPECT_EQ(lives[3].bytes, 2 * 7 * 2);
}

// Two canvases behind prompts of 10 and of 2: every row reads so many keys before its canvas, and all of it.
TEST(ValuePlan, AWindowMayBeCountedFromASpansFirstRow) {
  Program p;
  p.shape = plain_shape(7, 2);
  p.attentions = {{.heads = 1, .kv_heads = 1, .head_dim = 4, .scale = 1, .window = {.before = 3, .of_span = true}}};
  StepInputs in;
  in.streams.resize(2);
  append_span(in, {.stream = 0}, std::vector<int32_t>(4), std::vector<int32_t>{10, 11, 12, 13}, KeyRule::full(), 14);
  append_span(in, {.stream = 1}, std::vector<int32_t>(3), std::vector<int32_t>{2, 3, 4}, KeyRule::full(), 5);
  in.wanted = {3, 6};
  const RowSets sets = bind_row_sets(in, p);
  const RowSets::Reads& reads = sets.of(p.attentions[0]);
  const KeyRange first{7, 14}, second{0, 5};
  EXPECT_EQ(reads.ranges[0], (std::vector<KeyRange>{first, first, first, first, second, second, second}));
  EXPECT_EQ(reads.ranges[1], (std::vector<KeyRange>{first, second}));
}

TEST(ValuePlan, OnlyValuesOfOtherTimesShareBytes) {
  const ValuePlan plan = plan_values(chain());
  ASSERT_EQ(plan.offsets.size(), 5U);
  for (size_t a = 0; a < 4; ++a) {
    EXPECT_EQ(plan.offsets[a] % 128, 0) << a;
    EXPECT_LE(plan.offsets[a] + plan.lives[a].bytes, plan.bytes) << a;
    for (size_t b = 0; b < a; ++b) {
      const bool together = plan.lives[a].first <= plan.lives[b].last && plan.lives[b].first <= plan.lives[a].last;
      const bool apart = plan.offsets[a] + plan.lives[a].bytes <= plan.offsets[b] ||
                         plan.offsets[b] + plan.lives[b].bytes <= plan.offsets[a];
      EXPECT_TRUE(!together || apart) << a << " and " << b;
    }
  }
  // 0 (120 bytes, 128 in the arena), 2 (768), and 1 (128) beside 3 (56): 1 and 3 meet in op 2.
  EXPECT_EQ(plan.lives[0].bytes, 128);
  EXPECT_EQ(plan.bytes, 128 + 768 + 128 + 128);
}

// An executor keeps the programs that were used last, and a device's plan of a program that has left and comes back is
// of that program: results are those of an executor and a device that have seen nothing else.
TEST(ValuePlan, TheLastShapesAreKept) {
  const SmallModel model = make_small_model(DType::Q8_0, small_config());
  const auto device = must(make_cpu_device({.threads = 1, .isa = {}}, model.graph.weights, model.views, {}));
  std::map<int32_t, int> builds;  // by rows
  const auto build = forwards_of(model.graph);
  Executor executor(**device, [&](StepShape shape) {
    ++builds[shape.rows];
    return build(shape);
  });
  const auto logits = [&](Executor& with, int32_t rows) {
    KvStore kv = store_of(model.graph, 128);
    std::vector<int32_t> tokens;
    for (int32_t p = 0; p < rows; ++p) tokens.push_back((p * 37 + rows) % 1500);
    OneResult out;
    must(run_one(with, step_of(tokens, ascending(0, rows), {rows - 1}), kv, out));
    return out.logits;
  };
  const auto most = static_cast<int32_t>(kRecentShapes);
  for (int32_t rows = 1; rows <= most; ++rows) logits(executor, rows);
  logits(executor, 1);         // used again: not the oldest any more
  logits(executor, most + 1);  // in the place of 2
  logits(executor, 1);
  EXPECT_EQ(builds[1], 1);
  logits(executor, 2);
  EXPECT_EQ(builds[2], 2);
  EXPECT_EQ(builds[most], 1);

  const auto beyond = static_cast<int32_t>(kRecentPlans) + 3;
  std::vector<std::vector<float>> first;
  for (int32_t rows = 1; rows <= beyond; ++rows) first.push_back(logits(executor, rows));
  for (const int32_t rows : {1, 2, beyond / 2, beyond}) {
    const auto fresh = must((*device)->share(1));
    Executor alone(**fresh, build);
    const auto expected = logits(alone, rows);
    EXPECT_EQ(first[static_cast<size_t>(rows) - 1], expected) << rows;
    EXPECT_EQ(logits(executor, rows), expected) << rows;
  }
}

}  // namespace
}  // namespace llada
