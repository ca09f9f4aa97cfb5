#include "decode/blocks.h"

#include <algorithm>

#include "base/check.h"

namespace llada::decode {

bool has_masks(const Canvas& canvas, const Block& block) {
  const auto end = canvas.states.begin() + block.end;
  return std::find(canvas.states.begin() + block.begin, end, TokenState::masked) != end;
}

std::vector<int32_t> positions_in(const Canvas& canvas, const Block& block, TokenState state) {
  std::vector<int32_t> positions;
  for (int32_t p = block.begin; p < block.end; ++p)
    if (canvas.states[static_cast<size_t>(p)] == state) positions.push_back(p);
  return positions;
}

std::vector<Block> tile_blocks(const Canvas& canvas, int64_t from, int64_t length) {
  LLADA_CHECK(from >= 0 && length >= 1);
  int64_t last = canvas.size();
  while (last > from && canvas.states[static_cast<size_t>(last - 1)] != TokenState::masked) --last;
  std::vector<Block> blocks;
  for (int64_t begin = from; begin < last;) {
    const int64_t end = begin + std::min(length, last - begin);
    const int64_t masks = std::count(canvas.states.begin() + begin, canvas.states.begin() + end, TokenState::masked);
    if (masks > 0) blocks.push_back({static_cast<int32_t>(begin), static_cast<int32_t>(end), masks});
    begin = end;
  }
  return blocks;
}

std::vector<int64_t> share_steps(std::span<const Block> blocks, int64_t steps, bool beyond_masks) {
  const auto count = static_cast<int64_t>(blocks.size());
  LLADA_CHECK(steps >= count);
  int64_t masks = 0;
  for (const Block& block : blocks) masks += block.masks;
  // Both factors below stay under 2^31: masks are positions, and options bound the steps.
  const int64_t extra_steps = (beyond_masks ? steps : std::min(steps, masks)) - count;
  const int64_t extra_masks = masks - count;
  std::vector<int64_t> shares;
  int64_t seen = 0, given = 0;
  for (const Block& block : blocks) {
    seen += block.masks - 1;
    const int64_t due = extra_masks > 0 ? extra_steps * seen / extra_masks : 0;
    shares.push_back(1 + due - given);
    given = due;
  }
  return shares;
}

std::vector<int64_t> even_steps(int64_t blocks, int64_t steps, int64_t length) {
  std::vector<int64_t> shares(static_cast<size_t>(blocks), length);
  if (steps == 0) return shares;
  LLADA_CHECK(steps >= blocks);
  for (int64_t i = 0; i < blocks; ++i) shares[static_cast<size_t>(i)] = steps * (i + 1) / blocks - steps * i / blocks;
  return shares;
}

}  // namespace llada::decode
