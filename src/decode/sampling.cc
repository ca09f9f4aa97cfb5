#include "decode/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/random.h"
#include "decode/field_entry.h"

namespace llada::decode {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();
// Useful values are below 10. Far beyond this, hidden states overflow a float (guidance), and products with noise or
// logits a double.
constexpr double kMost = 1e6;
constexpr double kLeastHeat = 1e-30;  // samples the best token as 0 does; below it quotients overflow a double

bool contains(std::span<const int32_t> sorted, int32_t id) {
  return !sorted.empty() && id >= sorted.front() && id <= sorted.back() && std::ranges::binary_search(sorted, id);
}

// From the clean logits: probability of `out.token`, entropy, the two best and the margin between them.
void describe(std::span<const float> logits, const SamplingRule& rule, Prediction& out) {
  int32_t best = -1, second = -1;
  double most = kNone;
  for (int32_t id = 0; id < std::ssize(logits); ++id) {
    const float value = logits[static_cast<size_t>(id)];
    if (!contains(rule.out_of_softmax, id)) most = std::max<double>(most, value);
    if (contains(rule.never_sampled, id)) continue;
    if (best < 0 || value > logits[static_cast<size_t>(best)])
      second = best, best = id;
    else if (second < 0 || value > logits[static_cast<size_t>(second)])
      second = id;
  }
  double sum = 0, weighted = 0;
  for (int32_t id = 0; id < std::ssize(logits); ++id) {
    if (contains(rule.out_of_softmax, id)) continue;
    const double below = logits[static_cast<size_t>(id)] - most, part = std::exp(below);
    sum += part;
    weighted += below * part;
  }
  const auto probability = [&](int32_t id) {
    return id < 0 || contains(rule.out_of_softmax, id) ? 0.0 : std::exp(logits[static_cast<size_t>(id)] - most) / sum;
  };
  out.logit = logits[static_cast<size_t>(out.token)];
  out.probability = probability(out.token);
  out.entropy = std::max(0.0, std::log(sum) - weighted / sum);
  out.margin = probability(best) - probability(second);
  out.runner_up = second;
}

// The tokens that may be sampled: ids, with logits after the penalty. Never empty unless everything is excluded.
class Allowed {
 public:
  // All logits are divided by `heat`, behind the penalty.
  Allowed(std::span<const float> logits, const SamplingRule& rule, const SamplingOptions& o,
          std::span<const int32_t> repeated, double heat)
      : logits_(logits.begin(), logits.end()) {
    for (const auto& [id, bias] : o.logit_bias)
      if (static_cast<size_t>(id) < logits_.size()) logits_[static_cast<size_t>(id)] += bias;
    const double penalty = o.repeat_penalty;
    if (penalty != 1)
      for (const int32_t id : repeated) {
        double& value = logits_[static_cast<size_t>(id)];
        value = value > 0 ? value / penalty : value * penalty;
      }
    if (heat != 1)
      for (double& value : logits_) value /= std::max(heat, kLeastHeat);
    ids_.reserve(logits.size());
    for (int32_t id = 0; id < std::ssize(logits); ++id)
      if (!contains(rule.never_sampled, id)) ids_.push_back(id), most_ = std::max(most_, at(id));
  }

  void keep_best(int64_t count) {
    if (count <= 0 || count >= std::ssize(ids_)) return;
    std::ranges::nth_element(ids_, ids_.begin() + count - 1, [this](int32_t a, int32_t b) { return better(a, b); });
    ids_.resize(static_cast<size_t>(count));
    std::ranges::sort(ids_);  // so that sums are taken in one order
  }

  // Keeps the fewest best ones that have at least this share of the probability left; one at least.
  void keep_share(double share) {
    if (share >= 1) return;
    double total = 0;
    for (const int32_t id : ids_) total += weight(id);
    const auto worse = [this](int32_t a, int32_t b) { return better(b, a); };
    std::ranges::make_heap(ids_, worse);
    double taken = 0;
    auto rest = ids_.end();
    while (rest != ids_.begin()) {
      std::ranges::pop_heap(ids_.begin(), rest, worse);
      taken += weight(*--rest);
      if (taken >= share * total) break;
    }
    ids_.erase(ids_.begin(), rest);
  }

  void keep_from(double share_of_best) {
    if (share_of_best > 0) std::erase_if(ids_, [&](int32_t id) { return weight(id) < share_of_best; });
  }

  // Probability, entropy and margin of the tokens left.
  void describe(Prediction& out) const {
    double sum = 0, weighted = 0, best = 0, second = 0;
    for (const int32_t id : ids_) {
      const double part = weight(id);
      sum += part;
      if (part > 0) weighted += (at(id) - most_) * part;
      if (part > best)
        second = std::exchange(best, part);
      else
        second = std::max(second, part);
    }
    out.probability = weight(out.token) / sum;
    out.entropy = std::max(0.0, std::log(sum) - weighted / sum);
    out.margin = (best - second) / sum;
  }

  // The best one at temperature 0, else the best after Gumbel noise, as the head does it.
  int32_t take(double temperature, uint64_t key) const {
    int32_t taken = -1;
    double most = kNone;
    for (const int32_t id : ids_) {
      const double noise =
          temperature > 0 ? temperature * std::log(-std::log(llada::draw(key, static_cast<uint64_t>(id)))) : 0;
      const double score = at(id) - noise;
      if (score > most || (score == most && id < taken)) most = score, taken = id;
    }
    return taken;
  }

 private:
  double at(int32_t id) const { return logits_[static_cast<size_t>(id)]; }
  bool better(int32_t a, int32_t b) const { return at(a) > at(b) || (at(a) == at(b) && a < b); }
  double weight(int32_t id) const { return std::exp(at(id) - most_); }

  std::vector<double> logits_;
  std::vector<int32_t> ids_;
  double most_ = kNone;
};

// The token, or the mask, before a position of the same block; -1: the position is the block's first. As SGLang has it,
// which looks at one block.
int32_t left_neighbour(const Canvas& canvas, int64_t position, const SpecialIds& ids) {
  if (position == 0 || (ids.attention_block > 0 && ids.block_begin(position) == position)) return -1;
  return canvas.tokens[static_cast<size_t>(position - 1)];
}

// 64 bits, written with or without a sign, since other programs' seeds have one.
Status read_seed(const Field& f, std::string_view text, DecodeOptions& o) {
  if (!text.starts_with('-')) return read_number(text, o.seed, f);
  int64_t value = 0;
  LLADA_TRY_STATUS(read_number(text, value, f));
  o.seed = static_cast<uint64_t>(value);
  return {};
}

Entry seed_entry(std::string_view help) {
  Entry f = field<&SamplingOptions::seed>(FieldGroup::sampling, "seed", "N", help);
  f.read = read_seed;
  f.range.least = -std::numeric_limits<double>::infinity();  // 64 bits, whose ends are no doubles
  return f;
}

}  // namespace

std::span<const Field> sampling_fields() {
  using O = SamplingOptions;
  using enum FieldGroup;
  // clang-format off
  static const Field kFields[] = {
    field<&O::temperature>(sampling, "temperature", "T", "sample with Gumbel noise; 0 takes the best token")
        .in({0, kMost}).also("--temp").often(),
    seed_entry("seed of sampling and of a random order; -1: drawn").also("-s").often(),
    field<&O::top_k>(sampling, "top_k", "N", "sample from the N best tokens; 0: from all").in(kSteps),
    field<&O::top_p>(sampling, "top_p", "P", "then from the best tokens that together have probability P; 1: from all")
        .in(kShare),
    field<&O::min_p>(sampling, "min_p", "P",
        "then from tokens with at least P times the best one's probability; 0: all").in(kShare),
    field<&O::repeat_penalty>(sampling, "repeat_penalty", "F",
        "divide the logits of tokens that stand within 64 positions already by F; 1: do not").in({1 / kMost, kMost}),
    field<&O::neighbour_penalty>(sampling, "neighbour_penalty", "L",
        "subtract L from the logit of the token on a position's left, in its block (LLaDA2.1); 0: do not")
        .in({0, kMost}),
    field<&O::cfg_scale>(guidance, "cfg_scale", "S", "classifier-free guidance; 0: none").in({0, kMost}).often(),
  };
  // clang-format on
  return kFields;
}

bool orders_by_sampled(const DecodeOptions& o) { return samples(o) && is_dream(o.acceptance); }

bool needs_logits(const DecodeOptions& o) {
  return o.top_k > 0 || o.top_p < 1 || o.min_p > 0 || o.repeat_penalty != 1 || o.neighbour_penalty > 0 ||
         !o.logit_bias.empty() || orders_by_sampled(o);
}

bool ranks_tokens(const DecodeOptions& o) { return o.revision == Revision::levenshtein; }

bool draws_once(const DecodeOptions& o) { return samples(o) && (o.revision != Revision::none || o.mbsd); }

Prediction predict(std::span<const float> logits, const DecodeOptions& options, const SamplingRule& rule,
                   std::span<const int32_t> repeated, const Draw& draw) {
  Prediction out{.position = draw.row};
  out.probability = std::numeric_limits<double>::quiet_NaN();
  if (!std::ranges::all_of(logits, [](float value) { return std::isfinite(value); })) return out;
  const bool heated = orders_by_sampled(options);
  Allowed allowed(logits, rule, options, repeated, heated ? options.temperature : 1);
  if (!heated) allowed.keep_best(options.top_k);
  allowed.keep_share(options.top_p);
  if (heated) allowed.keep_best(options.top_k);
  allowed.keep_from(options.min_p);
  const auto forward = static_cast<uint64_t>(rule.fixed_noise ? 0 : draw.forward);
  out.token = allowed.take(heated ? 1 : options.temperature,
                           random_key(options.seed, forward, static_cast<uint64_t>(draw.row)));
  if (out.token < 0) return out;
  describe(logits, rule, out);
  if (heated) allowed.describe(out);
  return out;
}

std::vector<int32_t> rank_tokens(std::span<const float> logits, size_t rows, int32_t count, const SamplingRule& rule) {
  std::vector<int32_t> ranked(rows * static_cast<size_t>(count), -1);
  if (count == 0) return ranked;
  const size_t vocabulary = logits.size() / std::max<size_t>(rows, 1);
  for (size_t row = 0; row < rows; ++row) {
    const auto of_row = logits.subspan(row * vocabulary, vocabulary);
    const auto best = std::span(ranked).subspan(row * static_cast<size_t>(count), static_cast<size_t>(count));
    size_t found = 0;
    for (int32_t id = 0; id < std::ssize(of_row); ++id) {
      const float value = of_row[static_cast<size_t>(id)];
      if (found == best.size() && !(value > of_row[static_cast<size_t>(best.back())])) continue;
      if (contains(rule.never_sampled, id)) continue;
      found += found < best.size();
      size_t at = found - 1;
      for (; at > 0 && value > of_row[static_cast<size_t>(best[at - 1])]; --at) best[at] = best[at - 1];
      best[at] = id;
    }
  }
  return ranked;
}

std::vector<int32_t> tokens_nearby(const Canvas& canvas, int64_t position, const SpecialIds& ids) {
  std::vector<int32_t> found;
  const int64_t end = std::min(canvas.size(), position + kNearby + 1);
  for (int64_t p = std::max<int64_t>(0, position - kNearby); p < end; ++p) {
    const auto i = static_cast<size_t>(p);
    const int32_t id = canvas.tokens[i];
    const bool ends = id == ids.eos || id == ids.eot || std::ranges::count(ids.end_ids, id) > 0;
    if (p != position && canvas.states[i] != TokenState::masked && !ends) found.push_back(id);
  }
  std::ranges::sort(found);
  const auto rest = std::ranges::unique(found);
  found.erase(rest.begin(), rest.end());
  return found;
}

Status predict_all(std::span<const float> logits, std::span<const float> sparse_logits, const DecodeOptions& options,
                   const SamplingRule& rule, const SpecialIds& ids, const Canvas& canvas, const Canvas& sparse_canvas,
                   int64_t forward, StepResult& result) {
  std::vector<float> penalised;
  const auto again = [&](std::span<Prediction> predictions, std::span<const float> rows, int64_t number,
                         const Canvas& seen) -> Status {
    for (size_t i = 0; i < predictions.size(); ++i) {
      Prediction& p = predictions[i];
      const size_t vocabulary = rows.size() / predictions.size();
      const int64_t position = ids.predicted_by(p.position);
      std::vector<int32_t> repeated;
      if (options.repeat_penalty != 1) repeated = tokens_nearby(seen, position, ids);
      auto logits_of = rows.subspan(i * vocabulary, vocabulary);
      if (const int32_t left = left_neighbour(seen, position, ids); options.neighbour_penalty > 0 && left >= 0) {
        penalised.assign(logits_of.begin(), logits_of.end());
        penalised[static_cast<size_t>(left)] -= static_cast<float>(options.neighbour_penalty);
        logits_of = penalised;
      }
      p = predict(logits_of, options, rule, repeated, {number, p.position});
      if (p.token < 0 || !std::isfinite(p.probability))
        return damaged("the logits of position {} are not finite; the weights or the activations are damaged",
                       p.position);
    }
    return {};
  };
  const size_t all = result.predictions.size() + result.trials.size();
  const size_t own = all == 0 ? 0 : logits.size() / all * result.predictions.size();
  LLADA_TRY_STATUS(again(result.predictions, logits.first(own), forward, canvas));
  LLADA_TRY_STATUS(again(result.trials, logits.subspan(own), forward, canvas));
  return again(result.sparse, sparse_logits, result.landed.value_or(0), sparse_canvas);
}

}  // namespace llada::decode
