// Products by the matrix unit.
//
// As many rows of the op as fit lie in the unit's memory as tiles, the others follow. Weights go through a ring
// (unit_ring.h). A row's sum has the same bits in any company, so the unit has the products of one row as well as those
// of many: whether an op is the unit's depends on its weights and on the unit's memory alone, never on rows.
#include "devices/hexagon/dsp/batch-inl.h"
#include "devices/hexagon/dsp/head.h"
#include "devices/hexagon/dsp/hmx.h"
#include "devices/hexagon/dsp/hvx.h"
#include "devices/hexagon/dsp/matmul.h"
#include "devices/hexagon/dsp/unit_ring.h"
#include "devices/hexagon/dsp/unit_tiles.h"

namespace dsp {
namespace {

constexpr uint32_t kTableBytes = 256, kTables = 3;
// One op in so many has sums computed again.
constexpr uint32_t kSampled = 64, kOutputsSampled = 4;

uint32_t quotient_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

Format format_of_tile(uint32_t layout) {
  return layout == WIRE_TILE_Q4_0 ? Format::q4 : layout == WIRE_TILE_Q8_0 ? Format::q8 : Format::f16;
}

}  // namespace

// Where all lies in the unit's memory: tiles of rows, a slot of 32 with all inputs each, the ring, results, a table per
// format. The ring has room for a tile's stripes, and for those of the next one where rows leave it.
bool Batch::UnitPlan::lay(const Matrix& unit, uint32_t rows, uint32_t inputs) {
  blocks = inputs / kBlock, stripes = quotient_up(blocks, kUnitStripe);
  slot = stripes * kUnitStripeBytes;
  constexpr uint32_t kResultBytes = kUnitResults * kUnitTileBytes, kFixed = kTables * kTableBytes;
  if (inputs > kUnitMostInputs || unit.bytes < kFixed + 2 * slot + kResultBytes) return false;
  const uint32_t room = unit.bytes - kFixed, needed = quotient_up(rows, kUnitTile);
  const uint32_t most = room < 3 * slot + kResultBytes ? 1 : (room - 2 * slot) / (slot + kResultBytes);
  row_tiles = needed < most ? needed : most;
  const uint32_t ring_bytes = room - row_tiles * (slot + kResultBytes);
  for (waiting = 1; 2 * waiting * slot <= ring_bytes && 2 * waiting * stripes <= kMostUnitSlots;) waiting *= 2;
  ring = row_tiles * slot;
  results = ring + waiting * slot;
  tables = results + row_tiles * kResultBytes;
  return true;
}

void Batch::put_unit_tables(const UnitPlan& plan) {
  constexpr Format kFormats[kTables] = {Format::q4, Format::q8, Format::f16};
  for (const Format format : kFormats) {
    auto* words = reinterpret_cast<uint32_t*>(unit_.memory + plan.tables + static_cast<uint32_t>(format) * kTableBytes);
    for (uint32_t i = 0; i < kUnitTableWords; ++i)
      words[i] = i < kUnitTile ? static_cast<uint32_t>(15 - unit_table_shift(format)) << 10 : 0;
  }
}

void Batch::put_unit_rows(const UnitPlan& plan, const float* x, uint32_t rows, uint32_t inputs, int32_t* exponents) {
  pool_.each(quotient_up(rows, kUnitTile) * kUnitTile / 2, [&](uint32_t pair, uint32_t) {
    const auto row = [&](uint32_t r) { return r < rows ? x + uint64_t{r} * inputs : nullptr; };
    int32_t both[2];
    unit_rows(row(2 * pair), row(2 * pair + 1), plan.blocks,
              unit_.memory + pair / (kUnitTile / 2) * plan.slot + pair % (kUnitTile / 2) * kVector, both);
    for (uint32_t i = 0; i < 2; ++i)
      if (2 * pair + i < rows) exponents[2 * pair + i] = both[i];
  });
}

bool Batch::multiply_by_unit(const UnitPlan& plan, const Product* products, uint32_t tiles, const float* x,
                             uint32_t rows, uint32_t inputs, int32_t* exponents) {
  put_unit_tables(plan);
  const uint32_t most = plan.row_tiles * kUnitTile;
  for (uint32_t first = 0; first < rows; first += most) {
    const uint32_t count = rows - first < most ? rows - first : most;
    put_unit_rows(plan, x + uint64_t{first} * inputs, count, inputs, exponents);
    if (!multiply_rows_by_unit(plan, products, tiles, first, count, exponents)) return false;
  }
  return true;
}

bool Batch::multiply_rows_by_unit(const UnitPlan& plan, const Product* products, uint32_t tiles, uint32_t first_row,
                                  uint32_t rows, const int32_t* exponents) {
  uint8_t* const memory = unit_.memory;
  const uint32_t row_tiles = quotient_up(rows, kUnitTile);
  UnitRing ring(tiles, plan.stripes, plan.waiting);
  const auto product_of = [&](uint32_t tile) {
    const Product* p = products;
    while (tile >= p->last) ++p;
    return p;
  };
  const auto weights_of = [](const Product& p, uint32_t tile) {
    return p.weights + uint64_t{tile - p.first} * p.tile_bytes;
  };
  const auto slot_of = [&](uint32_t tile, uint32_t stripe) {
    return memory + plan.ring + ring.slot(tile, stripe) * kUnitStripeBytes;
  };
  const auto results_of = [&](uint32_t tile, uint32_t row_tile) {
    return memory + plan.results + (UnitRing::result(tile) * plan.row_tiles + row_tile) * kUnitTileBytes;
  };
  const auto widen = [&](uint32_t tile, uint32_t stripe) {
    const Product& p = *product_of(tile);
    const uint32_t first = stripe * kUnitStripe, last = first + kUnitStripe;
    if (stripe == 0 && tile + 1 < tiles) {
      const Product& next = *product_of(tile + 1);
      prefetch_tile(weights_of(next, tile + 1), next.tile_bytes);
    }
    unit_weights(format_of_tile(p.layout), weights_of(p, tile), first, last < plan.blocks ? last : plan.blocks,
                 slot_of(tile, stripe));
  };
  const auto multiply = [&](uint32_t tile) {
    unit_barrier();
    unit_table(memory + plan.tables + static_cast<uint32_t>(format_of_tile(product_of(tile)->layout)) * kTableBytes);
    for (uint32_t r = 0; r < row_tiles; ++r) {
      unit_clear();
      for (uint32_t s = 0; s < plan.stripes; ++s) {
        const uint32_t b = s * kUnitStripe;
        unit_multiply(memory + r * plan.slot + b * kUnitTileBytes, slot_of(tile, s),
                      plan.blocks - b < kUnitStripe ? plan.blocks - b : kUnitStripe);
      }
      unit_convert();
      unit_store(results_of(tile, r));
    }
    unit_barrier();
  };
  const auto finish = [&](uint32_t tile) {
    const Product& p = *product_of(tile);
    const uint32_t n0 = (tile - p.first) * kUnitTile, left = p.outputs - n0;
    for (uint32_t r = 0; r < row_tiles; ++r) {
      const uint32_t first = r * kUnitTile;
      unit_results(format_of_tile(p.layout), results_of(tile, r), exponents + first, weights_of(p, tile),
                   rows - first < kUnitTile ? rows - first : kUnitTile,
                   p.y + uint64_t{first_row + first} * p.stride + n0, p.stride, left < kUnitTile ? left : kUnitTile);
    }
  };
  bool given = true;
  pool_.each(pool_.workers(), [&](uint32_t task, uint32_t) {
    if (task > 0) return ring.work(widen, finish);
    given = os_lock_matrix(unit_);
    if (!given) return ring.give_up();
    ring.multiply(multiply, widen, finish);
    os_unlock_matrix();
  });
  return given;
}

bool Batch::sampled() const { return (static_cast<uint32_t>(copy_.head().sequence) + op_) % kSampled == 0; }
uint32_t Batch::choice() const {
  return (static_cast<uint32_t>(copy_.head().sequence) + op_) / kSampled * 2654435761u;  // its high bits go everywhere
}

bool Batch::unit_agrees(const Product* products, uint32_t tiles, const float* x, uint32_t rows, uint32_t inputs) {
  if (!sampled()) return true;
  const uint32_t chosen = choice();
  const uint32_t tile = (chosen >> 8) % tiles, row = (chosen >> 16) % rows;
  const Product* p = products;
  while (tile >= p->last) ++p;
  const uint32_t n0 = (tile - p->first) * kUnitTile;
  bool right = true;
  pool_.each(kOutputsSampled, [&](uint32_t i, uint32_t) {
    const uint32_t n = (chosen + 9 * i) % kUnitTile;
    if (n0 + n >= p->outputs) return;
    if (!unit_sum_fits(format_of_tile(p->layout), p->weights + uint64_t{tile - p->first} * p->tile_bytes, n,
                       x + uint64_t{row} * inputs, inputs / kBlock, p->y[uint64_t{row} * p->stride + n0 + n]))
      __atomic_store_n(&right, false, __ATOMIC_RELAXED);
  });
  return right;
}

// Chunks go by turns, as many as there is room for their logits: first the unit's products, then each row's statistics
// in the order of its tokens. The rows of a turn stay in the unit's memory for all chunks.
Fault Batch::head_by_unit(const UnitPlan& plan, const Head& head, int32_t* exponents) {
  put_unit_tables(plan);
  const uint32_t most = plan.row_tiles * kUnitTile, outputs = head.product.outputs;
  for (uint32_t r = 0; r < head.rows; ++r) head.partial[r] = no_prediction();
  for (uint32_t first = 0; first < head.rows; first += most) {
    const uint32_t rows = head.rows - first < most ? head.rows - first : most;
    const float* x = head.x + uint64_t{first} * head.inputs;
    put_unit_rows(plan, x, rows, head.inputs, exponents);
    for (uint32_t turn = 0; turn < head.chunks; turn += kMaxWorkers) {
      Product products[kMaxWorkers];
      uint32_t count = 0, tiles = 0;
      for (; count < kMaxWorkers && turn + count < head.chunks; ++count) {
        const uint32_t begin = (turn + count) * kChunk;
        Product& p = products[count] = head.product;
        p.weights += uint64_t{begin / kUnitTile} * p.tile_bytes, p.y = head.chunk(count), p.stride = kChunk;
        p.outputs = outputs - begin < kChunk ? outputs - begin : kChunk;
        p.first = tiles, p.last = tiles += quotient_up(p.outputs, kUnitTile);
      }
      if (!multiply_rows_by_unit(plan, products, tiles, 0, rows, exponents)) return {WIRE_NO_UNIT, 0};
      if (!unit_agrees(products, tiles, x, rows, head.inputs)) return {WIRE_NO_UNIT, 1};
      pool_.each(rows, [&](uint32_t r, uint32_t) {
        for (uint32_t c = 0; c < count; ++c)
          merge(head.partial[first + r], reduce(head, head.chunk(c) + r * kChunk, first + r, turn + c));
      });
    }
  }
  for (uint32_t r = 0; r < head.rows; ++r) head.predictions[r] = head.partial[r];
  return {};
}

}  // namespace dsp
