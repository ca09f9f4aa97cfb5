#include "decode/kv_policy.h"

#include <algorithm>
#include <utility>

#include "decode/field_entry.h"
#include "decode/row_sets.h"

namespace llada::decode {
std::span<const Field> cache_fields() {
  using O = CacheOptions;
  using enum FieldGroup;
  // clang-format off
  static const Field kFields[] = {
    field<&O::kv>(caches, "kv", "POLICY", "rows whose K/V is reused instead of recomputed")
        .tuned("none prefix dual frozen").often(),
    field<&O::tail>(caches, "tail", "N", "masks behind the block that attention reads").in({0, kMaxGenLength}).or_all()
        .tuned("all 64 32 16 8"),
    field<&O::refresh_after>(caches, "refresh_after", "N",
        "recompute everything once N tokens have changed; 0: as the policy says").in({0, kMaxGenLength})
        .tuned("0 64 32 16 8"),
  };
  // clang-format on
  return kFields;
}

KvPlanner::KvPlanner(const CacheOptions& options, bool slide, int64_t canvas_size, int64_t attention_block,
                     int64_t block_origin)
    : choice_(options.kv),
      refresh_after_(options.refresh_after),
      attention_block_(attention_block),
      block_origin_(block_origin),
      fed_(static_cast<size_t>(canvas_size), -1),
      frozen_(static_cast<size_t>(canvas_size), false),
      slide_(slide) {}

int64_t KvPlanner::whole_blocks(int64_t position) const {
  return position < block_origin_ ? 0 : position - (position - block_origin_) % attention_block_;
}

bool KvPlanner::full_is_next(std::span<const int32_t> tokens, const Block& block) const {
  const bool starts = slide_ ? block_begin_ < 0 : block_begin_ != block.begin;
  if (starts || choice_ == KvChoice::none || full_.empty()) return true;
  if (refresh_after_ == 0) return false;
  int64_t changed = 0;
  for (size_t i = 0; i < full_.size(); ++i) changed += full_[i] != tokens[i];
  return changed >= refresh_after_;
}

std::vector<int32_t> KvPlanner::block_causal_rows(std::span<const int32_t> feed, int64_t begin) const {
  int64_t from = 0;
  while (choice_ != KvChoice::none && from < std::min(begin, stale_from_) &&
         fed_[static_cast<size_t>(from)] == feed[static_cast<size_t>(from)])
    ++from;
  return range(whole_blocks(from), static_cast<int64_t>(feed.size()));
}

std::vector<int32_t> KvPlanner::rows(const Canvas& canvas, std::span<const int32_t> feed, const Block& block,
                                     std::span<const int32_t> needed, bool stale_elsewhere) {
  std::vector<int32_t> rows = chosen_rows(canvas, feed, block, needed, stale_elsewhere);
  if (choice_ != KvChoice::frozen) return rows;
  for (const int32_t row : rows) {
    const auto i = static_cast<size_t>(row);
    const bool last = (row + 1 == block.end && !slide_) || i + 1 == feed.size();
    frozen_[i] = !canvas.is_undecided(row) && (last || !canvas.is_undecided(row + 1));
  }
  return rows;
}

// With `frozen`, the rows of the block that are not frozen.
std::vector<int32_t> KvPlanner::not_frozen(int32_t begin, const Block& block) const {
  std::vector<int32_t> rows;
  for (int32_t p = begin; p < block.end; ++p)
    if (!frozen_[static_cast<size_t>(p)]) rows.push_back(p);
  return rows;
}

std::vector<int32_t> KvPlanner::chosen_rows(const Canvas& canvas, std::span<const int32_t> feed, const Block& block,
                                            std::span<const int32_t> needed, bool stale_elsewhere) {
  const bool full = attention_block_ == 0 && full_is_next(canvas.tokens, block);
  const int64_t before = std::exchange(block_begin_, block.begin);
  const auto size = static_cast<int64_t>(feed.size());
  if (attention_block_ > 0) {
    if (choice_ != KvChoice::frozen || before != block.begin) {
      auto rows = merged(needed, block_causal_rows(feed, block.begin));
      stale_from_ = INT64_MAX;
      return rows;
    }
    stale_from_ = block.begin;
    return merged(merged(needed, stale(feed, size)), not_frozen(block.begin, block));
  }
  if (full) return range(0, size);
  std::vector<int32_t> rows = merged(needed, stale(feed, size));
  if (stale_elsewhere) {
    std::erase_if(rows, [&](int32_t row) {
      const int32_t fed = fed_[static_cast<size_t>(row)];
      return row < block.begin && fed >= 0 && fed != canvas.mask_id && !std::ranges::binary_search(needed, row);
    });
  }
  if (choice_ == KvChoice::frozen) return merged(rows, not_frozen(slide_ ? 0 : block.begin, block));
  return merged(rows, range(block.begin, choice_ == KvChoice::prefix ? size : block.end));
}

std::vector<int32_t> KvPlanner::stale(std::span<const int32_t> feed, int64_t end) const {
  std::vector<int32_t> out;
  for (int64_t p = 0; p < end; ++p) {
    const auto i = static_cast<size_t>(p);
    if (fed_[i] != feed[i]) out.push_back(static_cast<int32_t>(p));
  }
  return out;
}

void KvPlanner::stored(std::span<const int32_t> tokens) {
  std::ranges::copy(tokens, fed_.begin());
  std::fill_n(frozen_.begin(), std::ssize(tokens), true);
}

// Everything from the first changed token's block on is computed again with it (block_causal_rows). So where all tokens
// up to the end of a block are those that were fed, its K/V has seen them all.
int64_t KvPlanner::exact_prefix(const Canvas& canvas) const {
  if (attention_block_ == 0 || (choice_ != KvChoice::block && choice_ != KvChoice::frozen)) return 0;
  int64_t end = 0;
  for (size_t i = 0; i < fed_.size() && end < stale_from_; ++i, ++end) {
    const TokenState state = canvas.states[i];
    if (fed_[i] != canvas.tokens[i] || (state != TokenState::fixed && state != TokenState::stable)) break;
  }
  return whole_blocks(end);
}

int32_t KvPlanner::covered(std::span<const int32_t> feed) const {
  const auto fed = std::span(fed_).first(feed.size());
  return static_cast<int32_t>(std::ranges::find(fed, -1) - fed.begin());
}

void KvPlanner::planned(const StepPlan& plan, std::span<const int32_t> tokens) {
  for (size_t i = 0; i < plan.rows.size(); ++i) fed_[static_cast<size_t>(plan.rows[i])] = plan.inputs[i];
  if (plan.rows.size() != static_cast<size_t>(plan.keys)) return;
  full_.assign(tokens.begin(), tokens.end());
  full_keys_ = plan.keys;
}

void KvPlanner::landed(std::span<const int32_t> rows, std::span<const int32_t> inputs) {
  for (size_t i = 0; i < rows.size(); ++i) fed_[static_cast<size_t>(rows[i])] = inputs[i];
}

}  // namespace llada::decode
