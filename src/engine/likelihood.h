// How probable given continuations of a prompt are. A diffusion model has no single such number; each of these is one,
// with its cost in forwards for a continuation of L tokens:
//
//   monte_carlo  the estimate of a lower bound that LLaDA's published tables rest on (arXiv 2502.09992, appendix B.5).
//                A draw masks l of the L tokens, l uniform over 1..L and stratified over a batch of draws, and counts
//                the masked tokens' log-probabilities L / l times; the mean over the draws. With mask_rates Dream's
//                form: a rate t uniform over (0, 1), each token masked with probability t, divided by t. `draws`
//                forwards at most, since equal canvases are computed once; 1 where L is 1, which is exact.
//   chain        left to right: each token with itself and everything behind it masked. L forwards. Additive over
//                tokens, as an autoregressive model's, which it equals for a block-causal model of blocks of 1.
//   exact        continuations of one token: its probability. One forward for all of them.
//   duel         the probability that decoding with `order` at temperature 1 writes this text: the rule chooses
//                positions, the given tokens are put there (DUEL, arXiv 2603.01367). One forward per step.
//   pseudo       each token with only itself masked (arXiv 1910.14659): no probability of the whole. L forwards, or
//                `groups`: token i is masked in forward i mod groups together with its group.
//
// The continuations are the options of one question. Their draws use the same random numbers, so that chance favours
// none (common random numbers), and canvases that two share are computed once. All softmaxes are over the whole
// vocabulary at temperature 1, in double; the best tokens are those that decoding may write. A block-causal model is
// scored block by block, each given the ones before it; in monte_carlo, L is then the number of tokens in the block.
// Behind the text such a model sees masks up to the end of the block, as in generation, but nothing in duel and pseudo.
//
// Deliberately absent: beginnings and ends of a text. Whoever asks puts a beginning or an end token there (Dream's
// tables have both), and divides by a length where that is wanted.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "decode/options.h"
#include "engine/model.h"
#include "engine/model_runner.h"
#include "engine/token_score.h"

namespace llada {

enum class ScoreMethod { monte_carlo, chain, exact, duel, pseudo };

struct ScoreOptions {
  ScoreMethod method = ScoreMethod::chain;
  int64_t draws = 128;               // monte_carlo, 1..kMostDraws
  int64_t batch = 8;                 // monte_carlo: draws that are stratified together; as published
  bool mask_rates = false;           // monte_carlo
  int64_t fixed_tail = 0;            // monte_carlo: so many last tokens are seen and neither masked nor scored
  uint64_t seed = 0;                 // monte_carlo
  double cfg_scale = 0;              // > 0: classifier-free guidance, as in decode::StepPlan; duel has it in `order`
  int64_t groups = 0;                // pseudo; 0: every token alone
  int64_t top = 0;                   // chain, exact, duel: so many best tokens of each position
  decode::DecodeOptions order = {};  // duel; early_stop, gen_length and auto_length are not looked at
};
inline constexpr int64_t kMostDraws = int64_t{1} << 16;
inline constexpr int64_t kMostDrawnTokens = int64_t{1} << 24;  // draws x tokens of all continuations, for memory

struct ScoreRequest {
  std::vector<int32_t> prompt;  // may be empty
  std::vector<std::vector<int32_t>> continuations;
  ScoreOptions options = {};
};

struct ContinuationScore {
  std::vector<TokenScore> tokens;  // of the continuation, in its order
  double log_probability = 0;      // their sum, nats
  // Whether each token is the most probable one where it was scored: then greedy decoding in that order writes this
  // text. chain, exact and duel.
  std::optional<bool> greedy = {};
};

struct ScoreResult {
  std::vector<ContinuationScore> continuations;
  int64_t forwards = 0;  // that it takes alone
  int64_t rows = 0;      // in them
};

class ScoreJob : public ForwardJob {
 public:
  // Once done and not cancelled.
  virtual ScoreResult finish() = 0;
  bool cancelled() const { return cancelled_; }
  void cancel() final { cancelled_ = true; }

 private:
  bool cancelled_ = false;
};

// Validates the request; the error names the field.
Status check_score(const Model& model, const ScoreRequest& request);
// Refuses the same, and a decoding order that cannot be. An empty continuation has the score 0.
Result<std::unique_ptr<ScoreJob>> start_score(std::shared_ptr<const Model> model, const ScoreRequest& request);

std::string_view method_name(ScoreMethod method);  // mc, chain, exact, duel, pseudo
Result<ScoreMethod> parse_method(std::string_view name);

}  // namespace llada
