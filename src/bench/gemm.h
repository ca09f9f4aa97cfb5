// Matrix products of one kernel table at the shapes of a model's layers, weights streamed from memory as a
// forward streams them.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/threads.h"
#include "bench/machine.h"
#include "graph/program.h"
#include "kernels/kernels.h"
#include "tensor/dtype.h"

namespace llada::bench {

struct GemmResult {
  int64_t k = 0, n = 0, rows = 0;  // inputs, outputs, rows of activations
  DType type = DType::F32;
  double ms = 0;                // median of a product, quantization of the activations not counted
  int timings = 0;              // that PeakWatch took; these numbers are of one
  double gop_per_s = 0;         // 2 k n rows / time
  double percent_of_peak = 0;   // of the peak measured just before and after: int8, for float types float
  double gb_per_s = 0;          // packed weights / time
  double quantize_ms = 0;       // of the activations, on one thread
  double relative_error = 0;    // of the kernel, see below
  double activation_error = 0;  // of kernel and 8-bit activations together
  double outlier_error = 0;     // the same with outlier channels
  double pack_gb_per_s = 0;     // stored bytes packed per second by every thread, memory warm
  double packed_ratio = 0;      // packed size / stored size
};

// stream_bytes: size of all copies of the matrix, which are multiplied in turn; it must be far beyond any cache. Errors
// are root mean squares of the differences to products of dequantized weights in double, over that of those products,
// on a sample of columns. relative_error takes inputs that 8 bits hold exactly, so the error is the kernel's own.
// activation_error takes normal inputs. outlier_error takes normal inputs whose outlier channels are 32 times as large:
// one in 256, the same in every row, as in large models.
Result<GemmResult> measure_gemm(const kernels::KernelTable& table, ThreadPool& pool, PeakWatch& watch, DType type,
                                int64_t k, int64_t n, int64_t rows, int64_t stream_bytes, int repeats);

// {inputs, outputs} of the matrices inside layers, each shape once, in the order of the list; routers, which
// stay F32, are left out.
std::vector<std::pair<int64_t, int64_t>> layer_shapes(std::span<const WeightInfo> weights);

}  // namespace llada::bench
