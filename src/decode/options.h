// What a user may ask of decoding, and which combinations make sense. Rules and sources: LLaDA's generate() (arXiv
// 2502.09992), threshold and factor from Fast-dLLM (arXiv 2505.22618), entropy from the EB-Sampler (arXiv 2505.24857),
// Dream's three from its generation code, speculation and progressive revision from the llada.cpp paper (arXiv
// 2606.13740), editing from LLaDA2.1's report. Names, ranges, text forms and help of every option: fields.h.
// Deliberately absent: the model's context limit (the engine knows it), and rules that were tried and left
// (docs/lab/rules.md).
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada::decode {

// Which predictions of a step are committed. Every rule commits at least one; ties go to the lowest position.
enum class Acceptance {
  schedule,       // a fixed number per step, so that the block is done in its share of `steps`
  threshold,      // every confidence that is `threshold` or more (above it with edit), and always the best one
  factor,         // the longest prefix, best first, whose n-th confidence is >= 1 - factor / (n + 1)
  entropy,        // the longest prefix, lowest entropy first, whose earlier entropies sum to at most entropy_bound
  llada2,         // every confidence strictly above `threshold`; where fewer than the schedule's number, that number
  dream_entropy,  // Dream's timestep schedule, lowest entropy first
  dream_margin,   // the same, largest margin between the best and the second best first
  dream_maskgit,  // the same, highest probability first ("maskgit_plus")
};

constexpr bool is_dream(Acceptance a) {
  return a == Acceptance::dream_entropy || a == Acceptance::dream_margin || a == Acceptance::dream_maskgit;
}

// What `schedule` orders by: the clean softmax probability, or a seeded random number.
enum class Remasking { low_confidence, random };

// None of the three changes the text before the first end token; they save the forwards after it.
enum class EarlyStop {
  none,    // until no mask is left
  block,   // after the block that holds an end token
  answer,  // once an end token and everything before it is final
};

// Which rows a step computes; what is not computed is read from the store (kv_policy.h).
enum class KvChoice { none, prefix, dual, block, frozen };

// Whether, and how, what was committed is looked at again (revision.h).
enum class Revision {
  none,       // a commit is final
  dual_path,  // Dual-Path Progressive Revision: visible tokens are predicted again with themselves masked
  edit,       // LLaDA2.1: another token is written over a visible one when its probability is high enough
};

// Where the checks of dual_path run: as extra rows of the step's own forward, or as its sparse plan.
enum class RevisePath { fused, separate };

// One measured point of a device's step time: a step of up to `rows` rows takes `ms`.
struct LatencyPoint {
  int64_t rows = 0;
  double ms = 0;
};

struct DecodeOptions {
  int64_t gen_length = 128;   // positions to generate, at most where auto_length; not used when infilling
  bool auto_length = false;   // the canvas is as long as the answer needs (length.h)
  int64_t block_length = 32;  // positions per block; the last block may be shorter
  bool slide = false;         // one block that begins at the first mask, wherever that is, in place of fixed ones
  int64_t steps = 0;          // forwards of the whole run, for the rules with a schedule; 0: one token per step
  Acceptance acceptance = Acceptance::schedule;
  double threshold = 0.9;      // in (0, 1]; with revision dual_path, what makes a token visible
  double factor = 1;           // > 0
  double entropy_bound = 0.1;  // nats, >= 0
  double entropy_gate = 0;     // nats, > 0: most uncertainty that an accepted token may leave on its left
  Remasking remasking = Remasking::low_confidence;
  double temperature = 0;  // Gumbel-max sampling at > 0; confidences stay those of the clean softmax
  uint64_t seed = 0;
  int64_t top_k = 0;            // > 0: only so many of the best tokens may be sampled (sampling.h)
  double top_p = 1;             // in [0, 1], < 1: only the best tokens that together have this probability
  double min_p = 0;             // in [0, 1], > 0: only tokens with this share of the best one's probability
  double repeat_penalty = 1;    // > 0: divides (where negative: multiplies) logits of tokens that are nearby already
  int64_t repeat_window = 64;   // >= 1: how many positions before and behind are nearby
  double cfg_scale = 0;         // > 0: classifier-free guidance
  bool logits_eos_inf = false;  // the end-of-sequence token is never sampled
  bool confidence_eos_eot_inf = false;  // end tokens are sampled but have confidence 0: committed last
  EarlyStop early_stop = EarlyStop::answer;

  KvChoice kv = KvChoice::none;
  int64_t tail = -1;       // positions behind the block that attention reads; -1: all
  int64_t refresh = 0;     // full forward every `refresh` forwards; 0: where the policy itself asks for one
  double evict = 0;        // > 0: so many times the tokens per forward are the masks that go on behind the first layers
  int64_t evict_rows = 8;  // >= 1: with evict, rows that go on at least
  double refresh_drift = 0;  // in (0, 2]: full forward after one whose probes drifted more; 0: do not look

  // Multi-Block Speculative Decoding (speculation.h).
  bool mbsd = false;
  int64_t mbsd_trigger = 4;     // look ahead when fewer masks than this are left in the block
  int64_t mbsd_lookahead = 32;  // positions to draft at most; with a latency table also no more than are free
  int64_t mbsd_max_rows = 0;    // rows of one step that memory allows; 0: any number
  double mbsd_threshold = 0.7;  // in [0, 1): drafts are kept, and confirmed, strictly above it
  // Ascending in rows and ms; empty: mbsd_lookahead as it is.
  std::vector<LatencyPoint> latency_table = {};
  bool device_latency = false;  // the table is to be the device's own: whoever runs the strategy fills it in

  // Revision. stable_threshold, revise_*, final_sweep: dual_path.
  Revision revision = Revision::none;
  double stable_threshold = 0.9;  // in [0, 1]: a confidence of this or more is final
  RevisePath revise_path = RevisePath::fused;
  int64_t revise_rows = 4;      // tokens checked per step
  int64_t final_sweep = 32;     // tokens checked per step once no mask is left before the end; 0: no sweep
  double edit_threshold = 0.5;  // in [0, 1]: another token above it is written over a visible one
  int64_t edit_steps = 16;      // forwards per block for edits alone
};

inline constexpr int64_t kAutoLength = 1024;  // most positions of `auto`, where no other number is given
inline constexpr int64_t kMaxGenLength = int64_t{1} << 20;
inline constexpr int64_t kMaxSteps = int64_t{1} << 30;

struct SpecialIds {
  int32_t mask = -1;
  int32_t eos = -1;                   // also fills the canonical tail; -1: none
  int32_t eot = -1;                   // end of turn; -1: none
  std::vector<int32_t> end_ids = {};  // the tokens that end an answer
  bool shift_logits = false;          // row i - 1 predicts position i, and row 0 also position 0 (Dream)
  // > 0: block-causal attention (LLaDA2): a position sees its own block of so many positions, counted from 0,
  // and all blocks before it. 0: every position sees all.
  int64_t attention_block = 0;
};

// Refuses what cannot work or would be silently ignored, with one line "KEY: ..." (invalid input; pairs.cc).
// With infill, gen_length is not looked at; make_strategy() then compares steps with the blocks of the
// canvas.
Status validate(const DecodeOptions& options, bool infill = false);

// What validate() let through and the model cannot do. For block-causal models: the K/V of a finished block
// is final and exact (kv_policy.h), so policies that live with stale K/V have no meaning, and neither have
// drafts of blocks that would read an unfinished one, nor gaps whose right-hand text the model cannot see.
Status validate_for(const DecodeOptions& options, const SpecialIds& ids, bool infill = false);

// The words of a choice, in the order of the enum, as on the command line and in reports.
using Words = std::span<const std::string_view>;
inline constexpr std::string_view kAcceptanceWords[] = {"schedule", "threshold",     "factor",       "entropy",
                                                        "llada2",   "dream-entropy", "dream-margin", "dream-maskgit"};
inline constexpr std::string_view kRemaskingWords[] = {"low_confidence", "random"};
inline constexpr std::string_view kEarlyStopWords[] = {"none", "block", "answer"};
inline constexpr std::string_view kKvWords[] = {"none", "prefix", "dual", "block", "frozen"};
inline constexpr std::string_view kRevisionWords[] = {"none", "dual-path", "edit"};
inline constexpr std::string_view kRevisePathWords[] = {"fused", "separate"};
constexpr Words words(Acceptance) { return kAcceptanceWords; }
constexpr Words words(Remasking) { return kRemaskingWords; }
constexpr Words words(EarlyStop) { return kEarlyStopWords; }
constexpr Words words(KvChoice) { return kKvWords; }
constexpr Words words(Revision) { return kRevisionWords; }
constexpr Words words(RevisePath) { return kRevisePathWords; }

template <class T>
concept Choice = requires(T value) {
  words(value);
};

template <Choice T>
std::string_view name(T value) {  // empty: a number without a name
  const auto at = static_cast<size_t>(value);
  return at < words(value).size() ? words(value)[at] : std::string_view();
}

template <Choice T>
Result<T> from_name(std::string_view text) {
  const Words all = words(T{});
  const auto found = std::ranges::find(all, text);
  if (found == all.end()) return invalid("found '{}', needed one of {}", text, fmt::join(all, ", "));
  return static_cast<T>(found - all.begin());
}

template <Choice T>
std::vector<T> all_values() {
  std::vector<T> all;
  for (size_t i = 0; i < words(T{}).size(); ++i) all.push_back(static_cast<T>(i));
  return all;
}

}  // namespace llada::decode
