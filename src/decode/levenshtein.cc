#include "decode/levenshtein.h"

#include <algorithm>

#include "base/check.h"
#include "decode/options.h"

namespace llada::decode {
namespace {

constexpr int32_t kAlternatives = 3;  // one of so many is no edit

std::vector<int32_t> tokens_of(const Canvas& canvas, const Block& block) {
  return {canvas.tokens.begin() + block.begin, canvas.tokens.begin() + block.end};
}

}  // namespace

LevenshteinEditing::LevenshteinEditing(const DecodeOptions& options, const SpecialIds& ids)
    : ids_(ids), threshold_(options.edit_threshold), block_length_(options.block_length), most_(options.edit_steps) {}

void LevenshteinEditing::enter(const Block&) {
  original_.clear(), confidence_.clear(), states_.clear(), tried_.clear();
  steps_ = post_ = 0;
  finished_ = false;
}

Checks LevenshteinEditing::checks(const Canvas& canvas, const Block& block) {
  return {.trials = {}, .in_place = positions_in(canvas, block, TokenState::visible)};
}

int32_t LevenshteinEditing::ranked(const Canvas& canvas, const Block& block) const {
  size_t most = 0;
  if (states_.contains(tokens_of(canvas, block)))
    for (const auto& [position, tokens] : tried_) most = std::max(most, tokens.size());
  return std::max(kAlternatives, static_cast<int32_t>(most) + 1);
}

void LevenshteinEditing::answered(const Canvas& canvas, const Block& block, const StepResult& result) {
  predictions_ = result.predictions, ranked_ = result.ranked;
  int64_t masks = 0, originals = 0;
  if (original_.empty())
    for (int32_t p = block.begin; p < block.end; ++p) original_.push_back(canvas.is_undecided(p));
  confidence_.resize(original_.size());
  for (int32_t p = block.begin; p < block.end; ++p) {
    masks += canvas.is_undecided(p);
    originals += canvas.is_undecided(p) && began_masked(block, p);
  }
  ++steps_;
  post_ += originals == 0;
  last_ = (most_ > 0 ? post_ >= most_ : originals == 0) || steps_ > block_length_ + most_;
  least_ = last_ || originals == 0 ? masks : 1 + masks - originals;
}

// The best token at a position that is not refused; -1: none of those that are known.
int32_t LevenshteinEditing::best_of(int32_t position, const auto& refuses) const {
  const int32_t row = ids_.row_of(position);
  const auto found = std::ranges::lower_bound(predictions_, row, {}, &Prediction::position);
  LLADA_CHECK(found != predictions_.end() && found->position == row);
  const size_t each = ranked_.size() / predictions_.size();
  const auto of_row = std::span(ranked_).subspan(static_cast<size_t>(found - predictions_.begin()) * each, each);
  const auto best = std::ranges::find_if(of_row, [&](int32_t token) { return token >= 0 && !refuses(token); });
  return best == of_row.end() ? -1 : *best;
}

void LevenshteinEditing::break_cycle(const Canvas& canvas, std::vector<Edit>& written) {
  Edit* least = nullptr;
  for (Edit& edit : written) {
    const bool changes = edit.token != canvas.tokens[static_cast<size_t>(edit.position)];
    if (changes && (least == nullptr || edit.confidence < least->confidence)) least = &edit;
  }
  if (least == nullptr) return;
  const std::set<int32_t>& tried = tried_[least->position];
  const int32_t other = best_of(least->position, [&](int32_t token) { return tried.contains(token); });
  if (other >= 0) least->token = other;
}

void LevenshteinEditing::merge(const Canvas& canvas, const Block& block, std::span<const Prediction> seen, bool,
                               std::vector<Edit>& edits) {
  std::vector<Edit> written = std::move(edits);
  edits.clear();
  // Without steps that only edit, the one that decides the last mask which the block began with is its last.
  const auto decided = [&](int32_t p) { return std::ranges::count(written, p, &Edit::position) > 0; };
  const std::vector<int32_t> masks = positions_in(canvas, block, TokenState::masked);
  if (most_ == 0 && !last_ &&
      std::ranges::all_of(masks, [&](int32_t p) { return !began_masked(block, p) || decided(p); })) {
    last_ = true;
    for (const Prediction& p : predictions_) {
      const auto position = static_cast<int32_t>(ids_.predicted_by(p.position));
      if (std::ranges::binary_search(masks, position))
        put(written, {position, p.token, TokenState::visible, p.probability});
    }
  }
  for (const Prediction& p : seen) {
    ++made_;
    if (p.token == canvas.tokens[static_cast<size_t>(p.position)] || !(p.probability > threshold_)) continue;
    ++changed_;
    put(written, {p.position, p.token, TokenState::visible, p.probability});
  }
  finished_ = last_ || written.empty();
  if (last_) {
    for (Edit& edit : written)
      if (is_edit(edit.token)) edit.token = best_of(edit.position, [&](int32_t token) { return is_edit(token); });
  } else if (!states_.insert(tokens_of(canvas, block)).second) {
    break_cycle(canvas, written);
  }
  for (const Edit& edit : written) tried_[edit.position].insert(edit.token);
  const bool moves = std::ranges::any_of(written, [&](const Edit& edit) { return is_edit(edit.token); });
  edits = moves ? move_text(canvas, block, written) : std::move(written);
  for (const Edit& edit : edits) confidence_[static_cast<size_t>(edit.position - block.begin)] = edit.confidence;
  if (finished_) finish_block(canvas, block, edits);
}

std::vector<Edit> LevenshteinEditing::move_text(const Canvas& canvas, const Block& block,
                                                std::span<const Edit> written) {
  struct Cell {
    Edit edit;
    bool original;
  };
  std::vector<Cell> cells;
  const auto first =
      static_cast<int32_t>(std::find_if(canvas.states.begin() + block.begin, canvas.states.begin() + block.end,
                                        [](TokenState state) { return state != TokenState::fixed; }) -
                           canvas.states.begin());
  auto next = written.begin();
  for (int32_t p = first; p < block.end; ++p) {
    const auto i = static_cast<size_t>(p);
    const bool was = began_masked(block, p);
    Edit there{p, canvas.tokens[i], canvas.states[i], confidence_[static_cast<size_t>(p - block.begin)], p};
    if (next == written.end() || next->position != p) {
      cells.push_back({there, was});
      continue;
    }
    const Edit& edit = *next++;
    if (edit.token == ids_.split_id) {
      cells.push_back({{p, canvas.mask_id, TokenState::masked, 0, p}, false});
      cells.push_back({there, was});
    } else if (edit.token != ids_.delete_id) {
      there.token = edit.token, there.state = edit.state, there.confidence = edit.confidence;
      cells.push_back({there, was});
    }
  }
  cells.resize(static_cast<size_t>(block.end - first),
               {{block.end - 1, canvas.mask_id, TokenState::masked, 0, -1}, false});
  std::vector<Edit> edits;
  for (size_t k = 0; k < cells.size(); ++k) {
    auto& [edit, was] = cells[k];
    edit.position = first + static_cast<int32_t>(k);
    original_[static_cast<size_t>(edit.position - block.begin)] = was;
    if (edit.from == edit.position || edit.state == TokenState::masked) edit.from = -1;
    const auto i = static_cast<size_t>(edit.position);
    if (edit.token != canvas.tokens[i] || edit.state != canvas.states[i] || edit.from >= 0) edits.push_back(edit);
  }
  return edits;
}

bool LevenshteinEditing::keeps_open(const Canvas& canvas, const Block& block) const {
  return !finished_ && !positions_in(canvas, block, TokenState::visible).empty();
}

}  // namespace llada::decode
