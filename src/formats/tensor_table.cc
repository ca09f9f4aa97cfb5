#include "formats/tensor_table.h"

#include <algorithm>
#include <utility>

#include "formats/printable.h"

namespace llada {
namespace {

constexpr std::string_view kQkvWeight = "attn_qkv.weight", kQkvBias = "attn_qkv.bias";
constexpr std::string_view kStack = "_exps.weight", kGateUp = "ffn_gate_up_exps.weight";

Shape two_dims(int64_t in, int64_t out) { return {{in, out, 1, 1}, 2}; }

}  // namespace

std::unexpected<Error> TensorTable::wrong_shape(const ModelTensor& whole, const Shape& needed) const {
  return invalid("{}: tensor {} is {}, {} needed", file_, printable(whole.file_name), dims_text(whole.view.shape),
                 dims_text(needed));
}

Status TensorTable::expect(uint64_t file_bytes, size_t count, size_t parsed_bytes) {
  file_bytes_ = file_bytes;
  memory_ += count * (parsed_bytes + sizeof(ModelTensor) + sizeof(record_.by_name[0]));
  LLADA_TRY_STATUS(check_memory(memory_, file_bytes_, file_, "the tensor table"));
  record_.tensors.reserve(record_.tensors.size() + count);
  return {};
}

// Before parts are made: a small tensor can be cut into many.
Status TensorTable::reserve(const ModelTensor& whole, int64_t count) {
  const uint64_t names = 2 * (whole.name.size() + 16) + whole.file_name.size();
  memory_ += static_cast<uint64_t>(count) * (2 * sizeof(ModelTensor) + names);
  LLADA_TRY_STATUS(check_memory(memory_, file_bytes_, file_, "the tensor table"));
  auto& tensors = record_.tensors;
  const size_t wanted = tensors.size() + static_cast<size_t>(count);
  if (wanted > tensors.capacity()) tensors.reserve(std::max(wanted, tensors.size() * 3 / 2));
  return {};
}

// The part that begins at byte `begin`.
void TensorTable::put(const ModelTensor& whole, std::string name, int64_t begin, const Shape& shape) {
  ModelTensor part{std::move(name), whole.file_name, whole.view, whole.offset + static_cast<uint64_t>(begin)};
  part.view.shape = shape;
  part.view.data += begin;
  record_.tensors.push_back(std::move(part));
}

Status TensorTable::add_qkv(const ModelTensor& whole, bool bias) {
  const ModelConfig& c = record_.config;
  const std::string stem = whole.name.substr(0, whole.name.size() - (bias ? kQkvBias : kQkvWeight).size());
  const int64_t rows[3] = {c.heads * c.head_dim, c.kv_heads * c.head_dim, c.kv_heads * c.head_dim};
  const int64_t all = rows[0] + rows[1] + rows[2];
  const Shape needed = bias ? Shape{{all, 1, 1, 1}, 1} : two_dims(c.width, all);
  if (whole.view.shape != needed) return wrong_shape(whole, needed);
  if (bias && traits(whole.view.type).quantized)
    return invalid("{}: tensor {} has type {}, a float type needed", file_, printable(whole.file_name),
                   traits(whole.view.type).name);
  LLADA_TRY_STATUS(reserve(whole, 3));
  const int64_t row = row_bytes(whole.view.type, bias ? 1 : c.width);
  int64_t first = 0;
  for (size_t i = 0; i < 3; ++i) {
    put(whole, fmt::format("{}attn_{}.{}", stem, "qkv"[i], bias ? "bias" : "weight"), first * row,
        bias ? Shape{{rows[i], 1, 1, 1}, 1} : two_dims(c.width, rows[i]));
    first += rows[i];
  }
  return {};
}

Status TensorTable::add_experts(const ModelTensor& whole) {
  const ModelConfig& c = record_.config;
  const bool both = whole.name.ends_with(kGateUp), down = whole.name.contains(".ffn_down_");
  const int64_t in = down ? c.expert_ffn_width : c.width, out = down ? c.width : c.expert_ffn_width;
  const int64_t rows = both ? 2 * out : out;
  const Shape needed{{in, rows, c.experts, 1}, 3};
  if (whole.view.shape != needed) return wrong_shape(whole, needed);
  LLADA_TRY_STATUS(reserve(whole, both ? 2 * c.experts : c.experts));
  const std::string layer = whole.name.substr(0, whole.name.find(".ffn_"));
  const std::string stem = whole.name.substr(0, whole.name.rfind('.'));
  const int64_t row = row_bytes(whole.view.type, in);
  for (int64_t e = 0; e < c.experts; ++e) {
    if (both) {
      put(whole, fmt::format("{}.ffn_gate_exps.{}.weight", layer, e), e * rows * row, two_dims(in, out));
      put(whole, fmt::format("{}.ffn_up_exps.{}.weight", layer, e), (e * rows + out) * row, two_dims(in, out));
    } else {
      put(whole, fmt::format("{}.{}.weight", stem, e), e * rows * row, two_dims(in, out));
    }
  }
  return {};
}

Status TensorTable::add(ModelTensor tensor) {
  if (tensor.name.ends_with(kQkvWeight)) return add_qkv(tensor, false);
  if (tensor.name.ends_with(kQkvBias)) return add_qkv(tensor, true);
  const bool apart = record_.format == "safetensors" || record_.config.gemma;
  if (apart && record_.config.experts > 0 && tensor.name.ends_with(kStack)) return add_experts(tensor);
  memory_ += tensor.name.size() + tensor.file_name.size();
  LLADA_TRY_STATUS(check_memory(memory_, file_bytes_, file_, "the tensor table"));
  record_.tensors.push_back(std::move(tensor));
  return {};
}

}  // namespace llada
