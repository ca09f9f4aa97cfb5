// Operations on single rows: norms, rotary positions, activations, the K/V store, and the router.
#include <cuda_block.h>

#include <cmath>

#include "devices/cuda/kernels.h"

namespace llada::cuda {
namespace {

constexpr int kElementThreads = 256;
LLADA_DEVICE bool finite(float x) { return x - x == 0; }

// body(i) for every i < n.
template <class Body>
struct ForEach {
  static constexpr int kThreads = kElementThreads;
  Body body;
  int64_t n;
  LLADA_DEVICE void operator()(const Block& block) const {
    block.each([&](int t) {
      const int64_t i = int64_t{block.x} * kThreads + t;
      if (i < n) body(i);
    });
  }
};
template <class Body>
void for_each(cudaStream_t stream, int64_t n, const Body& body) {
  launch(stream, {(n + kElementThreads - 1) / kElementThreads}, 0, ForEach<Body>{body, n});
}

struct SelectRow {
  const float* x;
  const int32_t* from;
  int64_t columns;
  float* out;
  LLADA_DEVICE void operator()(int64_t i) const { out[i] = x[from[i / columns] * columns + i % columns]; }
};
struct Swiglu {
  const float *gate, *up;
  float* out;
  LLADA_DEVICE void operator()(int64_t i) const { out[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i]; }
};
// x / 2 (1 + tanh(u)) = x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3).
struct Geglu {
  const float *gate, *up;
  float* out;
  LLADA_DEVICE void operator()(int64_t i) const {
    const float x = gate[i];
    out[i] = x / (1.0f + expf(-1.5957691f * x * (1.0f + 0.044715f * x * x))) * up[i];
  }
};
struct SoftCap {
  float* x;
  int64_t columns, stride;
  float cap;
  LLADA_DEVICE void operator()(int64_t i) const {
    float& at = x[i / columns * stride + i % columns];
    at = finite(at) ? cap * tanhf(at / cap) : NAN;
  }
};
struct Add {
  const float* from;
  float* to;
  LLADA_DEVICE void operator()(int64_t i) const { to[i] += from[i]; }
};
struct AddBias {
  const float* bias;
  float* x;
  int64_t columns;
  LLADA_DEVICE void operator()(int64_t i) const { x[i] += bias[i % columns]; }
};
struct Guide {
  const float* x;
  const GuidedRow* rows_of;
  int64_t columns;
  float* out;
  LLADA_DEVICE void operator()(int64_t i) const {
    const GuidedRow row = rows_of[i / columns];
    const float c = x[row.conditional * columns + i % columns];
    if (row.unconditional < 0) {
      out[i] = c;
      return;
    }
    const float u = x[row.unconditional * columns + i % columns];
    out[i] = u + row.factor * (c - u);
  }
};
struct Rope {
  RopeArguments a;
  LLADA_DEVICE void operator()(int64_t i) const {
    const int half = a.rotary / 2;
    const int64_t row = i / (int64_t{a.heads} * half);
    const int j = static_cast<int>(i % half), head = static_cast<int>(i / half % a.heads);
    const int64_t angle =
        int64_t{a.computed_row != nullptr ? a.computed_row[row] : static_cast<int32_t>(row)} * half + j;
    float* x = a.x + (row * a.heads + head) * a.head_dim;
    float& p = x[a.adjacent ? 2 * j : j];
    float& q = x[a.adjacent ? 2 * j + 1 : j + half];
    const float c = a.cos[angle], s = a.sin[angle], first = p, second = q;
    p = first * c - second * s;
    q = second * c + first * s;
  }
};

struct StoreKv {
  StoreArguments a;

  LLADA_DEVICE static void put(uint8_t* to, int64_t at, float value, bool half) {
    if (half)
      reinterpret_cast<uint16_t*>(to)[at] = float_to_half(value);
    else
      reinterpret_cast<float*>(to)[at] = value;
  }
  LLADA_DEVICE void operator()(int64_t i) const {
    const int d = a.head_dim, heads = a.kv_heads;
    const int64_t vector = i / d, row = vector / heads;
    const int64_t c = i % d, head = vector % heads;
    const StoredRow whose = a.rows_of[row];
    const KvPlace& store = a.stores[whose.store];
    const bool half = store.half != 0;
    if (whose.sequence < 0) {
      put(a.trial + 2 * vector * d * 4, c, a.k[i], half);
      put(a.trial + (2 * vector + 1) * d * 4, c, a.v[i], half);
      return;
    }
    const int64_t base = a.layer * store.layer_bytes + (whose.sequence * int64_t{heads} + head) * store.head_bytes,
                  at = a.positions[row] * int64_t{d} + c;
    put(store.keys + base, at, a.k[i], half);
    put(store.values + base, at, a.v[i], half);
    put(store.host_keys + base, at, a.k[i], half);
    put(store.host_values + base, at, a.v[i], half);
  }
};

struct RmsNorm {
  static constexpr int kThreads = 256;
  const float *x, *weight;
  float epsilon;
  int64_t n;
  float* out;

  LLADA_DEVICE void operator()(const Block& block) const {
    const float* from = x + block.x * n;
    float* to = out + block.x * n;
    auto* const sums = reinterpret_cast<float*>(block.shared());
    block.each([&](int t) {
      float sum = 0;
      for (int64_t i = t; i < n; i += kThreads) sum = mad(from[i], from[i], sum);
      sums[t] = sum;
    });
    for (int other = kThreads / 2; other > 0; other /= 2)
      block.each([&](int t) {
        if (t < other) sums[t] += sums[t + other];
      });
    block.each([&](int t) {
      const float scale = 1.0f / sqrtf(sums[0] / static_cast<float>(n) + epsilon);
      for (int64_t i = t; i < n; i += kThreads) to[i] = from[i] * scale * (weight != nullptr ? weight[i] : 1.0f);
    });
  }
};

// One warp per row, its scratch in shared memory.
struct Route {
  static constexpr int kThreads = 32;
  RouteArguments a;

  static int64_t shared_bytes(int64_t experts) { return 8 + (3 * experts + kThreads) * 4; }

  LLADA_DEVICE void operator()(const Block& block) const {
    const RoutingRule& rule = a.rule;
    // first: the arrays behind it have any number of floats
    auto* const sum = reinterpret_cast<double*>(block.shared());
    auto* const floats = reinterpret_cast<float*>(sum + 1);
    const RoutingScratch scratch{sum, floats, floats + rule.experts, floats + 2 * rule.experts,
                                 reinterpret_cast<int32_t*>(floats + 3 * rule.experts)};
    route_by<kThreads>(rule, a.scores + int64_t{block.x} * rule.experts, a.bias, scratch,
                       a.gates + int64_t{block.x} * rule.experts, block);
  }
};

// Small work with much order in it: one block, a thread per expert, then a thread per row.
struct GroupRows {
  static constexpr int kThreads = 256;
  const float* gates;
  int32_t rows, experts, used;
  ExpertRows out;

  LLADA_DEVICE void operator()(const Block& block) const {
    block.each([&](int t) {
      for (int e = t; e < experts; e += kThreads) {
        int count = 0;
        for (int r = 0; r < rows; ++r) count += gates[int64_t{r} * experts + e] != 0;
        out.begins[e + 1] = count;
      }
    });
    block.each([&](int t) {
      if (t != 0) return;
      out.begins[0] = 0;
      for (int e = 0; e < experts; ++e) out.begins[e + 1] += out.begins[e];
    });
    block.each([&](int t) {
      for (int e = t; e < experts; e += kThreads) {
        int at = out.begins[e];
        for (int r = 0; r < rows; ++r) {
          if (gates[int64_t{r} * experts + e] == 0) continue;
          out.gathered[at] = r;
          out.scratch[int64_t{r} * experts + e] = at++;
        }
      }
    });
    block.each([&](int t) {
      for (int r = t; r < rows; r += kThreads) {
        int k = 0;
        for (int e = 0; e < experts && k < used; ++e) {
          if (gates[int64_t{r} * experts + e] == 0) continue;
          out.places[int64_t{r} * used + k] = out.scratch[int64_t{r} * experts + e];
          out.chosen[int64_t{r} * used + k++] = e;
        }
        for (; k < used; ++k) out.places[int64_t{r} * used + k] = -1;
      }
    });
  }
};

// A row's experts are added in ascending order.
struct AddUp {
  ExpertSum a;
  LLADA_DEVICE void operator()(int64_t i) const {
    const int64_t row = i / a.width, c = i % a.width;
    float sum = 0;
    for (int k = 0; k < a.used; ++k) {
      const int place = a.places[row * a.used + k];
      if (place < 0) break;
      const int expert = a.chosen[row * a.used + k];
      if (a.here != nullptr && a.here[expert] == 0) continue;
      sum = mad(a.gates[row * a.experts + expert], a.y[place * int64_t{a.width} + c], sum);
    }
    a.out[i] = a.others != nullptr ? sum + a.others[i] : sum;
  }
};

}  // namespace

void select_rows(cudaStream_t stream, const float* x, const int32_t* from, int64_t rows, int64_t columns, float* out) {
  for_each(stream, rows * columns, SelectRow{x, from, columns, out});
}
void rms_norm(cudaStream_t stream, const float* x, const float* weight, float epsilon, int64_t vectors, int64_t n,
              float* out) {
  launch(stream, {vectors}, RmsNorm::kThreads * 4, RmsNorm{x, weight, epsilon, n, out});
}
void swiglu(cudaStream_t stream, const float* gate, const float* up, int64_t n, float* out) {
  for_each(stream, n, Swiglu{gate, up, out});
}
void geglu(cudaStream_t stream, const float* gate, const float* up, int64_t n, float* out) {
  for_each(stream, n, Geglu{gate, up, out});
}
void soft_cap(cudaStream_t stream, float* x, int64_t rows, int64_t columns, int64_t stride, float cap) {
  for_each(stream, rows * columns, SoftCap{x, columns, stride, cap});
}
void add(cudaStream_t stream, const float* from, int64_t n, float* to) { for_each(stream, n, Add{from, to}); }
void add_bias(cudaStream_t stream, const float* bias, int64_t rows, int64_t columns, float* x) {
  for_each(stream, rows * columns, AddBias{bias, x, columns});
}
void guide(cudaStream_t stream, const float* x, const GuidedRow* rows_of, int64_t rows, int64_t columns, float* out) {
  for_each(stream, rows * columns, Guide{x, rows_of, columns, out});
}
void rope(cudaStream_t stream, const RopeArguments& a, int64_t rows) {
  for_each(stream, rows * a.heads * (a.rotary / 2), Rope{a});
}
void store_kv(cudaStream_t stream, const StoreArguments& a, int64_t rows) {
  for_each(stream, rows * a.kv_heads * a.head_dim, StoreKv{a});
}
void route(cudaStream_t stream, const RouteArguments& a, int64_t rows) {
  launch(stream, {rows}, Route::shared_bytes(a.rule.experts), Route{a});
}
void group_rows(cudaStream_t stream, const float* gates, int64_t rows, int32_t experts, int32_t used,
                const ExpertRows& out) {
  launch(stream, {1}, 0, GroupRows{gates, static_cast<int32_t>(rows), experts, used, out});
}
void expert_sum(cudaStream_t stream, const ExpertSum& a, int64_t rows) { for_each(stream, rows * a.width, AddUp{a}); }

}  // namespace llada::cuda
