// Attention over a vector type (see x86_rows-inl.h for how it is included).
//
// One lane is one row: a tile of kLanes rows is transposed once (dimension by dimension), then every key element is
// broadcast against it, or against two tiles. So scores, maximum, exponentials and their sum are vertical operations
// and a row's results cannot depend on its neighbours. Scores lie as [key][row]. The V product has a vector along
// head_dim and one sum over the keys in ascending order per element. It is divided by the sum of the weights at the
// end. All rows and dimensions of a tile meet kValueKeys keys before the next ones, so that values come from memory
// once. Without this they came from beyond L2 eight times at 4,096 keys: half the speed. A row's keys outside of its
// own range are never multiplied, so not even a NaN there reaches it. Not done: a running maximum over blocks of keys
// (flash attention); scores of a tile fit L2 at any length that these models have.
#pragma once
#include "kernels/x86_rows-inl.h"

namespace llada::kernels::LLADA_VECTOR_NAMESPACE {
namespace {

inline constexpr int64_t kDimensions = 256;  // of a head that are transposed at once
inline constexpr int64_t kValueKeys =
    128;  // keys whose values (32 KiB of F16 at 128 dimensions) and weights stay in L1

struct AttentionTile {
  int64_t rows, keys;       // keys: none of the rows sees any from there on
  KeyRange ranges[kLanes];  // empty for lanes without a row
  Vec before, end;          // the ranges as floats (exact: below 2^23); before: half a key less than the first
  float* queries;           // [dimension][kLanes]
  float* scores;            // [key][kLanes]
  const AttentionArgs* args;
  int64_t first_row;
};

// Elements [0, n) of a stored row as floats, n at most kDimensions.
inline void widen(const void* row, DType type, int64_t n, float* out) {
  int64_t i = 0;
  if (type == DType::F32) {
    const auto* from = static_cast<const float*>(row);
    for (; i + kLanes <= n; i += kLanes) store(out + i, load(from + i));
    for (; i < n; ++i) out[i] = from[i];
    return;
  }
  const auto* half = static_cast<const uint16_t*>(row);
  for (; i + kLanes <= n; i += kLanes) store(out + i, load_f16(half + i));
  if (i < n) {
    uint16_t last[kLanes] = {};
    __builtin_memcpy(last, half + i, static_cast<size_t>(n - i) * 2);
    store(out + i, load_f16(last));
  }
}

inline const std::byte* stored_row(const void* data, DType type, int64_t index) {
  return static_cast<const std::byte*>(data) + index * (type == DType::F16 ? 2 : 4);
}

// Dimensions [d0, d0 + n) of a tile's queries, scaled.
inline void take_queries(const AttentionTile& t, int64_t d0, int64_t n) {
  const AttentionArgs& a = *t.args;
  const Vec scale = fill(a.scale);
  const float* q = a.q + t.first_row * a.q_stride + d0;
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t count = n - i < kLanes ? n - i : kLanes;
    Vec x[kLanes];
    for (int64_t r = 0; r < kLanes; ++r)
      x[r] = r < t.rows ? mul(load_first(q + r * a.q_stride + i, count, 0), scale) : zero();
    transpose(x);
    for (int64_t j = 0; j < count; ++j) store(t.queries + (i + j) * kLanes, x[j]);
  }
}

// scores[key] of each tile += the dimensions' products with kAttentionKeys / Tiles keys. k: rows kDimensions apart (a
// constant distance: with a variable one the loop's addresses do not fit the registers). Two tiles share each
// broadcast: with one, loading a key's element for every multiplication is the limit.
template <int Tiles>
inline void add_scores(const AttentionTile* tiles, const float* k, int64_t p, int64_t dimensions, bool first) {
  constexpr int kKeys = kAttentionKeys / Tiles;
  Vec sums[Tiles][kKeys];
#pragma GCC unroll 2
  for (int t = 0; t < Tiles; ++t)
#pragma GCC unroll 16
    for (int j = 0; j < kKeys; ++j) sums[t][j] = first ? zero() : load(tiles[t].scores + (p + j) * kLanes);
  for (int64_t i = 0; i < dimensions; ++i) {
    Vec q[Tiles];
#pragma GCC unroll 2
    for (int t = 0; t < Tiles; ++t) q[t] = load(tiles[t].queries + i * kLanes);
#pragma GCC unroll 16
    for (int j = 0; j < kKeys; ++j) {
      const Vec key = fill(k[j * kDimensions + i]);
#pragma GCC unroll 2
      for (int t = 0; t < Tiles; ++t) sums[t][j] = fma(q[t], key, sums[t][j]);
    }
  }
#pragma GCC unroll 2
  for (int t = 0; t < Tiles; ++t)
#pragma GCC unroll 16
    for (int j = 0; j < kKeys; ++j) store(tiles[t].scores + (p + j) * kLanes, sums[t][j]);
}

inline void prefetch_bytes(const std::byte* from, int64_t bytes) {
  for (int64_t line = 0; line < bytes; line += 64) __builtin_prefetch(from + line);
}

// Scores of all keys, those behind the last one up to a whole group (never looked at) with zeros. Fetches the first
// values meanwhile: the first weights would wait for them.
template <int Tiles>
inline void score_keys(const AttentionTile* tiles) {
  constexpr int64_t kKeys = kAttentionKeys / Tiles;
  const AttentionArgs& a = *tiles[0].args;
  const int64_t keys = Tiles > 1 && tiles[Tiles - 1].keys > tiles[0].keys ? tiles[Tiles - 1].keys : tiles[0].keys;
  const int64_t row = a.head_dim * (a.kv_type == DType::F16 ? 2 : 4);
  float buffer[kKeys * kDimensions];
  for (int64_t d0 = 0; d0 < a.head_dim; d0 += kDimensions) {
    const int64_t n = a.head_dim - d0 < kDimensions ? a.head_dim - d0 : kDimensions;
    for (int t = 0; t < Tiles; ++t) take_queries(tiles[t], d0, n);
    for (int64_t p = 0; p < keys; p += kKeys) {
      const int64_t count = keys - p < kKeys ? keys - p : kKeys;
      for (int64_t j = 0; j < kKeys; ++j) {
        if (j >= count) {
          for (int64_t i = 0; i < n; ++i) buffer[j * kDimensions + i] = 0;
          continue;
        }
        const std::byte* key = stored_row(a.k, a.kv_type, (p + j) * a.head_dim + d0);
        widen(key, a.kv_type, n, buffer + j * kDimensions);
        if (p + j + 2 * kAttentionKeys < keys) prefetch_bytes(key + 2 * kAttentionKeys * row, n * row / a.head_dim);
        if (d0 == 0 && p + j < kValueKeys) prefetch_bytes(static_cast<const std::byte*>(a.v) + (p + j) * row, row);
      }
      add_scores<Tiles>(tiles, buffer, p, n, d0 == 0);
    }
  }
}

inline Mask seen(const AttentionTile& t, int64_t key) {
  const Vec at = fill(static_cast<float>(key));
  return both(greater(t.end, at), greater(at, t.before));
}

// The largest score that each row sees; NaN where one of them is -infinity, since that key's weight would be zero and
// hide it. (The exponentials of NaN and of infinity less itself are NaN without help.)
inline Vec largest_scores(const AttentionTile& t) {
  const Vec none = fill(-kInfinity), all = fill(kInfinity);
  Vec top = none, least = all;
  for (int64_t p = 0; p < t.keys; ++p) {
    const Vec s = load(t.scores + p * kLanes);
    const Mask counts = seen(t, p);
    top = max(top, choose(counts, s, none));
    least = min(choose(counts, s, all), least);
  }
  return choose(greater(least, none), top, fill(__builtin_nanf("")));
}

// Scores of keys [p0, p1) into weights exp(score - top), zero outside of a row's range; added to sums[key % 4]. Fetches
// the values of the following keys meanwhile.
inline void weigh(const AttentionTile& t, Vec top, int64_t p0, int64_t p1, Vec (&sums)[4]) {
  const AttentionArgs& a = *t.args;
  const int64_t row = a.head_dim * (a.kv_type == DType::F16 ? 2 : 4), ahead = p1 - p0;
  const char* values = reinterpret_cast<const char*>(a.v);
  for (int64_t p = p0; p < p1; ++p) {
    for (int64_t line = 0; line < row && p + ahead < t.keys; line += 64)
      __builtin_prefetch(values + (p + ahead) * row + line);
    const Vec w = choose(seen(t, p), exp(sub(load(t.scores + p * kLanes), top)), zero());
    store(t.scores + p * kLanes, w);
    sums[p % 4] = add(sums[p % 4], w);
  }
}

template <DType Type>
inline Vec load_value(const void* v, int64_t index) {
  if constexpr (Type == DType::F16) return load_f16(static_cast<const uint16_t*>(v) + index);
  return load(static_cast<const float*>(v) + index);
}

// out[r][d0 .. d0 + Vectors * kLanes) += sum over keys [p0, p1) of weight * v, for Rows rows from r0.
template <DType Type, int Rows, int Vectors>
inline void mix(const AttentionTile& t, int64_t r0, int64_t d0, int64_t p0, int64_t p1) {
  const AttentionArgs& a = *t.args;
  float* out = a.out + (t.first_row + r0) * a.out_stride + d0;
  Vec sums[Rows][Vectors];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) sums[r][j] = load(out + r * a.out_stride + j * kLanes);
  const float* weights = t.scores + r0;
  for (int64_t p = p0; p < p1; ++p) {
    Vec v[Vectors];
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) v[j] = load_value<Type>(a.v, p * a.head_dim + d0 + j * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      const Vec w = fill(weights[p * kLanes + r]);
#pragma GCC unroll 8
      for (int j = 0; j < Vectors; ++j) sums[r][j] = fma(w, v[j], sums[r][j]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) store(out + r * a.out_stride + j * kLanes, sums[r][j]);
}

// The last dimensions where head_dim is no multiple of kLanes.
inline void mix_rest(const AttentionTile& t, int64_t r, int64_t d0, int64_t p0, int64_t p1) {
  const AttentionArgs& a = *t.args;
  float* out = a.out + (t.first_row + r) * a.out_stride + d0;
  const int64_t n = a.head_dim - d0;
  Vec sum = load_first(out, n, 0);
  for (int64_t p = p0; p < p1; ++p) {
    float wide[kLanes];
    widen(stored_row(a.v, a.kv_type, p * a.head_dim + d0), a.kv_type, n, wide);
    sum = fma(fill(t.scores[p * kLanes + r]), load_first(wide, n, 0), sum);
  }
  store_first(out, n, sum);
}

template <DType Type, int Rows>
inline void mix_rows(const AttentionTile& t, int64_t r0, int64_t p0, int64_t p1) {
  const int64_t dimensions = t.args->head_dim;
  int64_t d = 0;
  for (; d + kMixVectors * kLanes <= dimensions; d += kMixVectors * kLanes)
    mix<Type, Rows, kMixVectors>(t, r0, d, p0, p1);
  if constexpr (kMixVectors > 2)
    for (; d + 2 * kLanes <= dimensions; d += 2 * kLanes) mix<Type, Rows, 2>(t, r0, d, p0, p1);
  for (; d + kLanes <= dimensions; d += kLanes) mix<Type, Rows, 1>(t, r0, d, p0, p1);
  if (d < dimensions)
    for (int r = 0; r < Rows; ++r) mix_rest(t, r0 + r, d, p0, p1);
}

// Rows [r, r + Rows) over keys [p0, p1) as far as each sees them: the keys that all see together, the others by each
// row alone.
template <DType Type, int Rows>
inline void mix_group(const AttentionTile& t, int64_t r, int64_t p0, int64_t p1) {
  const auto begin = [&](int j) { return t.ranges[r + j].first > p0 ? t.ranges[r + j].first : p0; };
  const auto end = [&](int j) { return t.ranges[r + j].last < p1 ? t.ranges[r + j].last : p1; };
  int64_t first = p0, last = p1;
  for (int j = 0; j < Rows; ++j) {
    first = begin(j) > first ? begin(j) : first;
    last = end(j) < last ? end(j) : last;
  }
  if (first >= last) {  // nothing that all see
    for (int j = 0; j < Rows; ++j)
      if (begin(j) < end(j)) mix_rows<Type, 1>(t, r + j, begin(j), end(j));
    return;
  }
  for (int j = 0; j < Rows; ++j)
    if (begin(j) < first) mix_rows<Type, 1>(t, r + j, begin(j), first);
  mix_rows<Type, Rows>(t, r, first, last);
  for (int j = 0; j < Rows; ++j)
    if (end(j) > last) mix_rows<Type, 1>(t, r + j, last, end(j));
}

template <DType Type>
inline void mix_tile(const AttentionTile& t, int64_t p0, int64_t p1) {
  int64_t r = 0;
  for (; r + kMixRows <= t.rows; r += kMixRows) mix_group<Type, kMixRows>(t, r, p0, p1);
  if constexpr (kMixRows > 4)
    for (; r + 4 <= t.rows; r += 4) mix_group<Type, 4>(t, r, p0, p1);
  for (; r < t.rows; ++r) mix_group<Type, 1>(t, r, p0, p1);
}

// The work after the scores: weights, values and the result of a tile.
inline void finish_tile(const AttentionTile& t) {
  const AttentionArgs& a = *t.args;
  for (int64_t r = 0; r < t.rows; ++r) __builtin_memset(a.out + (t.first_row + r) * a.out_stride, 0, a.head_dim * 4);
  if (a.cap > 0) soft_cap(t.scores, t.keys * kLanes, a.cap);
  const Vec top = largest_scores(t);
  Vec weight_sums[4] = {zero(), zero(), zero(), zero()};
  for (int64_t p0 = 0; p0 < t.keys; p0 += kValueKeys) {
    const int64_t p1 = t.keys - p0 < kValueKeys ? t.keys : p0 + kValueKeys;
    weigh(t, top, p0, p1, weight_sums);
    (a.kv_type == DType::F16 ? mix_tile<DType::F16> : mix_tile<DType::F32>)(t, p0, p1);
  }
  float sums[kLanes];
  store(sums, add(add(weight_sums[0], weight_sums[1]), add(weight_sums[2], weight_sums[3])));
  for (int64_t r = 0; r < t.rows; ++r) {
    float* out = a.out + (t.first_row + r) * a.out_stride;
    const Vec scale = fill(1.0f / sums[r]);
    int64_t i = 0;
    for (; i + kLanes <= a.head_dim; i += kLanes) store(out + i, mul(load(out + i), scale));
    if (i < a.head_dim) store_first(out + i, a.head_dim - i, mul(load_first(out + i, a.head_dim - i, 0), scale));
  }
}

// Two tiles from row r0 on. Keys that no row sees are left out in front, a multiple of 4, since sums of weights go by
// the key's number modulo 4.
inline void attend_tiles(const AttentionArgs& args, int64_t r0) {
  constexpr int kTiles = 2;
  const int64_t end = args.r1 - r0 < kTiles * kLanes ? args.r1 : r0 + kTiles * kLanes;
  int32_t skipped = INT32_MAX;
  for (int64_t r = r0; r < end; ++r) skipped = args.range(r).first < skipped ? args.range(r).first : skipped;
  skipped = skipped / 4 * 4;
  AttentionArgs a = args;
  a.k = stored_row(args.k, args.kv_type, skipped * args.head_dim);
  a.v = stored_row(args.v, args.kv_type, skipped * args.head_dim);
  AttentionTile tiles[kTiles] = {};
  int used = 0;
  for (int64_t first = r0; first < end; first += kLanes, ++used) {
    AttentionTile& t = tiles[used];
    t.args = &a;
    t.queries = a.scratch + used * kDimensions * kLanes;
    t.first_row = first;
    t.rows = end - first < kLanes ? end - first : kLanes;
    float befores[kLanes] = {}, ends[kLanes] = {};
    for (int64_t r = 0; r < t.rows; ++r) {
      const KeyRange range = args.range(first + r);
      t.ranges[r] = {range.first - skipped, range.last - skipped};
      t.keys = t.ranges[r].last > t.keys ? t.ranges[r].last : t.keys;
      befores[r] = static_cast<float>(t.ranges[r].first) - 0.5f;
      ends[r] = static_cast<float>(t.ranges[r].last);
    }
    t.before = load(befores);
    t.end = load(ends);
  }
  float* scores = a.scratch + kTiles * kDimensions * kLanes;
  const int64_t most = tiles[0].keys > tiles[1].keys ? tiles[0].keys : tiles[1].keys;
  tiles[0].scores = scores;
  tiles[1].scores = scores + (most + kAttentionKeys) * kLanes;
  used == 2 ? score_keys<2>(tiles) : score_keys<1>(tiles);
  for (int t = 0; t < used; ++t) finish_tile(tiles[t]);
}

inline void attention(const AttentionArgs& a) {
  for (int64_t r0 = a.r0; r0 < a.r1; r0 += 2 * kLanes) attend_tiles(a, r0);
}

inline void set_row_kernels(KernelTable& table) {
  table.rms_norm = rms_norm;
  table.add = add_rows;
  table.swiglu = swiglu;
  table.geglu = geglu;
  table.soft_cap = soft_cap;
  table.rope = rope;
  table.store_half = store_half;
  table.attention = attention;
  table.softmax_stats = softmax_stats;
  table.top2 = top2;
}

}  // namespace
}  // namespace llada::kernels::LLADA_VECTOR_NAMESPACE
