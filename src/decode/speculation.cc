#include "decode/speculation.h"

#include <algorithm>

#include "decode/answer.h"
#include "decode/canvas.h"

namespace llada::decode {

int64_t free_rows(std::span<const LatencyPoint> table, double slack, int64_t rows) {
  const auto bucket = std::ranges::find_if(table, [&](const LatencyPoint& p) { return p.rows >= rows; });
  if (bucket == table.end()) return rows;
  auto last = bucket;
  while (last + 1 != table.end() && (last + 1)->ms <= bucket->ms * (1 + slack)) ++last;
  return last->rows;
}

Speculation::Speculation(const DecodeOptions& options, const SpecialIds& ids) : options_(options), ids_(ids) {}

std::vector<int32_t> Speculation::lookahead(const Canvas& canvas, const Block& block, int64_t keys, int64_t masks,
                                            std::span<const int32_t> computed) const {
  std::vector<int32_t> positions;
  if (masks >= options_.mbsd_trigger) return positions;
  if (!canvas.infill && first_end(canvas, generated_begin(canvas), block.end, ids_.end_ids) < block.end)
    return positions;
  auto rows = static_cast<int64_t>(computed.size());
  int64_t most = keys;
  if (!options_.latency_table.empty()) most = free_rows(options_.latency_table, kLatencySlack, rows);
  if (options_.mbsd_max_rows > 0) most = std::min(most, options_.mbsd_max_rows);
  int32_t last_row = -1;
  for (int32_t p = block.end; p < keys; ++p) {
    if (static_cast<int64_t>(positions.size()) == options_.mbsd_lookahead) break;
    if (canvas.states[static_cast<size_t>(p)] != TokenState::masked) continue;
    const int32_t row = ids_.shift_logits ? std::max(p - 1, 0) : p;
    const bool extra = row != last_row && !std::ranges::binary_search(computed, row);
    if (extra && rows + 1 > most) break;
    rows += extra;
    last_row = row;
    positions.push_back(p);
  }
  return positions;
}

void Speculation::propose(int32_t position, const Prediction& prediction) {
  if (prediction.probability > options_.mbsd_threshold) {
    drafts_[position] = prediction.token;
    ++proposed_;
  } else {
    drafts_.erase(position);
  }
}

std::vector<size_t> Speculation::confirm(std::span<const Candidate> candidates) {
  std::vector<size_t> confirmed;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto draft = drafts_.find(candidates[i].position);
    if (draft == drafts_.end()) continue;
    if (draft->second == candidates[i].token && candidates[i].score > options_.mbsd_threshold) confirmed.push_back(i);
    drafts_.erase(draft);
  }
  return confirmed;
}

}  // namespace llada::decode
