// For builds under the thread sanitizer. Under it a forward spends nine tenths of its time in the loops of the kernels.
// So these are compiled without it (CMakeLists.txt), and called through a table that declares the reads and writes of a
// call. Digests, packing and quantized activations are compiled with it. Elsewhere watch() does nothing.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/kernels.h"

#ifndef LLADA_WATCH_KERNELS
namespace llada::kernels {
inline void watch(std::vector<const KernelTable*>&) {}
}  // namespace llada::kernels
#else

extern "C" void __tsan_read_range(void* begin, unsigned long bytes);
extern "C" void __tsan_write_range(void* begin, unsigned long bytes);

namespace llada::kernels {

template <class T>
void tell_read(const T* begin, int64_t count) {
  __tsan_read_range(const_cast<void*>(static_cast<const void*>(begin)), static_cast<size_t>(count) * sizeof(T));
}
template <class T>
void tell_written(T* begin, int64_t count) {
  __tsan_write_range(begin, static_cast<size_t>(count) * sizeof(T));
}

// One type for each table: an entry has no room for the table that it calls.
template <size_t place>
struct Watched {
  static inline const KernelTable* raw = nullptr;

  static void rms_norm(const float* x, const float* weight, float eps, int64_t n, float* y) {
    tell_read(x, n), tell_read(weight, n), tell_written(y, n);
    raw->rms_norm(x, weight, eps, n, y);
  }
  static void add(const float* x, int64_t n, float* y) {
    tell_read(x, n), tell_written(y, n);
    raw->add(x, n, y);
  }
  static void swiglu(const float* gate, const float* up, int64_t n, float* y) {
    tell_read(gate, n), tell_read(up, n), tell_written(y, n);
    raw->swiglu(gate, up, n, y);
  }
  static void geglu(const float* gate, const float* up, int64_t n, float* y) {
    tell_read(gate, n), tell_read(up, n), tell_written(y, n);
    raw->geglu(gate, up, n, y);
  }
  static void soft_cap(float* x, int64_t n, float cap) {
    tell_written(x, n);
    raw->soft_cap(x, n, cap);
  }
  static void rope(float* heads, const RopeArgs& args) {
    tell_written(heads, args.heads * args.head_dim);
    raw->rope(heads, args);
  }
  static void store_half(const float* x, int64_t n, uint16_t* y) {
    tell_read(x, n), tell_written(y, n);
    raw->store_half(x, n, y);
  }
  static void attention(const AttentionArgs& a) {
    const int64_t key_bytes = a.head_dim * (a.kv_type == DType::F32 ? 4 : 2);
    KeyRange seen = a.range(a.r0);
    for (int64_t r = a.r0; r < a.r1; ++r) {
      const KeyRange keys = a.range(r);
      seen = {std::min(seen.first, keys.first), std::max(seen.last, keys.last)};
      tell_read(a.q + r * a.q_stride, a.head_dim), tell_written(a.out + r * a.out_stride, a.head_dim);
    }
    for (const void* all : {a.k, a.v})
      tell_read(static_cast<const std::byte*>(all) + seen.first * key_bytes, (seen.last - seen.first) * key_bytes);
    tell_written(a.scratch, attention_scratch(a.keys));
    raw->attention(a);
  }
  static void matmul(const MatmulArgs& a) {
    if (raw->integer_path(a.type))
      tell_read(a.activations, raw->activation_bytes(a.rows, a.k));
    else
      tell_read(a.x, a.rows * a.k);
    for (int64_t r = 0; r < a.rows; ++r) tell_written(a.y + r * a.y_stride + a.n0, a.n1 - a.n0);
    raw->matmul(a);
  }
  static SoftmaxStats softmax_stats(const float* logits, int64_t n) {
    tell_read(logits, n);
    return raw->softmax_stats(logits, n);
  }
  static Top2 top2(const float* logits, int64_t n) {
    tell_read(logits, n);
    return raw->top2(logits, n);
  }

  static const KernelTable* table(const KernelTable* of) {
    raw = of;
    static KernelTable t;
    t = *of;
    t.rms_norm = rms_norm, t.add = add, t.swiglu = swiglu, t.geglu = geglu, t.soft_cap = soft_cap, t.rope = rope;
    t.store_half = store_half, t.attention = attention, t.matmul = matmul;
    t.softmax_stats = softmax_stats, t.top2 = top2;
    return &t;
  }
};

// tables: each becomes its watched one, but for the last, scalar, whose kernels are compiled with the sanitizer.
inline void watch(std::vector<const KernelTable*>& tables) {
  const auto each = [&]<size_t... place>(std::index_sequence<place...>) {
    ((place + 1 < tables.size() ? void(tables[place] = Watched<place>::table(tables[place])) : void()), ...);
  };
  each(std::make_index_sequence<8>());
}

}  // namespace llada::kernels

#endif
