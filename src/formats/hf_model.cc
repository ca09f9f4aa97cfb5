// A Hugging Face folder as a model record: config.json plus one or more safetensors files.
#include <algorithm>
#include <cstring>

#include "formats/family.h"
#include "formats/hf_config.h"
#include "formats/made_weights.h"
#include "formats/printable.h"
#include "formats/rounded_modules.h"
#include "formats/rounded_scheme.h"
#include "formats/safetensors.h"
#include "formats/tensor_names.h"
#include "formats/tensor_table.h"

namespace llada {

namespace {

// Names of tensors that are passed over, for one line.
class Unread {
 public:
  void add(std::string_view name) {
    constexpr size_t kMost = 3;
    if (++count_ <= kMost) names_ += fmt::format("{}{}", count_ > 1 ? ", " : "", printable(name));
    others_ = count_ > kMost ? fmt::format(" and {} more", count_ - kMost) : "";
  }
  void report(ModelConfig& config) const {
    if (count_ > 0)
      config.remarks.push_back(fmt::format("ignored tensors, which are no weights: {}{}", names_, others_));
  }

 private:
  size_t count_ = 0;
  std::string names_, others_;
};

std::unexpected<Error> not_a_weight(std::string_view file, std::string_view name) {
  if (is_quantized_part(name))
    return invalid(
        "{}: tensor {}: part of a matrix that GPTQ, AWQ, bitsandbytes or the like has rounded; needed weights in F32, "
        "F16 or BF16, or a configuration that says how they are rounded, or GGUF",
        file, printable(name));
  return invalid("{}: tensor {} is not part of this architecture", file, printable(name));
}

// Rows all over both, since whole matrices may be gigabytes that nobody needs yet. Of rounded ones the codes.
bool differ(const ModelRecord& record, const TensorView& a, const TensorView& b) {
  constexpr int64_t kRows = 64;
  if (a.type != b.type || a.shape != b.shape) return true;
  const bool made = record.made != nullptr && record.made->holds(a);
  if (made != (record.made != nullptr && record.made->holds(b))) return true;
  if (made) return !std::ranges::equal(record.made->stored(a), record.made->stored(b));
  const int64_t last = a.shape.rows() - 1;
  for (int64_t i = 0; i < kRows; ++i) {
    const int64_t row = last * i / (kRows - 1);
    if (std::memcmp(a.row(row), b.row(row), static_cast<size_t>(a.row_stride())) != 0) return true;
  }
  return false;
}

// For a model whose head is said to be the embedding: writers keep one of the two names, or both.
void tie(ModelRecord& record) {
  ModelConfig& c = record.config;
  const auto head = std::ranges::find(record.tensors, "output.weight", &ModelTensor::name);
  if (!c.tied_head || head == record.tensors.end()) return;
  const auto embedding = std::ranges::find(record.tensors, "token_embd.weight", &ModelTensor::name);
  if (embedding == record.tensors.end()) {
    head->name = "token_embd.weight";
    return;
  }
  const std::string name = printable(head->file_name);
  const bool other = differ(record, head->view, embedding->view);
  if (c.family->head_is_embedding) {
    if (other)
      c.notes.push_back(fmt::format(
          "weight_tying is true and {} differs from the embedding: LLaDA's published code computes logits with "
          "the embedding, and so is it done here",
          name));
    return;
  }
  c.tied_head = false;
  if (other)
    c.notes.push_back(
        fmt::format("tie_word_embeddings is true and {} differs from the embedding: it is the head, as transformers 5 "
                    "has it; transformers 4 computes logits with the embedding",
                    name));
}

}  // namespace

Result<ModelRecord> read_hf_model(const ModelConfig& config, std::span<const NamedBytes> shards,
                                  std::string_view folder) {
  ModelRecord record;
  record.format = "safetensors";
  record.config = config;
  TensorTable table(record, folder);
  Unread unread;
  RoundedModules rounded(config.rounded.get());
  int64_t vision = 0;  // tensors of the part that reads images
  uint64_t file_bytes = 0;
  for (const NamedBytes& shard : shards) {
    file_bytes += shard.bytes.size();
    LLADA_TRY(auto file, parse_safetensors(shard.bytes, shard.name));
    LLADA_TRY_STATUS(table.expect(file_bytes, file.tensors.size(), sizeof(SafetensorsTensor)));
    for (SafetensorsTensor& tensor : file.tensors) {
      LLADA_TRY(const bool taken, rounded.take(tensor, folder));
      if (taken) continue;
      if (auto name = canonical_name(tensor.name)) {
        if (!tensor.raw.empty())
          return invalid(
              "{}: tensor {} has dtype {}, F32, F16 or BF16 needed, or a configuration that says how weights are "
              "rounded",
              shard.name, printable(tensor.name), tensor.raw);
        LLADA_TRY_STATUS(table.add({std::move(*name), std::move(tensor.name), tensor.view, tensor.offset}));
      } else if (std::ranges::any_of(config.family->image_tensors,
                                     [&](std::string_view prefix) { return tensor.name.starts_with(prefix); })) {
        ++vision;
      } else if (is_buffer(tensor.name) || (!tensor.raw.empty() && !is_quantized_part(tensor.name))) {
        unread.add(tensor.name);
      } else {
        return not_a_weight(shard.name, tensor.name);
      }
    }
  }
  LLADA_TRY_STATUS(rounded.finish(record, table, folder));
  unread.report(record.config);
  if (vision > 0)
    record.config.notes.push_back(
        fmt::format("the vision tower ({} tensors) is not read: prompts are text alone", vision));
  tie(record);
  LLADA_TRY_STATUS(index_and_check_tensors(record, folder));
  return record;
}

}  // namespace llada
