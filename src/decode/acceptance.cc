#include "decode/acceptance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "decode/blocks.h"
#include "decode/field_entry.h"
#include "decode/row_sets.h"

namespace llada::decode {
namespace {

constexpr double kDreamEps = 1e-3;  // where Dream's time ends

// Indices by `before`, equal ones in ascending position.
template <class Before>
std::vector<size_t> ranked(std::span<const Candidate> candidates, Before before) {
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    if (before(candidates[a], candidates[b])) return true;
    return !before(candidates[b], candidates[a]) && a < b;
  });
  return order;
}

bool higher_score(const Candidate& a, const Candidate& b) { return a.score > b.score; }
bool lower_entropy(const Candidate& a, const Candidate& b) { return a.entropy < b.entropy; }
bool higher_margin(const Candidate& a, const Candidate& b) { return a.margin > b.margin; }

std::vector<size_t> first(std::vector<size_t> order, size_t n) {
  order.resize(std::min(order.size(), n));
  std::ranges::sort(order);
  return order;
}

}  // namespace

std::vector<size_t> accept_best(std::span<const Candidate> candidates, int64_t n) {
  return first(ranked(candidates, higher_score), static_cast<size_t>(std::max<int64_t>(n, 1)));
}

std::vector<size_t> accept_from(std::span<const Candidate> candidates, double threshold) {
  const auto order = ranked(candidates, higher_score);
  size_t n = std::min<size_t>(order.size(), 1);
  while (n < order.size() && candidates[order[n]].score >= threshold) ++n;
  return first(order, n);
}

std::vector<size_t> accept_above(std::span<const Candidate> candidates, double threshold) {
  return accept_from(candidates, std::nextafter(threshold, std::numeric_limits<double>::infinity()));
}

std::vector<size_t> accept_factor(std::span<const Candidate> candidates, double factor) {
  const auto order = ranked(candidates, higher_score);
  size_t n = std::min<size_t>(order.size(), 1);
  // Taking one more makes it the (n + 1)-th.
  while (n < order.size() && candidates[order[n]].score >= 1 - factor / static_cast<double>(n + 2)) ++n;
  return first(order, n);
}

std::vector<size_t> accept_entropy(std::span<const Candidate> candidates, double bound) {
  const auto order = ranked(candidates, lower_entropy);
  size_t n = std::min<size_t>(order.size(), 1);
  double before = n ? candidates[order[0]].entropy : 0;
  while (n < order.size() && before <= bound) before += candidates[order[n++]].entropy;
  return first(order, n);
}

std::vector<size_t> accept_near(std::span<const Candidate> candidates, double bound) {
  const auto sum = [&](const Candidate& c) {
    return c.entropy + kEntropyOfDistance * (c.position - candidates.front().position);
  };
  const auto order = ranked(candidates, [&](const Candidate& a, const Candidate& b) { return sum(a) < sum(b); });
  size_t n = std::min<size_t>(order.size(), 1);
  while (n < order.size() && sum(candidates[order[n]]) < bound) ++n;
  return first(order, n);
}

std::vector<size_t> gate_entropy(std::span<const Candidate> candidates, std::vector<size_t> taken, double gate) {
  if (taken.empty()) return taken;
  std::vector<size_t> left;
  size_t best = 0;  // of those that the gate lets through, taken or not; the first is one of them
  double open = 0;
  for (size_t i = 0, next = 0; i < candidates.size() && open <= gate; ++i) {
    if (candidates[i].score > candidates[best].score) best = i;
    if (next < taken.size() && taken[next] == i) {
      left.push_back(i);
      ++next;
    } else {
      open += candidates[i].entropy;
    }
  }
  return left.empty() ? std::vector{best} : left;
}

int64_t dream_count(int64_t masks, int64_t steps, int64_t step) {
  if (step + 1 >= steps) return masks;
  const auto t = [&](int64_t i) { return 1 - (1 - kDreamEps) * static_cast<double>(i) / static_cast<double>(steps); };
  return static_cast<int64_t>(static_cast<double>(masks) * (1 - t(step + 1) / t(step)));
}

int64_t dream_step(int64_t masks, int64_t steps, int64_t step) {
  LLADA_CHECK(masks >= 1);
  // masks (1 - t[i + 1] / t[i]) reaches 1 at i = steps / (1 - eps) - masks; rounding moves that by less
  // than 2.
  const double reached = static_cast<double>(steps) / (1 - kDreamEps) - static_cast<double>(masks);
  step = std::max(step, std::min(steps - 1, static_cast<int64_t>(std::max(reached, 2.0)) - 2));
  while (dream_count(masks, steps, step) == 0) ++step;
  return step;
}

namespace {

std::vector<size_t> choose_by_rule(const AcceptanceOptions& options, std::span<const Candidate> candidates,
                                   const ScheduleStep& at) {
  const auto left = static_cast<int64_t>(candidates.size());
  const auto dream = [&](auto before) {
    return first(ranked(candidates, before), static_cast<size_t>(dream_count(left, at.steps, at.step)));
  };
  switch (options.acceptance) {
    case Acceptance::schedule:
    case Acceptance::random:
      return accept_best(candidates, transfer_count(at.masks, at.steps, at.step));
    case Acceptance::threshold: {
      auto taken = at.above ? accept_above(candidates, options.threshold) : accept_from(candidates, options.threshold);
      return std::ssize(taken) >= std::min(at.least, left) ? taken : accept_best(candidates, at.least);
    }
    case Acceptance::factor:
      return accept_factor(candidates, options.factor);
    case Acceptance::entropy:
      return accept_entropy(candidates, options.entropy_bound);
    case Acceptance::llada2: {
      auto above = accept_above(candidates, options.threshold);
      const int64_t least = transfer_count(at.length, at.steps, at.step);
      return static_cast<int64_t>(above.size()) >= least ? above : accept_best(candidates, least);
    }
    case Acceptance::dream_entropy:
      return dream(lower_entropy);
    case Acceptance::dream_margin:
      return dream(higher_margin);
    case Acceptance::dream_maskgit:
      return dream(higher_score);
    case Acceptance::rnd1: {  // in single precision, as published
      const auto rest = static_cast<double>(std::max<int64_t>(at.steps - 1 - at.step, 0));
      const auto share = static_cast<float>(rest / static_cast<double>(at.steps));
      const auto kept = static_cast<int64_t>(static_cast<float>(at.masks) * share);
      return first(ranked(candidates, lower_entropy), static_cast<size_t>(std::max<int64_t>(left - kept, 1)));
    }
    case Acceptance::wedlm:
      return accept_near(candidates, options.entropy_bound);
    case Acceptance::causal:
      break;  // a strategy of its own
  }
  return {};
}

}  // namespace

std::vector<size_t> choose(const AcceptanceOptions& options, std::span<const Candidate> candidates,
                           const ScheduleStep& at, std::span<const size_t> confirmed) {
  auto taken = merged(choose_by_rule(options, candidates, at), confirmed);
  return options.entropy_gate > 0 ? gate_entropy(candidates, std::move(taken), options.entropy_gate) : taken;
}

std::span<const Field> acceptance_fields() {
  using O = AcceptanceOptions;
  using enum FieldGroup;
  // clang-format off
  static const Field kFields[] = {
    field<&O::acceptance>(acceptance, "accept", "RULE", "which predictions are kept"),
    field<&O::threshold>(acceptance, "threshold", "T", "accept tokens whose probability is T or more")
        .in(kShareAboveZero).for_rules(kThresholdRules)
        .tuned("1 0.995 0.99 0.98 0.97 0.96 0.95 0.9 0.85 0.8 0.7 0.6").often(),
    field<&O::factor>(acceptance, "factor", "F",
        "accept the n most certain tokens while the n-th has probability of 1 - F / (n + 1) or more")
        .in(kAboveZero).for_rule(Acceptance::factor).tuned("1 0.5 0.25 0.1"),
    field<&O::entropy_bound>(acceptance, "entropy_bound", "NATS",
        "accept the most certain tokens while their summed entropy stays within the bound; wedlm: those below it")
        .for_rules(kEntropyRules).tuned("0.02 0.05 0.1 0.2"),
    field<&O::entropy_gate>(acceptance, "entropy_gate", "NATS",
        "keep an accepted token masked while the masks on its left have more entropy than this; 0: no gate")
        .tuned("0 4 1 0.5 0.2"),
  };
  // clang-format on
  return kFields;
}

}  // namespace llada::decode
