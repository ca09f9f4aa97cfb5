// Attention over the K/V store, and the reduction of the head's logits.
//
// Attention: a block takes a few rows of one span and one head, and goes through the keys in tiles with a running
// maximum and sum. Source: Milakov, Gimelshein, "Online normalizer calculation for softmax", 2018. Tiles start at
// multiples of their length, so a row's result does not depend on the rows beside it.
#include <cuda_block.h>

#include <cmath>

#include "base/random.h"
#include "devices/cuda/kernels.h"

namespace llada::cuda {
namespace {

constexpr float kNone = -INFINITY;

LLADA_DEVICE bool finite(float x) { return x - x == 0; }

template <class T>
struct Attention {
  static constexpr int kThreads = 128, kKeys = 32;  // keys of a tile; one score per thread
  static_assert(kKeys * kTileRows == kThreads);
  static constexpr int kPieceElements = 16 / sizeof(T), kPieces = 4;
  static constexpr int kStep = kThreads / kKeys * kPieceElements;  // elements of a key that its threads take together
  AttentionArguments a;

  struct alignas(16) Piece {
    T v[kPieceElements];
  };
  struct Sums {
    float v[kTileRows][kMostHeadDim / kThreads];
  };
  LLADA_DEVICE static float to_float(uint16_t x) { return half_to_float(x); }
  LLADA_DEVICE static float to_float(float x) { return x; }

  // A block whose store has the other type has nothing to do: its kernel is started for the same tiles.
  LLADA_DEVICE void operator()(const Block& block) const {
    const AttentionTile tile = a.tiles[block.x];
    const KvPlace& store = a.stores[tile.store];
    if ((store.half != 0) != (sizeof(T) == 2)) return;
    const int head = block.y, d = a.head_dim, kv_head = head / (a.heads / a.kv_heads);
    const int64_t base =
        a.layer * store.layer_bytes + (int64_t{tile.sequence} * a.kv_heads + kv_head) * store.head_bytes;
    const auto* keys = reinterpret_cast<const T*>(store.keys + base);
    const auto* values = reinterpret_cast<const T*>(store.values + base);
    const float scale = a.scale;
    // Shared: the rows' queries, a tile of keys or values (rows of d + 1: no two lanes in one bank), scores; per row
    // maximum, sum, factor and range of keys.
    auto* const q = reinterpret_cast<float*>(block.shared());
    float* const kv = q + kTileRows * d;
    float* const score = kv + kKeys * (d + 1);
    float* const max = score + kThreads;
    float* const sum = max + kTileRows;
    float* const factor = sum + kTileRows;
    auto* const begin = reinterpret_cast<int32_t*>(factor + kTileRows);
    int32_t* const end = begin + kTileRows;
    PerThread<Sums, kThreads> sums;

    block.each([&](int t) {
      for (int i = t; i < kTileRows * d; i += kThreads) {
        const int r = i / d;
        q[i] = r < tile.count ? a.q[(int64_t{tile.row + r} * a.heads + head) * d + i % d] * scale : 0.0f;
      }
      if (t < kTileRows) {
        begin[t] = t < tile.count ? a.ranges[tile.row + t].first : 0;
        end[t] = t < tile.count ? a.ranges[tile.row + t].last : 0;
        max[t] = kNone;
        sum[t] = 0;
      }
      for (auto& row : sums[t].v)
        for (float& x : row) x = 0;
    });
    int least = begin[0], most = end[0];
    for (int r = 1; r < tile.count; ++r) {
      least = begin[r] < least ? begin[r] : least;
      most = end[r] > most ? end[r] : most;
    }

    for (int first = least / kKeys * kKeys; first < most; first += kKeys) {
      const auto load = [&](const T* from, int which) {
        block.each([&](int t) {
          // A key of this thread's, and eight (F16) or four of its elements at a time.
          const int key = t % kKeys;
          const bool trials = tile.overrides >= 0 && first + key < most;
          const int own = trials ? a.overrides[tile.overrides + first + key] : -1;
          const T* const row =
              own < 0
                  ? from + int64_t{first + key} * d
                  : reinterpret_cast<const T*>(a.trial + ((int64_t{own} * a.kv_heads + kv_head) * 2 + which) * d * 4);
          if (first + key < most && d % kPieceElements == 0) {
            for (int c0 = t / kKeys * kPieceElements; c0 < d; c0 += kPieces * kStep) {
              Piece pieces[kPieces];  // all asked for before the first is used
              LLADA_UNROLL for (int p = 0; p < kPieces; ++p) if (c0 + p * kStep < d) pieces[p] =
                  *reinterpret_cast<const Piece*>(row + c0 + p * kStep);
              LLADA_UNROLL for (int p = 0; p < kPieces; ++p) if (c0 + p * kStep < d)
                  LLADA_UNROLL for (int i = 0; i < kPieceElements; ++i) kv[key * (d + 1) + c0 + p * kStep + i] =
                      to_float(pieces[p].v[i]);
            }
          } else if (first + key < most) {
            for (int c = t / kKeys; c < d; c += kThreads / kKeys) kv[key * (d + 1) + c] = to_float(row[c]);
          }
          if (which == 1 && t < kTileRows) {  // beside loading the values: the rows' sums of weights
            float all = sum[t] * factor[t];
            for (int other = 0; other < kKeys; ++other) all += score[t * kKeys + other];
            sum[t] = all;
          }
        });
      };
      load(keys, 0);
      block.each([&](int t) {
        const int r = t / kKeys, key = t % kKeys;
        float s = kNone;
        if (first + key >= begin[r] && first + key < end[r]) {
          s = 0;
          for (int c = 0; c < d; ++c) s = mad(q[r * d + c], kv[key * (d + 1) + c], s);
          if (!finite(s)) s = NAN;  // minus infinity would pass for a key that is not seen
          if (a.cap > 0) s = a.cap * tanhf(s / a.cap);
        }
        score[t] = s;
      });
      block.each([&](int t) {
        if (t >= kTileRows) return;
        const float before = max[t];
        float now = before;
        for (int key = 0; key < kKeys; ++key) now = score[t * kKeys + key] > now ? score[t * kKeys + key] : now;
        factor[t] = before == now ? 1.0f : expf(before - now);
        max[t] = now;
      });
      block.each([&](int t) { score[t] = score[t] == kNone ? 0.0f : expf(score[t] - max[t / kKeys]); });
      load(values, 1);
      block.each([&](int t) {
        LLADA_UNROLL for (int i = 0; i < kMostHeadDim / kThreads; ++i) {
          const int c = i * kThreads + t;
          if (c >= d) break;
          float x[kTileRows];
          LLADA_UNROLL for (int r = 0; r < kTileRows; ++r) x[r] = sums[t].v[r][i] * factor[r];
          for (int key = 0; key < kKeys && first + key < most; ++key) {
            const float value = kv[key * (d + 1) + c];
            // Values that a row does not see may be anything, and 0 times those is not 0.
            LLADA_UNROLL for (int r = 0; r < kTileRows; ++r) if (first + key >= begin[r] && first + key < end[r]) x[r] =
                mad(score[r * kKeys + key], value, x[r]);
          }
          LLADA_UNROLL for (int r = 0; r < kTileRows; ++r) sums[t].v[r][i] = x[r];
        }
      });
    }
    block.each([&](int t) {
      LLADA_UNROLL for (int i = 0; i < kMostHeadDim / kThreads; ++i) {
        const int c = i * kThreads + t;
        LLADA_UNROLL for (int r = 0; r < kTileRows; ++r) if (c < d && r < tile.count)
            a.out[(int64_t{tile.row + r} * a.heads + head) * d + c] = sums[t].v[r][i] / sum[r];
      }
    });
  }
};

// Whether the token is one of tokens [begin, end) of a list.
LLADA_DEVICE bool contains(const int32_t* list, int begin, int end, int token) {
  for (int i = begin; i < end; ++i)
    if (list[i] == token) return true;
  return false;
}

LLADA_DEVICE void clear(HeadPartial& p) { p = {0, 0, -INFINITY, kNone, kNone, kNone, kNone, -1, -1, -1, 0}; }

// The lower token is the better one of equal values.
LLADA_DEVICE bool better(float x, int i, float y, int j) { return x > y || (x == y && i >= 0 && (j < 0 || i < j)); }

LLADA_DEVICE void offer(HeadPartial& p, float value, int token) {
  if (!(value > kNone)) return;
  if (better(value, token, p.best_value, p.best)) {
    p.second = p.best;
    p.second_value = p.best_value;
    p.best = token;
    p.best_value = value;
  } else if (better(value, token, p.second_value, p.second)) {
    p.second = token;
    p.second_value = value;
  }
}

LLADA_DEVICE void offer_sampled(HeadPartial& p, double score, int token, float logit) {
  if (token < 0 || !(score > p.score || (score == p.score && token < p.sampled))) return;
  p.score = score;
  p.sampled = token;
  p.sampled_logit = logit;
}

// a takes b in. Sums refer to each part's maximum; only the larger one's stays.
LLADA_DEVICE void merge(HeadPartial& a, const HeadPartial& b) {
  const float max = a.max > b.max ? a.max : b.max;
  double sum = 0, weighted = 0;
  const auto take = [&](const HeadPartial& p) {
    if (!(p.sum > 0)) return;
    const double shift = static_cast<double>(p.max) - max, scale = exp(shift);
    sum += p.sum * scale;
    weighted += (p.weighted + shift * p.sum) * scale;
  };
  take(a);
  take(b);
  a.damaged |= b.damaged;
  a.max = max;
  a.sum = sum;
  a.weighted = weighted;
  offer(a, b.best_value, b.best);
  offer(a, b.second_value, b.second);
  offer_sampled(a, b.score, b.sampled, b.sampled_logit);
}

template <int Threads>
LLADA_DEVICE void merge_all(const Block& block, HeadPartial* parts) {
  for (int other = Threads / 2; other > 0; other /= 2)
    block.each([&](int t) {
      if (t < other) merge(parts[t], parts[t + other]);
    });
}

// One row's logits of kHeadChunk columns. Excluded tokens are told apart by name, not by value: a token that takes no
// part in the softmax may still be sampled.
struct HeadReduce {
  static constexpr int kThreads = 64;
  HeadArguments a;

  LLADA_DEVICE void operator()(const Block& block) const {
    const int row = block.x, begin = a.begin + block.y * kHeadChunk;  // only x has room for any number of rows
    const int end = begin + kHeadChunk < a.end ? begin + kHeadChunk : a.end;
    const float* logits = a.logits + row * a.stride - a.begin;
    const HeadRow rule = a.rows_of[row];
    auto* const parts = reinterpret_cast<HeadPartial*>(block.shared());
    block.each([&](int t) {
      HeadPartial p;
      clear(p);
      const auto in_softmax = [&](int token) {
        return !contains(a.tokens, rule.out_of_softmax, rule.out_of_softmax_end, token);
      };
      for (int token = begin + t; token < end; token += kThreads)
        if (logits[token] > p.max && in_softmax(token)) p.max = logits[token];
      for (int token = begin + t; token < end; token += kThreads) {
        const float logit = logits[token];
        if (!finite(logit)) {
          p.damaged = 1;
          continue;
        }
        const double below = static_cast<double>(logit) - p.max;
        if (below <= 0 && in_softmax(token)) {
          const double weight = exp(below);
          p.sum += weight;
          p.weighted += below * weight;
        }
        if (contains(a.tokens, rule.never_sampled, rule.never_sampled_end, token)) continue;
        offer(p, logit, token);
        if (rule.temperature > 0)
          offer_sampled(p, logit - rule.temperature * log(-log(draw(rule.key, static_cast<uint64_t>(token)))), token,
                        logit);
      }
      if (rule.temperature <= 0) {
        p.score = p.best < 0 ? static_cast<double>(kNone) : p.best_value;
        p.sampled = p.best;
        p.sampled_logit = p.best_value;
      }
      parts[t] = p;
    });
    merge_all<kThreads>(block, parts);
    block.each([&](int t) {
      if (t == 0) a.partials[int64_t{row} * a.chunks + begin / kHeadChunk] = parts[0];
    });
  }
};

struct HeadMerge {
  static constexpr int kThreads = 64;
  HeadArguments a;
  Prediction* results;

  LLADA_DEVICE void operator()(const Block& block) const {
    const int row = block.x;
    auto* const parts = reinterpret_cast<HeadPartial*>(block.shared());
    block.each([&](int t) {
      HeadPartial p;
      clear(p);
      for (int chunk = t; chunk < a.chunks; chunk += kThreads) merge(p, a.partials[int64_t{row} * a.chunks + chunk]);
      parts[t] = p;
    });
    merge_all<kThreads>(block, parts);
    block.each([&](int t) {
      if (t != 0) return;
      const HeadPartial& p = parts[0];
      const HeadRow rule = a.rows_of[row];
      const auto probability = [&](int token, float logit) {
        if (token < 0 || contains(a.tokens, rule.out_of_softmax, rule.out_of_softmax_end, token)) return 0.0;
        return exp(static_cast<double>(logit) - p.max) / p.sum;
      };
      Prediction& out = results[row];
      const double entropy = log(p.sum) - p.weighted / p.sum;
      out.token = p.sampled;
      out.logit = p.sampled_logit;
      out.runner_up = p.second;
      out.probability = probability(p.sampled, p.sampled_logit);
      out.entropy = entropy > 0 ? entropy : 0;
      out.margin = probability(p.best, p.best_value) - probability(p.second, p.second_value);
      out.position = 0;
      if (p.damaged != 0) {
        out.token = out.runner_up = -1;
        out.logit = NAN;
        out.probability = out.entropy = out.margin = NAN;
      }
    });
  }
};

}  // namespace

void attention(cudaStream_t stream, const AttentionArguments& a, int64_t tiles, bool halves, bool floats) {
  const int64_t d = a.head_dim;
  const int64_t words = kTileRows * d + Attention<float>::kKeys * (d + 1) + Attention<float>::kThreads + 5 * kTileRows;
  if (halves) launch(stream, {tiles, a.heads}, words * 4, Attention<uint16_t>{a});
  if (floats) launch(stream, {tiles, a.heads}, words * 4, Attention<float>{a});
}

void head_reduce(cudaStream_t stream, const HeadArguments& a, int64_t rows) {
  const int64_t chunks = (a.end - a.begin + kHeadChunk - 1) / kHeadChunk;
  launch(stream, {rows, chunks}, HeadReduce::kThreads * static_cast<int64_t>(sizeof(HeadPartial)), HeadReduce{a});
}
void head_merge(cudaStream_t stream, const HeadArguments& a, int64_t rows, Prediction* results) {
  launch(stream, {rows}, HeadMerge::kThreads * static_cast<int64_t>(sizeof(HeadPartial)), HeadMerge{a, results});
}

}  // namespace llada::cuda
