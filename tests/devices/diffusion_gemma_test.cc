// DiffusionGemma on every device against its own class: logits of canvases behind a prompt and behind canvases that
// were encoded in their turn, with and without what a step before predicted (tools/upstream/diffusion_gemma.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/random.h"
#include "decode/tempered.h"
#include "devices/cpu/cpu_tempering.h"
#include "devices_under_test.h"
#include "formats/model_file.h"
#include "formats/temp_folder.h"
#include "geometry/tiny_gemma.h"
#include "models/model_graph.h"
#include "must.h"
#include "sched/executor.h"
#include "tensor/quantize.h"

namespace llada {
namespace {

using nlohmann::json;
const std::string kMade = LLADA_SOURCE_DIR "/tests/data/diffusion_gemma/";

struct GoldenPass {
  std::vector<int32_t> canvas;
  bool conditioned = false;
  double temperature = 0;  // of these logits, where they tell the next pass
  std::vector<float> logits;
};
struct Golden {
  std::vector<int32_t> prompt;
  size_t vocab = 0;
  std::vector<std::vector<GoldenPass>> behind;  // the prompt, then each canvas that was encoded
};

Golden load_golden() {
  std::ifstream in(kMade + "golden.json");
  const json all = json::parse(in);
  Golden g{all["prompt"].get<std::vector<int32_t>>(), all["vocabulary"].get<size_t>(), {}};
  for (const json& p : all["passes"]) {
    g.behind.resize(p["behind"].get<size_t>() + 1);
    g.behind.back().push_back({p["canvas"].get<std::vector<int32_t>>(), p["conditioned"].get<bool>(),
                               p["temperature"].get<double>(), p["logits"].get<std::vector<float>>()});
  }
  return g;
}

// least: of the best token's probability; tokens below are left out.
SoftTokens softened(const std::vector<float>& logits, size_t vocab, double temperature, double least = 0) {
  SoftTokens soft;
  for (size_t r = 0; r < logits.size(); r += vocab) {
    const std::span row(logits.data() + r, vocab);
    const auto best = static_cast<double>(std::ranges::max(row));
    double sum = 0;
    for (const float l : row) sum += std::exp((static_cast<double>(l) - best) / temperature);
    for (size_t t = 0; t < vocab; ++t) {
      const double p = std::exp((static_cast<double>(row[t]) - best) / temperature);
      if (p < least) continue;
      soft.tokens.push_back(static_cast<int32_t>(t));
      soft.probabilities.push_back(static_cast<float>(p / sum));
    }
    soft.begin.push_back(std::ssize(soft.tokens));
  }
  return soft;
}

std::vector<int32_t> best_tokens(const std::vector<float>& logits, size_t vocab) {
  std::vector<int32_t> best;
  for (size_t r = 0; r < logits.size(); r += vocab)
    best.push_back(static_cast<int32_t>(std::ranges::max_element(std::span(logits.data() + r, vocab)) -
                                        std::span(logits.data() + r, vocab).begin()));
  return best;
}

// The file's weights; matrices in `type` where it is given, as they are where `stored`.
SmallModel small_model(const ModelFile& file, std::optional<DType> type = {}, bool stored = false) {
  SmallModel m;
  m.config = file.config();
  m.graph = *build_model(m.config);
  for (const WeightInfo& w : m.graph.weights) {
    const std::string name =
        w.expert < 0 ? w.name : fmt::format("{}.{}.weight", w.name.substr(0, w.name.rfind('.')), w.expert);
    TensorView view = *file.find(name);
    if (stored) {
      m.storage.emplace_back(view.data, view.data + view.bytes());
      view.data = m.storage.back().data();
      m.views.push_back(view);
      continue;
    }
    const int64_t n = view.shape.elements();
    std::vector<float> floats(static_cast<size_t>(n));
    for (int64_t r = 0; r < view.shape.rows(); ++r)
      dequantize_row(view.type, view.row(r), floats.data() + r * view.shape.columns(), view.shape.columns());
    view.type = type && view.shape.rank > 1 && !name.ends_with("ffn_gate_inp.weight") ? *type : DType::F32;
    m.storage.emplace_back(static_cast<size_t>(view.bytes()));
    quantize_row(view.type, floats.data(), m.storage.back().data(), n);
    view.data = m.storage.back().data();
    m.views.push_back(view);
  }
  return m;
}

class DiffusionGemmaOn : public OnDevice {
 protected:
  void TearDown() override { kv_.reset(); }

  void open(SmallModel m) {
    kv_.reset();
    executor_.reset();
    model_ = std::move(m);
    device_ = *GetParam().open(model_);
    executor_.emplace(*device_, forwards_of(model_.graph));
    kv_.emplace(store_of(model_.graph, 64));
  }

  Status encode(const std::vector<int32_t>& tokens, int32_t begin) {
    StepInputs step = rows(tokens, begin, KeyRule::causal());
    step.pass = Pass::encode;
    StepOutputs out;
    return executor_->run(step, out);
  }
  Status denoise(const std::vector<int32_t>& tokens, int32_t begin, const SoftTokens* soft, Tempering tempering,
                 StepOutputs& out) {
    StepInputs step = rows(tokens, begin, model_.graph.keys);
    step.streams[0].keep_logits = true;
    step.streams[0].soft = soft;
    step.streams[0].tempering = tempering;
    for (int32_t r = 0; r < std::ssize(tokens); ++r) step.wanted.push_back(r), step.predictions.push_back({r});
    return executor_->run(step, out);
  }
  std::vector<float> denoise(const std::vector<int32_t>& tokens, int32_t begin, const SoftTokens* soft) {
    StepOutputs out;
    const auto status = denoise(tokens, begin, soft, {}, out);
    EXPECT_TRUE(status) << status.error().message;
    return status ? std::move(out.logits[0]) : std::vector<float>();
  }

  // All passes, each told what the golden says of the one before. visit(got, golden pass).
  template <class Visit>
  void each_pass(const Golden& g, Visit visit) {
    auto position = static_cast<int32_t>(g.prompt.size());
    ASSERT_TRUE(encode(g.prompt, 0));
    for (const auto& passes : g.behind) {
      SoftTokens soft;
      for (const GoldenPass& pass : passes) {
        visit(denoise(pass.canvas, position, pass.conditioned ? &soft : nullptr), pass);
        soft = softened(pass.logits, g.vocab, pass.temperature);
      }
      ASSERT_TRUE(encode(best_tokens(passes.back().logits, g.vocab), position));
      position += static_cast<int32_t>(passes.back().canvas.size());
    }
  }

  SmallModel model_;
  std::unique_ptr<Device> device_;
  std::optional<Executor> executor_;
  std::optional<KvStore> kv_;

 private:
  StepInputs rows(const std::vector<int32_t>& tokens, int32_t begin, const KeyRule& rule) {
    StepInputs step;
    step.streams = {{.kv = &*kv_}};
    std::vector<int32_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), begin);
    append_span(step, {}, tokens, positions, rule, begin + static_cast<int32_t>(tokens.size()));
    return step;
  }
};

// A device that cannot run the model names itself and what it lacks, in one line, before anything runs.
std::string refusal(const std::string& device) {
  if (device == "hexagon") return "hexagon: layers differ in their K/V heads, needed alike";
  if (device.starts_with("cuda")) return "cuda: op 1 (scale) is not supported by this device";
  return "";
}

double worst(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double off = std::fabs(static_cast<double>(a[i]) - b[i]);
    most = std::isfinite(off) ? std::max(most, off) : HUGE_VAL;
  }
  return most;
}

TEST_P(DiffusionGemmaOn, LogitsAreThoseOfItsClass) {
  const Golden golden = load_golden();
  for (const char* name : {"model.gguf", "folder"}) {
    const auto file = must(ModelFile::open(kMade + name));
    open(small_model(*file));
    if (const std::string line = refusal(GetParam().name); !line.empty()) {
      EXPECT_EQ(why_not(encode(golden.prompt, 0)), line);
      return;
    }
    each_pass(golden, [&](const std::vector<float>& got, const GoldenPass& pass) {
      EXPECT_LT(worst(got, pass.logits), 5e-4) << name;
      EXPECT_EQ(best_tokens(got, golden.vocab), best_tokens(pass.logits, golden.vocab)) << name;
    });
  }
}

// A step computes the same again, and another step's canvas leaves nothing behind.
TEST_P(DiffusionGemmaOn, ACanvasLeavesNoTrace) {
  if (!refusal(GetParam().name).empty()) GTEST_SKIP() << "is refused";
  const Golden golden = load_golden();
  open(small_model(*ModelFile::open(kMade + "model.gguf")));
  const auto behind = static_cast<int32_t>(golden.prompt.size());
  ASSERT_TRUE(encode(golden.prompt, 0));
  const auto first = denoise(golden.behind[0][0].canvas, behind, nullptr);
  denoise(golden.behind[1][0].canvas, behind, nullptr);
  EXPECT_EQ(denoise(golden.behind[0][0].canvas, behind, nullptr), first);
}

// Weights of 8 and 5 bits, and activations that are rounded with them, beside floats; logits have a deviation of 2.9.
// All experts are used: where two random ones are close, rounding turns a router's choice, and in the class itself
// noise of a thousandth of every weight moves logits by 0.2 then.
TEST_P(DiffusionGemmaOn, QuantizedWeights) {
  if (!refusal(GetParam().name).empty()) GTEST_SKIP() << "is refused";
  const Golden golden = load_golden();
  const auto file = must(ModelFile::open(kMade + "model.gguf"));
  const auto logits = [&](std::optional<DType> type) {
    SmallModel m = small_model(*file, type);
    m.config.experts_used = m.config.experts;
    m.graph = *build_model(m.config);
    open(std::move(m));
    std::vector<float> all;
    each_pass(golden,
              [&](const std::vector<float>& got, const GoldenPass&) { all.insert(all.end(), got.begin(), got.end()); });
    return all;
  };
  const std::vector<float> floats = logits({});
  for (const auto& [type, tolerance] : {std::pair{DType::Q8_0, 0.3}, std::pair{DType::Q5_0, 1.5}}) {
    const std::vector<float> got = logits(type);
    ASSERT_EQ(got.size(), floats.size());
    double error = 0;
    for (size_t i = 0; i < got.size(); ++i) error += std::pow(static_cast<double>(got[i]) - floats[i], 2);
    EXPECT_LT(std::sqrt(error / static_cast<double>(got.size())), tolerance) << traits(type).name;
  }
}

// A file of the types that uploads have, beside the floats that its groups stand for.
TEST_P(DiffusionGemmaOn, AMixOfTypesComputesWhatItStandsFor) {
  if (!refusal(GetParam().name).empty()) GTEST_SKIP() << "is refused";
  const TempFolder folder;
  const auto file = must(ModelFile::open(write_tiny_gemma(folder / "mix.gguf", DType::Q4_K)));
  std::set<DType> types;
  for (const auto& entry : file->tensors())
    if (entry.view.shape.rank > 1 && traits(entry.view.type).quantized) types.insert(entry.view.type);
  EXPECT_EQ(types, (std::set{DType::Q8_0, DType::Q5_0, DType::Q4_K, DType::Q6_K}));
  std::vector<int32_t> prompt(12), canvas(TinyGemma::kCanvas);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(20 + 7 * i);
  for (size_t i = 0; i < canvas.size(); ++i) canvas[i] = static_cast<int32_t>(300 - 13 * i);
  const auto logits = [&](bool stored) {
    SmallModel m = small_model(*file, {}, stored);
    m.config.experts_used = m.config.experts;  // a router's choice of two is not what is asked
    m.graph = *build_model(m.config);
    // Nor are sharp scores, which a rounding turns over.
    for (size_t i = 0; i < m.views.size(); ++i)
      if (const std::string& name = m.graph.weights[i].name; name.contains("q_norm") || name.contains("k_norm"))
        for (float& gain :
             std::span(reinterpret_cast<float*>(m.storage[i].data()), static_cast<size_t>(m.graph.weights[i].dims[0])))
          gain *= 0.3f;
    open(std::move(m));
    EXPECT_TRUE(encode(prompt, 0));
    const std::vector<float> first = denoise(canvas, 12, nullptr);
    const SoftTokens soft = softened(first, TinyGemma::kVocab, 1);
    return denoise(canvas, 12, &soft);
  };
  const std::vector<float> floats = logits(false), got = logits(true);
  ASSERT_EQ(got.size(), floats.size());
  double error = 0, spread = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - floats[i], 2);
    spread += std::pow(static_cast<double>(floats[i]), 2);
  }
  EXPECT_LT(std::sqrt(error / spread), 0.1);
}

// What self-conditioning loses where it leaves out tokens that are less probable than the best by a factor.
TEST_P(DiffusionGemmaOn, ConditioningByTheProbableTokensAlone) {
  if (!refusal(GetParam().name).empty()) GTEST_SKIP() << "is refused";
  const Golden golden = load_golden();
  open(small_model(*ModelFile::open(kMade + "model.gguf")));
  const auto behind = static_cast<int32_t>(golden.prompt.size());
  ASSERT_TRUE(encode(golden.prompt, 0));
  const GoldenPass &told = golden.behind[0][0], &pass = golden.behind[0][1];
  const auto error = [&](double least) {
    const SoftTokens soft = softened(told.logits, golden.vocab, told.temperature, least);
    return worst(denoise(pass.canvas, behind, &soft), pass.logits);
  };
  EXPECT_LT(error(1e-6), 5e-4);
  EXPECT_LT(error(1e-4), 0.02);
  EXPECT_GT(error(0.5), 0.02) << "tokens that make no difference show nothing";
  EXPECT_GT(worst(denoise(pass.canvas, behind, nullptr), pass.logits), 0.5);
}

// Predictions at a temperature, drawn tokens and what the next step is told: by the definition.
TEST_P(DiffusionGemmaOn, RowsAreTempered) {
  if (!refusal(GetParam().name).empty()) GTEST_SKIP() << "is refused";
  const Golden golden = load_golden();
  open(small_model(*ModelFile::open(kMade + "model.gguf")));
  const auto behind = static_cast<int32_t>(golden.prompt.size());
  ASSERT_TRUE(encode(golden.prompt, 0));
  const std::vector<int32_t>& canvas = golden.behind[0][0].canvas;
  for (const double temperature : {0.05, 0.8, 5.0}) {
    std::vector<double> draws;
    for (uint64_t i = 0; i < canvas.size(); ++i) draws.push_back(uniform(3, 0, i, 0));
    draws[0] = 0, draws[1] = 0.9999999;
    StepOutputs out;
    ASSERT_TRUE(denoise(canvas, behind, nullptr, {temperature, draws}, out));
    ASSERT_EQ(out.tempered.size(), 1u);
    const auto& [drawn, soft] = out.tempered[0];
    ASSERT_EQ(drawn.size(), canvas.size());
    for (size_t r = 0; r < canvas.size(); ++r) {
      const TemperedOracle row =
          tempered(std::span(out.logits[0]).subspan(r * golden.vocab, golden.vocab), temperature, draws[r]);
      const Prediction& p = out.predictions[r];
      EXPECT_EQ(p.token, row.prediction.token);
      EXPECT_EQ(p.logit, row.prediction.logit);
      EXPECT_NEAR(p.probability, row.prediction.probability, 2e-5);
      EXPECT_NEAR(p.entropy, row.prediction.entropy, 1e-4);
      EXPECT_NEAR(p.margin, row.prediction.margin, 2e-5);
      EXPECT_EQ(p.runner_up, row.prediction.runner_up);
      EXPECT_EQ(drawn[r], row.drawn);
      double told = 0;
      for (auto i = soft.begin[r]; i < soft.begin[r + 1]; ++i) {
        const auto at = static_cast<size_t>(i);
        EXPECT_NEAR(soft.probabilities[at], row.probabilities[static_cast<size_t>(soft.tokens[at])], 2e-5);
        told += soft.probabilities[at];
      }
      EXPECT_NEAR(told, 1, 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, DiffusionGemmaOn, testing::ValuesIn(all_devices()),
                         [](const auto& device) { return device.param.name; });

// Rows of several chunks, flat and peaked.
TEST(Tempering, RowsOfSeveralChunks) {
  constexpr int64_t kColumns = 512;
  const kernels::KernelTable& table = **kernels::select("scalar");
  for (uint64_t round = 0; round < 200; ++round) {
    auto random = [&, i = uint64_t{0}]() mutable { return uniform(7, round, i++, 0); };
    const auto vocab = 1 + static_cast<int64_t>(random() * 2000);
    const double spread = 200 * random() * random(), temperature = 0.1 + random(), draw = random();
    std::vector<float> logits;
    for (int64_t v = 0; v < vocab; ++v) logits.push_back(static_cast<float>(spread * random() - 30));
    std::vector<float> divided = logits;
    for (float& z : divided) z /= static_cast<float>(temperature);
    std::vector<kernels::SoftmaxStats> chunks;
    for (int64_t begin = 0; begin < vocab; begin += kColumns)
      chunks.push_back(table.softmax_stats(divided.data() + begin, std::min(kColumns, vocab - begin)));
    const TemperedRow got = temper_row(logits, temperature, draw, chunks, kColumns);
    const TemperedOracle wanted = tempered(logits, temperature, draw);
    EXPECT_EQ(got.drawn, wanted.drawn) << round;
    size_t next = 0;
    for (int32_t v = 0; v < vocab; ++v) {
      const double p = wanted.probabilities[static_cast<size_t>(v)];
      if (next < got.tokens.size() && got.tokens[next] == v)
        EXPECT_NEAR(got.probabilities[next++], p, 1e-3 * p) << round;
      else
        EXPECT_LT(p, 1.002 * 0x1p-30 * wanted.prediction.probability) << round;
    }
    EXPECT_EQ(next, got.tokens.size());
    chunks.back().sum = std::nan("");
    EXPECT_EQ(temper_row(logits, temperature, draw, chunks, kColumns).drawn, -1);
  }
}

}  // namespace
}  // namespace llada
