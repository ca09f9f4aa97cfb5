// Multi-Block Speculative Decoding (llada.cpp paper, arXiv 2606.13740): when few masks are left in the current block,
// the step also predicts positions of the blocks behind it. These predictions are drafts: they never enter the canvas.
// When their block becomes current, its first forward predicts the positions afresh from masks. A draft that comes out
// as the same token with enough confidence is committed, beside the acceptance rule's own choice. So two forwards have
// agreed on it, from different surroundings, which is why less confidence suffices than for a token that is new. The
// entropy gate holds for it as for any other: both forwards may be sure of a token one place too far to the right. All
// other drafts are dropped then; blocks still complete left to right.
//
// A draft is kept when its confidence is strictly above mbsd_threshold. Drafts leave every input as it was (the
// paper's separation), and each look ahead renews them.
//
// Block-causal models (multi-block decoding of MBD-LMs and Diffulex): there a draft is text at once. The rows of the
// blocks ahead ride along, whole blocks, as attention inside of one needs them. They see the block as it is, with its
// masks. A token is written that is predicted there above mbsd_threshold and no less sure than the rule's threshold,
// where the entropy gate lets it through. So its block begins with it. With revision it is visible whatever its
// probability, and is predicted again when the text before it is known. Without, it is final. A block that is all
// drafts costs no forward of its own. Its K/V is computed with the next one's, as KvPlanner computes all rows from the
// first changed token's block on.
//
// A step looks kMostDrafts masked positions ahead, left to right. With a latency table it takes no more than fit into
// the device's latency bucket that the step is in anyway. In a table of one point, N:1, that bucket holds up to N rows.
// Rows that are computed in any case cost nothing. No position behind a decided end token is drafted.
#pragma once
#include <map>
#include <span>
#include <vector>

#include "decode/acceptance.h"
#include "decode/blocks.h"
#include "decode/types.h"

namespace llada::decode {

struct Field;

// One measured point of a device's step time: a step of up to `rows` rows takes `ms`.
struct LatencyPoint {
  int64_t rows = 0;
  double ms = 0;
};

struct SpeculationOptions {
  bool mbsd = false;
  int64_t mbsd_trigger = 4;     // look ahead when fewer masks than this are left in the block
  double mbsd_threshold = 0.7;  // in [0, 1): drafts are kept, and confirmed, strictly above it
  // Ascending in rows and ms; empty: a row costs nothing.
  std::vector<LatencyPoint> latency_table = {};
  bool device_latency = false;  // the table is to be the device's own: whoever runs the strategy fills it in
};
std::span<const Field> speculation_fields();

// Positions that one step drafts at most: the block of all published models. Those further behind have a block of
// undecided masks before them, and every look ahead renews its drafts.
inline constexpr int64_t kMostDrafts = 32;

// The share by which a step may get slower for its drafts: times so near to each other are one bucket of the device.
inline constexpr double kLatencySlack = 0.02;

// The most rows a step may have that takes at most (1 + slack) times as long as one of `rows`. A step takes as long as
// the first point of the table with at least its rows. `rows` itself beyond the table's end.
int64_t free_rows(std::span<const LatencyPoint> table, double slack, int64_t rows);

class Speculation {
 public:
  Speculation(const SpeculationOptions& options, const SpecialIds& ids);

  // Positions before `keys` to draft in a step of `block` with `masks` masks left, ascending. `computed` are
  // the rows of the step so far; a position's row is the one before it for models with shifted logits.
  std::vector<int32_t> lookahead(const Canvas& canvas, const Block& block, int64_t keys, int64_t masks,
                                 std::span<const int32_t> computed) const;

  // For block-causal models: how many keys a step of the block reads with the blocks ahead, where it reads `keys` and
  // computes `rows` without. They are kMostDrafts positions and one block at least, or fewer by the latency table.
  int32_t reach(const Canvas& canvas, const Block& block, int32_t keys, int64_t rows) const;

  // Whether a prediction of the look ahead is sure enough for a draft.
  bool keeps(const Candidate& c);

  // Takes a prediction of the look ahead.
  void propose(const Candidate& c);

  // Indices of the candidates whose draft is confirmed, ascending; the drafts of all candidates are dropped.
  std::vector<size_t> confirm(std::span<const Candidate> candidates);

  // Counts confirmed drafts that were committed; the entropy gate may hold others back.
  void accept(int64_t drafts) { accepted_ += drafts; }

  int64_t proposed() const { return proposed_; }
  int64_t accepted() const { return accepted_; }

 private:
  bool looks_ahead(const Canvas& canvas, const Block& block, int64_t masks) const;

  const SpeculationOptions options_;
  const SpecialIds ids_;
  std::map<int32_t, int32_t> drafts_;  // position -> token
  int64_t proposed_ = 0, accepted_ = 0;
};

}  // namespace llada::decode
