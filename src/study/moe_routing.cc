#include "study/moe_routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/random.h"
#include "devices/routing_rule.h"
#include "json/fields.h"
#include "json/lines.h"
#include "json/parse.h"
#include "text/text_file.h"

namespace llada {
namespace {

// Nearly standard normal: four uniform 16-bit numbers of one mix, which is plenty for scores that are compared.
double normal(uint64_t key, uint64_t at) {
  const uint64_t x = mix64(key + (at + 1) * kRandomStep);
  const double sum = static_cast<double>(x & 0xffff) + static_cast<double>((x >> 16) & 0xffff) +
                     static_cast<double>((x >> 32) & 0xffff) + static_cast<double>(x >> 48);
  return (sum / 65536 - 2) * std::sqrt(3.0);
}

// Cosine of two load vectors; 0 where one is empty.
double similarity(std::span<const int32_t> a, std::span<const int32_t> b) {
  LLADA_CHECK(a.size() == b.size());
  double dot = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return aa > 0 && bb > 0 ? dot / std::sqrt(aa * bb) : 0;
}

// Parts of the score that have their own numbers.
enum Part : uint64_t { popularity, context, token, guess };

class MadeRouter {
 public:
  MadeRouter(const MoeGeometry& g, uint64_t seed) : g_(g), s_(g.routing), seed_(seed) {
    const size_t all = static_cast<size_t>(g.layers) * static_cast<size_t>(g.experts);
    context_.resize(all);
    for (size_t i = 0; i < all; ++i) context_[i] = normal(random_key(seed_, context, 0), i);
  }

  // The text moves on.
  void walk(double memory) {
    ++walks_;
    const uint64_t key = random_key(seed_, context, walks_);
    for (size_t i = 0; i < context_.size(); ++i)
      context_[i] = memory * context_[i] + std::sqrt(1 - memory * memory) * normal(key, i);
  }

  // `tokens`: of each row its part of the score, layers x experts.
  RoutingStep step(const std::vector<const std::vector<float>*>& tokens, bool block_start, uint64_t number,
                   bool guesses = true) const {
    RoutingStep out;
    out.block_start = block_start;
    out.rows = static_cast<int32_t>(tokens.size());
    const auto n = static_cast<size_t>(g_.experts);
    std::vector<float> scores(n);
    for (int32_t l = 0; l < g_.layers; ++l) {
      out.layers.push_back(empty());
      out.ahead.emplace_back();
      for (const auto* row : tokens) {
        score(l, *row, scores);
        choose(scores, out.layers.back());
      }
    }
    for (int32_t l = 0; guesses && l < g_.layers; ++l)
      for (int32_t d = 1; d <= kAhead && l + d < g_.layers; ++d) {
        LayerRouting guessed = empty();
        const double noise = s_.guess_noise * d;
        for (size_t r = 0; r < tokens.size(); ++r) {
          score(l + d, *tokens[r], scores);
          const uint64_t key = random_key(seed_ ^ guess, number,
                                          (static_cast<uint64_t>(l) * kAhead + static_cast<uint64_t>(d)) * 4096 + r);
          for (size_t e = 0; e < n; ++e) scores[e] += static_cast<float>(noise * normal(key, e));
          choose(scores, guessed);
        }
        out.ahead[static_cast<size_t>(l)].push_back(std::move(guessed));
      }
    return out;
  }

  // A row's own part. `memory` > 0 keeps that much of its former value.
  void draw_token(std::vector<float>& own, uint64_t row, uint64_t time, double memory) const {
    const uint64_t key = random_key(seed_ + token, time, row);
    const size_t all = context_.size();
    const double fresh = std::sqrt(1 - memory * memory);
    if (own.empty()) own.assign(all, 0), memory = 0;
    for (size_t i = 0; i < all; ++i)
      own[i] = static_cast<float>(memory * own[i] + (memory > 0 ? fresh : 1) * normal(key, i));
  }

  LayerRouting empty() const {
    return {std::vector<int32_t>(static_cast<size_t>(g_.experts), 0),
            std::vector<float>(static_cast<size_t>(g_.experts), 0)};
  }

 private:
  void score(int32_t layer, const std::vector<float>& own, std::vector<float>& out) const {
    const size_t base = static_cast<size_t>(layer) * static_cast<size_t>(g_.experts);
    // The popularity is the model's, whatever the text's seed.
    const uint64_t key = random_key(0, popularity, static_cast<uint64_t>(layer));
    for (size_t e = 0; e < out.size(); ++e)
      out[e] = static_cast<float>(s_.popularity * normal(key, e) + s_.context * context_[base + e] +
                                  s_.token * own[base + e]);
  }

  void choose(const std::vector<float>& scores, LayerRouting& out) const {
    std::vector<int32_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::partial_sort(order, order.begin() + g_.used, [&](int32_t a, int32_t b) {
      return routing::goes_before(scores[static_cast<size_t>(a)], a, scores[static_cast<size_t>(b)], b);
    });
    for (int32_t k = 0; k < g_.used; ++k) ++out.rows[static_cast<size_t>(order[static_cast<size_t>(k)])];
    double sum = 0;
    for (const float s : scores) sum += std::exp(static_cast<double>(s));
    for (size_t e = 0; e < scores.size(); ++e)
      out.score[e] += static_cast<float>(std::exp(static_cast<double>(scores[e])) / sum);
  }

  const MoeGeometry& g_;
  const RoutingStatistics& s_;
  uint64_t seed_, walks_ = 0;
  std::vector<double> context_;
};

RoutingTrace start(const MoeGeometry& g) {
  RoutingTrace trace;
  trace.layers = g.layers;
  trace.experts = g.experts;
  trace.used = g.used;
  return trace;
}

// Rows per expert over other texts of the same model: a static mapping is made from them.
std::vector<LayerRouting> history_of(const MoeGeometry& g, uint64_t seed) {
  std::vector<LayerRouting> sum;
  constexpr int kTexts = 24, kRows = 16;
  for (int text = 0; text < kTexts; ++text) {
    const MadeRouter router(g, mix64(seed + 1000 + static_cast<uint64_t>(text)));
    std::vector<std::vector<float>> own(kRows);
    std::vector<const std::vector<float>*> rows;
    for (size_t r = 0; r < kRows; ++r) router.draw_token(own[r], r, 0, 0), rows.push_back(&own[r]);
    const RoutingStep step = router.step(rows, true, 0, false);
    if (sum.empty())
      sum = step.layers;
    else
      for (size_t l = 0; l < sum.size(); ++l)
        for (size_t e = 0; e < sum[l].rows.size(); ++e)
          sum[l].rows[e] += step.layers[l].rows[e], sum[l].score[e] += step.layers[l].score[e];
  }
  return sum;
}

}  // namespace

RoutingTrace decode_trace(const MoeGeometry& g, int32_t count, uint64_t seed) {
  RoutingTrace trace = start(g);
  MadeRouter router(g, seed);
  std::vector<float> own;
  for (int32_t t = 0; t < count; ++t) {
    if (t > 0) router.walk(g.routing.context_memory);
    router.draw_token(own, 0, static_cast<uint64_t>(t), g.routing.token_memory);
    trace.steps.push_back(router.step({&own}, t == 0, static_cast<uint64_t>(t)));
  }
  trace.history = history_of(g, seed);
  return trace;
}

RoutingTrace prefill_trace(const MoeGeometry& g, int32_t count, int32_t rows, uint64_t seed) {
  RoutingTrace trace = start(g);
  for (int32_t t = 0; t < count; ++t) {
    const MadeRouter router(g, mix64(seed + static_cast<uint64_t>(t)));
    std::vector<std::vector<float>> own(static_cast<size_t>(rows));
    std::vector<const std::vector<float>*> list;
    for (size_t r = 0; r < own.size(); ++r) router.draw_token(own[r], r, 0, 0), list.push_back(&own[r]);
    trace.steps.push_back(router.step(list, true, static_cast<uint64_t>(t)));
  }
  trace.history = history_of(g, seed);
  return trace;
}

RoutingTrace diffusion_trace(const MoeGeometry& g, int32_t count, int32_t block, int32_t steps, uint64_t seed) {
  RoutingTrace trace = start(g);
  MadeRouter router(g, seed);
  uint64_t time = 0;
  for (int32_t b = 0; b < count; ++b) {
    if (b > 0) router.walk(g.routing.context_memory);
    std::vector<std::vector<float>> own(static_cast<size_t>(block));
    for (size_t r = 0; r < own.size(); ++r) router.draw_token(own[r], static_cast<uint64_t>(b * block) + r, time, 0);
    for (int32_t t = 0; t < steps; ++t, ++time) {
      std::vector<const std::vector<float>*> rows;
      for (int32_t r = 0; r < block; ++r) {
        // Rows are decided left to right, which of them does not matter here.
        const int32_t decided_at = (r + 1) * steps / block;
        if (t > 0)
          router.draw_token(
              own[static_cast<size_t>(r)], static_cast<uint64_t>(b * block + r), time,
              t == decided_at ? 0.8 : g.routing.token_memory * (t < decided_at ? g.routing.undecided : 1));
        rows.push_back(&own[static_cast<size_t>(r)]);
      }
      trace.steps.push_back(router.step(rows, t == 0, time));
    }
  }
  trace.history = history_of(g, seed);
  return trace;
}

TraceStatistics statistics(const RoutingTrace& trace) {
  TraceStatistics s;
  double layers = 0, pairs_1 = 0, pairs_5 = 0, total = 0, in_quarter = 0;
  std::array<double, kAhead> wanted{};
  std::vector<std::vector<bool>> quarter;
  for (const LayerRouting& h : trace.history) {
    std::vector<int32_t> order(h.rows.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater<>(), [&](int32_t e) { return h.rows[static_cast<size_t>(e)]; });
    quarter.emplace_back(h.rows.size(), false);
    for (size_t i = 0; i < order.size() / 4; ++i) quarter.back()[static_cast<size_t>(order[i])] = true;
  }
  for (size_t t = 0; t < trace.steps.size(); ++t) {
    const RoutingStep& step = trace.steps[t];
    s.rows += step.rows;
    for (size_t l = 0; l < step.layers.size(); ++l) {
      const std::vector<int32_t>& rows = step.layers[l].rows;
      ++layers;
      s.touched += static_cast<double>(std::ranges::count_if(rows, [](int32_t r) { return r > 0; })) /
                   static_cast<double>(rows.size());
      for (size_t e = 0; e < rows.size(); ++e) {
        total += rows[e];
        if (!quarter.empty() && quarter[l][e]) in_quarter += rows[e];
      }
      const auto compare = [&](size_t back, double& sum, double& count) {
        if (t < back) return;
        for (size_t i = t - back + 1; i <= t; ++i)
          if (trace.steps[i].block_start) return;
        sum += similarity(rows, trace.steps[t - back].layers[l].rows);
        ++count;
      };
      compare(1, s.similarity_1, pairs_1);
      compare(5, s.similarity_5, pairs_5);
      if (l >= step.ahead.size()) continue;
      for (size_t d = 0; d < step.ahead[l].size(); ++d) {
        const std::vector<int32_t>& truth = step.layers[l + d + 1].rows;
        for (size_t e = 0; e < truth.size(); ++e) {
          if (truth[e] == 0) continue;
          wanted[d] += 1;
          s.guessed[d] += step.ahead[l][d].rows[e] > 0 ? 1 : 0;
        }
      }
    }
  }
  const auto over = [](double a, double b) { return b > 0 ? a / b : 0; };
  s.rows = over(s.rows, static_cast<double>(trace.steps.size()));
  s.touched = over(s.touched, layers);
  s.static_quarter = over(in_quarter, total);
  s.similarity_1 = over(s.similarity_1, pairs_1);
  s.similarity_5 = over(s.similarity_5, pairs_5);
  for (size_t d = 0; d < kAhead; ++d) s.guessed[d] = over(s.guessed[d], wanted[d]);
  return s;
}

namespace {

constexpr double kMostGate = 1e6;
constexpr size_t kMostRoutedRows = size_t{1} << 16;  // of a step

// Rows per expert, and the sum of their gates, from a row's chosen experts and gates.
Status add_row(LayerRouting& layer, const Json& chosen, const Json& gates, const RoutingTrace& trace,
               const std::string& where) {
  if (!chosen.is_array() || !gates.is_array() || chosen.size() != gates.size() ||
      chosen.size() > static_cast<size_t>(trace.used))
    return invalid("{}: needed at most {} experts per row, and as many gates", where, trace.used);
  for (size_t k = 0; k < chosen.size(); ++k) {
    if (!chosen[k].is_number_integer() || chosen[k] < 0 || chosen[k] >= trace.experts || !gates[k].is_number())
      return invalid("{}: needed experts from 0 to {} with numbers for gates", where, trace.experts - 1);
    const auto e = chosen[k].get<size_t>();
    for (size_t before = 0; before < k; ++before)
      if (chosen[before] == chosen[k]) return invalid("{}: needed other experts than {} twice in one row", where, e);
    const auto gate = gates[k].get<double>();
    if (!(std::abs(gate) <= kMostGate)) return invalid("{}: needed gates up to {:g}", where, kMostGate);
    ++layer.rows[e];
    layer.score[e] += static_cast<float>(gate);
  }
  return {};
}

}  // namespace

Result<RoutingTrace> parse_routing(std::string_view text, const std::string& origin, int64_t most_cells) {
  RoutingTrace trace;
  int64_t last_step = -1, cells = 0;
  int32_t next = 0;  // layer
  std::vector<int32_t> last_positions;
  const auto visit = [&](std::string_view line, const std::string& where) -> Status {
    LLADA_TRY(auto fields, Fields::parse(line, where));
    if (trace.layers == 0) {
      LLADA_TRY_STATUS(fields.head("llada-routing", 1));
      LLADA_TRY(const int64_t layers, fields.integer("layers", 1, 1024));
      LLADA_TRY(const int64_t experts, fields.integer("experts", 1, 4096));
      LLADA_TRY(const int64_t used, fields.integer("used", 1, experts));
      trace.layers = static_cast<int32_t>(layers);
      trace.experts = static_cast<int32_t>(experts);
      trace.used = static_cast<int32_t>(used);
      return {};
    }
    LLADA_TRY(const int64_t step, fields.integer("step", 0, INT64_MAX));
    LLADA_TRY(const int64_t layer, fields.integer("layer", 0, trace.layers - 1));
    if (layer != next || (layer > 0 ? step != last_step : step <= last_step))
      return invalid("{}: found layer {} of step {}, needed layer {} of a step", where, layer, step, next);
    LLADA_TRY(auto positions, fields.integers("positions", 0, INT32_MAX));
    const Json rows = fields.all().value("experts", Json()), gates = fields.all().value("gates", Json());
    if (!rows.is_array() || !gates.is_array() || rows.empty() || rows.size() > kMostRoutedRows ||
        rows.size() != gates.size() || rows.size() != positions.size())
      return invalid("{}: needed positions, experts and gates: lists with an entry per row", where);
    if ((cells += trace.experts) > most_cells)
      return invalid("{}: needed an end: the experts of all lines are over {}", where, most_cells);
    if (layer == 0) {
      last_step = step;
      RoutingStep& s = trace.steps.emplace_back();
      s.rows = static_cast<int32_t>(rows.size());
      s.block_start = positions != last_positions;  // over other positions than the step before
      last_positions = std::move(positions);
    }
    const auto experts = static_cast<size_t>(trace.experts);
    LayerRouting& routing = trace.steps.back().layers.emplace_back(
        LayerRouting{std::vector<int32_t>(experts, 0), std::vector<float>(experts, 0)});
    for (size_t r = 0; r < rows.size(); ++r) LLADA_TRY_STATUS(add_row(routing, rows[r], gates[r], trace, where));
    next = (next + 1) % trace.layers;
    return {};
  };
  LLADA_TRY_STATUS(for_each_json_line(text, origin, visit));
  if (trace.steps.empty()) return invalid("{}: needed a header and at least one step", origin);
  if (next != 0) return invalid("{}: step {} ends after {} of {} layers", origin, last_step, next, trace.layers);
  // Without other texts a static mapping knows the first step.
  trace.history = trace.steps.front().layers;
  return trace;
}

Result<RoutingTrace> read_routing(const std::string& path) {
  constexpr size_t kLimit = size_t{256} << 20;
  LLADA_TRY(const std::string text, read_text_file(path, kLimit));
  return parse_routing(text, path);
}

}  // namespace llada
