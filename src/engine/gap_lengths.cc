#include "engine/gap_lengths.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace llada {

std::vector<int64_t> gap_ladder(int64_t most) {
  std::vector<int64_t> rungs;
  for (int64_t two = 1; two < most; two *= 2) {
    rungs.push_back(two);
    if (two >= 2 && two / 2 * 3 < most) rungs.push_back(two / 2 * 3);
  }
  rungs.push_back(most);
  return rungs;
}

std::vector<InfillGap> laid_gaps(std::vector<InfillGap> gaps, std::span<const int64_t> lengths) {
  int64_t shorter = 0;
  size_t next = 0;
  for (InfillGap& gap : gaps) {
    gap.position -= shorter;
    if (!gap.automatic) continue;
    shorter += gap.length - lengths[next];
    gap.length = lengths[next++];
  }
  return gaps;
}

std::vector<int32_t> kept_positions(size_t positions, std::span<const InfillGap> gaps,
                                    std::span<const int64_t> lengths) {
  std::vector<int32_t> kept(positions);
  std::iota(kept.begin(), kept.end(), 0);
  for (size_t i = gaps.size(); i-- > 0;) {
    const auto begin = kept.begin() + gaps[i].position;
    kept.erase(begin + lengths[i], begin + gaps[i].length);
  }
  return kept;
}

GapChoice::GapChoice(std::vector<int32_t> tokens, std::span<const int32_t> positions, std::vector<InfillGap> automatic,
                     int32_t mask)
    : tokens_(std::move(tokens)), open_(tokens_.size()), automatic_(std::move(automatic)) {
  LLADA_CHECK(!automatic_.empty());
  for (const int32_t position : positions) {
    open_[static_cast<size_t>(position)] = true;
    tokens_[static_cast<size_t>(position)] = mask;
  }
  ladder_ = gap_ladder(automatic_.front().length);
}

int64_t GapChoice::length_of(size_t gap) const {
  if (gap < gap_) return chosen_[gap];
  return gap == gap_ ? ladder_[rung_] : std::min(automatic_[gap].length, kWaitingGap);
}

GapChoice::Text GapChoice::candidate() const {
  std::vector<int64_t> lengths;
  for (size_t gap = 0; gap < automatic_.size(); ++gap) lengths.push_back(length_of(gap));
  Text text;
  for (const int32_t position : kept_positions(tokens_.size(), automatic_, lengths)) {
    if (open_[static_cast<size_t>(position)]) text.gaps.push_back(static_cast<int32_t>(text.tokens.size()));
    text.tokens.push_back(tokens_[static_cast<size_t>(position)]);
  }
  return text;
}

std::vector<int32_t> GapChoice::asked() const {
  int64_t begin = automatic_[gap_].position;
  for (size_t gap = 0; gap < gap_; ++gap) begin -= automatic_[gap].length - chosen_[gap];
  std::vector<int32_t> positions(static_cast<size_t>(ladder_[rung_]));
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(begin));
  return positions;
}

void GapChoice::take(std::span<const double> probabilities) {
  double sum = 0;
  for (const double probability : probabilities) sum += std::log(probability);
  const double mean = sum / static_cast<double>(probabilities.size());
  if (rung_ == 0 || mean > best_) best_ = mean, best_length_ = ladder_[rung_];
  if (++rung_ < ladder_.size()) return;
  chosen_.push_back(best_length_);
  rung_ = 0;
  if (++gap_ < automatic_.size()) ladder_ = gap_ladder(automatic_[gap_].length);
}

std::vector<int64_t> GapChoice::lengths() const {
  if (done()) return chosen_;
  std::vector<int64_t> longest;
  for (const InfillGap& gap : automatic_) longest.push_back(gap.length);
  return longest;
}

}  // namespace llada
