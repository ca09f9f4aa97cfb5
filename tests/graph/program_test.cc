// The builder makes what verify() accepts, and verify() finds every damage.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "graph/builder.h"
#include "must.h"

namespace llada {
namespace {

const std::vector<WeightInfo> kWeights = {
    {"table", {8, 32}, -1}, {"norm", {8, 1}, 0}, {"up", {8, 24}, 0}, {"down", {24, 8}, 0}};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Program small_program() {
  Builder b(plain_shape(4, 2), kWeights);
  const ValueId x = b.embed(0);
  const ValueId h = b.rms_norm(x, 1, 1e-5f);
  const auto [gate, up] = b.linear<2>(h, {2, 2});
  b.add(x, b.linear(b.glu(gate, up), 3));
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
    return why_not(verify(p, kWeights));
  };
  EXPECT_EQ(message([](Program& p) { p.ops[1].in[0] = 99; }), "program: op 1 (rms_norm): input 0 does not exist");
  EXPECT_EQ(message([](Program& p) { std::swap(p.ops[0], p.ops[1]); }),
            "program: op 0 (rms_norm): value 0 is read before it is written");
  EXPECT_EQ(message([](Program& p) { p.ops[2].weight[0] = 3; }),
            "program: op 2 (matmul): weight down is 24 x 8, 8 x 24 needed");
  EXPECT_EQ(message([](Program& p) { p.values[1].columns = 9; }),
            "program: op 1 (rms_norm): value 1 has 9 columns, 8 needed");
  EXPECT_EQ(message([](Program& p) { p.values[0].rows = RowSet::wanted; }),
            "program: op 0 (embed): value 0 has the wrong row set");
  EXPECT_EQ(message([](Program& p) { p.shape.rows = 0; }),
            "program: impossible shape: 0 rows, 2 wanted, 2 predictions");
  EXPECT_EQ(message([](Program& p) { p.ops[2].weight[1] = 77; }), "program: op 2 (matmul): weight 1 does not exist");
}

// What used to pass: ops that write where nobody looked, or that read what an op of theirs writes.
const std::vector<WeightInfo> kLayerWeights = {
    {"table", {32, 40}, -1},  {"norm", {32, 1}, 0},     {"q", {32, 32}, 0},       {"kv", {32, 16}, 1},
    {"bias", {16, 1}, 1},     {"router", {32, 3}, 0},   {"gate", {32, 24}, 0, 0}, {"gate", {32, 24}, 0, 1},
    {"gate", {32, 24}, 0, 2}, {"up", {32, 24}, 0, 0},   {"up", {32, 24}, 0, 1},   {"up", {32, 24}, 0, 2},
    {"down", {24, 32}, 0, 0}, {"down", {24, 32}, 0, 1}, {"down", {24, 32}, 0, 2}, {"narrow", {32, 1}, 0}};

Program layer_program() {
  const Attention g{.heads = 4, .kv_heads = 2, .head_dim = 8, .scale = 0.25f};
  const Routing routing{.experts = 3, .used = 2};
  Builder b(plain_shape(4, 2), kLayerWeights);
  const ValueId x = b.embed(0);                                       // op 0, value 0
  const auto [k, v] = b.linear<2>(x, {3, 3});                         // op 1, values 1 and 2
  const ValueId q = b.linear(x, 2);                                   // op 2, value 3
  b.add_bias(k, 4);                                                   // op 3
  b.rope(k, 2, 8, *make_rope({.rotary = 8, .theta = 1e4}));           // op 4
  b.store_kv(1, k, v, g);                                             // op 5
  const ValueId mixed = b.attention(1, q, g);                         // op 6, value 4
  b.add(x, mixed);                                                    // op 7
  const ValueId gates = b.route(b.linear(x, 5), kNoWeight, routing);  // ops 8 and 9, values 5 and 6
  b.add(x, b.experts(x, gates, {6, 9, 12}, routing));                 // ops 10 and 11, value 7
  b.head(b.guide(b.select_rows(x)), 0);                               // ops 12 to 14
  return b.take();
}

TEST(Program, EveryFieldThatADeviceReliesOnIsChecked) {
  ASSERT_TRUE(verify(layer_program(), kLayerWeights)) << verify(layer_program(), kLayerWeights).error().message;
  const auto message = [](const std::function<void(Program&)>& damage) {
    Program p = layer_program();
    damage(p);
    const auto status = verify(p, kLayerWeights);
    return status ? std::string("accepted") : status.error().message.substr(std::string("program: ").size());
  };
  const std::pair<std::function<void(Program&)>, const char*> cases[] = {
      // Outputs of kinds that change a value in place, and operands that a kind does not have.
      {[](Program& p) { p.ops[3].out[0] = 999; }, "op 3 (add_bias): output 0 does not exist"},
      {[](Program& p) { p.ops[4].out[0] = -7; }, "op 4 (rope): output 0 does not exist"},
      {[](Program& p) { p.ops[3].out[0] = 2; },
       "op 3 (add_bias): value 1 is changed in place, value 2 cannot be the result"},
      {[](Program& p) { p.ops[5].out[2] = 30000; }, "op 5 (store_kv): output 2 does not exist"},
      {[](Program& p) { p.ops[7].out[1] = 1; }, "op 7 (add): output 1 does not exist"},
      {[](Program& p) { p.ops[6].in[2] = 77; }, "op 6 (attention): input 2 does not exist"},
      {[](Program& p) { p.ops[6].weight[1] = 2; }, "op 6 (attention): weight 1 does not exist"},
      {[](Program& p) { p.ops[1].weight = {3, kNoWeight, 3}; }, "op 1 (matmul): weight 2 does not exist"},
      {[](Program& p) { p.ops[14].weight[0] = 99; }, "op 14 (head): weight 0 does not exist"},
      {[](Program& p) { p.ops[14].weight[0] = -5; }, "op 14 (head): weight 0 does not exist"},
      {[](Program& p) { p.ops[2].kind = static_cast<OpKind>(200); }, "op 2 is of the unknown kind 200"},
      {[](Program& p) { p.ops[2].rows = static_cast<RowSet>(3); }, "op 2 (matmul): row set 3 does not exist"},
      // Aliasing.
      {[](Program& p) { p.ops[1].out[1] = 1; }, "op 1 (matmul): value 1 is written twice"},
      {[](Program& p) { p.ops[2].out[0] = 0; }, "op 2 (matmul): value 0 is read and written"},
      {[](Program& p) { p.ops[6].out[0] = 3; }, "op 6 (attention): value 3 is read and written"},
      {[](Program& p) { p.ops[7].in[1] = 0; }, "op 7 (add): value 0 is read and written"},
      {[](Program& p) { p.ops[10].out[0] = 0; }, "op 10 (experts): value 0 is read and written"},
      // Layers and their K/V.
      {[](Program& p) { p.ops[5].layer = p.ops[6].layer = 2; }, "op 5 (store_kv): layer 2 of 2 does not exist"},
      {[](Program& p) { p.ops[5].layer = p.ops[6].layer = -1; }, "op 5 (store_kv): layer -1 has no K/V"},
      {[](Program& p) { p.ops[1].layer = -2; }, "op 1 (matmul): layer -2 of 2 does not exist"},
      {[](Program& p) { p.ops[6].layer = 0; },
       "op 6 (attention): the last K/V stored is of layer 1, that of layer 0 needed"},
      {[](Program& p) { std::swap(p.ops[5], p.ops[6]); },
       "op 5 (attention): the last K/V stored is of layer -1, that of layer 1 needed"},
      {[](Program& p) {
         p.attentions.push_back({.heads = 4, .kv_heads = 4, .head_dim = 8, .scale = 1});
         p.ops[6].attributes = 1;
       },
       "op 6 (attention): 4 kv heads of 8 elements, others have 2 of 8"},
      {[](Program& p) {
         p.attentions.push_back({.heads = 8, .kv_heads = 2, .head_dim = 4, .scale = 1});
         p.ops[6].attributes = 1;
       },
       "op 6 (attention): 2 kv heads of 4 elements, others have 2 of 8"},
      {[](Program& p) { p.attentions[0].kv_heads = -2, p.attentions[0].head_dim = -8; },
       "attention 0: -2 kv heads of -8 elements"},
      {[](Program& p) { p.ops[5].rows = RowSet::wanted; }, "op 5 (store_kv): has the wrong row set"},
      {[](Program& p) { p.ops[6].rows = RowSet::predicted; }, "op 6 (attention): has the wrong row set"},
      {[](Program& p) { p.attentions[0].heads = -4; }, "attention 0: -4 heads over 2 kv heads"},
      {[](Program& p) { p.attentions[0].heads = 3; }, "attention 0: 3 heads over 2 kv heads"},
      {[](Program& p) { p.attentions[0].scale = 0; }, "attention 0: its scale is 0"},
      {[](Program& p) { p.attentions[0].cap = -1; }, "attention 0: its soft cap is -1"},
      {[](Program& p) { p.attentions[0].cap = kNan; }, "attention 0: its soft cap is nan"},
      {[](Program& p) { p.attentions[0].window.before = -2; }, "attention 0: its window is -2 before and -1 after"},
      {[](Program& p) { p.attentions[0].window.after = INT32_MIN; },
       "attention 0: its window is -1 before and -2147483648 after"},
      // Indices into the tables, and what stands there.
      {[](Program& p) { p.ops[6].attributes = 1; }, "op 6 (attention): entry 1 of its table does not exist"},
      {[](Program& p) { p.ops[5].attributes = -1; }, "op 5 (store_kv): entry -1 of its table does not exist"},
      {[](Program& p) { p.ops[4].attributes = 32767; }, "op 4 (rope): entry 32767 of its table does not exist"},
      {[](Program& p) { p.ops[3].attributes = 0; }, "op 3 (add_bias): entry 0 of its table does not exist"},
      {[](Program& p) { p.ropes.clear(); }, "op 4 (rope): entry 0 of its table does not exist"},
      {[](Program& p) { p.ropes[0].rotary = 7; }, "rope 0: 7 rotary elements, an even number needed"},
      {[](Program& p) { p.ropes[0].rotary = 6; }, "rope 0: 4 frequencies for 6 rotary elements"},
      {[](Program& p) { p.ropes[0] = *make_rope({.rotary = 10, .theta = 3}); }, "op 4 (rope): 10 rotary of 8 elements"},
      {[](Program& p) { p.ropes[0].frequencies[3] = kNan; }, "rope 0: a frequency is nan"},
      {[](Program& p) { p.ropes[0].magnitude = 0; }, "rope 0: its magnitude is 0"},
      {[](Program& p) { p.ropes[0].scale.period = 0; }, "rope 0: it scales by 0 in every 0 positions"},
      {[](Program& p) { p.ops[10].activation = static_cast<Activation>(2); },
       "op 10 (experts): activation 2 does not exist"},
      {[](Program& p) { p.ops[14].parameter = -30; }, "op 14 (head): its soft cap is -30"},
      {[](Program& p) { p.ops[14].parameter = kNan; }, "op 14 (head): its soft cap is nan"},
      {[](Program& p) { p.ops[4].heads = -2, p.ops[4].head_dim = -8; }, "op 4 (rope): -2 heads"},
      // Row sets of ops whose values alone were looked at.
      {[](Program& p) { p.ops[0].rows = RowSet::wanted; }, "op 0 (embed): has the wrong row set"},
      {[](Program& p) { p.ops[12].rows = RowSet::all; }, "op 12 (select_rows): has the wrong row set"},
      {[](Program& p) { p.ops[13].rows = RowSet::wanted; }, "op 13 (guide): has the wrong row set"},
      {[](Program& p) { p.ops[14].rows = RowSet::all; }, "op 14 (head): has the wrong row set"},
      // Rows that choose experts together.
      {[](Program& p) { p.ops[9].sigmoid = 1, p.ops[9].capacity = 1, p.ops[9].block = 4; },
       "op 9 (route): a block chooses 1 of 3 experts, of which a row uses 2"},
      {[](Program& p) { p.ops[9].sigmoid = 1, p.ops[9].capacity = -3, p.ops[9].block = 4; },
       "op 9 (route): a block chooses -3 of 3 experts, of which a row uses 2"},
      {[](Program& p) { p.ops[9].sigmoid = 1, p.ops[9].capacity = 4, p.ops[9].block = 4; },
       "op 9 (route): a block chooses 4 of 3 experts, of which a row uses 2"},
      {[](Program& p) { p.ops[9].capacity = 2, p.ops[9].block = 4; },
       "op 9 (route): a block chooses experts by softmax or in groups"},
      {[](Program& p) { p.ops[9].sigmoid = 1, p.ops[9].capacity = 2; },
       "op 9 (route): rows in blocks of 0, all rows of blocks of 1 or more needed"},
      // Experts: gates of no router, or of one that chooses more.
      {[](Program& p) { p.ops[10].in[1] = 5; }, "op 10 (experts): value 5 is no output of a router"},
      {[](Program& p) { p.ops[9].experts_used = 3; },
       "op 10 (experts): the router of value 6 chose 3 experts, this takes 2"},
      {[](Program& p) { p.ops[10].weight[2] = 14; }, "op 10 (experts): experts' weights do not exist"},
      {[](Program& p) { p.ops[10].weight[1] = 8; },
       "op 10 (experts): weight gate is expert 2 of 32 x 24, expert 0 of 32 x 24 needed"},
      // What devices keep as a vector is no matrix; values of no size; two heads.
      {[](Program& p) { p.ops[2].weight[0] = 15, p.values[3].columns = 1; },
       "op 2 (matmul): weight narrow is a vector, a matrix needed"},
      {[](Program& p) { p.values[3].columns = 0; }, "value 3 has 0 columns of row set 0"},
      {[](Program& p) { p.values[3].rows = static_cast<RowSet>(9); }, "value 3 has 32 columns of row set 9"},
      {[](Program& p) { p.ops.push_back(p.ops.back()); }, "op 15 (head): a second head"},
  };
  for (const auto& [damage, expected] : cases) EXPECT_EQ(message(damage), expected);
  Program huge = layer_program();
  huge.shape.rows = INT32_MAX;
  huge.values.push_back({INT32_MAX, RowSet::all});
  EXPECT_FALSE(verify(huge, kLayerWeights)) << "bytes that no integer holds";
}

// Devices have positions to turn for of all and of wanted rows.
TEST(Program, PredictedRowsAreNotTurned) {
  Builder b(plain_shape(4, 2), kLayerWeights);
  const ValueId wanted = b.select_rows(b.embed(0));
  b.rope(wanted, 4, 8, *make_rope({.rotary = 8, .theta = 1e4}));
  const ValueId predicted = b.guide(wanted);
  const Program good = b.take();
  EXPECT_TRUE(verify(good, kLayerWeights)) << verify(good, kLayerWeights).error().message;
  Program bad = good;
  bad.ops.push_back(good.ops[2]);
  bad.ops.back().rows = RowSet::predicted, bad.ops.back().in[0] = bad.ops.back().out[0] = predicted;
  EXPECT_EQ(verify(bad, kLayerWeights).error().message, "program: op 4 (rope): has the wrong row set");
}

TEST(Program, TheStoreThatItNeeds) {
  EXPECT_EQ(kv_geometry(layer_program()), (KvGeometry{2, 2, 8}));
  EXPECT_EQ(kv_geometry(small_program()), KvGeometry{});
}

TEST(Program, LayersMayDifferInWhatTheyStore) {
  Builder b(plain_shape(4, 0), kLayerWeights);
  const Attention few{.heads = 4, .kv_heads = 2, .head_dim = 8, .scale = 1},
      many{.heads = 4, .kv_heads = 4, .head_dim = 4, .scale = 1};
  const auto [k, v] = b.linear<2>(b.embed(0), {3, 3});
  b.store_kv(0, k, v, few);
  const Program one = b.take();
  Program both = one;
  both.attentions.push_back(many);
  both.ops.push_back(both.ops.back());
  both.ops.back().layer = 1, both.ops.back().attributes = 1;
  ASSERT_TRUE(verify(both, kLayerWeights)) << verify(both, kLayerWeights).error().message;
  EXPECT_EQ(kv_geometry(one), (KvGeometry{1, 2, 8}));
  EXPECT_EQ(kv_geometry(both), (KvGeometry{2, 2, 8, {{2, 8}, {4, 4}}}));
  both.ops.back().layer = 0;
  EXPECT_EQ(verify(both, kLayerWeights).error().message,
            "program: op 3 (store_kv): 4 kv heads of 4 elements, others have 2 of 8");
}

TEST(Program, AScaleIsOneNumberOrOneForEachColumn) {
  const std::vector<WeightInfo> weights = {
      {"table", {8, 5}, -1}, {"each", {8, 1}, 0}, {"all", {1, 1}, 0}, {"odd", {7, 1}, 0}};
  const auto message = [&](double factor, WeightId weight) {
    Builder b(plain_shape(2, 0), weights);
    b.scale(b.embed(0), factor, weight);
    const auto status = verify(b.take(), weights);
    return status ? std::string() : status.error().message;
  };
  for (const WeightId weight : {kNoWeight, 1, 2}) EXPECT_EQ(message(-0.5, weight), "");
  EXPECT_EQ(message(1, 3), "program: op 1 (scale): weight odd is 7 x 1, 8 x 1 needed");
  EXPECT_EQ(message(1, 0), "program: op 1 (scale): weight table is 8 x 5, 8 x 1 needed");
  EXPECT_EQ(message(kNan, 1), "program: op 1 (scale): its factor is nan");
}

// One entry for all that are alike, in each table.
TEST(Program, WhatOpsHaveInCommonIsEnteredOnce) {
  const Rope slow = *make_rope({.rotary = 8, .theta = 1e6}), fast = *make_rope({.rotary = 8, .theta = 10});
  const Attention whole{.heads = 4, .kv_heads = 2, .head_dim = 8, .scale = 1};
  Attention sliding = whole;
  sliding.window = {.before = 3, .after = 0};
  Builder b(plain_shape(4, 2), kLayerWeights);
  const ValueId x = b.embed(0);
  for (const Rope& rope : {slow, fast, slow}) b.rope(x, 4, 8, rope);
  const auto [k, v] = b.linear<2>(x, {3, 3});
  for (const Attention& attention : {whole, sliding, sliding}) {
    b.store_kv(1, k, v, attention);
    b.add(x, b.attention(1, x, attention));
  }
  b.rms_norm(b.rms_norm(b.rms_norm(x, 1, 1e-5f), kNoWeight, 1e-5f), 1, 1e-5f);
  const Program p = b.take();
  ASSERT_TRUE(verify(p, kLayerWeights)) << verify(p, kLayerWeights).error().message;
  EXPECT_EQ(p.ropes, (std::vector<Rope>{slow, fast}));
  EXPECT_EQ(p.attentions, (std::vector<Attention>{whole, sliding}));
  EXPECT_EQ(p.norms, (std::vector<Norm>{{1e-5f, true}, {1e-5f, false}}));
  EXPECT_EQ(p.ops[3].attributes, 0);
  EXPECT_EQ(p.ops[2].attributes, 1);

  Program lost = p;  // a norm that lost its weight, and one that found one
  lost.norms[0].weighted = false;
  EXPECT_EQ(verify(lost, kLayerWeights).error().message, "program: op 14 (rms_norm): its norm is one without weight");
  lost.norms[0].weighted = lost.norms[1].weighted = true;
  EXPECT_EQ(verify(lost, kLayerWeights).error().message, "program: op 15 (rms_norm): its norm is one with a weight");
  for (const float bad : {-1.0f, static_cast<float>(kNan)}) {
    lost = p;
    lost.norms[1].epsilon = bad;
    EXPECT_FALSE(verify(lost, kLayerWeights));
  }
}

TEST(Program, EveryRowSetHasItsNumberOfRows) {
  const StepShape shape{.rows = 10, .wanted = 6, .predictions = 4};  // two of them guided
  EXPECT_EQ(shape.count(RowSet::all), 10);
  EXPECT_EQ(shape.count(RowSet::wanted), 6);
  EXPECT_EQ(shape.count(RowSet::predicted), 4);
  Program more = small_program();
  more.shape.predictions = 3;
  EXPECT_FALSE(verify(more, kWeights)) << "more predictions than wanted rows";
}

// ---- What rows read

std::vector<KeyRange> ranges(const KeyRule& rule, int32_t keys) {
  std::vector<KeyRange> out;
  for (int32_t p = 0; p < keys; ++p) out.push_back(rule.of(p, keys));
  return out;
}

// By hand: for every row and every position whether the rule lets the one read the other.
TEST(KeyRule, EveryRuleIsWhatItSays) {
  constexpr int32_t kKeys = 13;
  const auto expect = [](const KeyRule& rule, const std::function<bool(int, int)>& reads) {
    const auto got = ranges(rule, kKeys);
    for (int p = 0; p < kKeys; ++p)
      for (int k = 0; k < kKeys; ++k) {
        const KeyRange r = got[static_cast<size_t>(p)];
        EXPECT_EQ(k >= r.first && k < r.last, reads(p, k)) << "row " << p << " key " << k;
      }
  };
  expect(KeyRule::full(), [](int, int) { return true; });
  expect(KeyRule::causal(), [](int p, int k) { return k <= p; });
  expect(KeyRule::block_causal(1), [](int p, int k) { return k <= p; });
  expect(KeyRule::block_causal(4), [](int p, int k) { return k / 4 <= p / 4; });
  expect(KeyRule::window(3, 2), [](int p, int k) { return k >= p - 3 && k <= p + 2; });
  expect(KeyRule::window(3, 0), [](int p, int k) { return k >= p - 3 && k <= p; });
  expect(KeyRule::window(0, 0), [](int p, int k) { return k == p; });
  expect({.causal_below = 5}, [](int p, int k) { return p >= 5 || k <= p; });
}

// By hand again: a window leaves those of a range that lie in it, and one at least.
TEST(KeyWindow, LeavesOfARangeWhatLiesInIt) {
  for (const KeyWindow w : {KeyWindow{}, {3, 2}, {0, 0}, {4, -1}, {-1, 1}, {INT32_MAX, INT32_MAX}})
    for (const KeyRange range : {KeyRange{0, 13}, {4, 9}, {6, 7}})
      for (int32_t p = 0; p < 13; ++p) {
        const KeyRange got = w.of(p, range);
        int inside = 0;
        for (int32_t k = 0; k < 13; ++k) {
          const bool reads = k >= range.first && k < range.last && (w.before < 0 || k >= int64_t{p} - w.before) &&
                             (w.after < 0 || k <= int64_t{p} + w.after);
          inside += reads;
          if (p >= range.first && p < range.last) {
            EXPECT_EQ(k >= got.first && k < got.last, reads) << p << " " << k;
          }
        }
        EXPECT_LE(range.first, got.first);
        EXPECT_LT(got.first, got.last);
        EXPECT_LE(got.last, range.last);
        if (inside > 0) {
          EXPECT_EQ(got.count(), inside);
        }
      }
}

TEST(KeyRule, ARowReadsSomethingOfWhatIsThere) {
  for (const KeyRule& rule : {KeyRule::full(), KeyRule::causal(), KeyRule::block_causal(4), KeyRule::window(2, 2)})
    for (const int32_t p : {0, 1, 7, 1000, INT32_MAX}) {
      const KeyRange r = rule.of(p, 3);
      EXPECT_LE(0, r.first);
      EXPECT_LT(r.first, r.last);
      EXPECT_LE(r.last, 3);
    }
}

}  // namespace
}  // namespace llada
