// The builder makes what verify() accepts, and verify() finds every damage.
#include <gtest/gtest.h>

#include <functional>

#include "graph/builder.h"

namespace llada {
namespace {

const std::vector<WeightInfo> kWeights = {
    {"table", {8, 32}, -1}, {"norm", {8, 1}, 0}, {"up", {8, 24}, 0}, {"down", {24, 8}, 0}};

Program small_program() {
  Builder b({.rows = 4, .wanted = 2}, kWeights);
  const ValueId x = b.embed(0);
  const ValueId h = b.rms_norm(x, 1, 1e-5f);
  const auto [gate, up] = b.linear<2>(h, {2, 2});
  b.add(x, b.linear(b.swiglu(gate, up), 3));
  b.head(b.guide(b.select_rows(x)), 0);
  return b.take();
}

TEST(Program, BuilderMakesWhatVerifyAccepts) {
  const Program p = small_program();
  const auto status = verify(p, kWeights);
  EXPECT_TRUE(status) << status.error().message;
  EXPECT_EQ(p.ops.front().kind, OpKind::embed);
  EXPECT_EQ(p.ops.back().kind, OpKind::head);
}

// Each damage to a good program must be found, and the line must name the op.
TEST(Program, VerifyFindsEveryDamage) {
  const auto message = [](const std::function<void(Program&)>& damage) {
    Program p = small_program();
    damage(p);
    const auto status = verify(p, kWeights);
    return status ? std::string("accepted") : status.error().message;
  };
  EXPECT_EQ(message([](Program& p) { p.ops[1].in[0] = 99; }),
            "program: op 1 (rms_norm): input 0 does not exist");
  EXPECT_EQ(message([](Program& p) { std::swap(p.ops[0], p.ops[1]); }),
            "program: op 0 (rms_norm): value 0 is read before it is written");
  EXPECT_EQ(message([](Program& p) { p.ops[2].weight[0] = 3; }),
            "program: op 2 (matmul): weight down is 24 x 8, 8 x 24 needed");
  EXPECT_EQ(message([](Program& p) { p.values[1].columns = 9; }),
            "program: op 1 (rms_norm): value 1 has 9 columns, 8 needed");
  EXPECT_EQ(message([](Program& p) { p.values[0].rows = RowSet::wanted; }),
            "program: op 0 (embed): value 0 has the wrong row set");
  EXPECT_EQ(message([](Program& p) { p.shape.rows = 0; }), "program: impossible shape: 0 rows, 2 wanted");
  EXPECT_EQ(message([](Program& p) { p.ops[2].weight[1] = 77; }),
            "program: op 2 (matmul): weight 1 does not exist");
}

TEST(Program, GuidedRowsAreHalfOfTheWanted) {
  const StepShape plain{.rows = 10, .wanted = 6, .guided = false},
      guided{.rows = 10, .wanted = 6, .guided = true};
  EXPECT_EQ(plain.count(RowSet::guided), 6);
  EXPECT_EQ(guided.count(RowSet::guided), 3);
  EXPECT_EQ(guided.count(RowSet::wanted), 6);
  Program odd;
  odd.shape = {.rows = 10, .wanted = 5, .guided = true};
  EXPECT_FALSE(verify(odd, kWeights));
}

}  // namespace
}  // namespace llada
