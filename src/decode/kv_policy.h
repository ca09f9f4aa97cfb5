// K/V policies: which rows a step computes. Attention always reads the whole canvas; rows that are not computed are
// read from the store as an earlier step left them. Such K/V is stale where the canvas has changed since.
//
//   none     every row in every step. Exact.
//   prefix   every row at a block's start (that forward also decodes), then [block begin, end of canvas). Only rows
//            before the block may be stale. This is Fast-dLLM (arXiv 2505.22618) as its loop for LLaDA has it; its loop
//            for Dream decides only a block's first position in the full forward, whatever the threshold.
//   dual     every row at a block's start, then the block's rows. The masks behind it are stale as well (Fast-dLLM).
//   block    the same rows as dual, under the name of the baseline of arXiv 2606.13740; to be combined with
//            refresh_after.
//   frozen   every row at a block's start, then the block's masks and those of its tokens whose K/V is not frozen yet.
//            It is frozen once a forward has computed it after both the token and its right neighbour were decided
//            (FOCUS, arXiv 2601.23278).
//
// Block-causal models (LLaDA2, arXiv 2512.15745) read nothing behind the current block. The K/V of a block whose tokens
// are final is final once a forward with all of them has written it. There `none` computes every row up to the end of
// the current block. `block` begins with the first block whose K/V was computed from other tokens than it has now. Both
// are exact and give the same bits. Published loops spend a forward on a finished block's final tokens. Here these rows
// are part of the first forward of the next block, which reads the K/V that the same forward writes. The last block's
// K/V is never needed. A finished block that the last forward already saw as it is (an edit step that changed nothing)
// is not computed again. `frozen` computes the same rows as `block` at a block's start, where the block before is
// computed again as a whole. So only the block under way is read stale, and finished ones are exact. A step that reads
// ahead of the block (speculation.h) leaves keys that know too little. The block was fed a mask then, so that they are
// computed again with it before a step reads them.
//
// Additions to each policy:
//   - refresh_after computes every row once N tokens have changed since the last forward that did: changed tokens make
//     K/V stale, not forwards. N = 1 is exactly `none`; with one token per forward it is an interval of N forwards.
//   - A row whose token changed since its K/V was computed (a revised token, a draft), or that was never computed, is
//     always computed.
//   - `tail` bounds how many of the masks behind the block are read at all (as DPad does). With tail 0 the canvas seems
//     to end with the block, and "every row" means every row up to there. Behind a block that slides the bound moves on
//     with a forward that computes everything: a mask that enters it in between would cost a row of its own.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "decode/blocks.h"
#include "decode/choice.h"
#include "decode/types.h"

namespace llada::decode {

struct Field;

enum class KvChoice { none, prefix, dual, block, frozen };

inline constexpr std::string_view kKvWords[] = {"none", "prefix", "dual", "block", "frozen"};
constexpr Words words(KvChoice) { return kKvWords; }

struct CacheOptions {
  KvChoice kv = KvChoice::none;
  int64_t tail = -1;          // positions behind the block that attention reads; -1: all
  int64_t refresh_after = 0;  // changed tokens between two full forwards; 0: only where the policy asks for one
};
std::span<const Field> cache_fields();

class KvPlanner {
 public:
  KvPlanner(const CacheOptions& options, bool slide, int64_t canvas_size, int64_t attention_block = 0,
            int64_t block_origin = 0);

  // The rows of the block's next forward, ascending. feed: the token of each position that attention reads. needed:
  // rows that the plan must have, ascending. stale_elsewhere: a sparse pass recomputes stale rows before the block.
  std::vector<int32_t> rows(const Canvas& canvas, std::span<const int32_t> feed, const Block& block,
                            std::span<const int32_t> needed, bool stale_elsewhere);

  // Whole blocks from the first one that holds a token unknown to its K/V, or position `begin`, to the end of feed.
  // All behind a changed token has seen it, so nothing between is left out.
  std::vector<int32_t> block_causal_rows(std::span<const int32_t> feed, int64_t begin) const;

  // Positions before `end` that were computed from another token than `feed` has, ascending.
  std::vector<int32_t> stale(std::span<const int32_t> feed, int64_t end) const;

  // The longest prefix of `feed` whose positions all have K/V, of whatever token.
  int32_t covered(std::span<const int32_t> feed) const;

  // Whether the next forward of the block computes every row, where attention is full.
  bool full_is_next(std::span<const int32_t> tokens, const Block& block) const;
  int32_t full_keys() const { return full_keys_; }  // StepPlan::keys of the last such forward

  // As in Strategy.
  void stored(std::span<const int32_t> tokens);
  int64_t exact_prefix(const Canvas& canvas) const;

  // Notes that the next forward runs this plan, on a canvas with these tokens.
  void planned(const StepPlan& plan, std::span<const int32_t> tokens);
  // Notes that a sparse pass has stored the K/V of these rows, computed from these tokens.
  void landed(std::span<const int32_t> rows, std::span<const int32_t> inputs);

 private:
  int64_t whole_blocks(int64_t position) const;  // where the block of a position begins
  std::vector<int32_t> not_frozen(int32_t begin, const Block& block) const;
  std::vector<int32_t> chosen_rows(const Canvas& canvas, std::span<const int32_t> feed, const Block& block,
                                   std::span<const int32_t> needed, bool stale_elsewhere);

  const KvChoice choice_;
  const int64_t refresh_after_;
  const int64_t attention_block_;  // 0: full attention
  const int64_t block_origin_;     // the origin of its blocks; positions before it are one shorter block
  std::vector<int32_t> fed_;       // token that a position's stored K/V was computed from; -1: none
  int64_t block_begin_ = -1;       // of the block that the last rows() was for
  std::vector<int32_t> full_;      // the canvas at the last forward that computed every row; empty: there was none
  int32_t full_keys_ = 0;
  int64_t stale_from_ = INT64_MAX;  // of a block-causal model: K/V from here on is not exact
  std::vector<bool> frozen_;        // by position, for the policy frozen
  const bool slide_;                // a block begins in every forward, so the run's start stands for its start
};

}  // namespace llada::decode
