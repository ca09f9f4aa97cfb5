// Products with F32, F16 and BF16 weights over a vector type (see x86_rows-inl.h for how it is included).
//
// Packed: tiles of 16 columns, [tile][k][16], in the stored type, missing columns zero: the size of the
// stored matrix where n is a multiple of 16. Weights are converted in registers; an activation is broadcast
// against 16 or 32 columns. A result is a float sum over blocks of kDepth k in ascending order; each block is
// one chain of fused multiply-adds. A block of weights (16 KiB at 16 bits) stays in L1 while all rows pass
// by.
#pragma once
#include "kernels/x86_rows-inl.h"

namespace llada::kernels::LLADA_VECTOR_NAMESPACE {
namespace {

inline constexpr int64_t kFloatTile = 16, kDepth = 256;

inline int64_t float_element(DType type) { return type == DType::F32 ? 4 : 2; }

inline int64_t float_packed_size(DType type, int64_t n, int64_t k) {
  return (n + kFloatTile - 1) / kFloatTile * kFloatTile * k * float_element(type);
}

template <class T>
inline void pack_columns(const std::byte* stored, int64_t n, int64_t k, int64_t c0, T* out) {
  const int64_t columns = n - c0 < kFloatTile ? n - c0 : kFloatTile;
  for (int64_t i0 = 0; i0 < k; i0 += 32) {  // whole cache lines of every column
    const int64_t i1 = i0 + 32 < k ? i0 + 32 : k;
    for (int64_t c = 0; c < kFloatTile; ++c) {
      const std::byte* column = stored + (c0 + c) * k * static_cast<int64_t>(sizeof(T));
      for (int64_t i = i0; i < i1; ++i) {
        T value = 0;  // copied: stored values lie at any address
        if (c < columns) __builtin_memcpy(&value, column + i * static_cast<int64_t>(sizeof(T)), sizeof value);
        out[i * kFloatTile + c] = value;
      }
    }
  }
}

inline void pack_float(const TensorView& weight, int64_t n0, int64_t n1, std::byte* packed) {
  const int64_t k = weight.shape.dims[0], n = weight.shape.dims[1];
  for (int64_t c = n0; c < n1; c += kFloatTile) {
    if (weight.type == DType::F32) {
      pack_columns(weight.data, n, k, c, reinterpret_cast<uint32_t*>(packed) + c * k);
    } else {
      pack_columns(weight.data, n, k, c, reinterpret_cast<uint16_t*>(packed) + c * k);
    }
  }
}

template <DType Type>
inline Vec load_weight(const std::byte* p) {
  if constexpr (Type == DType::F32) return load(reinterpret_cast<const float*>(p));
  if constexpr (Type == DType::F16) return load_f16(reinterpret_cast<const uint16_t*>(p));
  return load_bf16(reinterpret_cast<const uint16_t*>(p));
}

// One block of k for Rows rows and Vectors vectors of columns; vector j has its weights at w[j]. Meanwhile the lines
// from `next` on are prefetched, `step` bytes per k.
template <DType Type, int Rows, int Vectors>
inline __attribute__((always_inline)) void float_tile(const std::byte* const (&w)[Vectors], const float* x, int64_t k,
                                                      int64_t depth, const std::byte* next, int64_t step,
                                                      Vec (&sums)[Rows][Vectors]) {
  constexpr int64_t kStep = kFloatTile * (Type == DType::F32 ? 4 : 2);
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) sums[r][j] = zero();
  for (int64_t i = 0; i < depth; ++i) {
    Vec weight[Vectors];
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) weight[j] = load_weight<Type>(w[j] + i * kStep);
    __builtin_prefetch(next + i * step, 0, 0);
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      const Vec v = fill(x[r * k + i]);
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) sums[r][j] = fma(v, weight[j], sums[r][j]);
    }
  }
}

struct FloatBlock {
  const MatmulArgs* args;
  int64_t column, k0, depth;
};

// y (+)= one block; columns at and beyond n1 are left alone.
template <DType Type, int Rows, int Vectors>
inline void multiply_rows(const FloatBlock& b, int64_t r0, int64_t tile) {
  const MatmulArgs& a = *b.args;
  constexpr int64_t kElement = Type == DType::F32 ? 4 : 2;
  const std::byte* w[Vectors];
  for (int j = 0; j < Vectors; ++j) {
    const int64_t c = b.column + j * kLanes;
    w[j] = a.weights + (c / kFloatTile * kFloatTile * a.k + b.k0 * kFloatTile + c % kFloatTile) * kElement;
  }
  Vec sums[Rows][Vectors];
  // While row tile j is computed, vector j's next block comes: of these columns or of those after them.
  const bool more = tile < Vectors;
  const std::byte* next = w[more ? tile : 0];
  next += b.k0 + b.depth < a.k ? b.depth * kFloatTile * kElement
                               : ((Vectors * kLanes) * a.k - b.k0 * kFloatTile) * kElement;
  float_tile<Type, Rows, Vectors>(w, a.x + r0 * a.k + b.k0, a.k, b.depth, next, more ? kFloatTile * kElement : 0, sums);
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) {
      const int64_t c = b.column + j * kLanes, left = a.n1 - c;
      float* y = a.y + (r0 + r) * a.y_stride + c;
      if (left >= kLanes) {
        store(y, b.k0 == 0 ? sums[r][j] : add(load(y), sums[r][j]));
      } else if (left > 0) {
        store_first(y, left, b.k0 == 0 ? sums[r][j] : add(load_first(y, left, 0), sums[r][j]));
      }
    }
}

// Rows [r0, r0 + rows), rows <= Rows.
template <DType Type, int Vectors, int Rows>
inline void multiply_some_rows(const FloatBlock& b, int64_t r0, int64_t rows, int64_t tile) {
  if (rows == Rows) return multiply_rows<Type, Rows, Vectors>(b, r0, tile);
  if constexpr (Rows > 1) multiply_some_rows<Type, Vectors, Rows - 1>(b, r0, rows, tile);
}

template <DType Type, int Vectors, int MostRows>
inline void multiply_block(const FloatBlock& b) {
  const int64_t rows = b.args->rows, tiles = (rows + MostRows - 1) / MostRows;
  for (int64_t t = 0; t < tiles; ++t) {  // of nearly equal height
    const int64_t r0 = rows * t / tiles, r1 = rows * (t + 1) / tiles;
    multiply_some_rows<Type, Vectors, MostRows>(b, r0, r1 - r0, t);
  }
}

template <DType Type>
inline void multiply_type(const MatmulArgs& a) {
  FloatBlock b{&a, a.n0, 0, 0};
  for (int64_t vectors = 0; b.column < a.n1; b.column += vectors * kLanes) {
    const int64_t left = (a.n1 - b.column + kLanes - 1) / kLanes;
    vectors = left >= 4 && a.rows <= kFewRows ? 4 : left >= 2 ? 2 : 1;
    for (b.k0 = 0; b.k0 < a.k; b.k0 += kDepth) {
      b.depth = a.k - b.k0 < kDepth ? a.k - b.k0 : kDepth;
      if (vectors == 4) multiply_block<Type, 4, kFewRows>(b);
      if (vectors == 2) multiply_block<Type, 2, kMatmulRows>(b);
      if (vectors == 1) multiply_block<Type, 1, kMatmulRows>(b);
    }
  }
}

inline void multiply_float(const MatmulArgs& a) {
  if (a.type == DType::F32) multiply_type<DType::F32>(a);
  if (a.type == DType::F16) multiply_type<DType::F16>(a);
  if (a.type == DType::BF16) multiply_type<DType::BF16>(a);
}

}  // namespace
}  // namespace llada::kernels::LLADA_VECTOR_NAMESPACE
