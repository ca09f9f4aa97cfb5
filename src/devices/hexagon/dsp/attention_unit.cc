#include "devices/hexagon/dsp/attention_unit.h"

#include "devices/hexagon/dsp/fixed_math.h"
#include "devices/hexagon/dsp/hmx.h"
#include "devices/hexagon/dsp/hvx.h"
#include "devices/hexagon/dsp/key_tiles.h"
#include "devices/hexagon/dsp/rows.h"
#include "devices/hexagon/dsp/unit_tiles.h"

namespace dsp {
namespace {

constexpr uint32_t kPairs = kUnitTile / 2;  // of queries in a tile
constexpr uint32_t kMostKeyTiles = kChunkKeys / kUnitTile;
constexpr uint32_t kWithoutScale = 6 << 10, kOfValues = 2 << 10;  // 2^-9, 2^-13 as FP16
constexpr int32_t kMostQuery = 53, kMostScore = 16;               // exponents
// Common to all heads, in front of them: tables, a tile of 2^9 for the first input, and a strip of 1.
constexpr uint32_t kPlainTable = 0, kDistanceTable = 256, kValueTable = 512, kOffsetTile = kUnitTileBytes;
constexpr uint32_t kOnes = kMostKeyTiles * kUnitTileBytes, kCommon = 2 * kOnes;

uint32_t tiles_of(uint32_t count) { return (count + kUnitTile - 1) / kUnitTile; }
uint32_t power_from(uint32_t count) {  // exponent of the smallest power of two that is not below
  uint32_t shift = 0;
  while (1u << shift < count) ++shift;
  return shift;
}
uint16_t half_at(const uint8_t* tiles, uint32_t i, uint32_t j) {
  return reinterpret_cast<const uint16_t*>(tiles)[i / 2 * 64 + 2 * j + i % 2];
}

// Where a K/V head's parts lie, in bytes from its first. A strip is as many tiles as there are of keys, or of a key's
// elements, rounded up to a power of two: so no operand crosses a boundary.
struct Lay {
  uint32_t depth, strip, values = 0, scores, keys, queries, results, offsets, bytes;
  Lay(uint32_t head_dim, uint32_t row_tiles, uint32_t key_tiles)
      : depth(head_dim / kUnitTile), strip((1u << power_from(key_tiles > depth ? key_tiles : depth)) * kUnitTileBytes) {
    scores = depth * strip;
    keys = scores + row_tiles * strip;
    queries = keys + depth * strip;
    results = queries + row_tiles * depth * kUnitTileBytes;
    offsets = results + row_tiles * (depth + 1) * kUnitTileBytes;
    bytes = (offsets + row_tiles * kUnitTileBytes + strip - 1) & ~(strip - 1);
  }
};

struct Query {
  uint32_t at;           // of q and out, beside the K/V head's
  uint32_t first, last;  // keys
  uint32_t unused;
};
struct State {
  float chunks[2];        // largest and sum of the chunks before, as join() has them
  int32_t exponent;       // of the query
  float largest;          // of the chunk, as a product of query and key
  uint32_t leaves, sees;  // sees: keys of the chunk
  uint32_t unused[2];
};
static_assert(sizeof(State) == 32 && sizeof(Query) == 16);

class UnitAttention {
 public:
  UnitAttention(Pool& pool, const Matrix& unit, const UnitAttentionOp& op)
      : pool_(pool),
        memory_(unit.memory),
        room_(unit.bytes - kCommon),
        op_(op),
        states_(reinterpret_cast<State*>(op.state)),
        queries_(reinterpret_cast<Query*>(op.state + kUnitHeadQueries * sizeof(State))) {
    put_common();
  }

  bool run(const WireSpan& span) {
    const uint64_t at = uint64_t{span.sequence} * op_.sequence_stride;
    keys_ = op_.keys + at, values_ = op_.values + at;
    uint32_t rows = kUnitQueries / op_.group;
    while (rows > 1 && Lay(op_.head_dim, tiles_of(rows * op_.group), kMostKeyTiles).bytes > room_) rows /= 2;
    for (uint32_t done = 0; done < span.count; done += rows)
      if (!attend_rows(span.begin + done, span.count - done < rows ? span.count - done : rows)) return false;
    return true;
  }

 private:
  void put_common() {
    // c = mantissa * 2^scale_exponent_; as a table's scale times 2^-11, whose field is 4.
    const uint32_t c = bits_of(op_.scale * 1.44269504f);
    scale_exponent_ = static_cast<int32_t>(c >> 23) - 127;
    put_table(kPlainTable, kWithoutScale);
    put_table(kDistanceTable, (4 << 10) + (((c & 0x7fffff) + 0x1000) >> 13));
    put_table(kValueTable, kOfValues);
    auto* words = reinterpret_cast<uint32_t*>(memory_ + kOffsetTile);
    for (uint32_t i = 0; i < kUnitTileBytes / 4; ++i) words[i] = i < kUnitTile ? (15 + 9) << 10 : 0;
    words = reinterpret_cast<uint32_t*>(memory_ + kOnes);
    for (uint32_t i = 0; i < kOnes / 4; ++i) words[i] = 0x3c003c00;
  }

  void put_table(uint32_t at, uint32_t scale) const {
    auto* words = reinterpret_cast<uint32_t*>(memory_ + at);
    for (uint32_t i = 0; i < kUnitTableWords; ++i) words[i] = i < kUnitTile ? scale : 0;
  }

  bool attend_rows(uint32_t begin, uint32_t rows) {
    first_ = ~0u, last_ = 0, count_ = 0;
    for (uint32_t r = begin; r < begin + rows; ++r) {
      const WireKeys& seen = op_.seen[r];
      first_ = seen.first < first_ ? seen.first : first_, last_ = seen.last > last_ ? seen.last : last_;
      for (uint32_t h = 0; h < op_.group; ++h)
        queries_[count_++] = {r * op_.stride + h * op_.head_dim, seen.first, seen.last, 0};
    }
    row_tiles_ = tiles_of(count_);
    const bool one = first_ / kChunkKeys == (last_ - 1) / kChunkKeys;
    lay_ = Lay(op_.head_dim, row_tiles_, one ? tiles_of(last_) - first_ / kUnitTile : kMostKeyTiles);
    uint32_t heads = room_ / lay_.bytes;
    while (heads * row_tiles_ * kUnitTile > kUnitHeadQueries || heads > kMostHeads) --heads;
    for (head_ = 0; head_ < op_.kv_heads; head_ += heads_) {
      heads_ = op_.kv_heads - head_ < heads ? op_.kv_heads - head_ : heads;
      if (!attend_heads()) return false;
    }
    return true;
  }

  // heads_ K/V heads from head_ on, side by side: each stage is for all of them.
  bool attend_heads() {
    for (uint32_t i = 0; i < heads_ * row_tiles_ * kUnitTile; ++i) states_[i] = {};
    for (uint32_t h = 0; h < heads_; ++h) large_[h] = false;
    some_leave_ = false;
    each_pair([&](uint32_t h, uint32_t pair) { put_queries(h, pair); });
    for (chunk_ = first_ / kChunkKeys; chunk_ * kChunkKeys < last_; ++chunk_) {
      const uint32_t begin = chunk_ * kChunkKeys, end = begin + kChunkKeys;
      tile_ = (first_ > begin ? first_ : begin) / kUnitTile;
      tiles_ = tiles_of(last_ < end ? last_ : end) - tile_;
      each(tiles_, [&](uint32_t h, uint32_t j, uint32_t worker) { put_keys(h, j, worker); });
      multiply_keys(false);
      each_pair([&](uint32_t h, uint32_t pair) { find_largest(h, pair); });
      multiply_keys(true);
      if (op_.sampled && !distance_fits()) return false;
      each_pair([&](uint32_t h, uint32_t pair) { weigh(h, pair); });
      multiply_values();
      if (op_.sampled && !result_fits()) return false;
      each_pair([&](uint32_t h, uint32_t pair) {
        for (uint32_t i = 2 * pair; i < 2 * pair + 2 && i < count_; ++i) finish(h, i);
      });
    }
    if (__atomic_load_n(&some_leave_, __ATOMIC_RELAXED))
      each(count_, [&](uint32_t h, uint32_t i, uint32_t worker) { attend_otherwise(h, i, worker); });
    return true;
  }

  // body(head, i, worker) for every i of every head.
  template <class Body>
  void each(uint32_t count, const Body& body) {
    const uint32_t shift = power_from(count);
    pool_.each(heads_ << shift, [&](uint32_t task, uint32_t worker) {
      if (const uint32_t i = task & ((1u << shift) - 1); i < count) body(task >> shift, i, worker);
    });
  }

  // body(head, pair) for every pair of queries, a tile of them at a time.
  template <class Body>
  void each_pair(const Body& body) {
    each(row_tiles_, [&](uint32_t h, uint32_t tile, uint32_t) {
      for (uint32_t pair = tile * kPairs; pair < (tile + 1) * kPairs && 2 * pair < count_; ++pair) body(h, pair);
    });
  }

  uint8_t* area(uint32_t h) const { return memory_ + kCommon + h * lay_.bytes; }
  State& state(uint32_t h, uint32_t i) const { return states_[h * row_tiles_ * kUnitTile + i]; }
  uint32_t column(uint32_t h) const { return (head_ + h) * op_.group * op_.head_dim; }
  const uint16_t* elements(const uint8_t* of, uint32_t h, uint32_t position) const {
    return reinterpret_cast<const uint16_t*>(of + uint64_t{head_ + h} * op_.head_stride) +
           uint64_t{position} * op_.head_dim;
  }
  // A pair's place in its strip.
  uint8_t* scores(uint32_t h, uint32_t pair) const {
    return area(h) + lay_.scores + pair / kPairs * lay_.strip + pair % kPairs * kVector;
  }
  Seen seen(uint32_t h, uint32_t pair) const {
    Seen s = {};
    const uint32_t begin = tile_ * kUnitTile, end = begin + tiles_ * kUnitTile;
    for (uint32_t i = 0; i < 2 && 2 * pair + i < count_; ++i) {
      const Query& q = queries_[2 * pair + i];
      if (state(h, 2 * pair + i).leaves != 0 || q.first >= end || q.last <= begin) continue;
      s.first[i] = static_cast<int32_t>(q.first > begin ? q.first - begin : 0);
      s.last[i] = static_cast<int32_t>((q.last < end ? q.last : end) - begin);
    }
    return s;
  }

  void put_queries(uint32_t h, uint32_t pair) {
    const auto query = [&](uint32_t i) { return i < count_ ? op_.q + queries_[i].at + column(h) : nullptr; };
    int32_t exponents[2];
    unit_rows(query(2 * pair), query(2 * pair + 1), lay_.depth,
              area(h) + lay_.queries + pair / kPairs * lay_.depth * kUnitTileBytes + pair % kPairs * kVector,
              exponents);
    for (uint32_t i = 0; i < 2; ++i) {
      State& s = state(h, 2 * pair + i);
      s.exponent = exponents[i];
      if (exponents[i] > kMostQuery) leave(s);
    }
  }

  void put_keys(uint32_t h, uint32_t j, uint32_t worker) {
    const uint32_t begin = (tile_ + j) * kUnitTile, end = begin + kUnitTile;
    const uint32_t first = first_ > begin ? first_ - begin : 0, last = (last_ < end ? last_ : end) - begin;
    const bool large =
        unit_keys(elements(keys_, h, begin), first, last, op_.head_dim, op_.scratch + worker * op_.scratch_bytes,
                  area(h) + lay_.keys + j * lay_.depth * kUnitTileBytes);
    if (unit_values(elements(values_, h, begin), first, last, op_.head_dim, lay_.strip,
                    area(h) + lay_.values + j * kUnitTileBytes) ||
        large) {
      __atomic_store_n(&large_[h], true, __ATOMIC_RELAXED);
      __atomic_store_n(&some_leave_, true, __ATOMIC_RELAXED);
    }
  }
  void leave(State& state) {
    state.leaves = 1;
    __atomic_store_n(&some_leave_, true, __ATOMIC_RELAXED);
  }

  template <class Body>
  void multiply(uint32_t table, const Body& body) const {
    unit_barrier();
    unit_table(memory_ + table);
    unit_clear();
    for (uint32_t h = 0; h < heads_; ++h)
      for (uint32_t i = 0; i < row_tiles_; ++i) body(area(h), i);
    unit_barrier();
  }
  void multiply_keys(bool distances) const {
    multiply(distances ? kDistanceTable : kPlainTable, [&](uint8_t* at, uint32_t i) {
      for (uint32_t j = 0; j < tiles_; ++j) {
        unit_multiply(at + lay_.queries + i * lay_.depth * kUnitTileBytes,
                      at + lay_.keys + j * lay_.depth * kUnitTileBytes, lay_.depth);
        if (distances) unit_multiply(at + lay_.offsets + i * kUnitTileBytes, memory_ + kOffsetTile, 1);
        unit_convert();
        unit_store(at + lay_.scores + i * lay_.strip + j * kUnitTileBytes);
      }
    });
  }
  void multiply_values() const {
    multiply(kValueTable, [&](uint8_t* at, uint32_t i) {
      for (uint32_t e = 0; e <= lay_.depth; ++e) {
        unit_multiply(at + lay_.scores + i * lay_.strip,
                      e < lay_.depth ? at + lay_.values + e * lay_.strip : memory_ + kOnes, tiles_);
        unit_convert();
        unit_store(results(at, i, e));
      }
    });
  }
  uint8_t* results(uint8_t* at, uint32_t row_tile, uint32_t e) const {
    return at + lay_.results + (row_tile * (lay_.depth + 1) + e) * kUnitTileBytes;
  }

  void find_largest(uint32_t h, uint32_t pair) {
    uint32_t largest[2], offsets = 0;
    unit_largest(scores(h, pair), tiles_, seen(h, pair), largest);
    for (uint32_t i = 0; i < 2; ++i) {
      State& s = state(h, 2 * pair + i);
      s.sees = largest[i] != kNoScore ? 1 : 0;
      if (s.sees == 0) continue;
      const auto field = static_cast<int32_t>(largest[i] >> 10 & 31);
      if (field + s.exponent + scale_exponent_ > kMostScore) leave(s);
      s.largest = times_power(half_to_float(static_cast<uint16_t>(largest[i])), 9 + s.exponent);
      offsets |= (largest[i] ^ 0x8000) << (16 * i);
    }
    *reinterpret_cast<HVX_Vector*>(area(h) + lay_.offsets + pair / kPairs * kUnitTileBytes + pair % kPairs * kVector) =
        Q6_V_vand_QV(Q6_Q_vsetq_R(4), Q6_V_vsplat_R(static_cast<int32_t>(offsets)));
  }

  void weigh(uint32_t h, uint32_t pair) {
    int32_t shift[2];
    for (uint32_t i = 0; i < 2; ++i) {
      const int32_t all = 8 - scale_exponent_ - state(h, 2 * pair + i).exponent;
      shift[i] = all < -1 ? -1 : all < 60 ? all : 60;
    }
    unit_weights_of(scores(h, pair), tiles_, seen(h, pair), shift);
  }

  void finish(uint32_t h, uint32_t i) {
    State& s = state(h, i);
    if (s.leaves != 0 || s.sees == 0) return;
    const Query& query = queries_[i];
    const uint8_t* const at = results(area(h), i / kUnitTile, 0) + i % kUnitTile / 2 * kVector;
    const float sum = half_to_float(half_at(results(area(h), i / kUnitTile, lay_.depth), i % kUnitTile, 0));
    float* const out = op_.out + query.at + column(h);
    const uint32_t last = (query.last - 1) / kChunkKeys;
    if (query.first / kChunkKeys == last) {
      const uint32_t inverse = bits_of(1.0f / sum), digits = ((inverse & 0x7fffffu) | 0x800000u) + 128;
      return unit_mix(at, i % 2 != 0, op_.head_dim, static_cast<int32_t>(digits < 1 << 24 ? digits >> 8 : 0xffff),
                      static_cast<int32_t>(inverse >> 23) - 142, out);
    }
    const bool begins = query.first / kChunkKeys == chunk_;
    alignas(kVector) float mix[128];
    unit_mix(at, i % 2 != 0, op_.head_dim, 1, 3, mix);
    join({s.largest, 8 * sum}, mix, op_.scale, op_.head_dim, begins, s.chunks, out);
    if (chunk_ == last) scale(out, 1.0f / s.chunks[1], op_.head_dim, out);
  }

  bool sees_large(uint32_t h, const Query& q) const {
    const auto in = [&](const uint8_t* of) {
      for (uint32_t k = q.first; k < q.last; ++k) {
        const uint16_t* const x = elements(of, h, k);
        for (uint32_t i = 0; i < op_.head_dim; ++i)
          if ((x[i] & 0x7fffu) >= kUnitLargest) return true;
      }
      return false;
    };
    return in(keys_) || in(values_);
  }
  void attend_otherwise(uint32_t h, uint32_t i, uint32_t worker) {
    const Query& query = queries_[i];
    if (state(h, i).leaves == 0 && !(large_[h] && sees_large(h, query))) return;
    attend({.q = op_.q + query.at + column(h),
            .out = op_.out + query.at + column(h),
            .stride = op_.stride,
            .rows = 1,
            .heads = 1,
            .keys = elements(keys_, h, query.first),
            .values = elements(values_, h, query.first),
            .count = query.last - query.first,
            .half = true,
            .head_dim = op_.head_dim,
            .scale = op_.scale,
            .scratch = op_.scratch + worker * op_.scratch_bytes});
  }

  // Whether a product may be the unit's, from the operands that it had. A step of the sum is off by 2^-21 of the
  // largest part, and the result rounded to FP16. Results below its normal numbers may be zero.
  static bool fits(const uint8_t* rows, const uint8_t* weights, uint32_t tiles, uint32_t r, uint32_t n, float offset,
                   float scale, uint16_t result) {
    const auto absolute = [](float v) { return float_of(bits_of(v) & kMagnitude); };
    float sum = offset, all = absolute(offset);
    for (uint32_t k = 0; k < tiles * kUnitTile; ++k) {
      const uint32_t at = k / kUnitTile * kUnitTileBytes;
      const float product =
          half_to_float(half_at(rows + at, r, k % kUnitTile)) * half_to_float(half_at(weights + at, k % kUnitTile, n));
      sum += product, all += absolute(product);
    }
    const float steps = static_cast<float>(tiles * kUnitTile + 8) * 0x1p-21f;
    return absolute(half_to_float(result) - sum * scale) <=
           all * scale * steps + absolute(sum * scale) * 0x1p-10f + 0x1p-14f;
  }
  bool distance_fits() const {
    const uint32_t h = (op_.choice >> 8) % heads_, i = (op_.choice >> 12) % count_, j = (op_.choice >> 20) % tiles_;
    const uint32_t row_tile = i / kUnitTile, r = i % kUnitTile;
    const float offset = half_to_float(half_at(area(h) + lay_.offsets + row_tile * kUnitTileBytes, r, 0)) * 0x1p9f;
    const float scale = half_to_float(static_cast<uint16_t>(*reinterpret_cast<uint32_t*>(memory_ + kDistanceTable)));
    bool right = true;
    for (uint32_t n = op_.choice % 8; n < kUnitTile; n += 8)
      right &= fits(area(h) + lay_.queries + row_tile * lay_.depth * kUnitTileBytes,
                    area(h) + lay_.keys + j * lay_.depth * kUnitTileBytes, lay_.depth, r, n, offset, scale,
                    half_at(area(h) + lay_.scores + row_tile * lay_.strip + j * kUnitTileBytes, r, n));
    return right;
  }
  bool result_fits() const {
    const uint32_t h = (op_.choice >> 8) % heads_, i = (op_.choice >> 12) % count_, row_tile = i / kUnitTile;
    bool right = true;
    for (uint32_t e = 0; e <= lay_.depth; ++e)
      right &= fits(area(h) + lay_.scores + row_tile * lay_.strip,
                    e < lay_.depth ? area(h) + lay_.values + e * lay_.strip : memory_ + kOnes, tiles_, i % kUnitTile,
                    op_.choice % kUnitTile, 0, 0x1p-13f,
                    half_at(results(area(h), row_tile, e), i % kUnitTile, op_.choice % kUnitTile));
    return right;
  }

  static constexpr uint32_t kMostHeads = 64;

  Pool& pool_;
  uint8_t* const memory_;
  const uint32_t room_;
  const UnitAttentionOp& op_;
  State* const states_;
  Query* const queries_;                               // of the rows at hand, by K/V head the same
  const uint8_t *keys_ = nullptr, *values_ = nullptr;  // of the sequence
  int32_t scale_exponent_ = 0;                         // c's power of two
  uint32_t first_ = 0, last_ = 0, count_ = 0;          // keys that anyone sees; queries
  uint32_t row_tiles_ = 0, head_ = 0, heads_ = 0, chunk_ = 0;
  uint32_t tile_ = 0, tiles_ = 0;  // of the chunk's keys
  Lay lay_ = {32, 1, 1};
  bool large_[kMostHeads] = {}, some_leave_ = false;
};

}  // namespace

bool unit_attends(const Matrix& unit, uint32_t head_dim, uint32_t group) {
  if (head_dim != 32 && head_dim != 64 && head_dim != 128) return false;
  return group <= kUnitQueries && unit.bytes >= kCommon + Lay(head_dim, tiles_of(group), kMostKeyTiles).bytes;
}

bool attend_by_unit(Pool& pool, const Matrix& unit, const UnitAttentionOp& op, const WireSpan& span) {
  return UnitAttention(pool, unit, op).run(span);
}

}  // namespace dsp
