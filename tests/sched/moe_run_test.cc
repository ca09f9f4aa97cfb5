// Prefetch by gain, the bound of who knows all, and the whole of moe_run on emulated lanes: every plan can be carried
// out, and what was predicted is what happens where nothing else is on the link.
#include "sched/moe_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "base/random.h"
#include "must.h"
#include "sched/unit_costs.h"
#include "study/sim/expert_lanes.h"
#include "study/sim/moe_bound.h"

namespace llada {
namespace {

TEST(MoePrefetch, TakesWhatShortensItsLayerMost) {
  const ExpertCosts c = unit_costs();
  // Layer 1 has its heavy expert missing, layer 2 a light one.
  const std::vector<LayerAhead> ahead = {{.layer = 1, .loads = {{0, 9, false}, {1, 1, true}}, .begins_s = 10},
                                         {.layer = 2, .loads = {{4, 1, false}, {5, 1, true}}, .begins_s = 20}};
  const auto chosen = choose_prefetch(c, ahead, 0, MoeRule::static_split, {.trust = 1, .most = 4});
  ASSERT_EQ(chosen.size(), 2u);
  EXPECT_EQ(chosen[0].id, (ExpertId{1, 0}));
  EXPECT_NEAR(chosen[0].gain_s, 11 - 2, 1e-6) << "the host's 2 + 9 gives way to two on the accelerator";
  EXPECT_EQ(chosen[1].id, (ExpertId{2, 4}));
  EXPECT_NEAR(chosen[1].gain_s, 3 - 2, 1e-6);
  // Arriving 8 s after its layer began, the light one is no gain.
  const std::vector<LayerAhead> late = {{.layer = 2, .loads = {{4, 1, false}}, .begins_s = 4}};
  EXPECT_TRUE(choose_prefetch(c, late, 6, MoeRule::static_split).empty());
  EXPECT_TRUE(choose_prefetch(c, {}, 0, MoeRule::hybrid).empty());
}

// A layer's steps that each want some of four experts: the least of all schedules, found by trying all. Sets of
// experts are bits.
struct Tried {
  double layers = 0, link = 0;
  uint32_t there = 0;
};
double best_tried(const ExpertCosts& c, std::span<const uint32_t> wanted, int places, double other_s, const Tried& t) {
  if (wanted.empty()) return std::max(t.layers, t.link);
  double best = 1e9;
  for (uint32_t on_host = 0; on_host < 16; ++on_host) {
    if ((on_host & ~wanted.front()) != 0) continue;
    const uint32_t on_device = wanted.front() & ~on_host;
    const double host = std::popcount(on_host) * c.host_s(1) + (on_host != 0 ? c.host_first_s : 0);
    const double layers = t.layers + std::max(host, other_s + std::popcount(on_device) * c.device_s(1));
    const double link = t.link + std::popcount(on_device & ~t.there) * c.move_s();
    for (uint32_t kept = 0; kept < 16; ++kept)
      if ((kept & ~(t.there | on_device)) == 0 && std::popcount(kept) <= places)
        best = std::min(best, best_tried(c, wanted.subspan(1), places, other_s, {layers, link, kept}));
  }
  return best;
}

// Where the host takes an expert at once it shares the work; where its start takes long it is left alone.
TEST(MoeBound, NoScheduleThatKnowsAllBeatsIt) {
  constexpr double kBetween = 3;
  for (const double first : {0.0, 4.0, 12.0})
    for (const double other : {0.0, 2.5})
      for (uint64_t seed = 0; seed < 8; ++seed) {
        ExpertCosts c = unit_costs();
        c.host_first_s = first;
        std::vector<uint32_t> wanted;
        KnownRun run{.uses = std::vector<std::vector<ExpertUse>>(4),
                     .layers = {},
                     .steps = 5,
                     .places = 2,
                     .between_s = kBetween};
        for (int32_t t = 0; t < run.steps; ++t) {
          const uint64_t key = random_key(seed, 1, static_cast<uint64_t>(t));
          wanted.push_back(1u << key % 4 | 1u << key / 4 % 4);
          KnownRun::Layer& layer = run.layers.emplace_back(KnownRun::Layer{.other_s = other});
          for (size_t e = 0; e < 4; ++e)
            if ((wanted.back() >> e & 1) != 0) add_use(c, {t, 1}, run.uses[e], layer);
        }
        double best = 1e9;
        for (uint32_t there = 0; there < 16; ++there)
          if (std::popcount(there) == 2)
            best = std::min(best, best_tried(c, wanted, 2, other, {.layers = kBetween, .there = there}));
        const double bound = known_run_lower_bound(c, run);
        EXPECT_LE(bound, best + 1e-9) << first << " " << other << " " << seed;
        EXPECT_GE(bound, 0.6 * best) << first << " " << other << " " << seed;
      }
}

LayerRouting loads(std::vector<int32_t> rows) {
  LayerRouting r{std::move(rows), {}};
  for (const int32_t n : r.rows) r.score.push_back(static_cast<float>(n));
  return r;
}

TEST(ExpertLanes, RefusesWhatTheHardwareCouldNotDo) {
  Lanes lanes(1e9);
  ExpertLanes experts(lanes, unit_costs(), {.layers = 2, .experts = 4, .slots = 1, .buffer = 1}, false);
  const auto refused = [&](const ExpertsPlan& plan, const char* says) {
    EXPECT_THAT(why_not(experts.run(plan, kNoTask)), testing::HasSubstr(says));
  };
  refused({.layer = 0, .work = {{1, 1, true}}, .moves = {}, .cancelled = {}, .kept = {}, .released = {}},
          "but not there");
  ASSERT_TRUE(experts.place({0, 0}));
  EXPECT_FALSE(experts.place({0, 1})) << "one slot";
  ExpertsPlan plan;
  plan.moves = {{.id = {0, 0}}};
  refused(plan, "is moved, but it is there");
  plan.moves = {{.id = {0, 1}}};
  refused(plan, "needs a slot, all 1 are taken");
  plan.moves = {{.id = {0, 1}, .replaces = ExpertId{0, 2}}};
  refused(plan, "is to make room, but it is not there");
  plan.moves = {{.id = {1, 1}, .to = MoveTo::staging}};
  refused(plan, "is staged for later");
  plan.moves = {};
  plan.kept = {{.id = {0, 3}}};
  refused(plan, "but it is not in the buffer");
  plan.kept = {};
  plan.cancelled = {{0, 3}};
  refused(plan, "is not being moved ahead");
}

struct Outcome {
  double seconds = 0, worst_error = 0;
  MoeStats stats;
};

Outcome play(MoeOptions options, double memory_bytes_per_s, int32_t slices = 1, bool grouped = false) {
  constexpr int kLayers = 3, kExperts = 12, kSteps = 20;
  ExpertCosts c = unit_costs();
  c.host_bytes_per_s = 4;
  c.host_first_s = 1;
  c.memory_bytes_per_s = memory_bytes_per_s;
  c.staging = 2;
  options.cache.slots = 4;
  c.grouped = grouped;
  c = c.sliced(slices);
  options = options.sliced(slices);
  Lanes lanes(memory_bytes_per_s > 0 ? memory_bytes_per_s : 1e9);
  const ExpertWindow window = {
      .layers = kLayers, .experts = kExperts * slices, .slots = 4 * kLayers * slices, .buffer = options.buffer};
  ExpertLanes experts(lanes, c, window, false);
  MoeRuntime runtime(kLayers, kExperts * slices, c, options);
  Outcome out;
  for (uint64_t step = 0; step < kSteps; ++step) {
    runtime.begin_step();
    std::vector<LayerRouting> routing;
    for (uint64_t l = 0; l < kLayers; ++l) {
      std::vector<int32_t> rows(kExperts, 0);
      for (uint64_t r = 0; r < 6; ++r) {
        const double u = uniform(3, step / 4, l, r);
        ++rows[static_cast<size_t>(u * u * kExperts)];
      }
      routing.push_back(sliced(loads(std::move(rows)), slices));
    }
    for (int32_t l = 0; l < kLayers; ++l) {
      const double begin = lanes.now();
      const ExpertsPlan plan =
          runtime.layer(l, routing[static_cast<size_t>(l)], std::span(routing).subspan(static_cast<size_t>(l) + 1),
                        {.link = experts.link(), .device_busy_s = 0, .between_s = 0});
      EXPECT_EQ(plan.slices, slices);
      const auto done = experts.run(plan, kNoTask);
      EXPECT_TRUE(done) << done.error().message;
      if (!done) return out;
      lanes.finish(*done);
      const double took = lanes.now() - begin;
      EXPECT_GE(took, plan_lower_bound(c, runtime.loads(), runtime.start()) * (1 - 1e-9));
      out.worst_error = std::max(out.worst_error, std::abs(plan.predicted_s - took) / took);
    }
  }
  out.seconds = lanes.now();
  out.stats = runtime.stats();
  return out;
}

TEST(MoeRuntime, PredictsExactlyWhereNothingElseIsOnTheLink) {
  for (const MoeRule rule : kMoeRules)
    for (const double memory : {0.0, 4.5}) {
      MoeOptions o;
      o.plan = rule;
      o.cached = o.prefetch = false;
      for (const int32_t slices : {1, 3})
        for (const bool grouped : {false, true}) {
          const Outcome got = play(o, memory, slices, grouped);
          EXPECT_LT(got.worst_error, 1e-6) << name(rule) << " " << memory << " " << slices << grouped;
        }
    }
}

TEST(MoeRuntime, EveryOptionGivesPlansThatCanBeCarriedOut) {
  MoeOptions fixed;
  fixed.plan = MoeRule::static_split;
  fixed.cached = fixed.prefetch = false;
  const double static_s = play(fixed, 0).seconds;
  for (const MoeRule rule : {MoeRule::hybrid, MoeRule::on_demand, MoeRule::static_split})
    for (const CacheRule cache : kCacheRules)
      for (const bool prefetch : {false, true}) {
        MoeOptions o;
        o.plan = rule;
        o.cache.rule = cache;
        o.prefetch = prefetch;
        const Outcome got = play(o, 4.5);
        EXPECT_GT(got.seconds, 0);
        EXPECT_LE(got.stats.hits, got.stats.used);
        EXPECT_LE(got.stats.guessed_right, got.stats.guessed);
        if (rule == MoeRule::hybrid) {
          EXPECT_LT(play(o, 0).seconds, static_s) << name(cache) << prefetch;
          EXPECT_LT(play(o, 0, 2).seconds, static_s) << name(cache) << prefetch << " in slices";
        }
      }
}

// Asking the next layers' routers takes time. Where the answers do not save it, because they are wrong or name an
// expert that is there, it is left alone, but not for good.
TEST(MoeRuntime, GuessesThatDoNotPayAreLeftAlone) {
  const LayerRouting there = loads({9, 0, 0, 0}), missing = loads({0, 0, 9, 0}), other = loads({0, 0, 0, 9});
  const struct {
    const LayerRouting &guess, &wanted;
    double asking_s;
    bool pays;
  } cases[] = {
      // A move of 6 and a third of an expert's 1 give way to that expert.
      {missing, missing, 0, true}, {missing, missing, 4, true}, {missing, missing, 7, false},
      {missing, other, 1, false},  {there, there, 1, false},
  };
  for (const auto& [guess, wanted, asking_s, pays] : cases) {
    MoeOptions o;
    o.cached = false;
    o.cache.slots = 1;
    ExpertCosts c = unit_costs();
    c.host_bytes_per_s = 0.5;  // so that a move pays
    MoeRuntime runtime(2, 4, c, o);
    runtime.place(std::vector<LayerRouting>{there, there});
    int asked = 0;
    constexpr int kSteps = 200;
    for (int step = 0; step < kSteps; ++step) {
      runtime.begin_step();
      const bool asks = runtime.wants_guesses();
      asked += asks;
      const ExpertsPlan plan = runtime.layer(0, there, asks ? std::span(&guess, 1) : std::span<const LayerRouting>(),
                                             {.link = {}, .device_busy_s = 0, .between_s = 1000});
      EXPECT_EQ(plan.moves.size(), asks && &guess == &missing ? 1u : 0u) << step;
      runtime.layer(1, wanted, {}, {});
      if (asks) runtime.add_seconds(asking_s, 0);
    }
    if (pays) {
      EXPECT_EQ(asked, kSteps) << asking_s;
    } else {
      EXPECT_GT(asked, kSteps / 16) << asking_s;
      EXPECT_LT(asked, 10 + kSteps / 16) << asking_s;
    }
  }
}

// Half a slice's move is waited for, and each slice moved costs its starts: the best number is found by trying all.
TEST(MoeRuntime, ExpertsAreDividedWhereStartsAreCheap) {
  ExpertCosts c = unit_costs();
  EXPECT_EQ(worthwhile_slices(c, 512, 32, 1, 1), 16) << "copies start for nothing";
  EXPECT_EQ(worthwhile_slices(c, 192, 32, 1, 1), 6) << "a slice is a multiple of the group";
  for (const double start : {0.01, 0.04, 0.1, 1.0})
    for (const double missing : {1.0, 4.0, 30.0})
      for (const double rows : {1.0, 4.0}) {
        c.piece_s = start;
        const double moved =
            missing * c.host_s(static_cast<int32_t>(rows)) / (c.host_s(static_cast<int32_t>(rows)) + c.move_s());
        const auto lost = [&](int32_t n) { return c.move_s() / n / 2 + (n - 1) * 3 * start * moved; };
        int32_t best = 1;
        for (int32_t n = 2; n <= 16; n *= 2)
          if (lost(n) <= lost(best)) best = n;
        const int32_t found = worthwhile_slices(c, 512, 32, missing, rows);
        EXPECT_TRUE(found == best || found * 2 == best)
            << start << " " << missing << " " << rows << ": " << found << " where " << best << " is best";
      }
}

TEST(MoeRuntime, RefreshTakesTheHeaviestAndEverythingWaits) {
  MoeOptions o;
  o.plan = MoeRule::static_split;
  o.cached = o.prefetch = false;
  o.cache.slots = 2;
  o.refresh = 2;
  MoeRuntime runtime(1, 4, unit_costs(), o);
  runtime.place(std::vector<LayerRouting>{loads({9, 8, 0, 0})});
  runtime.begin_step();
  const ExpertsPlan first = runtime.layer(0, loads({1, 0, 5, 7}), {}, {});
  EXPECT_TRUE(first.moves_first);
  ASSERT_EQ(first.moves.size(), 2u);
  EXPECT_EQ(first.moves[0].id, (ExpertId{0, 3}));
  EXPECT_EQ(first.moves[0].replaces, (ExpertId{0, 1})) << "the lightest goes first";
  EXPECT_NEAR(first.predicted_s, 12 + 3, 1e-6) << "two moves, then the host's expert beside the accelerator's two";
  runtime.begin_step();
  EXPECT_TRUE(runtime.layer(0, loads({5, 5, 0, 0}), {}, {}).moves.empty());
}

}  // namespace
}  // namespace llada
