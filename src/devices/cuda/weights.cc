#include "devices/cuda/weights.h"

#include <vector>

#include "tensor/computed.h"
#include "tensor/quantize.h"

namespace llada::cuda {
namespace {

// A matrix on the device: of a type with kernels there, or of its computed type where that has some.
DType device_type(DType type) { return has_kernels(type) ? type : computed_type(type); }
int64_t matrix_bytes(const TensorView& view) {
  return row_bytes(device_type(view.type), view.shape.columns()) * view.shape.rows();
}
int64_t device_bytes(const WeightInfo& info, const TensorView& view) {
  return align(is_vector(info) ? info.dims[0] * 4 : matrix_bytes(view));
}
std::vector<std::byte> converted(const TensorView& view) {
  std::vector<std::byte> rows(static_cast<size_t>(matrix_bytes(view)));
  const int64_t stride = static_cast<int64_t>(rows.size()) / view.shape.rows();
  for (int64_t r = 0; r < view.shape.rows(); ++r)
    convert_row(view.type, view.row(r), rows.data() + r * stride, view.shape.columns());
  return rows;
}

// type: as which it is to be on the device.
Status check_type(const WeightInfo& info, const TensorView& view, DType type) {
  if (is_vector(info)) return {};
  if (!has_kernels(type))
    return failed(
        "cuda: {} is {}, the GPU has products of f32, f16, bf16, q8_0, q4_0, q4_k, q6_k and, but for moved "
        "experts, of types that are computed as one of these",
        info.name, traits(view.type).name);
  if (info.dims[0] % kInputStep != 0)
    return failed("cuda: {} has {} inputs, needed a multiple of {}", info.name, info.dims[0], kInputStep);
  return {};
}

int64_t table_bytes(std::span<const WeightInfo> infos) { return std::ssize(infos) * 8; }

bool stays(const WeightInfo& info, bool without_experts) { return !(without_experts && info.expert >= 0); }

}  // namespace

Result<int64_t> weight_bytes(std::span<const WeightInfo> infos, std::span<const TensorView> views,
                             bool without_experts) {
  int64_t total = table_bytes(infos);
  for (size_t i = 0; i < infos.size(); ++i) {
    const bool here = stays(infos[i], without_experts);
    LLADA_TRY_STATUS(check_type(infos[i], views[i], here ? device_type(views[i].type) : views[i].type));
    if (here) total += device_bytes(infos[i], views[i]);
  }
  return total;
}

Result<std::shared_ptr<const Weights>> load_weights(std::shared_ptr<Memory> memory, std::span<const WeightInfo> infos,
                                                    std::span<const TensorView> views, bool without_experts,
                                                    const WeightHooks& hooks) {
  auto loaded = std::make_shared<Weights>();
  Weights& w = *loaded;
  w.memory = std::move(memory);
  w.infos.assign(infos.begin(), infos.end());
  w.views.assign(views.begin(), views.end());
  w.matrices.resize(infos.size());
  w.vectors.resize(infos.size());
  LLADA_TRY(const int64_t total, weight_bytes(infos, views, without_experts));
  LLADA_TRY(w.slab, w.memory->allocate(total - table_bytes(infos), "weights"));
  LLADA_TRY(w.pointers, w.memory->allocate(table_bytes(infos), "the list of weights"));
  LLADA_TRY(const Queue stream, make_stream());
  std::vector<const uint8_t*> pointers(infos.size(), nullptr);
  std::vector<std::vector<float>> vectors;  // alive until the copies are done
  uint8_t* at = w.slab.data();
  for (size_t i = 0; i < infos.size(); ++i) {
    const bool here = stays(infos[i], without_experts);
    w.matrices[i] = {nullptr, here ? device_type(views[i].type) : views[i].type, static_cast<int32_t>(infos[i].dims[0]),
                     static_cast<int32_t>(infos[i].dims[1])};
    if (!here) continue;
    if (hooks.wanted) hooks.wanted(i);
    const void* from = views[i].data;
    int64_t bytes = views[i].bytes();
    std::vector<std::byte> as_computed;
    if (is_vector(infos[i])) {
      auto& floats = vectors.emplace_back(static_cast<size_t>(infos[i].dims[0]));
      dequantize_row(views[i].type, views[i].data, floats.data(), infos[i].dims[0]);
      w.vectors[i] = reinterpret_cast<const float*>(at);
      from = floats.data();
      bytes = infos[i].dims[0] * 4;
    } else {
      w.matrices[i].data = at;
      if (device_type(views[i].type) != views[i].type) {
        as_computed = converted(views[i]);
        from = as_computed.data();
        bytes = static_cast<int64_t>(as_computed.size());
      }
    }
    pointers[i] = at;
    LLADA_TRY_STATUS(check(cudaMemcpyAsync(at, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream.get()),
                           "copying weights"));
    if (!as_computed.empty()) LLADA_TRY_STATUS(check(cudaStreamSynchronize(stream.get()), "copying weights"));
    if (hooks.packed) hooks.packed(i);  // the bytes are read when the call returns: they are not of pinned memory
    at += device_bytes(infos[i], views[i]);
  }
  LLADA_TRY_STATUS(check(
      cudaMemcpyAsync(w.pointers.data(), pointers.data(), pointers.size() * 8, cudaMemcpyHostToDevice, stream.get()),
      "copying the list of weights"));
  LLADA_TRY_STATUS(check(cudaStreamSynchronize(stream.get()), "copying weights"));
  return loaded;
}

}  // namespace llada::cuda
