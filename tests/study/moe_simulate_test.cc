// Mixtures on a profile: what is printed about routing is true of the trace, predictions hold, and the order of
// the lines is what the model of the machine makes it.
// labels of this file: long native
#include "study/moe_simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <numeric>

#include "must.h"
#include "study/moe_routing.h"
#include "study/presets.h"

namespace llada {
namespace {

MoeSimulateOptions small(const char* profile, const char* geometry) {
  MoeSimulateOptions o;
  o.profile = profile;
  o.geometry = geometry;
  o.shares = {0.25};
  o.tokens = 12;
  o.prompts = 1, o.prompt = 16;
  o.blocks = 1, o.block = 8, o.steps = 4;
  return o;
}

TEST(MoeSimulate, HybridBeatsItsRivalsAndIsPredicted) {
  const auto s = must(simulate_moe(small("a6000-pcie4", "deepseek-v2-lite")));
  ASSERT_EQ(s->phases.size(), 2u);
  for (const MoePhase& p : s->phases) {
    for (const char* baseline : {"static", "all-cpu"})
      EXPECT_GT(p.speed_up("hybrid", baseline), 1.1) << p.phase << baseline;
    EXPECT_GT(p.speed_up("+ scheduling", "static"), 1.1) << p.phase;
    for (const char* simple : {"static", "layer split", "all-cpu", "on-demand, LRU", "+ guesses"})
      EXPECT_LE(p.best_simple().seconds, p.find(simple)->seconds) << p.phase << simple;
    EXPECT_GT(p.speed_up("hybrid", p.best_simple().name), 1) << p.phase << p.best_simple().name;
    EXPECT_GT(p.find("+ guesses")->guessed_right, 0) << p.phase;
    EXPECT_LT(p.find("hybrid")->predicted_off, 0.1) << p.phase;
    EXPECT_EQ(p.find("static")->moved_bytes, 0);
    for (const MoeLine& line : p.lines)
      if (line.seconds > 0) {
        EXPECT_LE(line.bound_s, line.seconds * (1 + 1e-9)) << line.name;
        EXPECT_LE(p.bound_s, line.seconds * (1 + 1e-9)) << line.name;
        EXPECT_LE(p.known_bound_s, line.seconds * (1 + 1e-9)) << line.name;
        EXPECT_GT(line.bound_s, 0.05 * line.seconds) << line.name << ": a bound that says nothing";
      }
    EXPECT_GT(p.known_bound_s, 0.3 * p.find("hybrid")->seconds) << p.phase;
    EXPECT_EQ(p.find("all-cpu")->host_share, 1);
    EXPECT_NEAR(p.find("layer split")->hit_rate, 6.5 / 26, 0.02)
        << "16 slots in each of 26 layers hold 6.5 layers of 64";
    EXPECT_EQ(p.find("TIDE"), nullptr) << "a rival of diffusion only";
  }
  EXPECT_NEAR(s->expert_bytes, 3.0 * 2048 * 1408 * 18 / 32, 1);
}

// HybriMoE's setting. Guesses that do not pay are found by trying them, which takes time. Without tolls Mixtral in
// whole experts would be a tenth behind `+ prefetch`.
TEST(MoeSimulate, HybridIsNowhereFarBehindItsParts) {
  for (const char* geometry : {"mixtral", "qwen2-57b", "deepseek-v2-lite"}) {
    MoeSimulateOptions o;
    o.profile = "a6000-pcie4", o.geometry = geometry;
    const auto s = must(simulate_moe(o));
    ASSERT_EQ(s->phases.size(), 6u);
    for (const MoePhase& p : s->phases)
      for (const char* part : {"+ scheduling", "+ cache", "+ prefetch"}) {
        EXPECT_GE(p.speed_up("hybrid", part), 0.993) << geometry << " " << p.phase << " " << p.share << part;
        if (p.slices > 1) {
          EXPECT_GE(p.speed_up("hybrid, whole", part), 0.94) << geometry << " " << p.phase << " " << p.share << part;
        }
      }
  }
}

TEST(MoeSimulate, SlicesHelpWhereALayerHasTwoLargeExperts) {
  MoeSimulateOptions o = small("a6000-pcie4", "mixtral");
  o.tokens = 6;
  const auto s = must(simulate_moe(o));
  const MoePhase& decode = s->phases.at(1);
  EXPECT_EQ(decode.slices, 14);
  EXPECT_GT(decode.speed_up("hybrid", "hybrid, whole"), 1.15);
  EXPECT_LT(decode.find("hybrid")->predicted_off, 0.1);
  o.slices = 3;
  EXPECT_EQ(why_not(simulate_moe(o)),
            "slices: found 3, needed a divisor of 56, the groups of 256 hidden values of an expert of mixtral");
}

TEST(MoeSimulate, DiffusionHasTideBesideIt) {
  const auto s = must(simulate_moe(small("rtx4060-pcie4", "llada-moe-7b")));
  const MoePhase& p = s->phases.at(0);
  EXPECT_EQ(p.phase, "denoise");
  EXPECT_GT(p.find("TIDE")->refresh, 0);
  EXPECT_GE(p.speed_up("hybrid", "TIDE"), 1);
  EXPECT_GT(p.statistics.similarity_1, 0.7);
}

TEST(MoeSimulate, RepeatsAndDrawsItsLanes) {
  const MoeSimulateOptions o = small("v79-8elite", "llada-moe-7b");
  const auto a = simulate_moe(o), b = simulate_moe(o);
  ASSERT_TRUE(a && b);
  for (size_t i = 0; i < a->phases[0].lines.size(); ++i)
    EXPECT_EQ(a->phases[0].lines[i].seconds, b->phases[0].lines[i].seconds);
  const auto spans = must(simulate_moe_spans(o));
  for (const char* lane : {"accelerator", "cpu", "map"})
    EXPECT_GT(std::ranges::count(*spans, lane, &SimulatedSpan::lane), 0) << lane;
  for (const SimulatedSpan& span : *spans) EXPECT_GE(span.end_s, span.start_s);
}

// Weights are those of the model's tensors, a layer has the rows that its routing gives it, and an expert that was not
// there came in whole.
TEST(MoeSimulate, DiffusionGemmasExperts) {
  const MoeGeometry g = *find_geometry("diffusion-gemma-26b");
  EXPECT_EQ(g.block, 256);
  MoeSimulateOptions o = small("a6000-pcie4", "diffusion-gemma-26b");
  o.steps = 2;
  const auto s = must(simulate_moe(o));
  double experts = 0, others = 0;
  for (const PresetTensor& t : tensors_of(*find_preset(g.name)))
    if (t.shape.rank > 1) (t.name.contains("_exps") ? experts : others) += static_cast<double>(t.shape.elements());
  EXPECT_EQ(s->expert_bytes * g.layers * g.experts, experts * MoeGeometry::kBytesPerWeight);
  EXPECT_NEAR(s->dense_bytes, others * MoeGeometry::kBytesPerWeight, 1);

  const MoePhase& p = s->phases.at(0);
  EXPECT_EQ(p.resident_bytes, s->expert_bytes * 32 * 30);
  const RoutingTrace trace = diffusion_trace(g, 1, 8, 2, 1);
  double wanted = 0;
  for (const RoutingStep& step : trace.steps)
    for (const LayerRouting& layer : step.layers) {
      EXPECT_EQ(std::accumulate(layer.rows.begin(), layer.rows.end(), 0), 8 * 8);
      wanted += static_cast<double>(std::ranges::count_if(layer.rows, [](int32_t rows) { return rows > 0; }));
    }
  EXPECT_NEAR(p.statistics.touched * 2 * 30 * 128, wanted, 1e-6);
  const MoeLine& demand = *p.find("on-demand, LRU");
  EXPECT_NEAR(demand.moved_bytes * 2, (1 - demand.hit_rate) * wanted * s->expert_bytes, 1);
  EXPECT_EQ(p.find("all-cpu")->moved_bytes, 0);
}

// Against a list per layer, whose first entry was used longest ago.
TEST(MoeSimulate, HitsOfTheCacheAreThoseOfAList) {
  MoeSimulateOptions o = small("a6000-pcie4", "diffusion-gemma-26b");
  const auto s = must(simulate_moe(o));
  const RoutingTrace trace = diffusion_trace(*find_geometry(o.geometry), 1, 8, 4, 1);
  int64_t wanted = 0, hits = 0;
  for (size_t l = 0; l < 30; ++l) {
    std::list<int32_t> there;
    for (int32_t e = 0; e < 32; ++e) there.push_back(e);
    for (const RoutingStep& step : trace.steps) {
      const std::vector<int32_t>& rows = step.layers[l].rows;
      const auto now = [&](int32_t e) { return rows[static_cast<size_t>(e)] > 0; };
      std::list<int32_t> used;  // in this step, by number, as ages of one step are alike
      for (int32_t e = 0; e < 128; ++e)
        if (now(e)) {
          ++wanted;
          const auto at = std::ranges::find(there, e);
          hits += at != there.end();
          const auto oldest = std::ranges::find_if_not(there, now);
          if (at != there.end()) {
            there.erase(at);
          } else if (oldest != there.end()) {
            there.erase(oldest);
          } else {
            continue;  // nothing may go
          }
          used.push_back(e);
        }
      there.splice(there.end(), used);
    }
  }
  EXPECT_NEAR(s->phases.at(0).find("cache lru")->hit_rate, static_cast<double>(hits) / static_cast<double>(wanted),
              1e-9);
  EXPECT_GT(hits, wanted / 4);
  EXPECT_LT(hits, wanted * 3 / 4);
}

// labels: -long -native
TEST(MoeRouting, StatisticsAreThoseOfTheTrace) {
  MoeGeometry g = *find_geometry("qwen2-57b");
  g.layers = 2;
  g.routing.guess_noise = 0;
  const RoutingTrace trace = decode_trace(g, 16, 7);
  const TraceStatistics s = statistics(trace);
  EXPECT_EQ(s.rows, 1);
  EXPECT_EQ(s.touched, 8.0 / 64);
  EXPECT_EQ(s.guessed[0], 1) << "without noise every guess is right";
  for (const RoutingStep& step : trace.steps)
    for (const LayerRouting& r : step.layers) EXPECT_EQ(std::ranges::count(r.rows, 1), 8);
  g.routing = {.popularity = 5, .context = 0, .token = 0.1, .source = {}};
  EXPECT_GT(statistics(decode_trace(g, 8, 7)).static_quarter, 0.95) << "what is popular elsewhere is popular here";
}

TEST(MoeSimulate, RequestsAreRead) {
  const std::pair<void (*)(MoeSimulateOptions&), const char*> cases[] = {
      {[](auto& o) { o.geometry = "gpt"; }, "moe: found 'gpt', needed one of mixtral"},
      {[](auto& o) { o.profile = "v75-8gen3"; }, "profile v75-8gen3: has no numbers for experts"},
      {[](auto& o) { o.shares = {0}; }, "experts on the device: found 0"},
      {[](auto& o) { o.steps = 99; }, "steps: found 99, needed 1 to 8"},
      {[](auto& o) { o.routing = "no-such-file"; }, "no-such-file"},
  };
  for (const auto& [change, says] : cases) {
    MoeSimulateOptions o = small("a6000-pcie4", "llada2-mini");
    change(o);
    const auto got = simulate_moe(o);
    ASSERT_FALSE(got) << says;
    EXPECT_EQ(exit_status(got.error()), 2);
    EXPECT_NE(got.error().message.find(says), std::string::npos) << got.error().message;
  }
}

}  // namespace
}  // namespace llada
