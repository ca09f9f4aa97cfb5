// K/V policies: the rows a step computes. Attention always reads the whole canvas; rows that are not computed
// are read from the store as an earlier step left them.
//
// - none: every row, every step. Exact.
// - prefix: every row at a block's start (that forward also decodes), then [block begin, end of canvas): only
//   what is before the block may be stale (Fast-dLLM, arXiv 2505.22618).
// - suffix: every row at a block's start, then [0, block end): only the masks behind the block may be stale.
// The
//   mirror image of prefix, for models whose prompt must follow what is decided (a small model that sorts a
//   list marks in the prompt what it has used): masks have little to say that could become stale.
// - dual: every row at a block's start, then the block's rows: the masks behind it are stale as well (same).
// - block: dual's rows, as the baseline of the llada.cpp paper (arXiv 2606.13740) names them; to be
//   combined with a refresh interval.
// - delayed: every row at the run's start, then the rows whose predictions are wanted and those whose token
//   has changed since their K/V was computed: a token's K/V is stored one step after it commits, and then no
//   more (dKV-Cache-Decode, arXiv 2505.15781, with its window of masks being the current block). The fewest
//   rows of all; what was computed early stays as the early canvas made it.
//
// Block-causal models (LLaDA2, arXiv 2512.15745) read nothing behind the current block, and the K/V of a block
// whose tokens are final is final once a forward with all of them has written it. There `none` computes every row
// up to the end of the current block, and `block` every row from the first block on whose tokens are not the ones
// that its K/V was computed from: exact by construction, so both give the same bits. Published loops spend a
// forward of its own on a finished block's final tokens; here they ride in the first forward of the next block,
// whose rows read the K/V that this forward writes (and nobody needs the last block's). A finished block that
// the last forward already saw as it is (an edit step that changed nothing) is not computed again.
//
// On top of each: a warm-up of N makes the first N forwards of a block full (of the run, for delayed), as
// most changes early; a refresh interval of N computes every row in each N-th forward (N = 1 is `none`,
// exactly), and drift refresh computes every row after a forward whose probes moved more than a limit. A row
// whose token changed since its K/V was computed (a revised token, a draft), or that was never computed, is
// always among the rows.
//
// Independent of the policy, `tail` bounds how many of the masks behind the block are read at all (DPad and
// others drop far masks): with tail 0 the canvas seems to end with the block. Then "every row" is every row
// up to there.
//
// Drift is measured as Elastic-Cache (arXiv 2510.14973) has it in mind, but cheaper and on other evidence: it
// follows the attention of the most attended token, which our devices do not report. Here the probes are the
// four positions before the block whose tokens have not changed; they are computed again with the block's
// rows, and what counts is the smallest cosine between their old and new value vectors. Uncertain: whether
// neighbours stand for the whole prompt (they attend most to what changes, so they should move first), and
// which limit a model needs.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "decode/blocks.h"
#include "decode/options.h"
#include "decode/types.h"

namespace llada::decode {

inline constexpr size_t kDriftProbes = 4;

class KvPlanner {
 public:
  KvPlanner(const DecodeOptions& options, int64_t canvas_size, int64_t attention_block = 0);

  // The next forward of a block: rows, ascending. `feed` is what each position that attention reads would be
  // fed, `needed` (ascending) are rows that the plan cannot do without. Rows before the block that are stale
  // are left to another path when `stale_elsewhere` holds.
  std::vector<int32_t> rows(std::span<const int32_t> feed, const Block& block,
                            std::span<const int32_t> needed, bool stale_elsewhere);
  // A forward that decides no mask: everything where the policy is due, otherwise what is stale.
  std::vector<int32_t> sweep_rows(std::span<const int32_t> feed) const;

  // Positions before `end` that were computed from another token than `feed` has, ascending.
  std::vector<int32_t> stale(std::span<const int32_t> feed, int64_t end) const;

  // Whether all of feed's positions have been computed from something.
  bool covers(std::span<const int32_t> feed) const;

  // For drift refresh, once rows are chosen: adds the probes to `rows` and returns them; none for a full
  // forward or without drift refresh.
  std::vector<int32_t> add_probes(std::span<const int32_t> feed, const Block& block,
                                  std::vector<int32_t>& rows) const;

  void planned(const StepPlan& plan);  // this is what the forward will be fed
  void drifted(double drift);          // this is how far its probes had moved

 private:
  bool full_is_due() const;
  std::vector<int32_t> block_causal_rows(std::span<const int32_t> feed, int64_t begin) const;

  const KvChoice choice_;
  const int64_t refresh_, warmup_;
  const double drift_limit_;
  const int64_t attention_block_;  // 0: full attention
  std::vector<int32_t> fed_;  // token that a position's stored K/V was computed from; -1: none
  int64_t block_begin_ = -1;  // of the block that the last rows() was for
  int64_t full_left_ = 0;     // full forwards that the block has still to make for its warm-up
  int64_t partial_ = -1;      // forwards since the last full one; -1: there was none
  bool drifted_ = false;
};

}  // namespace llada::decode
