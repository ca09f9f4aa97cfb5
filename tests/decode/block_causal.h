// A block-causal model in numbers instead of matrices: two layers whose keys are hashes of all that a
// position may see, held in a store that a step only updates at its rows. A plan that leaves out a row whose
// key another token has changed gets other predictions than full recomputation, as in a real model.
#pragma once
#include "decode/script.h"

namespace llada::decode {

inline SpecialIds ids_of(int64_t block) {
  SpecialIds ids = test_ids();
  ids.attention_block = block;
  return ids;
}

class BlockCausalModel : public StepRunner {
 public:
  // ends: the chance of an end token, in 16ths. steady: the share of predictions, in percent, that depend on their
  // position alone, as most of a good model's do.
  BlockCausalModel(uint64_t seed, int64_t block, uint64_t ends = 0, uint64_t steady = 0)
      : seed_(seed), block_(block), ends_(ends), steady_(steady) {}

  Result<StepResult> run(const StepPlan& plan, int64_t) override {
    if (!plan.sparse.rows.empty()) return failed("rows beside the step, which would not be exact");
    plans.push_back(plan);
    sees(plan.causal_below, plan.keys);
    const size_t streams = plan.cfg_scale > 0 ? 2 : 1;
    const auto predicted = [&](const Trial& trial) {
      uint64_t h = 0;
      for (size_t s = 0; s < streams; ++s) {
        Store alone = stores_[s];
        store(alone, trial.rows, s == 0 ? trial.inputs : trial.unconditional, plan.keys);
        h = mix64(h ^ seen(alone, trial.logits, plan.keys));
      }
      return prediction(h, trial.logits);
    };
    if (!plan.sparse.empty()) beside_.clear();
    for (const Trial& trial : plan.sparse.trials) beside_.push_back(predicted(trial));
    for (size_t s = 0; s < streams; ++s) {
      store(stores_[s], plan.rows, s == 0 ? plan.inputs : plan.unconditional, plan.keys);
      for (int32_t p = 0; p < plan.keys; ++p)
        if (stores_[s].shallow.size() <= static_cast<size_t>(p) || stores_[s].shallow[static_cast<size_t>(p)] == 0)
          return failed("position {} is read but was never computed", p);
    }
    StepResult result;
    for (const int32_t row : plan.logits) {
      uint64_t h = 0;
      for (size_t s = 0; s < streams; ++s) h = mix64(h ^ seen(stores_[s], row, plan.keys));
      result.predictions.push_back(prediction(h, row));
    }
    for (const Trial& trial : plan.trials) result.trials.push_back(predicted(trial));
    if (plan.landing.when == Landing::When::waited) result.sparse = beside_, result.landed = 0;
    return result;
  }

  // The same model without a store, from all tokens: what row p of the canvas predicts.
  Prediction predict(const std::vector<int32_t>& tokens, int32_t p, int32_t causal_below = 0) const {
    BlockCausalModel fresh(seed_, block_, ends_, steady_);
    fresh.causal_says_next = causal_says_next;
    fresh.sees(causal_below, static_cast<int32_t>(tokens.size()));
    StepPlan all;
    for (size_t i = 0; i < tokens.size(); ++i) all.rows.push_back(static_cast<int32_t>(i));
    fresh.store(fresh.stores_[0], all.rows, tokens, static_cast<int32_t>(tokens.size()));
    return fresh.prediction(mix64(fresh.seen(fresh.stores_[0], p, static_cast<int32_t>(tokens.size()))), p);
  }

  // The keys of the first n positions, to be compared and to be given to another run.
  using Keys = std::vector<std::pair<uint64_t, uint64_t>>;
  Keys keys(int64_t n) const {
    Keys keys;
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) keys.emplace_back(stores_[0].shallow[i], stores_[0].deep[i]);
    return keys;
  }
  void give(const Keys& keys) {
    for (const auto& [shallow, deep] : keys) stores_[0].shallow.push_back(shallow), stores_[0].deep.push_back(deep);
  }
  // As full recomputation from all tokens would have them.
  Keys exact_keys(const std::vector<int32_t>& tokens, int64_t n, int32_t causal_below = 0) const {
    BlockCausalModel fresh(seed_, block_);
    fresh.causal_ = causal_below;
    StepPlan all;
    for (size_t i = 0; i < tokens.size(); ++i) all.rows.push_back(static_cast<int32_t>(i));
    fresh.store(fresh.stores_[0], all.rows, tokens, static_cast<int32_t>(tokens.size()));
    return fresh.keys(n);
  }

  std::vector<StepPlan> plans;
  bool causal_says_next = false;  // a row predicts the next position where all are causal

 private:
  void sees(int32_t causal_below, int32_t keys) {
    causal_ = causal_below;
    ahead_ = causal_says_next && causal_below == keys ? 1 : 0;
  }
  struct Store {
    std::vector<uint64_t> shallow, deep;  // by position; 0: never computed
  };

  int32_t end_of_sight(int32_t p, int32_t keys) const {
    if (p < causal_) return std::min(keys, p + 1);
    return static_cast<int32_t>(std::min<int64_t>(keys, (p / block_ + 1) * block_));
  }

  void store(Store& s, std::span<const int32_t> rows, std::span<const int32_t> inputs, int32_t keys) const {
    const size_t size = std::max(s.shallow.size(), static_cast<size_t>(keys));
    s.shallow.resize(size);
    s.deep.resize(size);
    for (size_t i = 0; i < rows.size(); ++i)
      s.shallow[static_cast<size_t>(rows[i])] =
          mix64(seed_ ^ (static_cast<uint64_t>(rows[i]) << 32 | static_cast<uint32_t>(inputs[i]))) | 1;
    for (const int32_t row : rows) {
      uint64_t h = s.shallow[static_cast<size_t>(row)];
      for (int32_t k = 0; k < end_of_sight(row, keys); ++k) h = mix64(h ^ s.shallow[static_cast<size_t>(k)]);
      s.deep[static_cast<size_t>(row)] = h;
    }
  }

  uint64_t seen(const Store& s, int32_t row, int32_t keys) const {
    uint64_t h = static_cast<uint64_t>(row) + 1;
    for (int32_t k = 0; k < end_of_sight(row, keys); ++k) h = mix64(h ^ s.deep[static_cast<size_t>(k)]);
    return h;
  }

  Prediction prediction(uint64_t h, int32_t position) const {
    if (mix64(h) % 100 < steady_) h = mix64(seed_ ^ static_cast<uint64_t>(position + ahead_));
    Prediction p;
    p.position = position;
    p.token = h % 16 < ends_ ? static_cast<int32_t>(kEos + (h >> 8) % 2) : static_cast<int32_t>((h >> 16) % 7);
    p.probability = static_cast<double>((h >> 24) % 20 + 1) / 20;
    p.entropy = static_cast<double>((h >> 40) % 50) / 25;
    p.runner_up = (p.token + 1) % kMask;
    p.margin = p.probability > 0.5 ? 2 * p.probability - 1 : p.probability / 2;
    return p;
  }

  const uint64_t seed_;
  const int64_t block_;
  const uint64_t ends_, steady_;
  Store stores_[2];
  int32_t causal_ = 0, ahead_ = 0;  // of the forward
  std::vector<Prediction> beside_;  // of the sparse pass under way
};

}  // namespace llada::decode
