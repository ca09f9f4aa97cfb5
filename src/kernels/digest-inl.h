// Attention over digests (kernels.h), for vectors of 4, 8 and 16 floats. A digest holds the keys and values of a head
// in 8 bits; rows that see many keys read it instead of the floats.
//
// Each file that has the instructions includes this once, after it has defined the names listed below.
// LLADA_VECTOR_NAMESPACE names its namespace; everything is in an anonymous namespace, as in x86_rows-inl.h.
//
// The computation:
//   - Queries, keys and values are multiplied by a Hadamard matrix (QuaRot, arXiv 2404.00456). That leaves q . k as it
//     is and spreads a value that stands out in one channel over all channels; results are turned back in the end. Each
//     then gets one scale and becomes bytes.
//   - Softmax weights become bytes relative to the largest product of weight and value scale of the row in a block of
//     64 keys. So a key that takes nearly all weight costs only its own block's precision, and a value far below the
//     others costs nothing. The sum of the weights and the sums over blocks are floats.
//   - A vector lane is one row, a tile is two vectors of rows. A block of keys is multiplied with all tiles of a call
//     before the next block, so that it comes from memory once.
//   - A row's result depends on the row and the keys that it sees alone: scales belong to one position, and blocks
//     begin at multiples of 64.
//
// Error of a score: 0.0093 |q||k| / head_dim, as much as 8-bit activations bring into q and k before (0.7 % each).
// Error of the mix: 0.7 % of the root mean square of a result. Together, for normal keys and values: 0.6 % with flat
// weights, 1.2 % with scores that deviate by 1, 2.1 % with scores that deviate by 4. (tests/kernels/digest_test.cc
// holds all tables to one bound.)
//
// Layout. A word is four bytes, and products are made of words. The word of a key has four dimensions (d, d + L, d + 2
// L, d + 3 L among 4 L neighbours, where L is the number of lanes). The word of a value has four neighbouring
// positions. Keys of a head lie as [position][word], values as [block of 64 positions][dimension][word]. So both
// products are one function: rows x words times columns x words. Where the instruction multiplies two rows by two
// columns (kPairs), words lie in pairs: rows as [word / 2][row][word % 2], columns as [column / 2][word / 2][column %
// 2][word % 2].
//
// The including file defines:
//   Vec, Ints, Mask, kLanes        a vector of floats, of 32-bit integers, of lanes that hold; lanes of a vector
//   zero, fill, load, store        of a Vec
//   add, sub, mul, fma             of Vecs
//   max, greater, both, choose     max keeps a NaN in its second operand; both: lanes that hold in two masks
//   load_f16                       F16 numbers as a Vec
//   swap_lanes<h>(Vec)             lane i gets lane i xor h
//   power(Vec x)                   2^(the low 8 bits of each lane's pattern - 127); 0 where they are 0. Or, with
//                                  LLADA_OWN_MATH, all between its #ifndef and #endif
//   bytes(x0 .. x3, s0 .. s3)      round(x_i * s_i) of each lane as the bytes of a word
//   to_float(Ints)                 each lane as a float
//   kPairs                         whether words lie in pairs, see above
//   kValuesByWord                  whether values lie as [word][dimension] in a block of 64 positions
//   store_weights(at, t, w0, w1)   stores two vectors of words for the rows of half t of a tile, in the order above
//   products<kMix>(rows, columns, count, words, halves, start, put)
//                                  calls put(column, t, start[t] + sums of the rows of half t < halves); with kMix the
//                                  rows are weights
//   kSkipsHalf                     whether a tile with no more rows than lanes is computed as one half
//   kKeyFlip, kValueFlip           0x80808080 where the bytes of keys or values are unsigned, that is 128 more than
//                                  they mean; 0 otherwise
//   add_bytes(Ints sum, Ints word) the sum of each word's unsigned bytes added to `sum`; used where kValueFlip is not 0
//   kMostWeight                    the integer of the largest weight: 255 or 127
#pragma once
#include "kernels/kernels.h"

namespace llada::kernels::LLADA_VECTOR_NAMESPACE {
namespace {

inline constexpr int64_t kTileRows = 2 * kLanes, kTiles = 32 / kTileRows, kKeys = 64, kMostDimensions = 128;
inline constexpr int kKeyWords = static_cast<int>(kKeys / 4);
inline constexpr float kHidden =
    -1e30f;  // log weight of a key that a row does not see: finite, its exponential is zero

inline constexpr int64_t row_word(int64_t word, int64_t row) {
  return kPairs ? (word / 2 * kTileRows + row) * 2 + word % 2 : word * kTileRows + row;
}
inline constexpr int64_t column_word(int64_t column, int64_t word, int64_t words) {
  return kPairs ? (column / 2 * (words / 2) + word / 2) * 4 + column % 2 * 2 + word % 2 : column * words + word;
}
// In a block of values.
inline constexpr int64_t value_word(int64_t column, int64_t word, int64_t columns) {
  return kValuesByWord ? word * columns + column : column_word(column, word, kKeyWords);
}

#ifndef LLADA_OWN_MATH
inline constexpr float kPowers = 12583039.0f;  // 1.5 * 2^23 + 127: adding it leaves round(x) + 127 in the low bits

// 2^x of x up to 127 within 3.5e-6 relative; 0 below -126.5.
inline Vec exp2(Vec x) {
  x = max(fill(-127.0f), x);
  const Vec shifted = add(x, fill(kPowers)), f = sub(x, sub(shifted, fill(kPowers)));
  Vec p = fma(fill(0.009666368515f), f, fill(0.055921975842f));
  p = fma(p, f, fill(0.240223490380f));
  p = fma(p, f, fill(0.693121045203f));
  p = fma(p, f, fill(1.0f));
  return mul(p, power(shifted));
}

inline float reduce(Vec x, float (*join)(float, float)) {
  float lanes[kLanes];
  store(lanes, x);
  float all = lanes[0];
  for (int i = 1; i < kLanes; ++i) all = join(all, lanes[i]);
  return all;
}
inline float largest_lane(Vec x) {
  return reduce(x, [](float a, float b) { return a > b ? a : b; });
}
inline float sum_of_lanes(Vec x) {
  return reduce(x, [](float a, float b) { return a + b; });
}

// The sum of the signed bytes of each word.
template <int Words>
inline int32_t sum_of_bytes(const int32_t (&words)[Words]) {
  int32_t sum = 0;
  for (const int32_t word : words)
    for (int shift = 0; shift < 32; shift += 8) sum += static_cast<int8_t>(word >> shift);
  return sum;
}

// log2 of x / 127, 0.6 to 2.2 % above the exact one: a parabola over the mantissa.
inline float log_of(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  const float exponent = static_cast<float>(static_cast<int>(bits >> 23) - 127);
  bits = (bits & 0x7fffff) | 0x3f800000;
  float m;
  __builtin_memcpy(&m, &bits, 4);
  return (-0.3333333f * m + 2.0f) * m + (-1.6506667f - 6.9886847f) + exponent;
}
#endif

// Exchanges between lanes: the upper of each pair gets the difference.
template <int h>
inline Vec turn_lanes(Vec x) {
  float signs[kLanes];
  for (int i = 0; i < kLanes; ++i) signs[i] = (i & h) != 0 ? -1.0f : 1.0f;
  return fma(x, load(signs), swap_lanes<h>(x));
}

// x times a Hadamard matrix: sqrt(kLanes * Vectors) times a rotation that is its own inverse.
template <int Vectors>
inline void turn(Vec (&x)[Vectors]) {
  for (int h = 1; h < Vectors; h *= 2)
    for (int v = 0; v < Vectors; ++v) {
      if ((v & h) != 0) continue;
      const Vec a = x[v], b = x[v + h];
      x[v] = add(a, b);
      x[v + h] = sub(a, b);
    }
  for (int v = 0; v < Vectors; ++v) {
    x[v] = turn_lanes<2>(turn_lanes<1>(x[v]));
    if constexpr (kLanes > 4) x[v] = turn_lanes<4>(x[v]);
    if constexpr (kLanes > 8) x[v] = turn_lanes<8>(x[v]);
  }
}

template <int Vectors>
inline float largest(const Vec (&x)[Vectors]) {
  Vec most = zero();
  for (int v = 0; v < Vectors; ++v) most = max(max(x[v], sub(zero(), x[v])), most);
  return largest_lane(most);
}

template <int Vectors>
inline bool finite(const Vec (&x)[Vectors]) {
  Vec sum = zero();
  for (int v = 0; v < Vectors; ++v) sum = fma(x[v], zero(), sum);
  return sum_of_lanes(sum) == 0;
}

// Where the parts of a head's digest lie.
struct Digest {
  int32_t *keys, *values;
  float* key_scale;  // per position; NaN where the key is not finite
  float* value_log;  // log2 of the value's scale; NaN where the value is not finite
  float* value_inverse;

  Digest(std::byte* base, int64_t positions, int64_t head_dim) {
    const int64_t n = padded(positions);
    keys = reinterpret_cast<int32_t*>(base);
    values = keys + n * head_dim / 4;
    key_scale = reinterpret_cast<float*>(values + n * head_dim / 4);
    value_log = key_scale + n;
    value_inverse = value_log + n;
  }
  static int64_t padded(int64_t positions) { return (positions + kKeys - 1) / kKeys * kKeys; }
};

template <int Vectors>
inline void load_row(const void* rows, int64_t p, Vec (&x)[Vectors]) {
  const auto* row = static_cast<const uint16_t*>(rows) + p * kLanes * Vectors;
  for (int v = 0; v < Vectors; ++v) x[v] = load_f16(row + kLanes * v);
}

// The words of a turned row; scale: the factor that brings its numbers to +-127.
template <int Vectors>
inline void words_of(const Vec (&x)[Vectors], float scale, int32_t (&words)[kLanes * Vectors / 4]) {
  const Vec s = fill(scale);
  for (int g = 0; g < Vectors / 4; ++g)
    store(words + kLanes * g, bytes(x[4 * g], x[4 * g + 1], x[4 * g + 2], x[4 * g + 3], s, s, s, s));
}

template <int Vectors>
void make_digest(const DigestArgs& a) {
  constexpr int kWords = kLanes * Vectors / 4;
  const Digest to(a.digest, a.positions, a.head_dim);
  for (int64_t p = a.p0 / 4 * 4; p < a.p1; p += 4) {
    Vec values[4][Vectors];
    float scales[4] = {};
    int32_t mine = 0;  // the bytes of a word of values that are of [p0, p1)
    for (int64_t j = 0; j < 4; ++j) {
      if (p + j < a.p0 || p + j >= a.p1) {
        for (Vec& x : values[j]) x = zero();
        continue;
      }
      mine |= 0xff << 8 * j;
      Vec key[Vectors];
      load_row(a.k, p + j, key);
      turn(key);
      const float most = largest(key);
      to.key_scale[p + j] = finite(key) ? most / 127 : __builtin_nanf("");
      int32_t words[kWords];
      words_of(key, most > 0 ? 127 / most : 0, words);
      for (int i = 0; i < kWords; ++i) to.keys[column_word(p + j, i, kWords)] = words[i] ^ kKeyFlip;

      load_row(a.v, p + j, values[j]);
      turn(values[j]);
      const bool good = finite(values[j]);
      const float size = largest(values[j]), log = log_of(good && size > 0x1p-40f ? size : 0x1p-40f);
      to.value_log[p + j] = good ? log : __builtin_nanf("");
      float lanes[kLanes];
      store(lanes, exp2(fill(-log)));  // the scale belongs to the logarithm
      to.value_inverse[p + j] = scales[j] = good ? lanes[0] : 1;
    }
    int32_t* block = to.values + p / kKeys * kKeyWords * a.head_dim;
    for (int v = 0; v < Vectors; ++v) {
      int32_t words[kLanes];
      store(words, bytes(values[0][v], values[1][v], values[2][v], values[3][v], fill(scales[0]), fill(scales[1]),
                         fill(scales[2]), fill(scales[3])));
      for (int i = 0; i < kLanes; ++i) {
        int32_t& to_word = block[value_word(kLanes * v + i, p % kKeys / 4, kLanes * Vectors)];
        to_word = (to_word & ~mine) | ((words[i] ^ kValueFlip) & mine);
      }
    }
  }
}

struct Tile {
  alignas(64) int32_t queries[kMostDimensions / 4 * kTileRows];
  alignas(64) float sums[kMostDimensions][kTileRows];
  Ints start[2];                                                 // the excess from the 128 added to keys
  Vec query_scale[2], before[2], end[2], top[2], weight_sum[2];  // before: half a key less than the first seen
  int64_t rows;
  int halves() const { return kSkipsHalf && rows <= kLanes ? 1 : 2; }
  KeyRange common;  // the keys that each of its rows sees
};

struct Work {
  Tile tiles[kTiles];
  alignas(64) int32_t weights[kKeyWords * kTileRows];
  alignas(64) float logs[kKeys][kTileRows];  // log2 of weight * scale of the value
};

// Rows [r0, r0 + rows) into the lanes of a tile.
template <int Vectors>
__attribute__((noinline)) void take_queries(const AttentionArgs& a, int64_t r0, int64_t rows, Tile& tile) {
  constexpr int kWords = kLanes * Vectors / 4;
  float scales[kTileRows] = {}, befores[kTileRows] = {}, ends[kTileRows] = {};
  int start[kTileRows] = {};
  tile.rows = rows;
  tile.common = {0, INT32_MAX};
  for (int64_t lane = 0; lane < kTileRows; ++lane) {
    int32_t words[kWords] = {};
    if (lane < rows) {
      const int64_t r = r0 + lane;
      const KeyRange seen = a.range(r);
      Vec q[Vectors];
      for (int v = 0; v < Vectors; ++v) q[v] = load(a.q + r * a.q_stride + kLanes * v);
      turn(q);
      const float most = largest(q);
      // log2(e) because weights are powers of two; head_dim because both sides are sqrt(head_dim) too long.
      scales[lane] =
          finite(q) ? most / 127 * a.scale * 1.44269504f / static_cast<float>(kLanes * Vectors) : __builtin_nanf("");
      befores[lane] = static_cast<float>(seen.first) - 0.5f;
      ends[lane] = static_cast<float>(seen.last);
      tile.common.first = seen.first > tile.common.first ? seen.first : tile.common.first;
      tile.common.last = seen.last < tile.common.last ? seen.last : tile.common.last;
      words_of(q, most > 0x1p-120f ? 127 / most : 0, words);
      if (kKeyFlip != 0) start[lane] = -128 * sum_of_bytes(words);
    }
    for (int i = 0; i < kWords; ++i) tile.queries[row_word(i, lane)] = words[i];
  }
  for (int t = 0; t < 2; ++t) {
    tile.start[t] = load(start + t * kLanes);
    tile.query_scale[t] = load(scales + t * kLanes);
    tile.before[t] = load(befores + t * kLanes);
    tile.end[t] = load(ends + t * kLanes);
    tile.top[t] = fill(kHidden);
    tile.weight_sum[t] = zero();
  }
  for (int d = 0; d < kLanes * Vectors; ++d)
    for (int t = 0; t < 2; ++t) store(tile.sums[d] + t * kLanes, zero());
}

// Log weights of the keys of a block that begins at position p0. `next`: the following block's keys, which are fetched
// meanwhile, or null.
template <int Vectors>
__attribute__((noinline)) void score_keys(Work& w, const Tile& tile, const Digest& from, int64_t p0, const char* next) {
  constexpr int kWords = kLanes * Vectors / 4;
  const Vec scale[2] = {tile.query_scale[0], tile.query_scale[1]};
  const Ints start[2] = {tile.start[0], tile.start[1]};
  products<false>(tile.queries, from.keys + p0 * kWords, kKeys, kWords, tile.halves(), start,
                  [&](int64_t key, int t, Ints sum) __attribute__((always_inline)) {
                    const Vec s = mul(to_float(sum), fill(from.key_scale[p0 + key]));
                    store(w.logs[key] + t * kLanes, fma(s, scale[t], fill(from.value_log[p0 + key])));
                    if (t == 0 && next != nullptr) {
                      __builtin_prefetch(next + key * 4 * kWords);
                      if (kWords > 16) __builtin_prefetch(next + key * 4 * kWords + 64);
                    }
                  });
}

// How a block joins the sums of the blocks before it: sums so far times `before`, plus the block's own (with `start`
// added) times `after`.
struct Joint {
  Vec before, after;
  Ints start;
};

// Turns the block's log weights into bytes, for the rows of half t of the tile, and adds their sum to that of the
// blocks before. A key that a row does not see weighs nothing, and nothing is multiplied with its scale, which may be
// any bytes.
template <bool kAllSeen>
__attribute__((noinline)) void weigh(Work& w, Tile& tile, const Digest& from, int t, int64_t p0, Joint& joint) {
  float* logs = w.logs[0] + t * kLanes;
  const auto seen = [&](int64_t p) {
    const Vec at = fill(static_cast<float>(p0 + p));
    return both(greater(tile.end[t], at), greater(at, tile.before[t]));
  };
  if constexpr (!kAllSeen)
    for (int64_t p = 0; p < kKeys; ++p) {
      float* at = logs + p * kTileRows;
      store(at, choose(seen(p), load(at), fill(kHidden)));
    }
  Vec tops[4];
  for (int i = 0; i < 4; ++i) tops[i] = load(logs + i * kTileRows);
  for (int64_t p = 4; p < kKeys; p += 4)
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) tops[i] = max(tops[i], load(logs + (p + i) * kTileRows));
  const Vec top = max(max(tops[0], tops[1]), max(tops[2], tops[3])), most = fill(kMostWeight);

  Vec totals[4] = {zero(), zero(), zero(), zero()};
  Ints bytes_sum = fill_int(0);
  for (int64_t p = 0; p < kKeys; p += 8) {
    Ints words[2];
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const int64_t first = p + 4 * half;
      Vec e[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        e[i] = exp2(sub(load(logs + (first + i) * kTileRows), top));
        const Vec total = fma(e[i], fill(from.value_inverse[p0 + first + i]), totals[i]);
        if constexpr (kAllSeen) {
          totals[i] = total;
        } else {
          const Mask counts = seen(first + i);
          totals[i] = choose(counts, total, totals[i]);
          e[i] = choose(counts, e[i], zero());
        }
      }
      words[half] = bytes(e[0], e[1], e[2], e[3], most, most, most, most);
      if (kValueFlip != 0) bytes_sum = add_bytes(bytes_sum, words[half]);
    }
    store_weights(w.weights + p / 4 * kTileRows, t, words[0], words[1]);
  }
  const Vec total = add(add(totals[0], totals[1]), add(totals[2], totals[3]));
  const Vec reference = max(tile.top[t], top);
  const Vec after = exp2(sub(top, reference));
  joint.before = exp2(sub(tile.top[t], reference));
  tile.weight_sum[t] = fma(total, after, mul(tile.weight_sum[t], joint.before));
  tile.top[t] = reference;
  joint.after = mul(after, fill(1.0f / kMostWeight));
  joint.start = times_minus_128(bytes_sum);
}

// Adds the block's values. `next`: the following block's, or null.
template <int Vectors>
__attribute__((noinline)) void mix(const Work& w, Tile& tile, const int32_t* block, const Joint (&joint)[2],
                                   const char* next) {
  const Vec before[2] = {joint[0].before, joint[1].before}, after[2] = {joint[0].after, joint[1].after};
  const Ints start[2] = {joint[0].start, joint[1].start};
  products<true>(w.weights, block, kLanes * Vectors, kKeyWords, tile.halves(), start,
                 [&](int64_t d, int t, Ints sum) __attribute__((always_inline)) {
                   float* to = tile.sums[d] + t * kLanes;
                   store(to, fma(to_float(sum), after[t], mul(load(to), before[t])));
                   if (t == 0 && next != nullptr) __builtin_prefetch(next + d * 4 * kKeyWords);
                 });
}

template <int Vectors>
__attribute__((noinline)) void write_rows(const AttentionArgs& a, int64_t r0, const Tile& tile) {
  float weight_sums[kTileRows];
  for (int t = 0; t < 2; ++t) store(weight_sums + t * kLanes, tile.weight_sum[t]);
  for (int64_t lane = 0; lane < tile.rows; ++lane) {
    float mixed[kLanes * Vectors];
    for (int d = 0; d < kLanes * Vectors; ++d) mixed[d] = tile.sums[d][lane];
    Vec x[Vectors];
    for (int v = 0; v < Vectors; ++v) x[v] = load(mixed + kLanes * v);
    turn(x);
    const Vec scale = fill(1.0f / (weight_sums[lane] * static_cast<float>(kLanes * Vectors)));
    for (int v = 0; v < Vectors; ++v) store(a.out + (r0 + lane) * a.out_stride + kLanes * v, mul(x[v], scale));
  }
}

template <int Vectors>
void attend(const AttentionArgs& a) {
  Work w;
  const Digest from(const_cast<std::byte*>(a.digest), a.digest_positions, a.head_dim);
  constexpr int64_t kRows = kTiles * kTileRows;
  for (int64_t r = a.r0; r < a.r1; r += kRows) {
    const int64_t rows = a.r1 - r < kRows ? a.r1 - r : kRows, tiles = (rows + kTileRows - 1) / kTileRows;
    KeyRange all = a.range(r);
    for (int64_t i = 1; i < rows; ++i) {
      const KeyRange one = a.range(r + i);
      all = {one.first < all.first ? one.first : all.first, one.last > all.last ? one.last : all.last};
    }
    for (int64_t i = 0; i < tiles; ++i)
      take_queries<Vectors>(a, r + i * kTileRows, rows - i * kTileRows < kTileRows ? rows - i * kTileRows : kTileRows,
                            w.tiles[i]);
    for (int64_t p0 = all.first / kKeys * kKeys; p0 < all.last; p0 += kKeys) {
      const bool last = p0 + kKeys >= all.last;
      const int32_t *values = from.values + p0 / 4 * a.head_dim, *keys = from.keys + p0 / 4 * a.head_dim;
      for (int64_t i = 0; i < tiles; ++i) {
        Tile& tile = w.tiles[i];
        const bool fetch = i == 0 && !last;
        const auto next = [&](const int32_t* block) {
          return fetch ? reinterpret_cast<const char*>(block + kKeyWords * a.head_dim) : nullptr;
        };
        score_keys<Vectors>(w, tile, from, p0, next(keys));
        Joint joint[2] = {};
        const bool all_seen = tile.common.first <= p0 && p0 + kKeys <= tile.common.last;
        const auto weigh_half = all_seen ? weigh<true> : weigh<false>;
        for (int t = 0; t < tile.halves(); ++t) weigh_half(w, tile, from, t, p0, joint[t]);
        mix<Vectors>(w, tile, values, joint, next(values));
      }
    }
    for (int64_t i = 0; i < tiles; ++i) write_rows<Vectors>(a, r + i * kTileRows, w.tiles[i]);
  }
}

int64_t digest_size(DType kv_type, int64_t positions, int64_t head_dim) {
  if (kv_type != DType::F16 || (head_dim != 64 && head_dim != 128)) return 0;
  return Digest::padded(positions) * (2 * head_dim + 12);
}

void renew_digest(const DigestArgs& a) { (a.head_dim == 64 ? make_digest<64 / kLanes> : make_digest<128 / kLanes>)(a); }

void attend_by_digest(const AttentionArgs& a) { (a.head_dim == 64 ? attend<64 / kLanes> : attend<128 / kLanes>)(a); }

// A table's attention: stretches of rows that see enough keys go by the digest, the others by floats; a matter of each
// row alone.
template <void (*by_floats)(const AttentionArgs&)>
void attention_by_keys(const AttentionArgs& args) {
  const auto narrow = [&](int64_t r) {
    const KeyRange seen = args.range(r);
    return args.digest != nullptr && seen.last - seen.first >= kDigestKeys;
  };
  AttentionArgs part = args;
  for (part.r0 = args.r0; part.r0 < args.r1; part.r0 = part.r1) {
    const bool digest = narrow(part.r0);
    for (part.r1 = part.r0 + 1; part.r1 < args.r1 && narrow(part.r1) == digest;) ++part.r1;
    (digest ? attend_by_digest : by_floats)(part);
  }
}

template <void (*by_floats)(const AttentionArgs&)>
constexpr void set_digest_kernels(KernelTable& table) {
  table.attention = attention_by_keys<by_floats>;
  table.digest_bytes = digest_size;
  table.digest = renew_digest;
}

}  // namespace
}  // namespace llada::kernels::LLADA_VECTOR_NAMESPACE
