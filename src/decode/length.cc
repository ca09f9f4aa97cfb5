#include "decode/length.h"

#include <algorithm>
#include <numeric>

namespace llada::decode {
namespace {

constexpr int64_t kFirstBlocks = 2;

}  // namespace

Length::Length(const DecodeOptions& options, const SpecialIds& ids, int64_t begin, int64_t size)
    : block_length_(options.block_length),
      size_(size),
      end_ids_(ids.end_ids),
      horizon_(std::min(size, begin + kFirstBlocks * options.block_length)) {}

void Length::enter(const Block& block) {
  if (block.begin == block_) return;
  // No end so far: there is at least one more block than this one.
  if (block_ >= 0) horizon_ = std::max(horizon_, block.end + block_length_);
  block_ = block.begin;
  horizon_ = std::min(size_, std::max<int64_t>(horizon_, block.end));
}

std::vector<int32_t> Length::last_positions(const Block& block) const {
  const auto begin = static_cast<int32_t>(std::max<int64_t>(block.end, horizon_ - block_length_));
  std::vector<int32_t> positions(static_cast<size_t>(std::max<int64_t>(horizon_ - begin, 0)));
  std::iota(positions.begin(), positions.end(), begin);
  return positions;
}

double Length::end_probability(const Prediction& p) const {
  const auto ends = [&](int32_t token) { return std::ranges::find(end_ids_, token) != end_ids_.end(); };
  if (ends(p.token)) return p.probability;
  return ends(p.runner_up) ? p.probability - p.margin : 0;
}

void Length::answered(const Block& block, std::span<const Prediction> predictions) {
  if (predictions.empty()) return;
  double sum = 0;
  for (const Prediction& p : predictions) sum += end_probability(p);
  const double mean = sum / static_cast<double>(predictions.size());
  if (mean < kGrow) horizon_ = std::min(size_, horizon_ + block_length_);
  if (mean > kShrink) horizon_ = std::max<int64_t>(block.end, horizon_ - block_length_);
}

}  // namespace llada::decode
