// The kernels of the cuda device, one function per launch. Pointers are device memory unless they say host; every
// launch is queued on `stream` and returns at once, errors are left for cudaGetLastError(). A row's result is the same
// bits whatever the other rows of the launch. Kernels are .cu files, compiled by nvcc as C++20, so this header is
// plain.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "base/key_range.h"
#include "devices/routing_rule.h"
#include "tensor/dtype.h"
#include "tensor/prediction.h"

namespace llada::cuda {

// A stored matrix, rows x inputs, in the layout of its type (tensor/dtype.h).
struct Matrix {
  const uint8_t* data = nullptr;
  DType type = DType::F32;
  int32_t inputs = 0, outputs = 0;
};
bool has_kernels(DType type);         // of matrices
inline constexpr int kInputStep = 4;  // inputs of a matrix are a multiple

void embed(cudaStream_t stream, const Matrix& table, const int32_t* tokens, int64_t rows, float* out);
void select_rows(cudaStream_t stream, const float* x, const int32_t* from, int64_t rows, int64_t columns, float* out);
// `vectors` vectors of n; in place where x == out; weight: null for a norm without.
void rms_norm(cudaStream_t stream, const float* x, const float* weight, float epsilon, int64_t vectors, int64_t n,
              float* out);
void swiglu(cudaStream_t stream, const float* gate, const float* up, int64_t n, float* out);
void geglu(cudaStream_t stream, const float* gate, const float* up, int64_t n, float* out);
// Columns [0, columns) of rows `stride` apart; NaN where a value is not finite.
void soft_cap(cudaStream_t stream, float* x, int64_t rows, int64_t columns, int64_t stride, float cap);
void add(cudaStream_t stream, const float* from, int64_t n, float* to);
void add_bias(cudaStream_t stream, const float* bias, int64_t rows, int64_t columns, float* x);
// One result of guide: u + factor * (c - u) of two rows of x; -1 as the unconditional one: a copy of c.
struct GuidedRow {
  int32_t conditional, unconditional;
  float factor;
};
void guide(cudaStream_t stream, const float* x, const GuidedRow* rows_of, int64_t rows, int64_t columns, float* out);

// y (rows x stride) = x (rows x w.inputs) times columns [n0, n1) of w; y's first column is n0.
void product(cudaStream_t stream, const Matrix& w, const float* x, int64_t rows, int64_t n0, int64_t n1, float* y,
             int64_t stride);

// ---- The same on tensor cores, for GPUs of compute capability 8.0 and later. A row of x is multiplied with a power of
// two of its own and every value becomes the sum of two halves. So 22 bits of it are kept, or 2^-39 of the row's
// largest where that is more. Stored rows are read in aligned pieces of 16 bytes, so a matrix begins at a multiple of
// 16 and memory behind it up to the next is readable.
bool has_tensor_kernels(DType type);
struct SplitRows {
  uint8_t* units = nullptr;  // null: there are none
  float* sums = nullptr;     // rows x groups of 32 inputs, of the units' contents; null: no type here asks for them
  float* unscale = nullptr;  // per row
};
int64_t split_bytes(int64_t rows, int64_t inputs);
// memory: aligned to 16; types: of the matrices that will read them.
SplitRows split_at(uint8_t* memory, int64_t rows, int64_t inputs, std::span<const DType> types);
// Rows [first, first + rows) of x (rows x inputs).
void split_rows(cudaStream_t stream, const float* x, int64_t first, int64_t rows, int64_t inputs, const SplitRows& out);
// As product().
void tensor_product(cudaStream_t stream, const Matrix& w, const SplitRows& x, int64_t rows, int64_t n0, int64_t n1,
                    float* y, int64_t stride);

struct RopeArguments {
  float* x;                     // rows x (heads * head_dim)
  const float *cos, *sin;       // computed rows x rotary / 2
  const int32_t* computed_row;  // of each row; null: they are the same
  int32_t heads, head_dim, rotary;
  bool adjacent;
};
void rope(cudaStream_t stream, const RopeArguments& a, int64_t rows);

// A K/V store: [layer][sequence][head][position][head_dim], keys and values apart, F16 or F32; on the GPU and in host
// memory that the GPU sees.
struct KvPlace {
  uint8_t *keys, *values, *host_keys, *host_values;
  int64_t layer_bytes, head_bytes;
  int32_t half;
};
// Whose a computed row is.
struct StoredRow {
  int32_t store;     // of the step's
  int32_t sequence;  // -1: of a trial, whose keys and values go to `trial`
};
struct StoreArguments {
  const float *k, *v;  // rows x (kv_heads * head_dim)
  const int32_t* positions;
  const StoredRow* rows_of;
  const KvPlace* stores;
  uint8_t* trial;  // rows x kv_heads x {key, value} x head_dim, each with room for F32
  int32_t layer, kv_heads, head_dim;
};
void store_kv(cudaStream_t stream, const StoreArguments& a, int64_t rows);

// Rows of one span that a block of threads takes together.
inline constexpr int kTileRows = 4;
struct AttentionTile {
  int32_t row, count, store, sequence;
  int32_t overrides;  // of a trial: where in `overrides` its list starts; -1: none
};
struct AttentionArguments {
  const float* q;  // rows x (heads * head_dim)
  const AttentionTile* tiles;
  const KeyRange* ranges;    // by row
  const int32_t* overrides;  // per key: the computed row whose trial key stands there, or -1
  const uint8_t* trial;
  const KvPlace* stores;
  int32_t layer, heads, kv_heads, head_dim;
  float scale;  // of the scores
  float cap;    // of the scaled scores, cap tanh(s / cap); 0: none
  float* out;
};
inline constexpr int kMostHeadDim = 256;
// Keys that a row does not see have no influence on it, whatever they hold. A score that is not finite of one that it
// does see makes its result no number.
// halves, floats: which types the stores have.
void attention(cudaStream_t stream, const AttentionArguments& a, int64_t tiles, bool halves, bool floats);

// ---- Mixture of experts

struct RouteArguments {
  const float* scores;  // rows x experts
  const float* bias;    // may be null
  float* gates;         // rows x experts
  RoutingRule rule;
};
inline constexpr int kMostExperts = 1024;
void route(cudaStream_t stream, const RouteArguments& a, int64_t rows);

// Rows grouped by expert, experts ascending.
struct ExpertRows {
  int32_t* begins;    // experts + 1
  int32_t* gathered;  // row of each gathered row
  int32_t* places;    // rows x used: gathered rows of each row, experts ascending; -1: none
  int32_t* chosen;    // rows x used: whose
  int32_t* scratch;   // rows x experts
};
void group_rows(cudaStream_t stream, const float* gates, int64_t rows, int32_t experts, int32_t used,
                const ExpertRows& out);

struct ExpertProduct {
  DType type;
  int32_t inputs, outputs, experts;  // experts: of `order`, or from 0
  const uint8_t* const* weights;     // by expert
  const int32_t* order;              // null: all, as they come
  const uint8_t* only_weights;       // one expert alone, `only`; null: those of the table
  int32_t only;
  const int32_t* begins;
  const int32_t* gathered;  // of x's rows; null: x is gathered already
  const float* x;
  float* y;  // gathered rows x outputs
};
// most_rows: no expert has more.
void expert_product(cudaStream_t stream, const ExpertProduct& a, int64_t rows_per_expert, int64_t most_rows);
void tensor_expert_product(cudaStream_t stream, const ExpertProduct& a, const SplitRows& x, int64_t most_rows);

struct ExpertSum {
  const float* y;  // gathered rows x width
  const float* gates;
  const int32_t *places, *chosen;
  const uint8_t* here;  // by expert: its rows are in y; null: all are
  const float* others;  // rows x width to be added; may be null
  float* out;
  int32_t width, used, experts;
};
void expert_sum(cudaStream_t stream, const ExpertSum& a, int64_t rows);

// ---- Head

struct HeadPartial {
  double sum, weighted, score;
  float max, best_value, second_value, sampled_logit;
  int32_t best, second, sampled;
  int32_t damaged;  // 1: a logit is not finite
};
inline constexpr int kHeadChunk = 512;  // columns of a partial
// A row's rule: lists by their first and last token's place.
struct HeadRow {
  uint64_t key;  // random_key()
  double temperature;
  int32_t never_sampled, never_sampled_end, out_of_softmax, out_of_softmax_end;
};
struct HeadArguments {
  const float* logits;  // rows x stride, columns [begin, end) of the vocabulary
  int64_t stride;
  int32_t begin, end;
  const HeadRow* rows_of;
  const int32_t* tokens;  // the lists that rows name
  HeadPartial* partials;  // rows x chunks of the whole vocabulary
  int32_t chunks;
};
void head_reduce(cudaStream_t stream, const HeadArguments& a, int64_t rows);
void head_merge(cudaStream_t stream, const HeadArguments& a, int64_t rows, Prediction* results);

}  // namespace llada::cuda
