// The ops with matrices: matmul and head.
#include "devices/hexagon/dsp/batch-inl.h"
#include "devices/hexagon/dsp/float_math.h"
#include "devices/hexagon/dsp/head.h"
#include "devices/hexagon/dsp/matmul.h"
#include "devices/hexagon/dsp/rows.h"

namespace dsp {
namespace {

constexpr uint32_t kTile = 32;  // outputs
constexpr uint32_t kNoFormat = ~0u;

uint32_t format_of(uint32_t layout) {
  switch (layout) {
    case WIRE_TILE_Q4_0:
      return static_cast<uint32_t>(Format::q4);
    case WIRE_TILE_Q8_0:
      return static_cast<uint32_t>(Format::q8);
    case WIRE_TILE_F16:
      return static_cast<uint32_t>(Format::f16);
    default:
      return kNoFormat;
  }
}
uint32_t align(uint32_t bytes) { return (bytes + 127) & ~127u; }
uint32_t quantized_bytes(uint32_t layout, uint32_t rows, uint32_t inputs) {
  const uint32_t format = format_of(layout);
  return format == kNoFormat ? 0 : align(activation_bytes(static_cast<Format>(format), rows, inputs));
}
// 0: outputs have no tiles.
uint32_t bytes_of_tile(uint32_t layout, uint32_t inputs) {
  const uint32_t format = format_of(layout);
  return format == kNoFormat ? 0 : tile_bytes(static_cast<Format>(format), inputs);
}
uint32_t work_bytes(uint32_t inputs) { return align(blocks_of(inputs) * 4); }

}  // namespace

Fault Batch::matrix(const WireWeight& w, uint32_t inputs, const uint8_t*& out) {
  if (w.inputs != inputs || w.outputs == 0 || w.outputs > (1u << 24)) return {WIRE_BAD_OP, WIRE_CHECK_WEIGHT};
  if (w.layout == WIRE_STORED_F32) return at(w.data, uint64_t{w.outputs} * inputs * 4, Use::reads, out, 4);
  const uint32_t format = format_of(w.layout);
  if (format == kNoFormat) return {WIRE_UNSUPPORTED, w.layout};
  if (inputs % kBlock != 0) return {WIRE_BAD_OP, WIRE_CHECK_COLUMNS};
  const uint64_t tiles = (uint64_t{w.outputs} + kTile - 1) / kTile;
  return at(w.data, tiles * tile_bytes(static_cast<Format>(format), inputs), Use::reads, out, 128);
}

uint8_t* Batch::scratch(uint64_t bytes) {
  if (bytes > scratch_needed_) scratch_needed_ = bytes;
  return scratch_;
}

// Rows of x in the format that the layout wants, to scratch memory; behind it lies work memory for each worker.
uint8_t* Batch::quantize(uint32_t layout, const float* x, uint32_t rows, uint32_t inputs, uint8_t* to) {
  const auto format = static_cast<Format>(format_of(layout));
  uint8_t* work = to + quantized_bytes(layout, rows, inputs);
  const uint32_t most = most_rows(format), bytes = group_bytes(format, most, inputs);
  pool_.each(groups_of(format, rows), [&](uint32_t group, uint32_t worker) {
    quantize_group(format, x, inputs, rows, inputs, group * most,
                   reinterpret_cast<uint32_t*>(work + worker * work_bytes(inputs)), to + group * bytes);
  });
  return to;
}

void Batch::multiply(const Product& p, uint32_t tile, const float* x, const uint8_t* activations, uint32_t rows,
                     uint32_t inputs) {
  const uint32_t n0 = tile * kTile, columns = p.outputs - n0 < kTile ? p.outputs - n0 : kTile;
  if (p.layout == WIRE_STORED_F32) {
    multiply_f32(reinterpret_cast<const float*>(p.weights), x, rows, inputs, n0, n0 + columns, p.y, p.stride);
    return;
  }
  const auto format = static_cast<Format>(format_of(p.layout));
  const uint32_t most = most_rows(format), bytes = group_bytes(format, most, inputs);
  const uint8_t* at = p.weights + uint64_t{tile} * p.tile_bytes;
  for (uint32_t group = 0, groups = groups_of(format, rows); group < groups; ++group) {
    const uint32_t first = group * most, left = rows - first;
    dsp::multiply(format, {.tile = at,
                           .group = activations + group * bytes,
                           .rows = left < most ? left : most,
                           .capacity = group_rows(format, rows, first),
                           .inputs = inputs,
                           .y = p.y + uint64_t{first} * p.stride + n0,
                           .stride = p.stride,
                           .columns = columns});
  }
}

Fault Batch::matmul(const WireOp& op) {
  float* x = nullptr;
  DSP_TRY(value(op.in[0], op.rows, op.columns, Use::reads, x));
  Product products[3];
  uint32_t count = 0, tiles = 0, formats = 0;
  uint64_t bytes = 0;
  bool tiled = true;
  for (; count < 3 && op.weight[count].layout != WIRE_NO_LAYOUT; ++count) {
    const WireWeight& w = op.weight[count];
    Product& p = products[count];
    DSP_TRY(matrix(w, op.columns, p.weights));
    DSP_TRY(pitched(op.out[count], op.rows, w.outputs, op.pitch[count], p.y));
    p.layout = w.layout, p.outputs = w.outputs, p.first = tiles;
    p.stride = op.pitch[count] != 0 ? op.pitch[count] : w.outputs;
    p.tile_bytes = bytes_of_tile(w.layout, op.columns);
    p.last = tiles += (w.outputs + kTile - 1) / kTile;
    tiled &= w.layout != WIRE_STORED_F32;
    if (w.layout != WIRE_STORED_F32 && (formats & 1u << w.layout) == 0) {
      formats |= 1u << w.layout;
      bytes += quantized_bytes(w.layout, op.rows, op.columns);
    }
  }
  if (count == 0) return {WIRE_BAD_OP, WIRE_CHECK_WEIGHT};
  uint8_t* memory = scratch(bytes + uint64_t{kMaxWorkers} * work_bytes(op.columns));
  if (checking_) return {};
  if (UnitPlan plan; tiled && plan.lay(unit_, op.rows, op.columns)) {
    if (!multiply_by_unit(plan, products, tiles, x, op.rows, op.columns, reinterpret_cast<int32_t*>(memory)))
      return {WIRE_NO_UNIT, 0};
    if (!unit_agrees(products, tiles, x, op.rows, op.columns)) return {WIRE_NO_UNIT, 1};
    return {};
  }
  const uint8_t* activations[3] = {};
  for (uint32_t i = 0; i < count; ++i) {
    if (products[i].layout == WIRE_STORED_F32) continue;
    for (uint32_t j = 0; j < i; ++j)
      if (products[j].layout == products[i].layout) activations[i] = activations[j];
    if (activations[i] != nullptr) continue;
    activations[i] = quantize(products[i].layout, x, op.rows, op.columns, memory);
    memory += quantized_bytes(products[i].layout, op.rows, op.columns);
  }
  pool_.each(tiles, [&](uint32_t tile, uint32_t) {
    uint32_t i = 0;
    while (tile >= products[i].last) ++i;
    const Product& p = products[i];
    // Each worker takes the next tile that nobody has: likely this one, and surely somebody's.
    if (const uint32_t next = tile + pool_.workers(); next < p.last)
      prefetch_tile(p.weights + uint64_t{next - p.first} * p.tile_bytes, p.tile_bytes);
    multiply(p, tile - p.first, x, activations[i], op.rows, op.columns);
  });
  return {};
}

WirePrediction Batch::reduce(const Head& head, float* logits, uint32_t row, uint32_t chunk) {
  const uint32_t begin = chunk * kChunk, left = head.product.outputs - begin, n = left < kChunk ? left : kChunk;
  if (head.logits != nullptr) copy(logits, n, head.logits + uint64_t{row} * head.product.outputs + begin);
  return reduce_chunk(logits, begin, n, head.not_in_sum, head.not_chosen, kVectorChunk);
}

Fault Batch::head(const WireOp& op) {
  const WireWeight& w = op.weight[0];
  float *x = nullptr, *logits = nullptr;
  WirePrediction* predictions = nullptr;
  const uint8_t* weights = nullptr;
  const uint32_t *out = nullptr, *never = nullptr;
  DSP_TRY(value(op.in[0], op.rows, op.columns, Use::reads, x));
  DSP_TRY(matrix(w, op.columns, weights));
  DSP_TRY(at(op.predictions, uint64_t{op.rows} * sizeof(WirePrediction), Use::writes, predictions));
  if (op.logits.buffer != WIRE_NO_BUFFER)
    DSP_TRY(at(op.logits, uint64_t{op.rows} * w.outputs * 4, Use::writes, logits));
  if (op.out_of_softmax_count > kMostExcluded) return {WIRE_UNSUPPORTED, op.kind};
  if (op.out_of_softmax_count > 0) DSP_TRY(indices(op.out_of_softmax, op.out_of_softmax_count, w.outputs, out));
  if (op.never_sampled_count > 0) DSP_TRY(indices(op.never_sampled, op.never_sampled_count, w.outputs, never));

  // Scratch: quantized rows, then per worker the logits of a chunk, then a partial prediction per chunk and row.
  const uint32_t chunks = (w.outputs + kChunk - 1) / kChunk;
  const uint32_t quantized = quantized_bytes(w.layout, op.rows, op.columns);
  const uint32_t chunk_bytes = align(op.rows * kChunk * 4);
  const uint64_t common = quantized + uint64_t{kMaxWorkers} * work_bytes(op.columns);
  uint8_t* memory =
      scratch(common + uint64_t{kMaxWorkers} * chunk_bytes + uint64_t{chunks} * op.rows * sizeof(WirePrediction));
  if (checking_) return {};
  Head head = {.x = x,
               .rows = op.rows,
               .inputs = op.columns,
               .chunks = chunks,
               .product = {},
               .logits = logits,
               .not_in_sum = {reinterpret_cast<const int32_t*>(out), op.out_of_softmax_count},
               .not_chosen = {reinterpret_cast<const int32_t*>(never), op.never_sampled_count},
               .chunk_memory = memory + common,
               .chunk_bytes = chunk_bytes,
               .partial = reinterpret_cast<WirePrediction*>(memory + common + kMaxWorkers * chunk_bytes),
               .predictions = predictions};
  head.product.weights = weights, head.product.layout = w.layout, head.product.outputs = w.outputs;
  head.product.stride = kChunk, head.product.tile_bytes = bytes_of_tile(w.layout, op.columns);
  if (UnitPlan plan; w.layout != WIRE_STORED_F32 && plan.lay(unit_, op.rows, op.columns))
    return head_by_unit(plan, head, reinterpret_cast<int32_t*>(memory));
  const uint8_t* activations =
      w.layout == WIRE_STORED_F32 ? nullptr : quantize(w.layout, x, op.rows, op.columns, memory);
  pool_.each(chunks, [&](uint32_t chunk, uint32_t worker) {
    float* y = head.chunk(worker);
    const uint32_t begin = chunk * kChunk, n = w.outputs - begin < kChunk ? w.outputs - begin : kChunk;
    Product p = head.product;
    p.y = y - begin;  // column c of the chunk is output begin + c
    for (uint32_t n0 = begin; n0 < begin + n; n0 += kTile) {
      if (n0 + kTile < begin + n) prefetch_tile(weights + uint64_t{n0 / kTile + 1} * p.tile_bytes, p.tile_bytes);
      multiply(p, n0 / kTile, x, activations, op.rows, op.columns);
    }
    for (uint32_t r = 0; r < op.rows; ++r)
      head.partial[uint64_t{chunk} * op.rows + r] = reduce(head, y + r * kChunk, r, chunk);
  });
  for (uint32_t r = 0; r < op.rows; ++r) {
    WirePrediction total = no_prediction();
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) merge(total, head.partial[uint64_t{chunk} * op.rows + r]);
    predictions[r] = total;
  }
  return {};
}

}  // namespace dsp
