#include "decode/speculation.h"

#include <algorithm>

#include "decode/answer.h"
#include "decode/canvas.h"
#include "decode/field_entry.h"

namespace llada::decode {
namespace {

// "ROWS:MS,ROWS:MS,...", "device" or "none".
Status read_latency(const Field& f, std::string_view text, DecodeOptions& o) {
  o.device_latency = text == "device";
  o.latency_table.clear();
  if (o.device_latency || text == "none") return {};
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string_view pair = text.substr(at, end - at);
    const size_t colon = pair.find(':');
    LatencyPoint point;
    if (colon == std::string_view::npos || !read_number(pair.substr(0, colon), point.rows, f) ||
        !read_number(pair.substr(colon + 1), point.ms, f))
      return invalid("found '{}', needed ROWS:MS", pair);
    o.latency_table.push_back(point);
    at = end + 1;
  }
  return {};
}

std::string show_latency(const Field&, const DecodeOptions& o) {
  if (o.device_latency) return "device";
  std::string text;
  for (const LatencyPoint& p : o.latency_table) text += fmt::format("{}{}:{}", text.empty() ? "" : ",", p.rows, p.ms);
  return text.empty() ? "none" : text;
}

Status check_latency(const Field&, const DecodeOptions& o) {
  if (o.device_latency && !o.latency_table.empty())
    return invalid("latency_table: found {} points beside the device's own table, needed one of the two",
                   o.latency_table.size());
  LatencyPoint before;
  for (const LatencyPoint& p : o.latency_table) {
    if (p.rows <= before.rows || !std::isfinite(p.ms) || p.ms < before.ms)
      return invalid("latency_table: found {} rows in {} ms after {} in {}, needed both ascending from above 0", p.rows,
                     p.ms, before.rows, before.ms);
    before = p;
  }
  return {};
}

Entry latency_entry(std::string_view help) {
  Entry f(FieldGroup::drafts, "latency_table", "ROWS:MS,...", help);
  f.read = read_latency, f.show = show_latency, f.check = check_latency;
  return f;
}

}  // namespace

std::span<const Field> speculation_fields() {
  using O = SpeculationOptions;
  using enum FieldGroup;
  // clang-format off
  static const Field kFields[] = {
    field<&O::mbsd>(drafts, "mbsd", "",
        "draft tokens of the blocks ahead while few masks are left (multi-block speculation)"),
    field<&O::mbsd_trigger>(drafts, "mbsd_trigger", "N", "look ahead when fewer masks than N are left in the block")
        .in(kPositions),
    field<&O::mbsd_threshold>(drafts, "mbsd_threshold", "T",
        "probability that a draft must exceed in each forward that predicts it").in({0, 1, false, true}),
    latency_entry(
        "time of a forward by rows, or 'device': its own, measured at the start (modelled on sim); no draft makes a "
        "forward slower by this table"),
  };
  // clang-format on
  return kFields;
}

int64_t free_rows(std::span<const LatencyPoint> table, double slack, int64_t rows) {
  const auto bucket = std::ranges::find_if(table, [&](const LatencyPoint& p) { return p.rows >= rows; });
  if (bucket == table.end()) return rows;
  auto last = bucket;
  while (last + 1 != table.end() && (last + 1)->ms <= bucket->ms * (1 + slack)) ++last;
  return last->rows;
}

Speculation::Speculation(const SpeculationOptions& options, const SpecialIds& ids) : options_(options), ids_(ids) {}

bool Speculation::looks_ahead(const Canvas& canvas, const Block& block, int64_t masks) const {
  return masks < options_.mbsd_trigger &&
         (canvas.infill || first_end(canvas, generated_begin(canvas), block.end, ids_.end_ids) == block.end);
}

std::vector<int32_t> Speculation::lookahead(const Canvas& canvas, const Block& block, int64_t keys, int64_t masks,
                                            std::span<const int32_t> computed) const {
  std::vector<int32_t> positions;
  if (!looks_ahead(canvas, block, masks)) return positions;
  auto rows = static_cast<int64_t>(computed.size());
  int64_t most = keys;
  if (!options_.latency_table.empty()) most = free_rows(options_.latency_table, kLatencySlack, rows);
  int32_t last_row = -1;
  for (int32_t p = block.end; p < keys; ++p) {
    if (std::ssize(positions) == kMostDrafts) break;
    if (canvas.states[static_cast<size_t>(p)] != TokenState::masked) continue;
    const int32_t row = ids_.row_of(p);
    const bool extra = row != last_row && !std::ranges::binary_search(computed, row);
    if (extra && rows + 1 > most) break;
    rows += extra;
    last_row = row;
    positions.push_back(p);
  }
  return positions;
}

int32_t Speculation::reach(const Canvas& canvas, const Block& block, int32_t keys, int64_t rows) const {
  if (!looks_ahead(canvas, block, std::ssize(positions_in(canvas, block, TokenState::masked)))) return keys;
  const int64_t each = ids_.attention_block;
  int64_t room = std::max(kMostDrafts, each);
  if (!options_.latency_table.empty())
    room = std::min(room, free_rows(options_.latency_table, kLatencySlack, rows) - rows);
  return static_cast<int32_t>(std::min(canvas.size(), keys + room / each * each));
}

bool Speculation::keeps(const Candidate& c) {
  const bool sure = c.probability > options_.mbsd_threshold;
  proposed_ += sure;
  return sure;
}

void Speculation::propose(const Candidate& c) {
  if (keeps(c))
    drafts_[c.position] = c.token;
  else
    drafts_.erase(c.position);
}

std::vector<size_t> Speculation::confirm(std::span<const Candidate> candidates) {
  std::vector<size_t> confirmed;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto draft = drafts_.find(candidates[i].position);
    if (draft == drafts_.end()) continue;
    if (draft->second == candidates[i].token && candidates[i].probability > options_.mbsd_threshold)
      confirmed.push_back(i);
    drafts_.erase(draft);
  }
  return confirmed;
}

}  // namespace llada::decode
