// Every device over the rarer forms of ops (geometry/variants.h) and over odd geometries, against the forward in double
// arithmetic: windows that differ by layer and end within a tile, soft caps, GELU, norms without weight, YaRN and
// divided frequencies on a part of a head, a prompt that is encoded before its canvas.
#include "geometry/variants.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "base/random.h"
#include "devices_under_test.h"
#include "must.h"
#include "one_stream.h"
#include "sched/executor.h"
#include "small_model.h"

namespace llada {
namespace {

constexpr int32_t kTokens = 43;

struct AttentionShape {
  int heads, kv_heads, head_dim, rotary;
};
// Heads of 24 and 80 fill no tile of a power of two; 4 and 3 queries share a key; a part of a head turns.
const AttentionShape kGeometries[] = {{4, 2, 16, 16}, {3, 1, 24, 24}, {4, 1, 80, 20}, {2, 2, 128, 64}};

ModelConfig shaped(ModelConfig c, const AttentionShape& g) {
  c.heads = g.heads, c.kv_heads = g.kv_heads, c.head_dim = g.head_dim, c.rotary_dims = g.rotary;
  c.vocab = 300;
  return c;
}

struct NamedVariant {
  const char* name;
  Variant variant;
};
std::vector<NamedVariant> variants() {
  return {{"windows", {.windows = {{.before = 3, .after = 0}, {}, {.before = 17, .after = 5}}}},
          {"capped scores", {.cap = 0.7f, .scale = 1}},
          {"capped logits", {.logit_cap = 1.5f}},
          {"gelu", {.gelu = true}},
          {"gelu in experts alone", {.gelu_in_experts = true}},
          {"norms without weight", {.plain_norms = true}},
          {"all at once",
           {.windows = {{.before = 9, .after = 2}, {}}, .cap = 2, .logit_cap = 3, .gelu = true, .plain_norms = true}}};
}

std::vector<int32_t> some_tokens(int64_t vocab) {
  std::vector<int32_t> tokens;
  for (uint64_t p = 0; p < kTokens; ++p)
    tokens.push_back(static_cast<int32_t>(uniform(7, p, 0, 0) * static_cast<double>(vocab)));
  return tokens;
}

class Variants : public OnDevice {
 protected:
  void TearDown() override { kv_.reset(); }  // its memory is the device's

  // A device that does not sample all shapes says so by its name: an emulator takes seconds for each.
  static bool skipped(size_t geometry) { return emulated(GetParam()) && geometry % 2 == 1; }
  // The DSP multiplies floats as 16-bit integers.
  static double tolerance() { return GetParam().name == "hexagon" ? 0.02 : 3e-4; }

  void open(SmallModel m, DType kv_type = DType::F32) {
    kv_.reset();
    executor_.reset();
    model_ = std::move(m);
    device_ = *must(GetParam().open(model_));
    executor_.emplace(*device_, forwards_of(model_.graph));
    kv_.emplace(store_of(model_.graph, 64, kv_type, device_.get()));
  }

  OneStream rows(const std::vector<int32_t>& tokens, int32_t first, int32_t last, const KeyRule& rule) const {
    return step_of(tokens, ascending(first, last), ascending(0, last - first), rule);
  }

  std::vector<float> run(const OneStream& in) {
    OneResult out;
    const auto status = run_one(*executor_, in, *kv_, out);
    EXPECT_TRUE(status) << status.error().message;
    return std::move(out.logits);
  }

  static double worst(const std::vector<float>& got, const Rows& expected, size_t from) {
    const size_t vocab = expected[0].size();
    if (got.size() != (expected.size() - from) * vocab) return HUGE_VAL;
    double most = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const double off = std::fabs(got[i] - expected[from + i / vocab][i % vocab]);
      most = std::isfinite(off) ? std::max(most, off) : HUGE_VAL;
    }
    return most;
  }

  SmallModel model_;
  std::unique_ptr<Device> device_;
  std::optional<Executor> executor_;
  std::optional<KvStore> kv_;
};

TEST_P(Variants, EqualTheReferenceInEveryGeometry) {
  // Experts, and a shared one of their width, which the cpu computes with them; block-causal attention.
  const auto with_shared = [] {
    ModelConfig c = small_llada2();
    c.shared_expert_ffn_width = c.expert_ffn_width;
    return c;
  };
  const std::function<ModelConfig()> kinds[] = {[] { return small_config(); }, small_dream, small_llada_moe,
                                                with_shared};
  for (size_t g = 0; g < std::size(kGeometries); ++g) {
    if (skipped(g)) continue;
    const ModelConfig config = shaped(kinds[g](), kGeometries[g]);
    const SmallModel plain = make_small_model(DType::F32, config);
    const std::vector<int32_t> tokens = some_tokens(config.vocab);
    const Rows without = reference_forward(plain, tokens);
    for (const auto& [name, variant] : variants()) {
      if (variant.gelu_in_experts && config.experts == 0) continue;
      open(in_variant(plain, variant));
      const Rows expected = reference_forward(model_, tokens);
      double effect = 0;
      for (size_t r = 0; r < expected.size(); ++r)
        for (size_t t = 0; t < expected[r].size(); ++t)
          effect = std::max(effect, std::fabs(expected[r][t] - without[r][t]));
      EXPECT_GT(effect, 0.1) << name << ": a variant that changes nothing shows nothing";
      EXPECT_LT(worst(run(rows(tokens, 0, kTokens, model_.graph.keys)), expected, 0), tolerance())
          << name << ", geometry " << g;
      // The last rows alone, over the keys that the others left.
      EXPECT_LT(worst(run(rows(tokens, 38, kTokens, model_.graph.keys)), expected, 38), tolerance())
          << name << ", geometry " << g;
    }
  }
}

TEST_P(Variants, RotaryFrequencies) {
  for (size_t g = 0; g < std::size(kGeometries); ++g) {
    if (skipped(g)) continue;
    ModelConfig config = shaped(small_config(g < 2 ? RopePairing::adjacent : RopePairing::half_split), kGeometries[g]);
    const Rows without = reference_forward(make_small_model(DType::F32, config), some_tokens(300));
    for (const int form : {0, 1, 2}) {
      config.yarn.reset();
      if (form != 0) config.yarn = Yarn{.factor = 8, .original_context = 40, .beta_fast = 2, .beta_slow = 0.01};
      if (form == 2) config.yarn->attention_factor = 1.5;
      Variant variant;
      for (int j = 0; form != 1 && j < kGeometries[g].rotary / 2; ++j)
        variant.divisors.push_back(j % 3 == 2 ? 1e30f : 1.0f + 0.25f * static_cast<float>(j));
      open(in_variant(make_small_model(DType::F32, config), variant));
      const std::vector<int32_t> tokens = some_tokens(config.vocab);
      const Rows expected = reference_forward(model_, tokens);
      EXPECT_LT(worst(run(rows(tokens, 0, kTokens, {})), expected, 0), tolerance()) << form << ", geometry " << g;
      std::vector<float> plain;
      for (const auto& row : without) plain.insert(plain.end(), row.begin(), row.end());
      EXPECT_GT(worst(plain, expected, 0), 0.05) << form << ": frequencies that change nothing show nothing";
    }
  }
}

// A prompt causally, keys and values alone; its canvas behind it, embedded in another way; then the canvas again, as a
// second step of denoising has it.
TEST_P(Variants, APromptIsEncodedAndItsCanvasDenoised) {
  constexpr int32_t kPrompt = 21;
  for (const bool windows : {false, true}) {
    Variant variant{.prompt = kPrompt, .canvas_norm = true};
    if (windows) variant.windows = {{.before = 5}, {}};
    open(in_variant(make_small_model(DType::F32, shaped(small_config(), kGeometries[1])), variant));
    std::vector<int32_t> tokens = some_tokens(300);
    OneStream prompt = rows(tokens, 0, kPrompt, KeyRule::causal());
    prompt.wanted.clear();
    StepInputs step = prompt.over(*kv_);
    step.pass = Pass::encode;
    StepOutputs out;
    const auto status = must(executor_->run(step, out));
    EXPECT_TRUE(out.predictions.empty());
    for (int again = 0; again < 2; ++again) {
      const Rows expected = reference_forward(model_, tokens);
      EXPECT_LT(worst(run(rows(tokens, kPrompt, kTokens, {.causal_below = kPrompt})), expected, kPrompt), tolerance())
          << "windows " << windows << ", step " << again;
      for (int32_t p = kPrompt; p < kTokens; p += 3) tokens[static_cast<size_t>(p)] = (7 * p) % 300;
    }
  }
}

TEST_P(Variants, AModelWithoutThePassSaysSo) {
  open(make_small_model(DType::F32, shaped(small_config(), kGeometries[0])));
  OneStream prompt = rows(some_tokens(300), 0, 5, KeyRule::causal());
  prompt.wanted.clear();
  StepInputs step = prompt.over(*kv_);
  step.pass = Pass::encode;
  StepOutputs out;
  EXPECT_EQ(why_not(executor_->run(step, out)),
            "the model has no pass that encodes a prompt: it computes prompt and canvas together");
}

// What lies outside of a layer's window has no influence, whatever its bytes; in a layer without one it has.
TEST_P(Variants, KeysOutsideOfAWindowMayBeAnything) {
  for (const float cap : {0.0f, 3.0f}) {
    const Variant variant{.windows = {{.before = 6, .after = 1}}, .cap = cap};
    open(in_variant(make_small_model(DType::F32, shaped(small_config(), kGeometries[1])), variant));
    const std::vector<int32_t> tokens = some_tokens(300);
    run(rows(tokens, 0, kTokens, {}));
    const OneStream some = rows(tokens, 20, 23, {});  // read 14 to 23
    const std::vector<float> before = run(some);
    const auto spoil = [&](int32_t position) {
      for (int layer = 0; layer < kv_->shape().layers; ++layer) {
        for (int head = 0; head < kv_->shape().kv_heads; ++head)
          for (std::byte* at : {kv_->keys(layer, 0, head), kv_->values(layer, 0, head)})
            std::memset(at + position * kv_->shape().head_dim * 4, 0xff,
                        static_cast<size_t>(kv_->shape().head_dim) * 4);
        kv_->wrote(KvViewer::memory, layer, 0, position);
      }
    };
    for (int32_t p = 0; p < kTokens; ++p)
      if (p < 14 || p > 23) spoil(p);
    EXPECT_EQ(run(some), before) << "cap " << cap;
    spoil(14);  // the first that the first row reads
    OneResult out;
    EXPECT_THAT(why_not(run_one(*executor_, some, *kv_, out)),
                testing::HasSubstr("the logits of position 20 are not finite"));
  }
}

// Infinite scores and logits meet finite caps.
TEST_P(Variants, ACapHidesNoDamage) {
  const Variant variant{.cap = 5, .logit_cap = 5, .gelu = true, .plain_norms = true};
  const char* const damaged[] = {"blk.1.attn_q.weight", "blk.0.ffn_gate.weight", "output.weight"};
  for (const char* name : damaged) {
    if (emulated(GetParam()) && name != damaged[0]) continue;
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
      SmallModel m = make_small_model(DType::F32, shaped(small_config(), kGeometries[1]));
      std::memcpy(m.storage[m.index(name)].data() + 4 * 70, &bad, 4);
      const SmallModel spoiled = in_variant(std::move(m), variant);
      if (auto device = GetParam().open(spoiled); !device) {  // one may look at its weights when it takes them
        EXPECT_NE(device.error().message.find("finite"), std::string::npos) << device.error().message;
        continue;
      }
      open(spoiled);
      OneResult out;
      EXPECT_THAT(why_not(run_one(*executor_, rows(some_tokens(300), 0, kTokens, {}), *kv_, out)),
                  testing::HasSubstr("finite"));
    }
  }
}

// Keys that a window leaves out are no work, and the simulator's price shows it.
TEST(SimulatedWindows, CostLess) {
  const auto seconds = [](const Variant& variant) {
    const SmallModel plain = make_small_model(DType::F32, small_config());
    const SmallModel m = in_variant(plain, variant);
    const auto device = std::move(*open_sim("sm8750-paper", m));
    Executor executor(*device, forwards_of(m.graph));
    KvStore kv = store_of(m.graph, 64, DType::F32, device.get());
    OneStream in = step_of(std::vector<int32_t>(64, 5), ascending(0, 64), {});
    in.spans = {};
    for (int32_t r = 0; r < 64; r += 8) in.spans.push_back({r, 8, 0, 64});  // a span is as long as its longest row
    OneResult out;
    EXPECT_TRUE(run_one(executor, in, kv, out));
    const EmulatedStats spent = device->capabilities().clock->emulated();
    return spent.npu_s + spent.cpu_s;
  };
  const double all = seconds({}), window = seconds({.windows = {{.before = 3, .after = 0}}});
  const double some = seconds({.windows = {{.before = 3, .after = 0}, {}, {}}});
  EXPECT_LT(window, some);
  EXPECT_LT(some, all);
}

// labels: -threads, device native for hexagon cuda_emulated cuda_tensor_emulated, native for cpu_scalar sim_sm8 sim_v81
INSTANTIATE_TEST_SUITE_P(Devices, Variants, testing::ValuesIn(all_devices()),
                         [](const testing::TestParamInfo<DeviceUnderTest>& device) { return device.param.name; });

}  // namespace
}  // namespace llada
