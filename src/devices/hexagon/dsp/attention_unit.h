// Attention by the matrix unit: queries x keys and weights x values are its products in FP16, and all between them is
// the vector unit's integers. For F16 stores with heads of 32, 64 or 128; a row may have any company.
//
// Words: query = one head of one row; 32 of them are a tile, whatever rows and heads they are of. chunk = 512 keys from
// a multiple of 512 of the store on, tile of keys = 32 from a multiple of 32. So where a key lies does not depend on
// who sees it, and one that a query does not see has the weight 0, which adds nothing.
//
// A query q = a * 2^e as in unit_tiles.h; keys and values keep their bits. Per chunk and query:
//   s = sum of a k, times 2^-9, rounded to FP16; m = the largest s that is seen, and one step of FP16 more
//   d = (sum of a k - m 2^9) * c * 2^-11, rounded to FP16; c = the scale times log2(e) as a number of 11 bits in [1, 2)
//       and a power of two that goes to the next step
//   t = |d|, as a distance in powers of two with 11 digits behind the point, cut; from 32 on the weight is 0
//   w = 2^(10 - t), rounded to FP16 (kPowers); 0 below its normal numbers
//   o = sum of w v, times 2^-13, rounded to FP16; n = the same of values of 1
// One chunk makes o / n of it; several are joined as attention.h's are. The second product has m as one more input, so
// that FP16's digits are those of the distance and not of the score.
//
// Queries leave for attend() where FP16 could not hold this. These are not finite or from 2^61 on, or see a key or
// value of kUnitLargest or more. Or their largest score may, by its exponents, exceed 2^12 powers of two. So each
// leaves by its own numbers and those that it sees, alone.
#pragma once
#include <stdint.h>

#include "devices/hexagon/dsp/attention.h"
#include "devices/hexagon/dsp/os.h"
#include "devices/hexagon/dsp/pool.h"
#include "devices/hexagon/wire.h"

namespace dsp {

struct UnitAttentionOp {
  const float* q;
  float* out;
  uint32_t stride;  // of q and out
  uint32_t group;   // query heads of a K/V head
  uint32_t kv_heads, head_dim;
  uint32_t head_stride, sequence_stride;  // bytes, of keys and values
  const uint8_t* keys;
  const uint8_t* values;
  const WireKeys* seen;  // by row
  float scale;
  uint8_t* scratch;  // for attend(), by worker
  uint32_t scratch_bytes;
  uint8_t* state;   // kUnitStateBytes
  bool sampled;     // some products are computed again
  uint32_t choice;  // which
};

constexpr uint32_t kUnitQueries = 256;       // that lie in the unit's memory at a time, for one K/V head
constexpr uint32_t kUnitHeadQueries = 8192;  // for all heads
constexpr uint32_t kUnitStateBytes = kUnitHeadQueries * 32 + kUnitQueries * 16 + 128;

// Whether the unit's memory has room for it. The op's rows and keys do not matter.
bool unit_attends(const Matrix& unit, uint32_t head_dim, uint32_t group);
// All rows of a span, by a thread that has the unit. False: a sampled product is wrong.
bool attend_by_unit(Pool& pool, const Matrix& unit, const UnitAttentionOp& op, const WireSpan& span);

// ---- The vector unit's part, of two queries that share vectors. Scores, weights and results are strips of tiles: 32
// keys or elements take kUnitTileBytes, and the two queries' vector lies at the same place of each.

// Which keys of a strip they see, counted from its first.
struct Seen {
  int32_t first[2], last[2];
};
// By query: the largest score that is seen, and one step more, as FP16; kNoScore: it sees none.
constexpr uint32_t kNoScore = 0xffff;
void unit_largest(const uint8_t* scores, uint32_t tiles, const Seen& seen, uint32_t largest[2]);
// Distances to weights, in place. shift: by query, 8 less the exponents of the query and of c.
void unit_weights_of(uint8_t* distances, uint32_t tiles, const Seen& seen, const int32_t shift[2]);
// A query's results times factor * 2^exponent, factor of 16 bits; out: a multiple of 128.
void unit_mix(const uint8_t* results, bool odd, uint32_t head_dim, int32_t factor, int32_t exponent, float* out);

}  // namespace dsp
