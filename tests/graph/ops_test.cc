// The list of ops: a row for each kind, and the work that follows from it.
#include "graph/ops.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "graph/builder.h"

namespace llada {
namespace {

TEST(Ops, EveryKindHasItsRow) {
  std::set<std::string_view> names;
  for (int k = 0; k < kOpKindCount; ++k) {
    const OpRule& rule = kOps[k];
    EXPECT_EQ(static_cast<int>(rule.kind), k) << rule.name << ": rows stand in the order of the kinds";
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    EXPECT_EQ(rule.rows.result & ~kAnyRows, 0) << rule.name;
    EXPECT_LE(std::popcount(rule.rows.input), 1) << rule.name;
    EXPECT_EQ(rule.weights.role == WeightRole::none, rule.weights.most == 0) << rule.name;
    EXPECT_LE(rule.weights.least, rule.weights.most) << rule.name;
    EXPECT_EQ(rule.weights.role == WeightRole::vector, rule.weights.vector != Width::none) << rule.name;
    if (rule.values.in_place) {
      EXPECT_NE(rule.values.in[0], Width::none) << rule.name;
      EXPECT_EQ(rule.values.out, Width::none) << rule.name;
    }
    EXPECT_EQ(rule.kv != KvUse::none, rule.table == Table::attentions) << rule.name;
  }
  EXPECT_EQ(name(static_cast<OpKind>(kOpKindCount)), "unknown");
}

// Worked out by hand.
TEST(Ops, WorkOfEachSort) {
  const std::vector<WeightInfo> weights = {{"table", {8, 32}, -1},  {"up", {8, 24}, 0},      {"router", {8, 4}, 0},
                                           {"gate", {8, 16}, 0, 0}, {"gate", {8, 16}, 0, 1}, {"gate", {8, 16}, 0, 2},
                                           {"gate", {8, 16}, 0, 3}, {"up", {8, 16}, 0, 0},   {"up", {8, 16}, 0, 1},
                                           {"up", {8, 16}, 0, 2},   {"up", {8, 16}, 0, 3},   {"down", {16, 8}, 0, 0},
                                           {"down", {16, 8}, 0, 1}, {"down", {16, 8}, 0, 2}, {"down", {16, 8}, 0, 3}};
  const Routing routing{.experts = 4, .used = 2};
  const Attention a{.heads = 4, .kv_heads = 2, .head_dim = 2, .scale = 1};
  Builder b(plain_shape(5, 2), weights);
  const ValueId x = b.embed(0);                                                    // op 0: 5 x 8 floats written
  b.linear<2>(x, {1, 1});                                                          // op 1
  b.add(x, b.attention(0, x, a));                                                  // ops 2 and 3
  b.experts(x, b.route(b.linear(x, 2), kNoWeight, routing), {3, 7, 11}, routing);  // ops 4 to 6
  const Program p = b.take();
  const auto work = [&](size_t op, double keys, double tile) { return work_of(p, p.ops[op], weights, keys, tile); };
  EXPECT_EQ(work(0, 0, 1).values, 40);
  EXPECT_EQ(work(0, 0, 1).multiply_adds, 0);
  EXPECT_EQ(work(1, 0, 1).multiply_adds, 2 * 8 * 24 * 5);
  EXPECT_EQ(work(1, 0, 4).multiply_adds, 2 * 8 * 24 * 8) << "five rows are two tiles of four";
  EXPECT_EQ(work(1, 0, 1).weight_reads, 1);
  EXPECT_EQ(work(1, 0, 1).values, 0);
  EXPECT_EQ(work(2, 35, 1).multiply_adds, 2 * 35 * 4 * 2) << "scores and mix of each row and key";
  EXPECT_EQ(work(3, 0, 1).values, 3 * 40) << "both read, one written";
  EXPECT_EQ(work(5, 0, 1).values, 2 * 5 * 4);
  // An expert is left out by five rows, each of which chooses two of four, with probability 1/32.
  EXPECT_DOUBLE_EQ(work(6, 0, 1).weight_reads, 4 * (1 - 1.0 / 32));
  EXPECT_DOUBLE_EQ(work(6, 0, 1).multiply_adds, 4 * (1 - 1.0 / 32) * 3 * (3 * 8 * 16)) << "2.5 rows of each, padded";
}

}  // namespace
}  // namespace llada
