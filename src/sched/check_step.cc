// check_step() of executor.h: the properties of a step that devices rely on when they index by it.
#include <algorithm>
#include <cmath>
#include <utility>

#include "memory/kv_store.h"
#include "sched/executor.h"

namespace llada {
namespace {

Status check_store(const KvGeometry& needed, const Stream& stream) {
  if (stream.kv == nullptr) return failed("step: a stream has no K/V store");
  const KvShape& store = stream.kv->shape();
  bool same = needed.layers <= store.layers;
  for (int layer = 0; same && layer < needed.layers; ++layer)
    same = needed.of(layer) == store.of(layer) || needed.of(layer) == KvHeads{};
  if (same) return {};
  return failed("K/V store: found {} layers of {} heads of {} elements, needed {} of {} of {}", store.layers,
                store.kv_heads, store.head_dim, needed.layers, needed.kv_heads, needed.head_dim);
}

// rows: of the stream.
Status check_soft(const SoftTokens& soft, size_t stream, int64_t rows) {
  const auto entries = static_cast<int64_t>(soft.tokens.size());
  bool good = std::ssize(soft.begin) == rows + 1 && soft.begin.front() == 0 && soft.begin.back() == entries &&
              std::ranges::is_sorted(soft.begin) && std::ssize(soft.probabilities) == entries;
  for (int64_t row = 0; good && row < rows; ++row) {
    int32_t last = -1;
    for (int64_t i = soft.begin[static_cast<size_t>(row)]; i < soft.begin[static_cast<size_t>(row) + 1]; ++i)
      good = good && std::exchange(last, soft.tokens[static_cast<size_t>(i)]) < soft.tokens[static_cast<size_t>(i)];
  }
  if (good) return {};
  return failed("step: soft tokens of stream {} are not ascending lists of its {} rows", stream, rows);
}

// One span's rows, against its stream's store.
Status check_span(const StepInputs& in, const RowSpan& span, bool stores) {
  const Stream& stream = in.streams[static_cast<size_t>(span.stream)];
  const int64_t positions = stores ? stream.kv->shape().positions : INT32_MAX;
  if (span.sequence < 0 || (stores && span.sequence >= stream.kv->shape().sequences))
    return failed("step: sequence {} does not exist in its store", span.sequence);
  for (int32_t r = span.begin; r < span.begin + span.count; ++r) {
    const int32_t p = in.kept_at()[static_cast<size_t>(r)], own = in.positions[static_cast<size_t>(r)];
    const KeyRange keys = in.ranges[static_cast<size_t>(r)];
    if (p < 0 || p >= positions) return failed("step: row {} is at position {} of {}", r, p, positions);
    if (own < 0 || own >= positions) return failed("step: row {} turns as position {} of {}", r, own, positions);
    if (keys.first < 0 || keys.first >= keys.last || keys.last > positions)
      return failed("step: row {} reads positions [{}, {}) of {}", r, keys.first, keys.last, positions);
  }
  return {};
}

}  // namespace

Status check_step(const StepInputs& in, const KvGeometry& needed) {
  const bool stores = needed.layers > 0;
  const auto rows = static_cast<int64_t>(in.tokens.size());
  if (std::ssize(in.positions) != rows || std::ssize(in.kept_at()) != rows || std::ssize(in.ranges) != rows)
    return failed("step: {} tokens, {} positions, {} places, {} ranges of keys", rows, in.positions.size(),
                  in.kept_at().size(), in.ranges.size());
  std::vector<const KvStore*> seen;
  for (const Stream& stream : in.streams) {
    if (!stores) continue;
    LLADA_TRY_STATUS(check_store(needed, stream));
    seen.push_back(stream.kv);
  }
  std::ranges::sort(seen);
  if (std::ranges::adjacent_find(seen) != seen.end()) return failed("step: two streams have one K/V store");
  int64_t next = 0;
  std::vector<int32_t> stream_of(static_cast<size_t>(rows));
  for (const RowSpan& span : in.spans) {
    if (span.begin != next || span.count < 0 || span.count > rows - next)
      return failed("step: a span of rows [{}, {} + {}) follows row {} of {}", span.begin, span.begin, span.count, next,
                    rows);
    if (span.stream < 0 || span.stream >= std::ssize(in.streams))
      return failed("step: stream {} of {} does not exist", span.stream, in.streams.size());
    LLADA_TRY_STATUS(check_span(in, span, stores));
    std::fill_n(stream_of.begin() + next, span.count, span.stream);
    next += span.count;
  }
  if (next != rows) return failed("step: spans cover {} of {} rows", next, rows);
  for (size_t s = 0; s < in.streams.size(); ++s)
    if (in.streams[s].soft != nullptr)
      LLADA_TRY_STATUS(check_soft(*in.streams[s].soft, s, std::ranges::count(stream_of, static_cast<int32_t>(s))));
  for (size_t i = 0; i < in.wanted.size(); ++i)
    if (in.wanted[i] < 0 || in.wanted[i] >= rows || (i > 0 && in.wanted[i] <= in.wanted[i - 1]))
      return failed("step: wanted row {} is {} of {}", i, in.wanted[i], rows);
  const auto wanted_stream = [&](int32_t row) {
    return row < 0 || row >= std::ssize(in.wanted)
               ? -1
               : stream_of[static_cast<size_t>(in.wanted[static_cast<size_t>(row)])];
  };
  std::vector<size_t> predicted(in.streams.size(), 0);
  for (size_t i = 0; i < in.predictions.size(); ++i) {
    const PredictedRow& p = in.predictions[i];
    const int32_t stream = wanted_stream(p.conditional);
    if (stream < 0 || p.unconditional < -1 || (p.unconditional >= 0 && wanted_stream(p.unconditional) != stream) ||
        !std::isfinite(p.scale))
      return failed("step: prediction {} is of the wanted rows {} and {}, scale {}", i, p.conditional, p.unconditional,
                    p.scale);
    ++predicted[static_cast<size_t>(stream)];
  }
  for (size_t s = 0; s < in.streams.size(); ++s) {
    const auto& [temperature, draws] = in.streams[s].tempering;
    if (temperature == 0) continue;
    if (!(temperature > 0) || !std::isfinite(temperature) || !in.streams[s].keep_logits || draws.size() != predicted[s])
      return failed("step: stream {} is tempered at {} with {} draws for {} predictions, whose logits are{} kept", s,
                    temperature, draws.size(), predicted[s], in.streams[s].keep_logits ? "" : " not");
  }
  return {};
}

}  // namespace llada
