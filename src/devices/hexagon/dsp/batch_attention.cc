// The ops with K/V: store_kv and attention.
#include "devices/hexagon/dsp/attention.h"
#include "devices/hexagon/dsp/attention_unit.h"
#include "devices/hexagon/dsp/batch-inl.h"
#include "devices/hexagon/dsp/rows.h"

namespace dsp {
namespace {

// Where a trial's row keeps the key and, behind it, the value of one head.
uint8_t* trial_pair(uint8_t* trial, const WireKv& kv, uint32_t row, uint32_t head, uint32_t bytes) {
  return trial + (uint64_t{row} * kv.heads + head) * 2 * bytes;
}

void put(const float* from, uint32_t n, bool half, uint8_t* to) {
  if (half)
    store_half(from, n, reinterpret_cast<uint16_t*>(to));
  else
    for (uint32_t i = 0; i < n; ++i) reinterpret_cast<float*>(to)[i] = from[i];
}

void swap(uint8_t* a, uint8_t* b, uint32_t bytes) {
  auto *x = reinterpret_cast<uint16_t*>(a), *y = reinterpret_cast<uint16_t*>(b);
  for (uint32_t i = 0; i < bytes / 2; ++i) {
    const uint16_t v = x[i];
    x[i] = y[i], y[i] = v;
  }
}

// Rows of a stream begin anywhere in a value: the vector unit has only such that are whole vectors.
uint32_t row_alignment(uint32_t head_dim) { return head_dim % 32 == 0 ? 128 : 4; }

}  // namespace

Fault Batch::store_kv(const WireOp& op) {
  const WireKv& kv = op.kv;
  const uint64_t columns = uint64_t{kv.heads} * kv.head_dim;
  float *k = nullptr, *v = nullptr;
  const WireSpan* spans_list = nullptr;
  const uint32_t* positions = nullptr;
  uint8_t *keys = nullptr, *values = nullptr, *trial = nullptr;
  if (columns != op.columns) return {WIRE_BAD_OP, WIRE_CHECK_HEADS};
  DSP_TRY(value(op.in[0], op.rows, columns, Use::reads, k, row_alignment(kv.head_dim)));
  DSP_TRY(value(op.in[1], op.rows, columns, Use::reads, v, row_alignment(kv.head_dim)));
  DSP_TRY(spans(op, spans_list));
  DSP_TRY(cache(op, spans_list, op.rows, Use::writes, keys, values, trial));
  DSP_TRY(indices(op.index, op.rows, kv.positions, positions));
  if (checking_) return {};
  const uint32_t d = kv.head_dim, bytes = d * (kv.half != 0 ? 2 : 4);
  each_row(op.rows, [&](uint32_t r) {
    const WireSpan* span = spans_list;
    while (r >= span->begin + span->count) ++span;
    for (uint32_t h = 0; h < kv.heads; ++h) {
      uint8_t *to_key, *to_value;
      if (span->trial != 0) {
        to_key = trial_pair(trial, kv, r, h, bytes), to_value = to_key + bytes;
      } else {
        const uint64_t at = uint64_t{span->sequence} * kv.sequence_stride + uint64_t{h} * kv.head_stride +
                            uint64_t{positions[r]} * bytes;
        to_key = keys + at, to_value = values + at;
      }
      put(k + r * columns + h * d, d, kv.half != 0, to_key);
      put(v + r * columns + h * d, d, kv.half != 0, to_value);
    }
  });
  return {};
}

Fault Batch::attention(const WireOp& op) {
  const WireKv& kv = op.kv;
  float *q = nullptr, *out = nullptr;
  const WireSpan* list = nullptr;
  const WireKeys* seen = nullptr;  // by row
  const uint32_t* all_positions = nullptr;
  uint8_t *keys = nullptr, *values = nullptr, *trial = nullptr;
  if (op.heads == 0 || op.head_dim != kv.head_dim || kv.heads == 0 || op.heads % kv.heads != 0)
    return {WIRE_BAD_OP, WIRE_CHECK_HEADS};
  const float scale = op.parameter;
  if (!(scale > 0 && scale <= 1)) return {WIRE_BAD_OP, WIRE_CHECK_HEADS};
  const uint32_t stride = uint32_t{op.heads} * op.head_dim;
  DSP_TRY(value(op.in[0], op.rows, stride, Use::reads, q, row_alignment(kv.head_dim)));
  DSP_TRY(value(op.out[0], op.rows, stride, Use::writes, out, row_alignment(kv.head_dim)));
  DSP_TRY(spans(op, list));
  uint32_t rows_of_all = 0;
  for (uint32_t i = 0; i < op.span_count; ++i) {
    if (list[i].trial == 0) continue;
    if (list[i].all > WIRE_MAX_ROWS || list[i].all_count > WIRE_MAX_ROWS) return {WIRE_BAD_OP, WIRE_CHECK_SPANS};
    const uint32_t end = list[i].all + list[i].all_count;
    rows_of_all = end > rows_of_all ? end : rows_of_all;
  }
  DSP_TRY(cache(op, list, rows_of_all, Use::reads, keys, values, trial));
  DSP_TRY(key_ranges(op, seen));
  if (rows_of_all > 0) DSP_TRY(indices(op.trial_index, rows_of_all, kv.positions, all_positions));
  const uint32_t group = op.heads / kv.heads, bytes = kv.head_dim * (kv.half != 0 ? 2 : 4);
  const uint32_t worker_bytes = attention_bytes(op.head_dim, group, kv.half != 0);
  const bool by_unit = kv.half != 0 && unit_attends(unit_, op.head_dim, group);
  uint8_t* memory = scratch(uint64_t{kMaxWorkers} * worker_bytes + (by_unit ? kUnitStateBytes : 0));
  if (checking_) return {};

  // All rows of a span, one K/V head; rows that see the same keys go together.
  const auto span_rows = [&](const WireSpan& span, uint32_t head, uint32_t worker) {
    const uint64_t at = uint64_t{span.sequence} * kv.sequence_stride + uint64_t{head} * kv.head_stride;
    const uint32_t column = head * group * op.head_dim, end = span.begin + span.count;
    for (uint32_t first = span.begin, next; first < end; first = next) {
      const WireKeys range = seen[first];
      for (next = first + 1; next < end && next - first < kAttentionRows && seen[next].first == range.first &&
                             seen[next].last == range.last;)
        ++next;
      const uint64_t from = at + uint64_t{range.first} * bytes;
      attend({.q = q + uint64_t{first} * stride + column,
              .out = out + uint64_t{first} * stride + column,
              .stride = stride,
              .rows = next - first,
              .heads = group,
              .keys = keys + from,
              .values = values + from,
              .count = range.last - range.first,
              .half = kv.half != 0,
              .head_dim = op.head_dim,
              .scale = scale,
              .scratch = memory + worker * worker_bytes});
    }
  };
  if (!by_unit)
    pool_.each(kv.heads, [&](uint32_t head, uint32_t worker) {
      for (uint32_t i = 0; i < op.span_count; ++i)
        if (list[i].trial == 0) span_rows(list[i], head, worker);
    });
  if (rows_of_all == 0 && !by_unit) return {};
  // A trial's rows stand in the store while its attention runs, and are taken out again; one task owns a head of
  // the store, so nobody else looks.
  const auto exchange = [&](const WireSpan& span, uint32_t head, bool back) {
    for (uint32_t i = 0; i < span.all_count; ++i) {
      const uint32_t row = span.all + (back ? span.all_count - 1 - i : i);  // undone in reverse
      uint8_t* pair = trial_pair(trial, kv, row, head, bytes);
      const uint64_t at = uint64_t{span.sequence} * kv.sequence_stride + uint64_t{head} * kv.head_stride +
                          uint64_t{all_positions[row]} * bytes;
      swap(pair, keys + at, bytes);
      swap(pair + bytes, values + at, bytes);
    }
  };
  if (by_unit) {
    if (!os_lock_matrix(unit_)) return {WIRE_NO_UNIT, 0};
    const UnitAttentionOp job = {.q = q,
                                 .out = out,
                                 .stride = stride,
                                 .group = group,
                                 .kv_heads = kv.heads,
                                 .head_dim = op.head_dim,
                                 .head_stride = kv.head_stride,
                                 .sequence_stride = kv.sequence_stride,
                                 .keys = keys,
                                 .values = values,
                                 .seen = seen,
                                 .scale = scale,
                                 .scratch = memory,
                                 .scratch_bytes = worker_bytes,
                                 .state = memory + uint64_t{kMaxWorkers} * worker_bytes,
                                 .sampled = sampled(),
                                 .choice = choice()};
    bool right = true;
    for (uint32_t i = 0; i < op.span_count && right; ++i) {
      const auto exchange_all = [&](bool back) {
        if (list[i].trial != 0) pool_.each(kv.heads, [&](uint32_t head, uint32_t) { exchange(list[i], head, back); });
      };
      if (list[i].count == 0) continue;
      exchange_all(false);
      right = attend_by_unit(pool_, unit_, job, list[i]);
      exchange_all(true);
    }
    os_unlock_matrix();
    return right ? Fault{} : Fault{WIRE_NO_UNIT, 1};
  }
  pool_.each(kv.heads, [&](uint32_t head, uint32_t worker) {
    for (uint32_t i = 0; i < op.span_count; ++i) {
      if (list[i].trial == 0 || list[i].count == 0) continue;
      exchange(list[i], head, false);
      span_rows(list[i], head, worker);
      exchange(list[i], head, true);
    }
  });
  return {};
}

}  // namespace dsp
