// Attention over digests (kernels.h): 8-bit queries, keys, weights and values, for rows that see many keys.
//
// Queries, keys and values are multiplied by a Hadamard matrix (QuaRot, arXiv 2404.00456). That leaves q . k as it is,
// and spreads a value that stands out in one channel over all, so that a row's 8 bits are enough whatever the model's
// channels look like; values are turned back in the end. Each key and value has a scale of its own. Weights become
// bytes relative to the largest product of weight and value scale of the row in a block of 64 keys. So a key that takes
// nearly all weight costs only its own block's precision, and a value far below the others costs nothing. The sum of
// the weights and the sums over blocks are floats.
//
// One lane is one row; two tiles of 16 rows share each broadcast of a key or value. A row's result depends on the row
// and the keys that it sees alone: scales belong to one position, blocks begin at multiples of 64.
//
// Error: of a score 0.0093 |q||k| / head_dim, as much as 8-bit activations bring into q and k before (0.7 % each); of
// the mix 0.7 % of the root mean square of a result. Together, for normal keys and values: 0.6 % with flat weights, 1.2
// % with scores that deviate by 1, 2.1 % with scores that deviate by 4.
//
// Tried: scores of 16 bits from F16 keys (0.8 % in all, 1.8 times the time: vpdpwssd has half the rate, and converting
// keys and values in every call costs as much as the scores). Estimated, not run: both products in 16 bits (about 3e-4,
// twice the time), and BF16 (the rate of 16-bit integers, less exact).
#include "kernels/avx512vnni_attention.h"

#include <immintrin.h>

#include "kernels/avx512vnni_vector-inl.h"

namespace llada::kernels::avx512vnni {
namespace {

constexpr int64_t kLanes = 16, kTiles = 2, kKeys = 64, kMostDimensions = 128;
constexpr float kHidden = -1e30f;      // log weight of a key that a row does not see: finite, its exponential is zero
constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it leaves round(x) in the low bits

inline __m512i load(const void* p) { return _mm512_load_si512(p); }
inline __m512 fill(float x) { return _mm512_set1_ps(x); }
inline void prefetch(const std::byte* p) { asm volatile("prefetcht0 %0" : : "m"(*p)); }

// Bits of b where mask is set, of c elsewhere.
inline __m512i choose(__m512i mask, __m512i b, __m512i c) { return _mm512_ternarylogic_epi32(mask, b, c, 0xca); }

// round(x * scale) + offset of four vectors as the bytes of each word. The odd ones are computed 256 times as large, in
// place, and half a unit more for the cut; all stay far below 2^22.
struct Bytes {
  __m512 even, odd;
  explicit Bytes(float offset) : even(fill(kMagic + offset)), odd(fill(kMagic + 256 * offset + 128)) {}
  inline __m512i of(__m512 a, __m512 sa, __m512 b, __m512 sb, __m512 c, __m512 sc, __m512 d, __m512 sd) const {
    const __m512i low8 = _mm512_set1_epi32(0xff), low16 = _mm512_set1_epi32(0xffff);
    const __m512i ab = choose(low8, _mm512_castps_si512(_mm512_fmadd_ps(a, sa, even)),
                              _mm512_castps_si512(_mm512_fmadd_ps(b, sb, odd)));
    const __m512i cd = choose(low8, _mm512_castps_si512(_mm512_fmadd_ps(c, sc, even)),
                              _mm512_castps_si512(_mm512_fmadd_ps(d, sd, odd)));
    return choose(low16, ab, _mm512_slli_epi32(cd, 16));
  }
};

// 2^x within 3.5e-6 relative; 0 for large negative x.
inline __m512 exp2(__m512 x) {
  const __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), f = _mm512_sub_ps(x, n);
  __m512 p = _mm512_fmadd_ps(fill(0.009666368515f), f, fill(0.055921975842f));
  p = _mm512_fmadd_ps(p, f, fill(0.240223490380f));
  p = _mm512_fmadd_ps(p, f, fill(0.693121045203f));
  p = _mm512_fmadd_ps(p, f, fill(1.0f));
  return _mm512_scalef_ps(p, n);
}

// x times a Hadamard matrix: sqrt(head_dim) times a rotation that is its own inverse.
template <int Vectors>
inline void turn(__m512 (&x)[Vectors]) {
#pragma GCC unroll 4
  for (int h = 1; h < Vectors; h *= 2)
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) {
      if ((v & h) != 0) continue;
      const __m512 a = x[v], b = x[v + h];
      x[v] = _mm512_add_ps(a, b);
      x[v + h] = _mm512_sub_ps(a, b);
    }
#pragma GCC unroll 8
  for (int v = 0; v < Vectors; ++v) {
    const auto pair = [](__m512 a, __m512 other, __mmask16 upper) {
      return _mm512_mask_sub_ps(_mm512_add_ps(a, other), upper, other, a);
    };
    __m512 a = x[v];
    a = pair(a, _mm512_permute_ps(a, 0xb1), 0xaaaa);
    a = pair(a, _mm512_permute_ps(a, 0x4e), 0xcccc);
    a = pair(a, _mm512_shuffle_f32x4(a, a, 0xb1), 0xf0f0);
    x[v] = pair(a, _mm512_shuffle_f32x4(a, a, 0x4e), 0xff00);
  }
}

template <int Vectors>
inline float largest(const __m512 (&x)[Vectors]) {
  __m512 most = _mm512_setzero_ps();
  for (int v = 0; v < Vectors; ++v) most = _mm512_max_ps(most, _mm512_abs_ps(x[v]));
  return _mm512_reduce_max_ps(most);
}

template <int Vectors>
inline bool finite(const __m512 (&x)[Vectors]) {
  __m512 sum = _mm512_setzero_ps();
  for (int v = 0; v < Vectors; ++v) sum = _mm512_fmadd_ps(x[v], _mm512_setzero_ps(), sum);
  return _mm512_reduce_add_ps(sum) == 0;
}

// Where the parts of a head's digest lie.
struct Digest {
  std::byte* keys;    // position x head_dim bytes + 128, words of dimensions d, d + 16, d + 32, d + 48
  std::byte* values;  // four positions' bytes x head_dim
  float* key_scale;   // per position; NaN where the key is not finite
  float* value_log;   // log2 of the value's scale; NaN where the value is not finite
  float* value_inverse;

  Digest(std::byte* base, int64_t positions, int64_t head_dim) {
    const int64_t n = padded(positions);
    keys = base;
    values = keys + n * head_dim;
    key_scale = reinterpret_cast<float*>(values + n * head_dim);
    value_log = key_scale + n;
    value_inverse = value_log + n;
  }
  static int64_t padded(int64_t positions) { return (positions + kKeys - 1) / kKeys * kKeys; }
};

template <int Vectors>
inline void load_row(const void* rows, int64_t p, __m512 (&x)[Vectors]) {
  const auto* row = static_cast<const uint16_t*>(rows) + p * 16 * Vectors;
  for (int v = 0; v < Vectors; ++v)
    x[v] = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + 16 * v)));
}

template <int Vectors>
void make_digest(const DigestArgs& a) {
  const Digest to(a.digest, a.positions, a.head_dim);
  for (int64_t p = a.p0 / 4 * 4; p < a.p1; p += 4) {
    __m512 values[4][Vectors];
    float scales[4] = {};
    int32_t mine = 0;  // the bytes of a word of values that are of [p0, p1)
    for (int64_t j = 0; j < 4; ++j) {
      if (p + j < a.p0 || p + j >= a.p1) {
        for (__m512& x : values[j]) x = _mm512_setzero_ps();
        continue;
      }
      mine |= 0xff << 8 * j;
      __m512 key[Vectors];
      load_row(a.k, p + j, key);
      turn(key);
      const float most = largest(key);
      to.key_scale[p + j] = finite(key) ? most / 127 : __builtin_nanf("");
      const __m512 even = fill(most > 0 ? 127 / most : 0), odd = _mm512_mul_ps(even, fill(256));
      for (int g = 0; g < Vectors / 4; ++g)
        _mm512_store_si512(
            to.keys + (p + j) * 16 * Vectors + 64 * g,
            Bytes(128).of(key[4 * g], even, key[4 * g + 1], odd, key[4 * g + 2], even, key[4 * g + 3], odd));
      // The scale's logarithm by a parabola over the mantissa, 0.6 to 2.2 % above the exact one; the scale is what
      // belongs to it.
      load_row(a.v, p + j, values[j]);
      turn(values[j]);
      const __m512 x = fill(__builtin_fmaxf(largest(values[j]), 0x1p-40f));
      const __m512 mantissa = _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
      __m512 log = _mm512_fmadd_ps(fill(-0.3333333f), mantissa, fill(2.0f));
      log = _mm512_fmadd_ps(log, mantissa, fill(-1.6506667f - 6.9886847f));
      log = _mm512_add_ps(log, _mm512_getexp_ps(x));
      const bool good = finite(values[j]);
      to.value_log[p + j] = good ? _mm512_cvtss_f32(log) : __builtin_nanf("");
      scales[j] = good ? _mm512_cvtss_f32(exp2(_mm512_sub_ps(_mm512_setzero_ps(), log))) : 1;
      to.value_inverse[p + j] = scales[j];
    }
    for (int v = 0; v < Vectors; ++v) {
      std::byte* words = to.values + p * 16 * Vectors + 64 * v;
      const __m512i made = Bytes(0).of(values[0][v], fill(scales[0]), values[1][v], fill(256 * scales[1]), values[2][v],
                                       fill(scales[2]), values[3][v], fill(256 * scales[3]));
      _mm512_store_si512(words, choose(_mm512_set1_epi32(mine), made, load(words)));
    }
  }
}

struct Work {
  alignas(64) int32_t queries[kTiles][kMostDimensions / 4][kLanes];  // bytes of four dimensions, as those of keys
  alignas(64) int32_t weights[kTiles][kKeys / 4][kLanes];            // bytes of four keys
  alignas(64) float logs[kTiles][kKeys][kLanes];                     // log2 of weight * scale of the value
  alignas(64) float sums[kTiles][kMostDimensions][kLanes];
  __m512i start[kTiles];  // what 128 added to keys makes too much
  __m512 query_scale[kTiles], begin[kTiles], end[kTiles], top[kTiles], weight_sum[kTiles];
};

// Log weights of keys [p, p + 8) (two tiles) or 16 (one). x and y: the first and second tile, or the first and last 8
// keys of the only one.
template <int Vectors, int Tiles>
__attribute__((noinline)) void score_keys(Work& w, const Digest& from, int64_t p, const std::byte* next) {
  __m512i x[8], y[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) x[i] = w.start[0], y[i] = w.start[Tiles - 1];
  const int32_t* q = w.queries[0][0];
  const std::byte* k = from.keys + p * 16 * Vectors;
  const auto word = [](const std::byte* at) {
    int32_t value;
    __builtin_memcpy(&value, at, 4);
    return _mm512_set1_epi32(value);
  };
  for (int i = 0; i < 4 * Vectors; ++i, q += kLanes, k += 4, next += 128 / Tiles) {
    const __m512i q0 = load(q), q1 = Tiles == 2 ? load(q + kLanes * kMostDimensions / 4) : q0;
    prefetch(next);
    if constexpr (Tiles == 1) prefetch(next + 64);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      const __m512i key = word(k + 16 * Vectors * j);
      add_fours(x[j], key, q0);
      add_fours(y[j], Tiles == 2 ? key : word(k + 16 * Vectors * (j + 8)), q1);
    }
  }
  const auto put = [&](int t, int64_t at, __m512i sum) {
    const __m512 s = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), fill(from.key_scale[at]));
    _mm512_store_ps(w.logs[t][at % kKeys], _mm512_fmadd_ps(s, w.query_scale[t], fill(from.value_log[at])));
  };
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) {
    put(0, p + j, x[j]);
    put(Tiles - 1, p + j + (Tiles == 2 ? 0 : 8), y[j]);
  }
}

// The block's log weights into bytes; the sum of its weights joins those before. `before` and `after`: what the sums so
// far and the block's are to be multiplied with. A key that a row does not see weighs nothing, and nothing is
// multiplied with its scale, which may be any bytes.
template <bool kAllSeen>
__attribute__((noinline)) void weigh(Work& w, const Digest& from, int t, int64_t p0, __m512& before, __m512& after) {
  float(*logs)[kLanes] = w.logs[t];
  const auto seen = [&](int64_t p) {
    const __m512 at = fill(static_cast<float>(p0 + p));
    return _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(w.end[t], at, _CMP_GT_OQ), w.begin[t], at, _CMP_LE_OQ);
  };
  if constexpr (!kAllSeen)
    for (int64_t p = 0; p < kKeys; ++p)
      _mm512_store_ps(logs[p], _mm512_mask_blend_ps(seen(p), fill(kHidden), _mm512_load_ps(logs[p])));
  __m512 tops[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) tops[i] = _mm512_load_ps(logs[i]);
  for (int64_t p = 4; p < kKeys; p += 4)
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) tops[i] = _mm512_max_ps(_mm512_load_ps(logs[p + i]), tops[i]);
  const __m512 top = _mm512_max_ps(_mm512_max_ps(tops[0], tops[1]), _mm512_max_ps(tops[2], tops[3]));

  const Bytes bytes(0);
  const __m512 even = fill(255), odd = fill(255 * 256);
  __m512 totals[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) totals[i] = _mm512_setzero_ps();
  for (int64_t p = 0; p < kKeys; p += 4) {
    __m512 e[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      e[i] = exp2(_mm512_sub_ps(_mm512_load_ps(logs[p + i]), top));
      const __m512 inverse = fill(from.value_inverse[p0 + p + i]);
      if constexpr (kAllSeen) {
        totals[i] = _mm512_fmadd_ps(e[i], inverse, totals[i]);
      } else {
        const __mmask16 counts = seen(p + i);
        totals[i] = _mm512_mask3_fmadd_ps(e[i], inverse, totals[i], counts);
        e[i] = _mm512_maskz_mov_ps(counts, e[i]);
      }
    }
    _mm512_store_si512(w.weights[t][p / 4], bytes.of(e[0], even, e[1], odd, e[2], even, e[3], odd));
  }
  const __m512 total = _mm512_add_ps(_mm512_add_ps(totals[0], totals[1]), _mm512_add_ps(totals[2], totals[3]));
  const __m512 reference = _mm512_max_ps(top, w.top[t]);
  before = exp2(_mm512_sub_ps(w.top[t], reference));
  after = exp2(_mm512_sub_ps(top, reference));
  w.weight_sum[t] = _mm512_fmadd_ps(total, after, _mm512_mul_ps(w.weight_sum[t], before));
  w.top[t] = reference;
  after = _mm512_mul_ps(after, fill(1.0f / 255));
}

// Adds the block's values. x and y: the first and second tile, or 8 dimensions each of the only one.
template <int Vectors, int Tiles>
__attribute__((noinline)) void mix(Work& w, const std::byte* block, const __m512 (&before)[kTiles],
                                   const __m512 (&after)[kTiles]) {
  for (int64_t d = 0; d < 16 * Vectors; d += 16 / Tiles) {
    __m512i x[8], y[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) x[i] = y[i] = _mm512_setzero_si512();
    const int32_t *weights = w.weights[0][0], *values = reinterpret_cast<const int32_t*>(block) + d;
    for (int64_t p = 0; p < kKeys / 4; ++p, weights += kLanes, values += 16 * Vectors) {
      const __m512i w0 = load(weights), w1 = Tiles == 2 ? load(weights + kLanes * kKeys / 4) : w0;
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        const __m512i value = _mm512_set1_epi32(values[i]);
        add_fours(x[i], w0, value);
        add_fours(y[i], w1, Tiles == 2 ? value : _mm512_set1_epi32(values[i + 8]));
      }
    }
    const auto put = [&](int t, int64_t at, __m512i sum) {
      float* to = w.sums[t][at];
      _mm512_store_ps(to,
                      _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), after[t], _mm512_mul_ps(_mm512_load_ps(to), before[t])));
    };
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      put(0, d + i, x[i]);
      put(Tiles - 1, d + i + (Tiles == 2 ? 0 : 8), y[i]);
    }
  }
}

inline KeyRange range_of(const AttentionArgs& a, int64_t row) {
  if (a.ranges == nullptr) return {0, static_cast<int32_t>(a.keys)};
  return {a.ranges[row].first, a.ranges[row].last};
}

// Rows [r0, r0 + rows) into the lanes of their tiles.
template <int Vectors>
__attribute__((noinline)) void take_queries(const AttentionArgs& a, int64_t r0, int64_t rows, Work& w) {
  for (int64_t t = 0; t < kTiles; ++t) {
    alignas(64) float scales[kLanes] = {}, begins[kLanes] = {}, ends[kLanes] = {};
    alignas(64) int32_t start[kLanes] = {};
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      if (t * kLanes + lane >= rows) {
        for (int i = 0; i < 4 * Vectors; ++i) w.queries[t][i][lane] = 0;
        continue;
      }
      const int64_t r = r0 + t * kLanes + lane;
      __m512 q[Vectors];
      for (int v = 0; v < Vectors; ++v) q[v] = _mm512_loadu_ps(a.q + r * a.q_stride + 16 * v);
      turn(q);
      const float most = largest(q);
      // log2(e) because weights are powers of two; head_dim because both sides are sqrt(head_dim) too long.
      scales[lane] =
          finite(q) ? most / 127 * a.scale * 1.44269504f / static_cast<float>(16 * Vectors) : __builtin_nanf("");
      begins[lane] = static_cast<float>(range_of(a, r).first);
      ends[lane] = static_cast<float>(range_of(a, r).last);
      const __m512 even = fill(most > 0x1p-120f ? 127 / most : 0), odd = _mm512_mul_ps(even, fill(256));
      __m512i sum = _mm512_setzero_si512();
      for (int g = 0; g < Vectors / 4; ++g) {
        const __m512i words = Bytes(0).of(q[4 * g], even, q[4 * g + 1], odd, q[4 * g + 2], even, q[4 * g + 3], odd);
        add_fours(sum, _mm512_set1_epi8(-128), words);
        alignas(64) int32_t word[16];
        _mm512_store_si512(word, words);
        for (int i = 0; i < 16; ++i) w.queries[t][16 * g + i][lane] = word[i];
      }
      start[lane] = -_mm512_reduce_add_epi32(sum);
    }
    w.start[t] = load(start);
    w.query_scale[t] = _mm512_load_ps(scales);
    w.begin[t] = _mm512_load_ps(begins);
    w.end[t] = _mm512_load_ps(ends);
    w.top[t] = fill(kHidden);
    w.weight_sum[t] = _mm512_setzero_ps();
    for (int d = 0; d < 16 * Vectors; ++d) _mm512_store_ps(w.sums[t][d], _mm512_setzero_ps());
  }
}

template <int Vectors>
__attribute__((noinline)) void write_rows(const AttentionArgs& a, int64_t r0, int64_t rows, const Work& w) {
  const __m512i lanes = _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                           _mm512_set1_epi32(kLanes));
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t t = i / kLanes, lane = i % kLanes;
    alignas(64) float sums[kLanes];
    _mm512_store_ps(sums, w.weight_sum[t]);
    __m512 x[Vectors];
    for (int v = 0; v < Vectors; ++v) x[v] = _mm512_i32gather_ps(lanes, w.sums[t][16 * v] + lane, 4);
    turn(x);
    const __m512 scale = fill(1.0f / (sums[lane] * static_cast<float>(16 * Vectors)));
    for (int v = 0; v < Vectors; ++v)
      _mm512_storeu_ps(a.out + (r0 + i) * a.out_stride + 16 * v, _mm512_mul_ps(x[v], scale));
  }
}

template <int Vectors, int Tiles>
void attend(const AttentionArgs& a, const Digest& from, int64_t r0, int64_t rows, Work& w) {
  take_queries<Vectors>(a, r0, rows, w);
  KeyRange all = range_of(a, r0), common[kTiles] = {{0, INT32_MAX}, {0, INT32_MAX}};  // of a tile's rows
  for (int64_t i = 0; i < rows; ++i) {
    const KeyRange one = range_of(a, r0 + i);
    KeyRange& tile = common[i / kLanes];
    all = {one.first < all.first ? one.first : all.first, one.last > all.last ? one.last : all.last};
    tile = {one.first > tile.first ? one.first : tile.first, one.last < tile.last ? one.last : tile.last};
  }
  constexpr int64_t kBlockBytes = kKeys * 16 * Vectors, kStep = 16 / Tiles;
  for (int64_t p0 = all.first / kKeys * kKeys; p0 < all.last; p0 += kKeys) {
    const std::byte* values = from.values + p0 * 16 * Vectors;
    // What follows is fetched evenly meanwhile: the next block's keys by the first half of the scores, its values by
    // the second.
    for (int64_t p = 0; p < kKeys; p += kStep) {
      const std::byte* next = p < kKeys / 2 ? from.keys + (p0 + kKeys) * 16 * Vectors : values + kBlockBytes;
      score_keys<Vectors, Tiles>(w, from, p0 + p, next + p % (kKeys / 2) * 32 * Vectors);
    }
    __m512 before[kTiles], after[kTiles];
    for (int t = 0; t < Tiles; ++t)
      (common[t].first <= p0 && p0 + kKeys <= common[t].last ? weigh<true> : weigh<false>)(w, from, t, p0, before[t],
                                                                                           after[t]);
    mix<Vectors, Tiles>(w, values, before, after);
  }
  write_rows<Vectors>(a, r0, rows, w);
}

template <int Vectors>
void attend_all(const AttentionArgs& a) {
  Work w;
  const Digest from(const_cast<std::byte*>(a.digest), a.digest_positions, a.head_dim);
  for (int64_t r = a.r0; r < a.r1; r += kTiles * kLanes) {
    const int64_t rows = a.r1 - r < kTiles * kLanes ? a.r1 - r : kTiles * kLanes;
    (rows > kLanes ? attend<Vectors, 2> : attend<Vectors, 1>)(a, from, r, rows, w);
  }
}

}  // namespace

int64_t digest_bytes(DType kv_type, int64_t positions, int64_t head_dim) {
  if (kv_type != DType::F16 || (head_dim != 64 && head_dim != 128)) return 0;
  return Digest::padded(positions) * (2 * head_dim + 12);
}

void digest(const DigestArgs& a) { (a.head_dim == 64 ? make_digest<4> : make_digest<8>)(a); }

void digest_attention(const AttentionArgs& a) { (a.head_dim == 64 ? attend_all<4> : attend_all<8>)(a); }

}  // namespace llada::kernels::avx512vnni
