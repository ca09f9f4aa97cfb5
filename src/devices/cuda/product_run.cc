#include "devices/cuda/product_run.h"

namespace llada::cuda {

Status ProductRun::begin(const Op& op, const float* x, int64_t rows, int64_t inputs, cudaStream_t stream) {
  x_ = x, rows_ = rows, stream_ = stream;
  std::vector<DType> types;
  for (const WeightId id : op.weight)
    if (id != kNoWeight && on_tensor_cores(weights_.matrices[static_cast<size_t>(id)].type))
      types.push_back(weights_.matrices[static_cast<size_t>(id)].type);
  if (rows == 0 || types.empty()) return {};
  LLADA_TRY_STATUS(
      reserve(*weights_.memory, memory_, split_bytes(rows, inputs), "activations for the tensor cores", stream));
  split_ = split_at(memory_.data(), rows, inputs, types);
  split_rows(stream, x, 0, rows, inputs, split_);
  return {};
}

void ProductRun::multiply(const Matrix& w, int64_t n0, int64_t n1, float* y, int64_t stride) const {
  if (on_tensor_cores(w.type))
    tensor_product(stream_, w, split_, rows_, n0, n1, y, stride);
  else
    product(stream_, w, x_, rows_, n0, n1, y, stride);
}

}  // namespace llada::cuda
