// The products of an op's input with its matrices, in float or on tensor cores.
#pragma once
#include "devices/cuda/kernels.h"
#include "devices/cuda/weights.h"
#include "graph/program.h"

namespace llada::cuda {

class ProductRun {
 public:
  // tensor_cores: for types that have kernels for them.
  ProductRun(const Weights& weights, bool tensor_cores) : weights_(weights), tensor_cores_(tensor_cores) {}

  // The op's input: `rows` x `inputs` floats in device memory.
  Status begin(const Op& op, const float* x, int64_t rows, int64_t inputs, cudaStream_t stream);
  // Multiplies by columns [n0, n1) of `w`, one of the op's matrices; rows of `y` are `stride` floats apart.
  void multiply(const Matrix& w, int64_t n0, int64_t n1, float* y, int64_t stride) const;

 private:
  bool on_tensor_cores(DType type) const { return tensor_cores_ && has_tensor_kernels(type); }

  const Weights& weights_;
  const bool tensor_cores_;
  DeviceBytes memory_;  // of split_
  SplitRows split_{};
  const float* x_ = nullptr;
  int64_t rows_ = 0;
  cudaStream_t stream_ = nullptr;
};

}  // namespace llada::cuda
