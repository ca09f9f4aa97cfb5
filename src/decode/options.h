// What a user may ask of decoding, and which combinations make sense. Rules and sources: LLaDA's generate()
// (arXiv 2502.09992), threshold and factor from Fast-dLLM (arXiv 2505.22618), entropy from the EB-Sampler
// (arXiv 2505.24857). Deliberately absent: the model's context limit (the engine knows it) and text forms of
// command line flags.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada::decode {

// Which predictions of a step are committed. Every rule commits at least one; ties go to the lowest position.
enum class Acceptance {
  schedule,   // a fixed number per step, so that the block is done in its share of `steps`
  threshold,  // every confidence strictly above `threshold`, and always the best one
  factor,     // the longest prefix, best first, whose n-th confidence is >= 1 - factor / (n + 1)
  entropy,  // the longest prefix, lowest entropy first, whose earlier entropies sum to at most entropy_bound
};

// What `schedule` orders by: the clean softmax probability, or a seeded random number.
enum class Remasking { low_confidence, random };

// None of the three changes the text before the first end token; they save the forwards after it.
enum class EarlyStop {
  none,    // until no mask is left
  block,   // after the block that holds an end token
  answer,  // once an end token and everything before it is final
};

// Which rows a step computes; what is not computed is read from the store (kv_policy.h).
enum class KvChoice { none, prefix, dual, block };

struct DecodeOptions {
  int64_t gen_length = 128;   // positions to generate; not used when infilling
  int64_t block_length = 32;  // positions per block; the last block may be shorter
  int64_t steps = 0;          // forwards of the whole run, only for `schedule`; 0: one token per step
  Acceptance acceptance = Acceptance::schedule;
  double threshold = 0.9;      // in (0, 1]
  double factor = 1;           // > 0
  double entropy_bound = 0.1;  // nats, >= 0
  Remasking remasking = Remasking::low_confidence;
  double temperature = 0;  // Gumbel-max sampling at > 0; confidences stay those of the clean softmax
  uint64_t seed = 0;
  double cfg_scale = 0;                 // > 0: classifier-free guidance
  bool logits_eos_inf = false;          // the end-of-sequence token is never sampled
  bool confidence_eos_eot_inf = false;  // end tokens are sampled but have confidence 0: committed last
  EarlyStop early_stop = EarlyStop::answer;
  KvChoice kv = KvChoice::none;
  int64_t refresh =
      0;  // full forward every `refresh` steps of a block; 0: at its start only. Not with kv none
};

inline constexpr int64_t kMaxGenLength = int64_t{1} << 20;
inline constexpr int64_t kMaxSteps = int64_t{1} << 30;

struct SpecialIds {
  int32_t mask = -1;
  int32_t eos = -1;                   // also fills the canonical tail; -1: none
  int32_t eot = -1;                   // end of turn; -1: none
  std::vector<int32_t> end_ids = {};  // the tokens that end an answer
};

// Refuses what cannot work or would be silently ignored, with one line that names the option (invalid input).
// With infill, gen_length is not looked at; make_strategy() then compares steps with the blocks of the
// canvas.
Status validate(const DecodeOptions& options, bool infill = false);

// Names as they are written on the command line and in reports.
std::string_view name(Acceptance value);
std::string_view name(Remasking value);
std::string_view name(EarlyStop value);
std::string_view name(KvChoice value);
Result<Acceptance> acceptance_from_name(std::string_view text);
Result<Remasking> remasking_from_name(std::string_view text);
Result<EarlyStop> early_stop_from_name(std::string_view text);
Result<KvChoice> kv_from_name(std::string_view text);

}  // namespace llada::decode
