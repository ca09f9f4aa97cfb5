// The mixture on the CPU at its edges: who goes to which expert, how rows are shared out, what a layer is
// made of; against plain double arithmetic.
#include <gmock/gmock.h>

#include <numeric>

#include "devices/cpu/cpu_device.h"
#include "devices/cpu/cpu_experts.h"
#include "devices/routing.h"
#include "kernels/kernels.h"
#include "one_stream.h"
#include "sched/executor.h"
#include "small_model.h"

namespace llada {
namespace {

using testing::ElementsAre;

struct Geometry {
  int64_t width, inner;
  int experts;
};

// One layer's experts with random weights and a double-precision answer.
class Layer {
 public:
  Layer(DType type, Geometry g, const kernels::KernelTable& table) : g_(g), table_(table), pool_(1) {
    for (int slot = 0; slot < 3; ++slot)
      for (int e = 0; e < g.experts; ++e) {
        const int64_t in = slot == 2 ? g.inner : g.width, out = slot == 2 ? g.width : g.inner;
        infos_.push_back({"experts", {in, out}, 0, static_cast<int16_t>(e)});
        std::vector<float> floats(static_cast<size_t>(in * out));
        for (size_t i = 0; i < floats.size(); ++i)
          floats[i] =
              static_cast<float>((2 * uniform(3, infos_.size(), i, 0) - 1) / std::sqrt(static_cast<double>(in)) * 2);
        auto& bytes = storage_.emplace_back(static_cast<size_t>(row_bytes(type, in) * out));
        quantize_row(type, floats.data(), bytes.data(), in * out);
        dequantize_row(type, bytes.data(), floats.data(), in * out);
        values_.emplace_back(floats.begin(), floats.end());
        views_.push_back({bytes.data(), type, {{in, out, 1, 1}, 2}});
      }
    const auto weights = std::make_shared<CpuWeights>(table, infos_, views_, WeightHooks{});
    EXPECT_TRUE(weights->load(pool_, weights->every_id()));
    weights_ = weights;
  }

  std::vector<float> run(const std::vector<float>& x, const std::vector<float>& gates, int used, int threads,
                         const ExpertsPlan* plan = nullptr, std::string* error = nullptr) {
    ThreadPool pool(threads);
    Op op{.kind = OpKind::experts};
    op.weight = {0, g_.experts, 2 * g_.experts};
    op.experts = static_cast<int16_t>(g_.experts), op.experts_used = static_cast<int16_t>(used);
    std::vector<float> out(x.size(), -7);
    const auto status = experts_.run({.kernels = &table_,
                                      .pool = &pool,
                                      .weights = weights_->list,
                                      .op = &op,
                                      .x = x.data(),
                                      .gates = gates.data(),
                                      .rows = static_cast<int64_t>(x.size()) / g_.width,
                                      .out = out.data(),
                                      .plan = plan});
    EXPECT_EQ(status.has_value(), error == nullptr);
    if (error != nullptr && !status) *error = status.error().message;
    return out;
  }

  std::vector<double> reference(const std::vector<float>& x, const std::vector<float>& gates) const {
    std::vector<double> out;
    const auto width = static_cast<size_t>(g_.width), experts = static_cast<size_t>(g_.experts);
    for (size_t r = 0; r < x.size() / width; ++r) {
      const std::vector<double> row(x.begin() + static_cast<long>(r * width),
                                    x.begin() + static_cast<long>((r + 1) * width));
      std::vector<double> sum(width, 0.0);
      for (size_t e = 0; e < experts; ++e)
        if (const float gate = gates[r * experts + e]; gate != 0)
          add_to(sum, reference_swiglu(row, values_[e], values_[experts + e], values_[2 * experts + e]), gate);
      out.insert(out.end(), sum.begin(), sum.end());
    }
    return out;
  }

  int64_t touched() const { return experts_.touched(); }

 private:
  const Geometry g_;
  const kernels::KernelTable& table_;
  ThreadPool pool_;
  std::vector<WeightInfo> infos_;
  std::vector<std::vector<std::byte>> storage_;
  std::vector<TensorView> views_;
  std::vector<std::vector<double>> values_;
  std::shared_ptr<const CpuWeights> weights_;
  CpuExperts experts_;
};

std::vector<float> inputs(int64_t rows, int64_t width) {
  std::vector<float> x(static_cast<size_t>(rows * width));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(2 * uniform(9, i, 0, 0) - 1);
  return x;
}

// Rows' experts, gates all different.
std::vector<float> gates_of(const std::vector<std::vector<int>>& chosen, int experts) {
  std::vector<float> gates(chosen.size() * static_cast<size_t>(experts), 0.0f);
  for (size_t r = 0; r < chosen.size(); ++r)
    for (const int e : chosen[r])
      gates[r * static_cast<size_t>(experts) + static_cast<size_t>(e)] =
          0.1f + 0.03f * static_cast<float>(e) + 0.01f * static_cast<float>(r);
  return gates;
}

void expect_near(const std::vector<float>& found, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  double worst = 0;
  for (size_t i = 0; i < found.size(); ++i) worst = std::max(worst, std::fabs(found[i] - expected[i]));
  EXPECT_LT(worst, tolerance);
}

TEST(CpuExperts, AnyShareOfRowsAndThreadsGivesEachRowsOwnResult) {
  const Geometry g = {64, 32, 7};
  const std::vector<std::vector<std::vector<int>>> cases = {
      {{2, 5}, {0, 2}, {5, 6}},                       // experts 1, 3 and 4 have no row
      {{3}, {3}, {3}, {3}, {3}, {3}, {3}, {3}, {3}},  // all rows to one, more than a row tile
      {{0, 1}, {}, {1}},                              // gates that rounded to 0
      {{}, {}},                                       // nobody anywhere
      {{0, 1, 2, 3, 4, 5, 6}},                        // one row everywhere
      {{6, 0}, {6, 1}, {6, 2}, {6, 3}, {6, 4}, {6, 5}, {6, 0}, {6, 1}, {6, 2}, {6, 3}, {6, 4}, {6, 5}}};
  for (const kernels::KernelTable* table : kernels::available())
    for (const auto& [type, tolerance] : {std::pair{DType::F32, 2e-5}, {DType::Q4_0, 0.05}, {DType::Q8_0, 0.05}}) {
      Layer layer(type, g, *table);
      for (const auto& chosen : cases) {
        const auto rows = static_cast<int64_t>(chosen.size());
        const auto x = inputs(rows, g.width), gates = gates_of(chosen, g.experts);
        const auto one = layer.run(x, gates, 7, 1);
        expect_near(one, layer.reference(x, gates), tolerance);
        for (const int threads : {2, 5}) EXPECT_EQ(layer.run(x, gates, 7, threads), one) << threads << " threads";
        for (int64_t r = 0; r < rows; ++r) {
          const std::vector<float> row(x.begin() + r * g.width, x.begin() + (r + 1) * g.width);
          const std::vector<float> gate(gates.begin() + r * g.experts, gates.begin() + (r + 1) * g.experts);
          const auto alone = layer.run(row, gate, 7, 2);
          EXPECT_TRUE(std::equal(alone.begin(), alone.end(), one.begin() + r * g.width)) << "row " << r;
        }
      }
    }
}

TEST(CpuExperts, ADividedExpertIsTheSumOfItsSlices) {
  const Geometry g = {32, 1024, 3};
  const auto x = inputs(3, g.width), gates = gates_of({{0, 2}, {2}, {2}}, g.experts);
  // Of expert 2 the accelerator has slices 1 and 3; expert 0 is the host's whole, with its slices in any order.
  ExpertsPlan plan;
  plan.layer = 5, plan.slices = 4;
  for (const int32_t s : {1, 3}) plan.work.push_back({8 + s, 3, true});
  for (const int32_t s : {2, 0}) plan.work.push_back({8 + s, 3, false});
  for (const int32_t s : {3, 1, 0, 2}) plan.work.push_back({s, 1, false});
  for (const kernels::KernelTable* table : kernels::available())
    for (const DType type : {DType::F32, DType::Q4_0, DType::Q8_0}) {
      Layer layer(type, g, *table);
      const auto whole = layer.run(x, gates, 2, 1);
      for (const int threads : {1, 3}) {
        const auto divided = layer.run(x, gates, 2, threads, &plan);
        EXPECT_NE(divided, whole) << "the sum is rounded elsewhere, or this test tests nothing";
        for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(divided[i], whole[i], 2e-6) << table->isa << i;
      }
      ExpertsPlan one_side = plan;
      for (ExpertWork& work : one_side.work) work.on_device = work.expert < 8;
      EXPECT_EQ(layer.run(x, gates, 2, 2, &one_side), whole) << "nothing is divided";
    }
  Layer layer(DType::F32, g, *kernels::available().front());
  const auto refused = [&](const ExpertsPlan& bad) {
    std::string error;
    layer.run(x, gates, 2, 1, &bad, &error);
    return error;
  };
  ExpertsPlan bad = plan;
  bad.work.pop_back();
  EXPECT_EQ(refused(bad), "cpu: a plan of layer 5 leaves out slices of expert 0");
  bad = plan;
  bad.work[2].expert = 9;
  EXPECT_EQ(refused(bad), "cpu: a plan of layer 5 gives slice 9 twice");
  bad.slices = 3;
  EXPECT_EQ(refused(bad), "cpu: a plan of layer 5 has 3 slices, needed a divisor of 32");
}

TEST(CpuExperts, CountsWhomItTouched) {
  Layer layer(DType::Q8_0, {64, 32, 5}, *kernels::available().front());
  layer.run(inputs(2, 64), gates_of({{0, 4}, {4}}, 5), 2, 2);
  EXPECT_EQ(layer.touched(), 2);
  layer.run(inputs(1, 64), gates_of({{}}, 5), 2, 2);
  EXPECT_EQ(layer.touched(), 0);
}

TEST(RoutingEdges, TiesGoToTheLowerGroupAndTheLowerExpert) {
  const Op op{.kind = OpKind::route,
              .sigmoid = 1,
              .groups = 3,
              .groups_used = 2,
              .experts = 6,
              .experts_used = 3,
              .parameter = 1};
  // All alike: groups 0 and 1 compete, experts 0, 1 and 2 win.
  EXPECT_THAT(routed(op, std::vector<float>(6, 0.0f)), ElementsAre(0.5f, 0.5f, 0.5f, 0, 0, 0));
}

TEST(RoutingEdges, TheBiasChoosesGroupsToo) {
  const Op op{.kind = OpKind::route,
              .sigmoid = 1,
              .groups = 2,
              .groups_used = 1,
              .experts = 4,
              .experts_used = 2,
              .parameter = 1};
  const float bias[] = {0, 0, 0.5f, 0.5f};
  // Without it group 0 is worth 1.8; with it group 1 is worth 0.4 + 1.
  const auto gates = routed(op, {logit(0.6), logit(0.6), logit(0.2), logit(0.2)}, bias);
  EXPECT_EQ(gates[0], 0);
  EXPECT_NEAR(gates[2], 0.2, 1e-6) << "the gate itself has no bias";
}

TEST(RoutingEdges, GroupsOfOneExpertAndAllExperts) {
  const Op singles{.kind = OpKind::route,
                   .sigmoid = 1,
                   .groups = 4,
                   .groups_used = 2,
                   .experts = 4,
                   .experts_used = 2,
                   .parameter = 1};
  EXPECT_THAT(routed(singles, {logit(0.1), logit(0.4), logit(0.3), logit(0.2)}),
              ElementsAre(0, testing::FloatNear(0.4f, 1e-6f), testing::FloatNear(0.3f, 1e-6f), 0));
  const Op all{
      .kind = OpKind::route, .sigmoid = 1, .renormalise = 1, .experts = 3, .experts_used = 3, .parameter = 2.5f};
  const auto gates = routed(all, {logit(0.2), logit(0.2), logit(0.4)});
  EXPECT_NEAR(std::accumulate(gates.begin(), gates.end(), 0.0), 2.5, 1e-5);
  EXPECT_NEAR(gates[2], 1.25, 1e-5);
}

TEST(RoutingEdges, ScoresThatVanishAreNotDividedByNothing) {
  const Op op{
      .kind = OpKind::route, .sigmoid = 1, .renormalise = 1, .experts = 2, .experts_used = 2, .parameter = 2.5f};
  for (const float gate : routed(op, {-200.0f, -200.0f})) EXPECT_EQ(gate, 0) << "sigmoid(-200) is 0 in float";
}

// What a mixture's layers can be made of: each variation of LLaDA2 against the reference.
TEST(MixtureLayers, EveryPartIsOptional) {
  const auto varied = [](auto change) {
    ModelConfig c = small_llada2();
    c.vocab = 64;
    change(c);
    return c;
  };
  const std::pair<const char*, ModelConfig> cases[] = {
      {"as it is", varied([](auto&) {})},
      {"no dense layer", varied([](auto& c) { c.dense_layers = 0; })},
      {"all layers dense but one", varied([](auto& c) { c.dense_layers = 2; })},
      {"all layers dense", varied([](auto& c) { c.dense_layers = 3; })},
      {"no shared expert", varied([](auto& c) { c.shared_expert_ffn_width = 0; })},
      {"a shared expert of the others' size", varied([](auto& c) { c.shared_expert_ffn_width = 32; })},
      {"one group", varied([](auto& c) { c.expert_groups = 1, c.expert_groups_used = 1; })},
      {"groups of one", varied([](auto& c) { c.expert_groups = 8, c.expert_groups_used = 3; })},
      {"every expert", varied([](auto& c) { c.experts_used = 8, c.expert_groups_used = 4; })},
      {"two dimensions rotate", varied([](auto& c) { c.rotary_dims = 2; })},
      {"all dimensions rotate", varied([](auto& c) { c.rotary_dims = 16; })},
      {"blocks of one", varied([](auto& c) { c.attention_block = 1; })},
      {"one block", varied([](auto& c) { c.attention_block = 64; })}};
  const std::vector<int32_t> tokens = random_tokens(19, 64);
  for (const auto& [what, config] : cases) {
    const SmallModel m = make_small_model(DType::F32, config);
    auto device = *make_cpu_device({.threads = 2, .isa = ""}, m.graph.weights, m.views, {});
    Executor executor(*device, forwards_of(m.graph));
    KvStore kv = store_of(m.graph, 64);
    OneResult out;
    must(run_one(executor, step_of(tokens, ascending(0, 19), ascending(0, 19), m.graph.keys), kv, out));
    const Rows expected = reference_forward(m, tokens);
    double worst = 0;
    for (size_t p = 0; p < tokens.size(); ++p)
      for (size_t t = 0; t < 64; ++t) worst = std::max(worst, std::fabs(out.logits[p * 64 + t] - expected[p][t]));
    EXPECT_LT(worst, 2e-4) << what;
  }
}

// A run that has a shared expert's ops behind the experts computes them together; runs of one op each cannot.
TEST(MixtureLayers, ASharedExpertGivesTheSameBesideTheOthersAndApart) {
  ModelConfig config = small_llada2();
  config.vocab = 64, config.shared_expert_ffn_width = config.expert_ffn_width;
  for (const DType type : {DType::F32, DType::Q8_0}) {
    const SmallModel m = make_small_model(type, config);
    const auto program = std::make_shared<const Program>(m.graph.forward(plain_shape(19, 17)));
    const OneStream in = step_of(random_tokens(19, 64), ascending(0, 19), ascending(2, 19), m.graph.keys);
    const auto logits = [&](int threads, size_t ops_per_run) {
      auto device = *make_cpu_device({.threads = threads, .isa = ""}, m.graph.weights, m.views, {});
      KvStore kv = store_of(m.graph, 64);
      const StepInputs step = in.over(kv);
      StepOutputs out;
      const size_t ops = program->ops.size();
      for (size_t first = 0; first < ops; first += ops_per_run)
        EXPECT_TRUE(device->submit({.program = program,
                                    .first = first,
                                    .last = std::min(ops, first + ops_per_run),
                                    .inputs = &step,
                                    .outputs = &out}));
      return out.logits[0];
    };
    const auto apart = logits(1, 1);
    ASSERT_EQ(apart.size(), 17u * 64);
    for (const int threads : {1, 2}) EXPECT_EQ(logits(threads, program->ops.size()), apart) << threads << " threads";
  }
}

}  // namespace
}  // namespace llada
