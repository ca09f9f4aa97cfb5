// K/V policies: the rows a step computes. Attention always reads the whole canvas; rows that are not computed
// are read from the store as an earlier step left them.
//
// - none: every row, every step. Exact.
// - prefix: every row at a block's start (that forward also decodes), then [block begin, end of canvas): only
//   what is before the block may be stale (Fast-dLLM, arXiv 2505.22618).
// - dual: every row at a block's start, then the block's rows: the masks behind it are stale as well (same).
// - block: dual's rows, as the baseline of the llada.cpp paper (arXiv 2606.13740) names them; to be
//   combined with a refresh interval.
//
// A refresh interval of N makes every N-th forward of a block compute every row; N = 1 is `none`, exactly.
// Deliberately absent: the store itself (devices), and policies that look at attention or at what changed.
#pragma once
#include <cstdint>
#include <vector>

#include "decode/blocks.h"
#include "decode/options.h"

namespace llada::decode {

struct KvStep {
  int64_t canvas_size = 0;
  Block block;
  int64_t step = 0;  // forwards of this block before this one
};

// Whether this forward computes every row.
bool is_full_forward(KvChoice choice, int64_t refresh, const KvStep& step);

// Rows to compute, ascending; always the whole current block.
std::vector<int32_t> kv_rows(KvChoice choice, int64_t refresh, const KvStep& step);

}  // namespace llada::decode
