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

// The values k0 to k1 of 16 columns, `columns` of which are there, one at a time: stored values lie at any address.
template <class T>
inline void pack_singly(const std::byte* stored, int64_t columns, int64_t k, int64_t k0, int64_t k1, T* out) {
  for (int64_t c = 0; c < kFloatTile; ++c) {
    const std::byte* column = stored + c * k * static_cast<int64_t>(sizeof(T));
    for (int64_t i = k0; i < k1; ++i) {
      T value = 0;
      if (c < columns) __builtin_memcpy(&value, column + i * static_cast<int64_t>(sizeof(T)), sizeof value);
      out[i * kFloatTile + c] = value;
    }
  }
}

// The 16 bytes of a column at p, and in the upper half those of the column `bytes` further on.
inline __m256i two_columns(const std::byte* p, int64_t bytes) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
                                 _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + bytes)), 1);
}

inline void store_row(void* out, __m256i row) { _mm256_storeu_si256(static_cast<__m256i*>(out), row); }

// 8 values of 16 columns, which begin `column` bytes apart: a half of a vector has 8 columns.
inline void transpose_piece(const std::byte* stored, int64_t column, uint16_t* out) {
  __m256i v[8], pairs[8], fours[8];
  for (int64_t c = 0; c < 8; ++c) v[c] = two_columns(stored + c * column, 8 * column);
  for (int i = 0; i < 4; ++i) {
    pairs[i] = _mm256_unpacklo_epi16(v[2 * i], v[2 * i + 1]);      // values 0 to 3 of columns 2 i and 2 i + 1
    pairs[4 + i] = _mm256_unpackhi_epi16(v[2 * i], v[2 * i + 1]);  // values 4 to 7
  }
  for (int i = 0; i < 8; i += 2) {
    fours[i] = _mm256_unpacklo_epi32(pairs[i], pairs[i + 1]);
    fours[i + 1] = _mm256_unpackhi_epi32(pairs[i], pairs[i + 1]);
  }
  for (int i = 0; i < 8; ++i) {
    const int low = i / 4 * 4 + i % 4 / 2;  // columns 0 to 3; 4 to 7 are two further on
    store_row(out + i * kFloatTile, i % 2 == 0 ? _mm256_unpacklo_epi64(fours[low], fours[low + 2])
                                               : _mm256_unpackhi_epi64(fours[low], fours[low + 2]));
  }
}

// 4 values of 16 columns: a half of a vector has 4 columns.
inline void transpose_piece(const std::byte* stored, int64_t column, uint32_t* out) {
  for (int64_t c0 = 0; c0 < kFloatTile; c0 += 8) {
    __m256i v[4];
    for (int64_t c = 0; c < 4; ++c) v[c] = two_columns(stored + (c0 + c) * column, 4 * column);
    const __m256i low01 = _mm256_unpacklo_epi32(v[0], v[1]), low23 = _mm256_unpacklo_epi32(v[2], v[3]);
    const __m256i high01 = _mm256_unpackhi_epi32(v[0], v[1]), high23 = _mm256_unpackhi_epi32(v[2], v[3]);
    store_row(out + c0, _mm256_unpacklo_epi64(low01, low23));
    store_row(out + c0 + kFloatTile, _mm256_unpackhi_epi64(low01, low23));
    store_row(out + c0 + 2 * kFloatTile, _mm256_unpacklo_epi64(high01, high23));
    store_row(out + c0 + 3 * kFloatTile, _mm256_unpackhi_epi64(high01, high23));
  }
}

template <class T>
inline void pack_columns(const std::byte* stored, int64_t n, int64_t k, int64_t c0, T* out) {
  constexpr int64_t kSize = sizeof(T), kLine = 64, kPiece = 16;  // bytes
  const int64_t columns = n - c0 < kFloatTile ? n - c0 : kFloatTile;
  const std::byte* first = stored + c0 * k * kSize;
  int64_t done = 0;
  if (columns == kFloatTile) {
    // Columns that lie a power of two apart share a set of the cache, so a line of each is read once and whole.
    alignas(64) std::byte lines[kFloatTile * kLine];
    for (; (done + kLine / kSize) <= k; done += kLine / kSize) {
      for (int64_t c = 0; c < kFloatTile; ++c)
        __builtin_memcpy(lines + c * kLine, first + (c * k + done) * kSize, kLine);
      for (int64_t at = 0; at < kLine; at += kPiece)
        transpose_piece(lines + at, kLine, out + (done + at / kSize) * kFloatTile);
    }
  }
  pack_singly(first, columns, k, done, k, out);
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
