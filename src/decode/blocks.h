// The window of a semi-autoregressive run: blocks that are finished left to right, and the transfer schedule
// inside them.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "decode/types.h"

namespace llada::decode {

struct Block {
  int32_t begin = 0, end = 0;  // positions [begin, end)
  int64_t masks = 0;           // when the run starts
};

bool has_masks(const Canvas& canvas, const Block& block);
// The block's positions in that state, ascending.
std::vector<int32_t> positions_in(const Canvas& canvas, const Block& block, TokenState state);

// Spans of `length` positions, from position `from` to the last mask. Spans without a mask are left out; the last span
// ends behind the last mask, so it may be shorter. With from = generated_begin() these are LLaDA's blocks; models whose
// attention is tiled from position 0 pass from = 0.
std::vector<Block> tile_blocks(const Canvas& canvas, int64_t from, int64_t length);

// Shares `steps` over the blocks, which must not be more than there are steps. Each block gets one; the others are
// shared by the number of masks beyond a block's first (floors of the running sum). The shares sum to min(steps, all
// masks) and lie in [1, masks]. Where blocks are of equal size and divide the steps, as LLaDA's reference asks, each
// share is steps / blocks. beyond_masks: for a schedule that reads more steps than there are masks (Dream's), which
// gets them all.
std::vector<int64_t> share_steps(std::span<const Block> blocks, int64_t steps, bool beyond_masks = false);

// LLaDA2's shares: the same number for every block, whatever its masks, since its schedule divides the block's length.
// Where the steps do not divide, floors of the running sum. 0 steps: as many as the block is long; otherwise there must
// be at least as many steps as blocks.
std::vector<int64_t> even_steps(int64_t blocks, int64_t steps, int64_t length);

// How many masks step `step` (from 0) of a block commits: as even as possible, the first steps take the
// remainder.
inline int64_t transfer_count(int64_t masks, int64_t steps, int64_t step) {
  return masks / steps + (step < masks % steps ? 1 : 0);
}

}  // namespace llada::decode
