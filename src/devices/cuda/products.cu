// Products of rows with stored matrices: dequantized as they are read, never stored as floats. A warp computes a few
// columns of a few rows; its lanes share the inputs four at a time, and their sums are added in a fixed order, so a
// row's result is the same bits in any batch. Inputs pass through shared memory in stretches that all warps of the
// block use.
//
// The default; tensor_products.cu does the same on tensor cores.
#include "devices/cuda/formats.cuh"
#include "devices/cuda/kernels.h"
#include "devices/cuda/product_rows.cuh"

namespace llada::cuda {
namespace {

constexpr int kColumns = 4;     // of one warp
constexpr int kStretch = 512;   // inputs in shared memory
constexpr int kLaneStep = 128;  // inputs of a warp at a time

template <class Format, class Where, int Rows>
struct Product {
  static constexpr int kThreads = 256;
  static constexpr int kTile = kThreads / 32 * kColumns;  // columns of a block
  static constexpr int64_t kShared = int64_t{Rows} * kStretch * 4;

  struct Sums {
    float v[Rows][kColumns];
  };

  Where where;
  int32_t inputs, n1;

  LLADA_DEVICE void operator()(const Block& block) const {
    Where at = where;
    if (!at.select(block.z) || block.x * Rows >= at.rows) return;
    const int row0 = block.x * Rows, rows = at.rows - row0 < Rows ? at.rows - row0 : Rows;
    const int column0 = at.n0 + block.y * kTile;
    const int64_t row_bytes = Format::row_bytes(inputs);
    auto* const shared = reinterpret_cast<Four*>(block.shared());
    PerThread<Sums, kThreads> sums;
    block.each([&](int t) {
      LLADA_UNROLL for (int r = 0; r < Rows; ++r) LLADA_UNROLL for (int c = 0; c < kColumns; ++c) sums[t].v[r][c] = 0;
    });
    for (int k0 = 0; k0 < inputs; k0 += kStretch) {
      block.each([&](int t) {
        for (int i = t; i < Rows * kStretch / 4; i += kThreads) {
          const int r = i / (kStretch / 4), k = k0 + i % (kStretch / 4) * 4;
          Four x{};
          if (r < rows && k < inputs)
            x = *reinterpret_cast<const Four*>(at.x + int64_t{at.input(row0 + r)} * inputs + k);
          shared[i] = x;
        }
      });
      block.each([&](int t) {
        const int column = column0 + t / 32 * kColumns, lane = t % 32;
        for (int step = lane * 4; step < kStretch && k0 + step < inputs; step += kLaneStep) {
          Four x[Rows];
          LLADA_UNROLL for (int r = 0; r < Rows; ++r) x[r] = shared[(r * kStretch + step) / 4];
          LLADA_UNROLL for (int c = 0; c < kColumns; ++c) {
            if (column + c >= n1) break;
            const Four w = Format::load(at.weights + (column + c) * row_bytes, k0 + step);
            LLADA_UNROLL for (int r = 0; r < Rows; ++r) {
              float sum = sums[t].v[r][c];
              for (int i = 0; i < 4; ++i) sum = mad(w.v[i], x[r].v[i], sum);
              sums[t].v[r][c] = sum;
            }
          }
        }
      });
    }
    LLADA_UNROLL for (int r = 0; r < Rows; ++r) LLADA_UNROLL for (int c = 0; c < kColumns; ++c)
        block.warp_sum(sums, [=](Sums& s) -> float& { return s.v[r][c]; });
    block.each([&](int t) {
      const int column = column0 + t / 32 * kColumns, lane = t % 32;
      LLADA_UNROLL for (int i = 0; i < Rows * kColumns; ++i) {  // lane by lane, the indices known to the compiler
        const int r = i / kColumns, c = i % kColumns;
        if (lane == i && r < rows && column + c < n1) at.output(row0 + r)[column + c] = sums[t].v[r][c];
      }
    });
  }
};

template <class Format, class Where, int Rows>
void start(cudaStream_t stream, const Where& where, int32_t inputs, int32_t n1, int64_t most_rows, int64_t groups) {
  using Kernel = Product<Format, Where, Rows>;
  static_assert(Rows * kColumns <= 32, "one lane per result");
  // Row tiles next to each other, so that the blocks that read a matrix's columns run together.
  const Grid grid{(most_rows + Rows - 1) / Rows, (n1 - where.n0 + Kernel::kTile - 1) / Kernel::kTile, groups};
  launch(stream, grid, Kernel::kShared, Kernel{where, inputs, n1});
}

constexpr int kManyRows = 8, kFewRows = 2;

struct Embed {
  static constexpr int kThreads = 128;
  Matrix table;
  const int32_t* tokens;
  float* out;

  template <class Format>
  LLADA_DEVICE void row(const Block& block) const {
    const uint8_t* from = table.data + tokens[block.x] * Format::row_bytes(table.inputs);
    auto* const to = reinterpret_cast<Four*>(out + int64_t{block.x} * table.inputs);
    block.each([&](int t) {
      for (int i = t; i < table.inputs / 4; i += kThreads) to[i] = Format::load(from, i * 4);
    });
  }
  LLADA_DEVICE void operator()(const Block& block) const {
    switch (table.type) {
      case DType::F32:
        return row<FormatF32>(block);
      case DType::F16:
        return row<FormatF16>(block);
      case DType::BF16:
        return row<FormatBF16>(block);
      case DType::Q8_0:
        return row<FormatQ8_0>(block);
      case DType::Q4_0:
        return row<FormatQ4_0>(block);
      case DType::Q4_K:
        return row<FormatQ4_K>(block);
      case DType::Q6_K:
        return row<FormatQ6_K>(block);
      default:
        return;
    }
  }
};

}  // namespace

bool has_kernels(DType type) {
  return with_format(type, [](auto) {});
}

void embed(cudaStream_t stream, const Matrix& table, const int32_t* tokens, int64_t rows, float* out) {
  launch(stream, {rows}, 0, Embed{table, tokens, out});
}

void product(cudaStream_t stream, const Matrix& w, const float* x, int64_t rows, int64_t n0, int64_t n1, float* y,
             int64_t stride) {
  const Plain where = plain_rows(w, x, rows, n0, y, stride);
  with_format(w.type, [&](auto format) {
    using Format = decltype(format);
    if (rows <= kFewRows)
      start<Format, Plain, kFewRows>(stream, where, w.inputs, static_cast<int32_t>(n1), rows, 1);
    else
      start<Format, Plain, kManyRows>(stream, where, w.inputs, static_cast<int32_t>(n1), rows, 1);
  });
}

void expert_product(cudaStream_t stream, const ExpertProduct& a, int64_t rows_per_expert, int64_t most_rows) {
  const Grouped where = grouped_rows(a);
  with_format(a.type, [&](auto format) {
    using Format = decltype(format);
    if (rows_per_expert <= kFewRows)
      start<Format, Grouped, kFewRows>(stream, where, a.inputs, a.outputs, most_rows, a.experts);
    else
      start<Format, Grouped, kManyRows>(stream, where, a.inputs, a.outputs, most_rows, a.experts);
  });
}

}  // namespace llada::cuda
