// The kernels of the cuda device, one function per launch. Pointers are device memory unless they say host; every launch
// is queued on `stream` and returns at once, errors are left for cudaGetLastError(). A row's result is the same bits
// whatever the other rows of the launch. Kernels are .cu files, compiled by nvcc as C++20, so this header is plain.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "tensor/dtype.h"

namespace llada::cuda {

// A stored matrix, rows x inputs, in the layout of its type (tensor/dtype.h).
struct Matrix {
  const uint8_t* data = nullptr;
  DType type = DType::F32;
  int32_t inputs = 0, outputs = 0;
};
bool has_kernels(DType type);          // of matrices
inline constexpr int kInputStep = 4;   // inputs of a matrix are a multiple

void embed(cudaStream_t stream, const Matrix& table, const int32_t* tokens, int64_t rows, float* out);
void select_rows(cudaStream_t stream, const float* x, const int32_t* from, int64_t rows, int64_t columns, float* out);
// `vectors` vectors of n; in place where x == out.
void rms_norm(cudaStream_t stream, const float* x, const float* weight, float epsilon, int64_t vectors, int64_t n, float* out);
void swiglu(cudaStream_t stream, const float* gate, const float* up, int64_t n, float* out);
void add(cudaStream_t stream, const float* from, int64_t n, float* to);
void add_bias(cudaStream_t stream, const float* bias, int64_t rows, int64_t columns, float* x);
void guide(cudaStream_t stream, const float* conditional, const float* unconditional, float scale, int64_t n, float* out);

// y (rows x stride) = x (rows x w.inputs) times columns [n0, n1) of w; y's first column is n0.
void product(cudaStream_t stream, const Matrix& w, const float* x, int64_t rows, int64_t n0, int64_t n1, float* y,
             int64_t stride);

struct RopeArguments {
  float* x;                        // rows x (heads * head_dim)
  const float *cos, *sin;          // computed rows x rotary / 2
  const int32_t* computed_row;     // of each row; null: they are the same
  int32_t heads, head_dim, rotary;
  bool adjacent;
};
void rope(cudaStream_t stream, const RopeArguments& a, int64_t rows);

// A layer of a K/V store: [sequence][head][position][head_dim], all of F16 or F32.
struct KvLayer {
  uint8_t *keys, *values;
  int64_t head_bytes;
  int32_t kv_heads, head_dim;
  bool half;
};
struct StoreArguments {
  const float *k, *v;          // rows x (kv_heads * head_dim)
  const int32_t* positions;
  const int32_t* sequences;    // of each row; -1: a trial's, which goes to `trial`
  KvLayer device, host;        // host: the store itself, in host memory that the GPU sees
  uint8_t* trial;              // rows x kv_heads x {key, value} x head_dim
};
void store_kv(cudaStream_t stream, const StoreArguments& a, int64_t rows);

// Rows of one span that a block of threads takes together.
inline constexpr int kTileRows = 4;
struct AttentionTile {
  int32_t row, count, sequence, keys;
  int32_t overrides;  // of a trial: where in `overrides` its list starts; -1: none
};
struct AttentionArguments {
  const float* q;  // rows x (heads * head_dim)
  const AttentionTile* tiles;
  const int32_t* positions;
  const int32_t* overrides;  // per key: the computed row whose trial key stands there, or -1
  const uint8_t* trial;
  KvLayer kv;
  int32_t heads, block;  // block > 0: block-causal
  float scale;           // of the scores
  float* out;
};
inline constexpr int kMostHeadDim = 256;
// Keys that a row does not see have no influence on it, whatever they hold. A score that is not finite of one that it does
// see makes its result no number.
void attention(cudaStream_t stream, const AttentionArguments& a, int64_t tiles);

// ---- Mixture of experts

struct RouteArguments {
  const float* scores;  // rows x experts
  const float* bias;    // may be null
  float* gates;         // rows x experts
  int32_t experts, used, groups, groups_used;
  float scale;
  bool sigmoid, renormalise;
};
inline constexpr int kMostExperts = 1024;
// A score or bias that is not finite makes all of the row's gates that are not 0 no number.
void route(cudaStream_t stream, const RouteArguments& a, int64_t rows);

// Rows grouped by expert, experts ascending.
struct ExpertRows {
  int32_t* begins;    // experts + 1
  int32_t* gathered;  // row of each gathered row
  int32_t* places;    // rows x used: gathered rows of each row, experts ascending; -1: none
  int32_t* chosen;    // rows x used: whose
  int32_t* scratch;   // rows x experts
};
void group_rows(cudaStream_t stream, const float* gates, int64_t rows, int32_t experts, int32_t used, const ExpertRows& out);

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

struct ExpertSum {
  const float* y;  // gathered rows x width
  const float* gates;
  const int32_t *places, *chosen;
  const uint8_t* here;   // by expert: its rows are in y; null: all are
  const float* others;   // rows x width to be added; may be null
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
struct HeadResult {  // of a row with a logit that is not finite: token -1, no numbers
  double probability, entropy, margin;
  int32_t token, runner_up;
  float logit, unused;
};
inline constexpr int kHeadChunk = 512;  // columns of a partial
struct HeadArguments {
  const float* logits;  // rows x stride, columns [begin, end) of the vocabulary
  int64_t stride;
  int32_t begin, end;
  const int32_t *never_sampled, *out_of_softmax;
  int32_t never_sampled_count, out_of_softmax_count;
  const uint64_t* keys;  // random_key() of each row
  double temperature;
  HeadPartial* partials;  // rows x chunks of the whole vocabulary
  int32_t chunks;
};
void head_reduce(cudaStream_t stream, const HeadArguments& a, int64_t rows);
void head_merge(cudaStream_t stream, const HeadArguments& a, int64_t rows, HeadResult* results);

}  // namespace llada::cuda
