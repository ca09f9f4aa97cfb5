// Sampling from part of the vocabulary, and penalties for repetition. A request that asks for either gets its logits
// from the device, and its predictions are made here: by one pure function, the same on every device. (Plain
// temperature sampling stays in the head, which stores no logits; without filters both take the same token.)
//
// The order: bias, penalty, then top-k, top-p over the rest, min-p, then Gumbel noise times the temperature on the
// tokens left. As in llama.cpp's default chain, the cuts are made at temperature 1. Ties at a border go to the lower
// id.
//
// Confidence is the same as for plain sampling: the probability of the token in the clean softmax, before penalties and
// cuts. So a threshold asks how sure the model is, not how narrow the cut was. Dream's rules are the exception
// (orders_by_sampled). The penalty for the left neighbour's token, LLaDA2.1's, is another: it comes before everything,
// and confidence is computed after it.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "decode/types.h"

namespace llada::decode {

struct DecodeOptions;
struct Field;

// Sampling and guidance.
struct SamplingOptions {
  double temperature = 0;  // Gumbel-max sampling at > 0; confidences stay those of the clean softmax
  uint64_t seed = 0;
  int64_t top_k = 0;             // > 0: only so many of the best tokens may be sampled (sampling.h)
  double top_p = 1;              // in [0, 1], < 1: only the best tokens that together have this probability
  double min_p = 0;              // in [0, 1], > 0: only tokens with this share of the best one's probability
  double repeat_penalty = 1;     // > 0: divides (where negative: multiplies) logits of tokens that are nearby already
  double neighbour_penalty = 0;  // >= 0: subtracted from the logit of the token that stands on a position's left
  double cfg_scale = 0;          // > 0: classifier-free guidance
  // Added to logits; ids ascending, each once. No field: requests over HTTP alone have it.
  std::vector<std::pair<int32_t, double>> logit_bias = {};
};
std::span<const Field> sampling_fields();

constexpr bool samples(const SamplingOptions& o) { return o.temperature > 0; }

// Dream's rules order by the distribution after the temperature and the cuts, as its published sampler does. There the
// temperature comes first, then top-p, then top-k, and confidence, entropy and margin are of the result.
bool orders_by_sampled(const DecodeOptions& options);

// Whether the head must store logits for these options.
bool needs_logits(const DecodeOptions& options);

// Whether plans ask for ranked tokens (StepPlan::ranked).
bool ranks_tokens(const DecodeOptions& options);

// Whether a position's noise is drawn once per run: where a rule compares a prediction with an earlier one. With fresh
// noise in every forward a sampled token would change although the model predicts the same. Then a prediction changes
// only with the model's logits, and with nearby tokens where these are penalised.
bool draws_once(const DecodeOptions& options);

// Where random numbers of a row come from (base/random.h).
struct Draw {
  int64_t forward = 0;
  int32_t row = 0;
};

// One row's prediction from its logits (guidance applied, nothing excluded). `repeated` are ids, each once. Where a
// logit is not finite the token is -1 and the probability NaN, as from a device.
Prediction predict(std::span<const float> logits, const DecodeOptions& options, const SamplingRule& rule,
                   std::span<const int32_t> repeated, const Draw& draw);

// The `count` best tokens of each row that may be sampled, the best first; fewer: -1 behind them.
std::vector<int32_t> rank_tokens(std::span<const float> logits, size_t rows, int32_t count, const SamplingRule& rule);

// How many positions before and behind another one are nearby: as many as llama.cpp penalises by default.
inline constexpr int64_t kNearby = 64;

// The tokens decided near `position`, without its own: ids ascending, each once. Tokens that end an answer are left
// out, since an answer's tail is full of them.
std::vector<int32_t> tokens_nearby(const Canvas& canvas, int64_t position, const SpecialIds& ids);

// Puts predictions made here in the place of the device's. logits: those of result.predictions, then of result.trials;
// sparse_logits: of result.sparse; all x vocabulary. sparse_canvas: as the sparse pass found it. Logits that are not
// finite are ErrorKind::data.
Status predict_all(std::span<const float> logits, std::span<const float> sparse_logits, const DecodeOptions& options,
                   const SamplingRule& rule, const SpecialIds& ids, const Canvas& canvas, const Canvas& sparse_canvas,
                   int64_t forward, StepResult& result);

}  // namespace llada::decode
