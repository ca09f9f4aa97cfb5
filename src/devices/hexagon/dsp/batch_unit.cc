// Products by the matrix unit, for ops of more rows than a group of the integer kernels has.
//
// All rows of the op lie in the unit's memory as tiles. Weights come in groups of outputs, in three stages: the vector
// units widen group g while one thread multiplies group g - 1 and others make floats of group g - 2. A stage is a run
// of the pool, so that its end orders what threads wrote before what others read; the unit's barriers stand beside.
#include "devices/hexagon/dsp/batch-inl.h"
#include "devices/hexagon/dsp/hmx.h"
#include "devices/hexagon/dsp/hvx.h"
#include "devices/hexagon/dsp/unit_tiles.h"

namespace dsp {
namespace {

constexpr uint32_t kMostTogether = 8;  // tiles of 32 outputs in a group
constexpr uint32_t kTableBytes = 256, kTables = 3;

uint32_t quotient_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

}  // namespace

// Where all lies in the unit's memory. A slot holds 32 rows, or 32 outputs, of all inputs; behind slots of rows and of
// two groups of weights are those of results, then a table per format.
bool Batch::UnitPlan::lay(const Matrix& unit, uint32_t rows, uint32_t inputs) {
  blocks = inputs / kBlock, stripes = quotient_up(blocks, kUnitStripe), row_tiles = quotient_up(rows, kUnitTile);
  slot = stripes * kUnitStripeBytes;
  weights = row_tiles * slot;
  const uint32_t fixed = weights + kTables * kTableBytes, each = 2 * (slot + row_tiles * kUnitTileBytes);
  if (inputs > kUnitMostInputs || unit.bytes < fixed) return false;
  together = (unit.bytes - fixed) / each;
  if (together > kMostTogether) together = kMostTogether;
  results = weights + 2 * together * slot;
  tables = results + 2 * together * row_tiles * kUnitTileBytes;
  return together > 0;
}

bool Batch::multiply_by_unit(const UnitPlan& plan, const Product* products, uint32_t tiles, const float* x,
                             uint32_t rows, uint32_t inputs, int32_t* exponents) {
  uint8_t* const memory = unit_.memory;
  const auto format_of = [](const Product& p) {
    return p.layout == WIRE_TILE_Q4_0 ? Format::q4 : p.layout == WIRE_TILE_Q8_0 ? Format::q8 : Format::f16;
  };
  const auto table_of = [&](Format format) {
    return memory + plan.tables + static_cast<uint32_t>(format) * kTableBytes;
  };
  constexpr Format kFormats[kTables] = {Format::q4, Format::q8, Format::f16};
  for (const Format format : kFormats) {
    auto* words = reinterpret_cast<uint32_t*>(table_of(format));
    for (uint32_t i = 0; i < kUnitTableWords; ++i)
      words[i] = i < kUnitTile ? static_cast<uint32_t>(15 - unit_table_shift(format)) << 10 : 0;
  }
  pool_.each(plan.row_tiles * kUnitTile / 2, [&](uint32_t pair, uint32_t) {
    const auto row = [&](uint32_t r) { return r < rows ? x + uint64_t{r} * inputs : nullptr; };
    int32_t both[2];
    unit_rows(row(2 * pair), row(2 * pair + 1), plan.blocks,
              memory + pair / (kUnitTile / 2) * plan.slot + pair % (kUnitTile / 2) * kVector, both);
    for (uint32_t i = 0; i < 2; ++i)
      if (2 * pair + i < rows) exponents[2 * pair + i] = both[i];
  });

  struct Tile {
    const Product* product;
    uint32_t of_product;
    const uint8_t* weights;
    uint8_t* slot;
    uint8_t* results;
  };
  const auto tile_at = [&](uint32_t tile) {
    const Product* p = products;
    while (tile >= p->last) ++p;
    const uint32_t place = tile % (2 * plan.together);  // a group's neighbours in time have the other places
    return Tile{p, tile - p->first, p->weights + uint64_t{tile - p->first} * p->tile_bytes,
                memory + plan.weights + place * plan.slot,
                memory + plan.results + place * plan.row_tiles * kUnitTileBytes};
  };
  const auto widen = [&](uint32_t tile, uint32_t stripe) {
    const Tile t = tile_at(tile);
    const uint32_t first = stripe * kUnitStripe, last = first + kUnitStripe;
    unit_weights(format_of(*t.product), t.weights, first, last < plan.blocks ? last : plan.blocks, t.slot);
  };
  const auto multiply = [&](uint32_t tile) {
    const Tile t = tile_at(tile);
    unit_table(table_of(format_of(*t.product)));
    for (uint32_t r = 0; r < plan.row_tiles; ++r) {
      unit_clear();
      for (uint32_t b = 0; b < plan.blocks; b += kUnitStripe)
        unit_multiply(memory + r * plan.slot + b * kUnitTileBytes, t.slot + b * kUnitTileBytes,
                      plan.blocks - b < kUnitStripe ? plan.blocks - b : kUnitStripe);
      unit_convert();
      unit_store(t.results + r * kUnitTileBytes);
    }
  };
  const auto finish = [&](uint32_t tile) {
    const Tile t = tile_at(tile);
    const uint32_t n0 = t.of_product * kUnitTile, left = t.product->outputs - n0;
    for (uint32_t r = 0; r < plan.row_tiles; ++r) {
      const uint32_t first = r * kUnitTile;
      unit_results(format_of(*t.product), t.results + r * kUnitTileBytes, exponents + first, t.weights,
                   rows - first < kUnitTile ? rows - first : kUnitTile,
                   t.product->y + uint64_t{first} * t.product->stride + n0, t.product->stride,
                   left < kUnitTile ? left : kUnitTile);
    }
  };

  // Tiles of a group, none before the first and behind the last.
  const uint32_t groups = quotient_up(tiles, plan.together);
  const auto first_of = [&](uint32_t group) { return group < groups ? group * plan.together : tiles; };
  const auto count_of = [&](uint32_t group) { return group < groups ? first_of(group + 1) - first_of(group) : 0; };
  bool given = true;
  for (uint32_t stage = 0; stage < groups + 2 && given; ++stage) {
    const uint32_t widened = count_of(stage) * plan.stripes, finished = stage < 2 ? 0 : count_of(stage - 2);
    pool_.each(1 + widened + finished, [&](uint32_t task, uint32_t) {
      if (task == 0) {
        if (stage == 0 || count_of(stage - 1) == 0) return;
        if (!os_lock_matrix(unit_)) {
          given = false;
          return;
        }
        unit_barrier();
        for (uint32_t i = 0; i < count_of(stage - 1); ++i) multiply(first_of(stage - 1) + i);
        unit_barrier();
        os_unlock_matrix();
      } else if (task <= widened) {
        widen(first_of(stage) + (task - 1) / plan.stripes, (task - 1) % plan.stripes);
      } else {
        finish(first_of(stage - 2) + task - 1 - widened);
      }
    });
  }
  return given;
}

}  // namespace dsp
