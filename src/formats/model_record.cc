#include "formats/model_record.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "formats/diffusion_gemma_files.h"
#include "formats/expectations.h"
#include "formats/family.h"
#include "formats/printable.h"
#include "tensor/computed.h"

namespace llada {
namespace {

constexpr uint64_t kFreeMemory = uint64_t{1} << 20;

Status is_id(std::string_view file, std::string_view what, int32_t id, int64_t vocab) {
  if (id >= -1 && id < vocab) return {};
  return invalid("{}: {} token id is {}, below the vocabulary size {} needed", file, what, id, vocab);
}

// Refuses a longer context than a model could have, and frequencies that are no numbers.
Status check_yarn(const Yarn& y, const ModelConfig& c, std::string_view file) {
  if (!(y.factor >= 1 && y.factor <= 4096)) return invalid("{}: YaRN's factor is {}, 1 to 4096 needed", file, y.factor);
  LLADA_TRY_STATUS(in_range(file, "original context length of YaRN", y.original_context, 1, int64_t{1} << 24));
  if (!(y.beta_slow > 0 && y.beta_fast >= y.beta_slow && y.beta_fast <= 1e6))
    return invalid("{}: YaRN's beta_fast is {} and beta_slow {}, 1000000 >= beta_fast >= beta_slow > 0 needed", file,
                   y.beta_fast, y.beta_slow);
  if (y.attention_factor && !(*y.attention_factor > 0 && *y.attention_factor <= 1000))
    return invalid("{}: YaRN's attention factor is {}, more than 0 and at most 1000 needed", file, *y.attention_factor);
  if (c.rope_theta <= 1) return invalid("{}: RoPE base is {}, more than 1 needed for YaRN", file, c.rope_theta);
  return {};
}

}  // namespace

Status in_range(std::string_view file, std::string_view what, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return {};
  return invalid("{}: {} is {}, {} to {} needed", file, what, value, low, high);
}

std::string dims_text(const Shape& shape) {
  std::string out = fmt::format("{}", shape.dims[0]);
  for (int i = 1; i < shape.rank; ++i) out += fmt::format("x{}", shape.dims[static_cast<size_t>(i)]);
  return out;
}

const ModelTensor* ModelRecord::find(std::string_view name) const {
  const auto name_of = [&](uint32_t i) -> std::string_view { return tensors[i].name; };
  const auto found = std::ranges::lower_bound(by_name, name, {}, name_of);
  return found != by_name.end() && name_of(*found) == name ? &tensors[*found] : nullptr;
}

void set_gates(ModelConfig& config, std::optional<bool> said, bool own, std::string_view key,
               std::string_view own_key) {
  switch (config.family->gates) {
    case Gates::as_said:
      config.norm_topk = said.value_or(config.norm_topk);
      return;
    case Gates::of_several:
      config.norm_topk = config.experts_used > 1;
      if (said && *said != config.norm_topk)
        config.notes.push_back(fmt::format(
            "{} is {}: LLaDA2's published code renormalises the gates when more than one expert is used and "
            "not otherwise, and so is it done here",
            key, *said));
      return;
    case Gates::raw:
      config.norm_topk = own;
      if (said.value_or(false) && !own)
        config.notes.push_back(
            fmt::format("{} is true: LLaDA-MoE's published code does not renormalise the gates, so neither is it done "
                        "here; {}: true asks for it",
                        key, own_key));
  }
}

void route_by_blocks(ModelConfig& config) {
  if (config.expert_capacity == 0)
    config.expert_block = 0;
  else
    config.expert_groups = config.expert_groups_used = 1;
}

Status check_memory(uint64_t needed_bytes, uint64_t file_bytes, std::string_view file, std::string_view what) {
  if (needed_bytes <= 2 * file_bytes + kFreeMemory) return {};
  return invalid("{}: {} would take {} bytes of memory, more than twice the file ({} bytes)", file, what, needed_bytes,
                 file_bytes);
}

Status check_config(const ModelConfig& c, std::string_view file) {
  constexpr int64_t kMaxWidth = int64_t{1} << 20;
  LLADA_TRY_STATUS(in_range(file, "number of layers", c.layers, 1, 1024));
  LLADA_TRY_STATUS(in_range(file, "model width", c.width, 1, kMaxWidth));
  LLADA_TRY_STATUS(in_range(file, "number of heads", c.heads, 1, 4096));
  LLADA_TRY_STATUS(in_range(file, "number of key/value heads", c.kv_heads, 1, c.heads));
  if (c.heads % c.kv_heads != 0)
    return invalid("{}: {} heads over {} key/value heads, a multiple needed", file, c.heads, c.kv_heads);
  LLADA_TRY_STATUS(in_range(file, "head width", c.head_dim, 2, 8192));
  if (c.head_dim % 2 != 0) return invalid("{}: head width is {}, an even number needed", file, c.head_dim);
  if (c.rotary_dims != c.head_dim && !c.family->partial_rotation)
    return invalid("{}: rotary dimensions are {}, the head width {} needed", file, c.rotary_dims, c.head_dim);
  LLADA_TRY_STATUS(in_range(file, "rotary dimensions", c.rotary_dims, 2, c.head_dim));
  if (c.rotary_dims % 2 != 0)
    return invalid("{}: rotary dimensions are {}, an even number needed", file, c.rotary_dims);
  LLADA_TRY_STATUS(in_range(file, "vocabulary size", c.vocab, 2, int64_t{1} << 24));
  LLADA_TRY_STATUS(in_range(file, "context length", c.context, 1, int64_t{1} << 24));
  LLADA_TRY_STATUS(in_range(file, "number of leading dense layers", c.dense_layers, 0, c.layers));
  if (c.experts == 0 || c.dense_layers > 0)
    LLADA_TRY_STATUS(in_range(file, "feed-forward width", c.ffn_width, 1, 4 * kMaxWidth));
  if (c.experts != 0) {
    LLADA_TRY_STATUS(in_range(file, "number of experts", c.experts, 1, 4096));
    LLADA_TRY_STATUS(in_range(file, "experts used per token", c.experts_used, 1, c.experts));
    LLADA_TRY_STATUS(in_range(file, "expert feed-forward width", c.expert_ffn_width, 2, kMaxWidth));
    LLADA_TRY_STATUS(in_range(file, "shared expert feed-forward width", c.shared_expert_ffn_width, 0, 4 * kMaxWidth));
    LLADA_TRY_STATUS(in_range(file, "number of expert groups", c.expert_groups, 0, std::min<int64_t>(c.experts, 255)));
    if (c.expert_groups > 1) {
      LLADA_TRY_STATUS(in_range(file, "expert groups used", c.expert_groups_used, 1, c.expert_groups));
      if (c.experts % c.expert_groups != 0)
        return invalid("{}: {} experts in {} groups, a multiple needed", file, c.experts, c.expert_groups);
      LLADA_TRY_STATUS(in_range(file, "experts used per token", c.experts_used, 1,
                                c.experts / c.expert_groups * c.expert_groups_used));
    }
    if (c.expert_capacity != 0) {
      LLADA_TRY_STATUS(in_range(file, "expert capacity of a block", c.expert_capacity, c.experts_used, c.experts));
      if (c.expert_block < 1 || c.attention_block < 1 || c.attention_block % c.expert_block != 0)
        return invalid("{}: {} positions choose experts together, needed a divisor of the attention block {}", file,
                       c.expert_block, c.attention_block);
      if (c.shift_logits)
        return invalid("{}: {} positions choose experts together and rows predict the next position, needed their own",
                       file, c.expert_block);
    }
    if (!(std::isfinite(c.expert_scale) && c.expert_scale > 0))
      return invalid("{}: the scale of the experts is {}, a finite positive number needed", file, c.expert_scale);
  }
  const int64_t not_said = c.family->autoregressive ? -1 : 0;
  LLADA_TRY_STATUS(in_range(file, "attention block", c.attention_block, not_said, int64_t{1} << 20));
  if (c.decided_first && c.attention_block > 0 && c.shift_logits)
    return invalid("{}: rows predict the next position, needed their own: {} reads the decided ones first", file,
                   c.family->name);
  if (!(std::isfinite(c.rms_eps) && c.rms_eps > 0 && c.rms_eps < 1))
    return invalid("{}: RMSNorm epsilon is {}, between 0 and 1 needed", file, c.rms_eps);
  if (!(std::isfinite(c.rope_theta) && c.rope_theta >= 1))
    return invalid("{}: RoPE base is {}, a finite number from 1 needed", file, c.rope_theta);
  if (c.yarn) LLADA_TRY_STATUS(check_yarn(*c.yarn, c, file));
  if (!(c.query_scale.beta >= 0 && c.query_scale.beta <= 1000))
    return invalid("{}: the scale of queries by position is {}, 0 to 1000 needed", file, c.query_scale.beta);
  if (c.query_scale.beta != 0) {
    LLADA_TRY_STATUS(
        in_range(file, "period of the scale of queries by position", c.query_scale.period, 1, int64_t{1} << 24));
    if (c.rotary_dims != c.head_dim)
      return invalid("{}: queries are scaled by position and {} of {} elements rotate, all needed", file, c.rotary_dims,
                     c.head_dim);
  }
  if (c.gemma) LLADA_TRY_STATUS(check_diffusion_gemma(c, file));
  LLADA_TRY_STATUS(is_id(file, "mask", c.mask_id, c.vocab));
  LLADA_TRY_STATUS(is_id(file, "bos", c.bos_id, c.vocab));
  LLADA_TRY_STATUS(is_id(file, "eos", c.eos_id, c.vocab));
  LLADA_TRY_STATUS(is_id(file, "pad", c.pad_id, c.vocab));
  for (const int32_t id : c.end_ids) LLADA_TRY_STATUS(is_id(file, "eos", id, c.vocab));
  LLADA_TRY_STATUS(is_id(file, "delete", c.delete_id, c.vocab));
  LLADA_TRY_STATUS(is_id(file, "split", c.split_id, c.vocab));
  if ((c.delete_id < 0) != (c.split_id < 0) || (c.delete_id >= 0 && c.delete_id == c.split_id))
    return invalid("{}: delete token id is {} and split token id {}, two ids or none needed", file, c.delete_id,
                   c.split_id);
  return is_id(file, "eot", c.eot_id, c.vocab);
}

Status index_tensors(ModelRecord& record, std::string_view file) {
  const auto& tensors = record.tensors;
  const auto name_of = [&](uint32_t i) -> std::string_view { return tensors[i].name; };
  record.by_name.resize(tensors.size());
  std::iota(record.by_name.begin(), record.by_name.end(), 0u);
  std::ranges::sort(record.by_name, {}, name_of);
  if (const auto twice = std::ranges::adjacent_find(record.by_name, {}, name_of); twice != record.by_name.end()) {
    const std::string &one = tensors[*twice].file_name, &other = tensors[*std::next(twice)].file_name;
    if (one == other) return invalid("{}: tensor {} is in two of its files", file, printable(one));
    return invalid("{}: tensors {} and {} are both {}", file, printable(one), printable(other),
                   printable(name_of(*twice)));
  }
  return {};
}

// Notes the costs of types that are computed as others. A head that is tied to the embedding makes that a matrix, too.
void note_types(ModelRecord& record) {
  struct Cost {
    int64_t stored = 0, computed = 0;
  };
  std::array<Cost, kDTypeCount> costs{};
  for (const ModelTensor& tensor : record.tensors) {
    const TensorView& view = tensor.view;
    if (view.shape.rank == 1 || (tensor.name == "token_embd.weight" && !record.config.tied_head)) continue;
    Cost& cost = costs[static_cast<size_t>(view.type)];
    cost.stored += view.bytes();
    cost.computed += row_bytes(computed_type(view.type), view.shape.columns()) * view.shape.rows();
  }
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i), computed = computed_type(type);
    const Cost& cost = costs[static_cast<size_t>(i)];
    if (computed == type || cost.stored == 0) continue;
    const auto gib = [](int64_t bytes) { return static_cast<double>(bytes) / 0x1p30; };
    std::string line = fmt::format("type {}: computed as {}; {:.2f} GiB of the file become {:.2f} GiB in memory",
                                   traits(type).name, traits(computed).name, gib(cost.stored), gib(cost.computed));
    if (const double error = computed_error(type); error > 1e-5)
      line += fmt::format(", and values move by up to {:.2g} % of the largest of their 32", 100 * error);
    record.config.notes.push_back(std::move(line));
  }
}

Status index_and_check_tensors(ModelRecord& record, std::string_view file) {
  LLADA_TRY_STATUS(index_tensors(record, file));
  const auto& tensors = record.tensors;
  const bool split_experts = record.format == "safetensors" || record.config.gemma;
  std::vector<bool> known(tensors.size());
  Status status;
  for_each_expected(record.config, split_experts, [&](const ExpectedTensor& expected) {
    const ModelTensor* tensor = record.find(expected.name);
    if (tensor == nullptr) {
      if (expected.required)
        status = invalid("{}: tensor {} is missing, {} needed", file, expected.name, dims_text(expected.shape));
      return status.has_value();
    }
    known[static_cast<size_t>(tensor - tensors.data())] = true;
    if (tensor->view.shape != expected.shape)
      status = invalid("{}: tensor {} is {}, {} needed", file, printable(tensor->file_name),
                       dims_text(tensor->view.shape), dims_text(expected.shape));
    else if (expected.shape.rank == 1 && traits(tensor->view.type).quantized)
      status = invalid("{}: tensor {} has type {}, a float type needed", file, printable(tensor->file_name),
                       traits(tensor->view.type).name);
    return status.has_value();
  });
  if (!status) return status;
  const auto stranger = std::ranges::find(known, false);
  if (stranger == known.end()) {
    note_types(record);
    return {};
  }
  return invalid("{}: tensor {} is not part of this architecture", file,
                 printable(tensors[static_cast<size_t>(stranger - known.begin())].file_name));
}

}  // namespace llada
