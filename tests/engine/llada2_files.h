// A small LLaDA2 with random weights, and its published generation over the forward in double arithmetic.
#pragma once
#include <unistd.h>

#include <fstream>

#include "devices/small_model.h"
#include "geometry/model_files.h"
#include "golden.h"

namespace llada {

inline ModelConfig tiny_llada2(int64_t block) {
  ModelConfig c = small_llada2();
  c.attention_block = block;
  c.layers = 2;  // the first dense, the second of experts
  c.vocab = 1024;
  c.context = 96;
  c.rms_eps = 1e-5f;
  c.rope_theta = 10000;
  c.mask_id = 1005;
  c.eos_id = c.pad_id = 1001;
  return c;
}

// LLaDA2.2's router.
inline ModelConfig routing_by_blocks(ModelConfig c, int64_t block) {
  c.expert_capacity = 3, c.expert_block = block;
  c.expert_groups = c.expert_groups_used = 1;
  return c;
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Softmax in double over all logits; the token is never the mask.
struct Guess {
  int32_t token = -1;
  double probability = 0;
};
inline Guess guess(const std::vector<double>& logits, int32_t mask) {
  double sum = 0;
  Guess best;
  for (size_t t = 0; t < logits.size(); ++t) {
    sum += std::exp(logits[t]);
    if (static_cast<int32_t>(t) != mask && (best.token < 0 || logits[t] > logits[static_cast<size_t>(best.token)]))
      best.token = static_cast<int32_t>(t);
  }
  best.probability = std::exp(logits[static_cast<size_t>(best.token)]) / sum;
  return best;
}

// LLaDA2's generate() (edit < 0) and LLaDA2.1's with edits, from the published description: the whole window
// up to the current block is computed again from its tokens in every step, in double, without a store.
// per_step: the least number of masks that a step decides.
inline std::vector<int32_t> reference_llada2(const SmallModel& m, std::vector<int32_t> tokens, int64_t gen,
                                             int64_t per_step, double threshold, double edit) {
  const auto prompt = static_cast<int64_t>(tokens.size());
  const int64_t block = m.config.attention_block;
  const int32_t mask = m.config.mask_id;
  tokens.resize(static_cast<size_t>((prompt + gen + block - 1) / block * block), mask);
  for (int64_t b = prompt / block * block; b < static_cast<int64_t>(tokens.size()); b += block) {
    for (int64_t alone = 0;;) {
      const auto masks = std::count(tokens.begin() + b, tokens.begin() + b + block, mask);
      if (masks == 0 && (edit < 0 || alone++ == 16)) break;
      const std::vector<int32_t> window(tokens.begin(), tokens.begin() + b + block);
      const auto from = static_cast<size_t>(b);
      const Rows logits = reference_forward(m, window, from);
      std::vector<std::pair<double, int64_t>> order;  // of the masks
      bool changed = false;
      for (int64_t p = std::max(b, prompt); p < b + block; ++p) {
        const auto i = static_cast<size_t>(p);
        const Guess g = guess(logits[i - from], mask);
        if (window[i] == mask) {
          order.emplace_back(-g.probability, p);
        } else if (edit >= 0 && g.token != window[i] && g.probability > edit) {
          tokens[i] = g.token, changed = true;
        }
      }
      std::ranges::sort(order);
      for (size_t k = 0; k < order.size(); ++k) {
        if (static_cast<int64_t>(k) >= per_step && !(-order[k].first > threshold)) break;
        const auto i = static_cast<size_t>(order[k].second);
        tokens[i] = guess(logits[i - from], mask).token, changed = true;
      }
      if (!changed) break;
    }
  }
  tokens.resize(static_cast<size_t>(prompt + gen));
  return {tokens.begin() + prompt, tokens.end()};
}

}  // namespace llada
