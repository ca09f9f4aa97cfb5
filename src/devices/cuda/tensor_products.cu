// Products on tensor cores: stored integers as halves, exactly, times activations as the sum of two halves each, added
// up in float. A warp takes 32 outputs of up to 64 rows and one group of 32 inputs of every chunk of 256; its sums over
// a group get the group's scale in float. The eight warps of a block are added at the end, in their order. So every sum
// has an order that depends on the matrix alone, and a row has the same bits in any batch.
//
// Stored bytes go to shared memory several chunks ahead and are read once for all rows of a tile; activations, which
// all blocks read, come from the caches in the order in which lanes take them.
#include "devices/cuda/kernels.h"
#include "devices/cuda/product_rows.cuh"
#include "devices/cuda/tensor_formats.cuh"

namespace llada::cuda {
namespace {

// Four neighbouring inputs of a row, times the row's scale: halves, and their remainders as halves.
struct alignas(16) Unit {
  uint32_t high[2], low[2];
};
constexpr int kRowTile = 8, kStepInputs = 16;  // of one mma

inline int64_t padded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Units lie step by step in the order of an mma's lanes: eight rows of four units. `step_units`: of a row's steps.
LLADA_DEVICE uint32_t unit_place(int row, int steps, int t) {
  return static_cast<uint32_t>((row / kRowTile * steps * kRowTile + row % kRowTile) * 4 + t);
}
constexpr uint32_t kStepUnits = kRowTile * 4;

struct SplitRow {
  static constexpr int kThreads = 256;
  const float* x;
  int64_t first;
  int32_t inputs;
  SplitRows out;

  LLADA_DEVICE void operator()(const Block& block) const {
    const int row = static_cast<int>(first + block.x), groups = (inputs + kGroupInputs - 1) / kGroupInputs;
    const float* const from = x + int64_t{row} * inputs;
    auto* const largest = reinterpret_cast<float*>(block.shared());
    block.each([&](int t) {
      float most = 0;  // a NaN is passed over here and stays one below
      for (int k = 4 * t; k < inputs; k += 4 * kThreads) {
        const Four four = *reinterpret_cast<const Four*>(from + k);
        LLADA_UNROLL for (int i = 0; i < 4; ++i) most = fabsf(four.v[i]) > most ? fabsf(four.v[i]) : most;
      }
      largest[t] = most;
    });
    for (int n = kThreads / 2; n > 0; n /= 2)
      block.each([&](int t) {
        if (t < n && largest[t + n] > largest[t]) largest[t] = largest[t + n];
      });
    block.each([&](int t) {
      // The largest becomes 2^14 to 2^15: below a half's largest, and far above its smallest.
      int exponent = static_cast<int>(float_to_bits(largest[0]) >> 23) - 127;
      if (exponent < -100) exponent = -100;
      const float scale = bits_to_float(static_cast<uint32_t>(127 + 14 - exponent) << 23);
      if (t == 0) out.unscale[row] = bits_to_float(static_cast<uint32_t>(127 + exponent - 14) << 23);
      auto* const units = reinterpret_cast<Unit*>(out.units);
      const int steps = groups * kGroupInputs / kStepInputs;
      for (int k = 4 * t; k < groups * kGroupInputs; k += 4 * kThreads) {
        uint16_t high[4], low[4];
        Four four{};
        if (k < inputs) four = *reinterpret_cast<const Four*>(from + k);
        LLADA_UNROLL for (int i = 0; i < 4; ++i) {
          const float v = four.v[i] * scale;
          high[i] = float_to_half(v);
          low[i] = float_to_half(v - half_to_float(high[i]));
        }
        const auto two = [](const uint16_t* h) { return h[0] | static_cast<uint32_t>(h[1]) << 16; };
        units[unit_place(row, steps, k % kStepInputs / 4) + static_cast<uint32_t>(k / kStepInputs) * kStepUnits] = {
            {two(high), two(high + 2)}, {two(low), two(low + 2)}};
      }
      for (int g = t; g < groups && out.sums != nullptr; g += kThreads) {
        float sum = 0;
        for (int k = g * kGroupInputs; k < inputs && k < (g + 1) * kGroupInputs; ++k) sum += from[k] * scale;
        out.sums[int64_t{row} * groups + g] = sum;
      }
    });
  }
};

template <class Stored, class Where, int Tiles>
struct TensorProduct {
  static constexpr int kThreads = 256, kWarps = kThreads / 32, kOutputs = 32;
  static_assert(kChunkInputs / kGroupInputs == kWarps, "a group for every warp");
  static constexpr int kStageBytes = kOutputs * Stored::kStride;
  static constexpr int kMostShared = 48 << 10;
  static constexpr int kStages = kMostShared / kStageBytes < 8 ? kMostShared / kStageBytes : 8;
  static_assert(kStages >= 2, "one to read, one to fill");
  static constexpr int kSumStride = 36;  // floats, so that a warp's writes meet no bank twice
  static constexpr int kSumBytes = kWarps * kRowTile * kSumStride * 4;
  static constexpr int64_t kShared = kStages * kStageBytes > kSumBytes ? kStages* kStageBytes : kSumBytes;
  // Whether the next chunk's activations are asked for before this one's products; registers are too few for more.
  static constexpr bool kAhead = Tiles <= 4;

  struct Lane {
    float sum[2][Tiles][4], part[2][Tiles][4];  // of 16 outputs, 8 rows
    Eight w[2][2];                              // of 16 outputs: rows g and g + 8
    Unit x[Tiles][2], next[kAhead ? Tiles : 1][2];
    uint32_t place[Tiles];
    Copies copies;
  };
  static constexpr uint32_t kNoRow = 0xffffffffu;

  Where where;
  int32_t inputs, n1;
  SplitRows split;

  LLADA_DEVICE void operator()(const Block& block) const {
    Where at = where;
    if (!at.select(block.z) || block.x * Tiles * kRowTile >= at.rows) return;
    const int row0 = block.x * Tiles * kRowTile, column0 = at.n0 + block.y * kOutputs;
    const int rows = at.rows - row0 < Tiles * kRowTile ? at.rows - row0 : Tiles * kRowTile;
    const int groups = (inputs + kGroupInputs - 1) / kGroupInputs, chunks = (inputs + kChunkInputs - 1) / kChunkInputs;
    const int64_t row_bytes = Stored::Format::row_bytes(inputs);
    const auto* const units = reinterpret_cast<const Unit*>(split.units);
    uint8_t* const shared = block.shared();
    PerThread<Lane, kThreads> lanes;

    // Eight threads per output, in steps of 16 aligned bytes: the first and the last may hold neighbours' too.
    const auto fetch = [&](int t, int chunk) {
      const int output = t / 8, column = column0 + output;
      if (chunk < chunks && column < n1) {
        const int64_t begin = column * row_bytes + int64_t{chunk} * Stored::kChunkBytes,
                      row_end = (column + 1) * row_bytes;
        const int64_t end = begin + Stored::kChunkBytes < row_end ? begin + Stored::kChunkBytes : row_end;
        uint8_t* const to = shared + chunk % kStages * kStageBytes + output * Stored::kStride;
        const uint8_t* const from = at.weights + (begin & ~int64_t{15});
        for (int64_t i = t % 8 * 16; i < end - (begin & ~int64_t{15}); i += 8 * 16)
          lanes[t].copies.copy16(to + i, from + i);
      }
      lanes[t].copies.commit();
    };
    const auto ask = [&](const uint32_t* place, int chunk, int warp, Unit(*to)[2]) {
      const int group = chunk * kWarps + warp;
      LLADA_UNROLL for (int j = 0; j < Tiles; ++j) LLADA_UNROLL for (int s = 0; s < 2; ++s) {
        to[j][s] = Unit{};
        if (group < groups && place[j] != kNoRow) to[j][s] = units[place[j] + (2 * group + s) * kStepUnits];
      }
    };

    block.each([&](int t) {
      Lane& l = lanes[t];
      const int g = t % 32 / 4;
      LLADA_UNROLL for (int j = 0; j < Tiles; ++j) {
        LLADA_UNROLL for (int i = 0; i < 4; ++i) l.sum[0][j][i] = l.sum[1][j][i] = 0;
        const int row = j * kRowTile + g;
        l.place[j] = row < rows ? unit_place(at.input(row0 + row), 2 * groups, t % 4) : kNoRow;
      }
      for (int chunk = 0; chunk < kStages - 1; ++chunk) fetch(t, chunk);
      if constexpr (kAhead) ask(l.place, 0, t / 32, l.next);
      l.copies.template wait<kStages - 2>();
    });
    for (int chunk = 0; chunk < chunks; ++chunk) {
      block.each_alone([&](int t) {
        Lane& l = lanes[t];
        fetch(t, chunk + kStages - 1);  // in the place of the chunk before, which nobody reads any more
        if constexpr (kAhead) {
          LLADA_UNROLL for (int j = 0; j < Tiles; ++j) LLADA_UNROLL for (int s = 0; s < 2; ++s) l.x[j][s] =
              l.next[j][s];
          ask(l.place, chunk + 1, t / 32, l.next);
        } else {
          ask(l.place, chunk, t / 32, l.x);
        }
        const int warp = t / 32, g = t % 32 / 4, left = inputs - chunk * kChunkInputs;
        LLADA_UNROLL for (int m = 0; m < 2; ++m) LLADA_UNROLL for (int h = 0; h < 2; ++h) {
          const int output = 16 * m + 8 * h + g;
          const int64_t begin = (column0 + output) * row_bytes + int64_t{chunk} * Stored::kChunkBytes;
          const uint8_t* const from =
              shared + chunk % kStages * kStageBytes + output * Stored::kStride + static_cast<int>(begin & 15);
          l.w[m][h] = warp * kGroupInputs < left ? Stored::load(from, warp, t % 4, left) : Eight{};
        }
        LLADA_UNROLL for (int j = 0; j < Tiles; ++j) LLADA_UNROLL for (int i = 0; i < 4; ++i) l.part[0][j][i] =
            l.part[1][j][i] = 0;
      });
      LLADA_UNROLL for (int s = 0; s < 2; ++s) {
        LLADA_UNROLL for (int j = 0; j < Tiles; ++j) {
          if (j * kRowTile >= rows) break;
          LLADA_UNROLL for (int term = 0; term < 2; ++term) LLADA_UNROLL for (int m = 0; m < 2; ++m)
              block.mma(lanes, [=](Lane& l) {
                const uint32_t* const x = term == 0 ? l.x[j][s].high : l.x[j][s].low;
                return Mma{l.part[m][j],
                           {l.w[m][0].halves[2 * s], l.w[m][1].halves[2 * s], l.w[m][0].halves[2 * s + 1],
                            l.w[m][1].halves[2 * s + 1]},
                           {x[0], x[1]}};
              });
        }
        if (s == 1 || Stored::kScaleInputs == kStepInputs)
          block.each_alone([&](int t) {
            Lane& l = lanes[t];
            LLADA_UNROLL for (int m = 0; m < 2; ++m) LLADA_UNROLL for (int j = 0; j < Tiles; ++j)
                LLADA_UNROLL for (int i = 0; i < 4; ++i) {
              l.sum[m][j][i] = mad(l.w[m][i / 2].scale[s], l.part[m][j][i], l.sum[m][j][i]);
              l.part[m][j][i] = 0;
            }
          });
      }
      block.each([&](int t) {
        Lane& l = lanes[t];
        const int group = chunk * kWarps + t / 32;
        if constexpr (Stored::kMinimum) {
          LLADA_UNROLL for (int j = 0; j < Tiles; ++j) LLADA_UNROLL for (int i = 0; i < 2; ++i) {
            const int row = j * kRowTile + 2 * (t % 4) + i;
            const float sum =
                row < rows && group < groups ? split.sums[int64_t{at.input(row0 + row)} * groups + group] : 0;
            LLADA_UNROLL for (int m = 0; m < 2; ++m) LLADA_UNROLL for (int h = 0; h < 2; ++h) l.sum[m][j][2 * h + i] =
                mad(-l.w[m][h].minimum, sum, l.sum[m][j][2 * h + i]);
          }
        }
        l.copies.template wait<kStages - 2>();
      });
    }

    auto* const sums = reinterpret_cast<float*>(shared);
    LLADA_UNROLL for (int j = 0; j < Tiles; ++j) {
      if (j * kRowTile >= rows) break;
      block.each([&](int t) {
        const int g = t % 32 / 4;
        LLADA_UNROLL for (int m = 0; m < 2; ++m) LLADA_UNROLL for (int i = 0; i < 4; ++i)
            sums[(t / 32 * kRowTile + 2 * (t % 4) + i % 2) * kSumStride + 16 * m + 8 * (i / 2) + g] =
                lanes[t].sum[m][j][i];
      });
      block.each([&](int t) {
        const int output = t % kOutputs, row = t / kOutputs, place = j * kRowTile + row;
        if (place >= rows || column0 + output >= n1) return;
        float sum = 0;
        LLADA_UNROLL for (int w = 0; w < kWarps; ++w) sum += sums[(w * kRowTile + row) * kSumStride + output];
        at.output(row0 + place)[column0 + output] = sum * split.unscale[at.input(row0 + place)];
      });
    }
  }
};

template <class Stored, class Where, int Tiles>
void start(cudaStream_t stream, const Where& where, int32_t inputs, int32_t n1, int64_t most_rows, int64_t groups,
           const SplitRows& split) {
  using Kernel = TensorProduct<Stored, Where, Tiles>;
  // Row tiles next to each other, so that the blocks that read a matrix's columns run together.
  const Grid grid{(most_rows + Tiles * kRowTile - 1) / (Tiles * kRowTile),
                  (n1 - where.n0 + Kernel::kOutputs - 1) / Kernel::kOutputs, groups};
  launch(stream, grid, Kernel::kShared, Kernel{where, inputs, n1, split});
}

}  // namespace

bool has_tensor_kernels(DType type) {
  return with_tensor_format(type, [](auto) {});
}

int64_t split_bytes(int64_t rows, int64_t inputs) {
  const int64_t k = padded(inputs, kGroupInputs);
  return padded(rows, kRowTile) * (k * 4 + k / kGroupInputs * 4 + 4);
}
SplitRows split_at(uint8_t* memory, int64_t rows, int64_t inputs, std::span<const DType> types) {
  const int64_t all = padded(rows, kRowTile), k = padded(inputs, kGroupInputs);
  auto* const unscale = reinterpret_cast<float*>(memory + all * k * 4);
  bool minimum = false;
  for (const DType type : types)
    with_tensor_format(type, [&](auto format) { minimum = minimum || decltype(format)::kMinimum; });
  return {memory, minimum ? unscale + all : nullptr, unscale};
}
void split_rows(cudaStream_t stream, const float* x, int64_t first, int64_t rows, int64_t inputs,
                const SplitRows& out) {
  launch(stream, {rows}, SplitRow::kThreads * 4, SplitRow{x, first, static_cast<int32_t>(inputs), out});
}

void tensor_product(cudaStream_t stream, const Matrix& w, const SplitRows& x, int64_t rows, int64_t n0, int64_t n1,
                    float* y, int64_t stride) {
  const Plain where = plain_rows(w, nullptr, rows, n0, y, stride);
  with_tensor_format(w.type, [&](auto format) {
    using Stored = decltype(format);
    const auto end = static_cast<int32_t>(n1);
    if (rows <= kRowTile)
      start<Stored, Plain, 1>(stream, where, w.inputs, end, rows, 1, x);
    else if (rows <= 4 * kRowTile)
      start<Stored, Plain, 4>(stream, where, w.inputs, end, rows, 1, x);
    else
      start<Stored, Plain, 8>(stream, where, w.inputs, end, rows, 1, x);
  });
}

void tensor_expert_product(cudaStream_t stream, const ExpertProduct& a, const SplitRows& x, int64_t most_rows) {
  with_tensor_format(a.type, [&](auto format) {
    using Stored = decltype(format);
    if (most_rows <= kRowTile)
      start<Stored, Grouped, 1>(stream, grouped_rows(a), a.inputs, a.outputs, most_rows, a.experts, x);
    else
      start<Stored, Grouped, 4>(stream, grouped_rows(a), a.inputs, a.outputs, most_rows, a.experts, x);
  });
}

}  // namespace llada::cuda
