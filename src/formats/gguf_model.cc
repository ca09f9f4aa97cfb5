#include "formats/gguf_model.h"

#include <algorithm>
#include <cmath>

#include "formats/diffusion_gemma_files.h"
#include "formats/family.h"
#include "formats/gguf_fields.h"
#include "formats/other_models.h"
#include "formats/tensor_names.h"
#include "formats/tensor_table.h"

namespace llada {
namespace {

struct Dialect {
  const Family* family = nullptr;
  bool diffuse = false;
  std::string prefix;  // of the metadata keys, with the dot
};

Status unknown_architecture(std::string_view file, std::string_view key, std::string_view found) {
  if (const auto why = why_not_computed(found); !why.empty())
    return invalid("{}: {} is \"{}\", which {}", file, key, found, why);
  std::string names;
  for (const Family* one : families()) names += fmt::format("{}, ", one->name);
  names.resize(names.size() - 2);
  return invalid("{}: {} is \"{}\", {} or diffuse needed", file, key, printable(found), names);
}

class ModelReader {
 public:
  ModelReader(const GgufFile& file, uint64_t file_bytes, std::string_view name)
      : file_(file), file_bytes_(file_bytes), name_(name), fields_(file, name) {}

  Result<ModelRecord> read() {
    LLADA_TRY_STATUS(dialect());
    record_.format = dialect_.diffuse ? "gguf (diffuse)" : "gguf";
    LLADA_TRY(record_.tokenizer, read_gguf_tokenizer(file_, file_bytes_, name_));
    if (record_.tokenizer && record_.tokenizer->pre.empty()) record_.tokenizer->pre = dialect_.family->pre_tokenizer;
    LLADA_TRY_STATUS(geometry());
    LLADA_TRY_STATUS(quirks());
    if (dialect_.family->mixture()) LLADA_TRY_STATUS(experts());
    LLADA_TRY_STATUS(token_ids());
    LLADA_TRY_STATUS(fields_.finish(dialect_.prefix, record_.config.notes));
    LLADA_TRY_STATUS(check_config(record_.config, name_));
    // diffuse-cpp leaves out the ids at the end that have no text.
    const auto tokens =
        record_.tokenizer ? static_cast<int64_t>(record_.tokenizer->tokens.size()) : record_.config.vocab;
    if (dialect_.diffuse ? tokens > record_.config.vocab : tokens != record_.config.vocab)
      return invalid("{}: tokenizer.ggml.tokens has {} tokens, the vocabulary size {} needed", name_,
                     record_.tokenizer->tokens.size(), record_.config.vocab);
    LLADA_TRY_STATUS(tensors());
    return std::move(record_);
  }

 private:
  Status dialect() {
    LLADA_TRY(const auto arch, fields_.string("general.architecture"));
    dialect_.prefix = arch + ".";
    dialect_.diffuse = arch == "diffuse";
    std::string kind = arch;
    if (dialect_.diffuse) {
      LLADA_TRY(kind, fields_.string("diffuse.model_type", std::string(families().front()->name)));
    }
    for (const Family* one : families()) {
      const bool such =
          dialect_.diffuse ? one->diffuse && (kind == one->name || has_renamed(*one, kind)) : kind == one->name;
      if (such) dialect_.family = one;
    }
    if (dialect_.family != nullptr) return {};
    return unknown_architecture(name_, dialect_.diffuse ? "diffuse.model_type" : "general.architecture", kind);
  }

  // By one of its types, where the files have keys of their own; llada and llada_moe share types.
  static bool has_renamed(const Family& family, std::string_view type) {
    return !family.diffuse_keys.empty() && std::ranges::count(family.model_types, type) > 0;
  }

  // suffix: as llama.cpp has it.
  std::string key(std::string_view suffix) const {
    if (dialect_.diffuse && dialect_.family != nullptr) suffix = renamed(dialect_.family->diffuse_keys, suffix);
    return dialect_.prefix + std::string(suffix);
  }
  static std::string_view renamed(RenamedParts names, std::string_view ours) {
    const auto found = std::ranges::find(names, ours, &RenamedParts::value_type::first);
    return found == names.end() ? ours : found->second;
  }
  // diffuse-cpp writes 0 or 1 as a number.
  Result<bool> flag(const std::string& name, bool absent) const {
    if (!dialect_.diffuse) return fields_.boolean(name, absent);
    LLADA_TRY(const auto value, fields_.integer(name, absent));
    if (value == 0 || value == 1) return value == 1;
    return invalid("{}: {} is {}, 0 or 1 needed", name_, name, value);
  }
  bool has(std::string_view suffix) const { return file_.find(key(suffix)) != nullptr; }

  Status geometry() {
    ModelConfig& c = record_.config;
    c = config_of(*dialect_.family);
    LLADA_TRY(c.name, fields_.string("general.name", ""));
    LLADA_TRY(c.layers, fields_.integer(key("block_count")));
    LLADA_TRY(c.width, fields_.integer(key("embedding_length")));
    LLADA_TRY(c.heads, fields_.integer(key("attention.head_count")));
    LLADA_TRY(c.kv_heads, fields_.integer(key("attention.head_count_kv"), c.heads));
    LLADA_TRY(c.context, fields_.integer(key("context_length"), 4096));
    if (c.heads < 1) return invalid("{}: {} is {}, at least 1 needed", name_, key("attention.head_count"), c.heads);
    LLADA_TRY(c.head_dim, fields_.integer(key("attention.key_length"), c.width / c.heads));
    if (!has("attention.key_length") && c.width % c.heads != 0)
      return invalid("{}: {} is {}, a multiple of the {} heads needed", name_, key("embedding_length"), c.width,
                     c.heads);
    LLADA_TRY(const auto value_length, fields_.integer(key("attention.value_length"), c.head_dim));
    if (value_length != c.head_dim)
      return invalid("{}: {} is {}, the key length {} needed", name_, key("attention.value_length"), value_length,
                     c.head_dim);
    LLADA_TRY(c.rotary_dims, fields_.integer(key("rope.dimension_count"), c.head_dim));
    if (dialect_.family->router == Router::sigmoid) {
      LLADA_TRY(c.dense_layers, fields_.integer(key("leading_dense_block_count"), 0));
    }
    LLADA_TRY(c.attention_block, fields_.integer(key("attention.block_length"), c.attention_block));
    if (!c.family->mixture() || c.dense_layers > 0) {
      LLADA_TRY(c.ffn_width, fields_.integer(key("feed_forward_length")));
    }
    const int64_t table_rows = dim("token_embd.weight", 1);
    const int64_t tokens = record_.tokenizer ? static_cast<int64_t>(record_.tokenizer->tokens.size()) : table_rows;
    LLADA_TRY(c.vocab, fields_.integer(key("vocab_size"), tokens));
    return {};
  }

  Status quirks() {
    ModelConfig& c = record_.config;
    const std::optional<double> eps_absent = dialect_.diffuse ? std::optional(1e-5) : std::nullopt;
    LLADA_TRY(const auto eps, fields_.positive(key("attention.layer_norm_rms_epsilon"), eps_absent));
    LLADA_TRY(const auto theta, fields_.positive(key("rope.freq_base"), dialect_.diffuse ? 500000.0 : 10000.0));
    c.rms_eps = static_cast<float>(eps);
    c.rope_theta = static_cast<float>(theta);
    const Family& family = *dialect_.family;
    const bool permuted = family.permuted_in_gguf && !dialect_.diffuse;
    c.rope_pairing = permuted ? RopePairing::adjacent : RopePairing::half_split;
    LLADA_TRY(c.shift_logits, fields_.boolean("diffusion.shift_logits", c.shift_logits));
    c.qk_norm = family.head_norms != HeadNorms::none && dim("blk.0.attn_q_norm.weight", 0) > 0;
    if (dialect_.diffuse && has("use_qk_norm")) {
      LLADA_TRY(const bool said, flag(key("use_qk_norm"), false));
      if (said != c.qk_norm)
        return invalid("{}: {} is {}, and tensor blk.0.attn_q_norm.weight {}", name_, key("use_qk_norm"), said ? 1 : 0,
                       c.qk_norm ? "is there" : "is missing");
    }
    c.qkv_bias = family.qkv_bias || dim("blk.0.attn_q.bias", 0) > 0 || dim("blk.0.attn_qkv.bias", 0) > 0;
    c.tied_head = dim("output.weight", 0) == 0;
    LLADA_TRY(const auto scaling, fields_.string(key("rope.scaling.type"), "none"));
    if (scaling == "yarn") {
      LLADA_TRY(c.yarn, yarn());
    } else if (scaling == "none" || scaling == "linear") {
      // llama.cpp scales linearly by a factor that comes without a type: GgufFields::finish() sees to that.
    } else {
      return invalid("{}: {} is {}, none or yarn needed", name_, key("rope.scaling.type"), printable(scaling));
    }
    LLADA_TRY(c.query_scale.beta, fields_.number(key("attention.temperature_scale"), 0));
    if (c.query_scale.beta != 0) {
      LLADA_TRY(c.query_scale.period, fields_.integer(key("rope.scaling.original_context_length"), c.context));
    }
    LLADA_TRY(const auto window, fields_.integer(key("attention.sliding_window"), 0));
    if (window != 0 && window < c.context)
      return invalid("{}: {} is {}, 0 or the context of {} needed", name_, key("attention.sliding_window"), window,
                     c.context);
    return fields_.off(key("attention.causal"));
  }

  // As llama.cpp reads it: its attention factor comes on top of YaRN's own, which the magnitude of all dimensions
  // divides where there is one (Ministral 3: by itself).
  Result<Yarn> yarn() {
    Yarn y;
    LLADA_TRY(y.factor, fields_.number(key("rope.scaling.factor"), std::nullopt));
    LLADA_TRY(y.original_context, fields_.integer(key("rope.scaling.original_context_length"), record_.config.context));
    LLADA_TRY(y.beta_fast, fields_.number(key("rope.scaling.yarn_beta_fast"), 32));
    LLADA_TRY(y.beta_slow, fields_.number(key("rope.scaling.yarn_beta_slow"), 1));
    LLADA_TRY(const auto more, fields_.number(key("rope.scaling.attn_factor"), 1));
    LLADA_TRY(const auto all, fields_.number(key("rope.scaling.yarn_log_multiplier"), 0));
    const auto magnitude = [&](double scale) { return 0.1 * scale * std::log(y.factor) + 1; };
    if (more != 1 || all != 0) y.attention_factor = more * magnitude(1) / magnitude(all);
    return y;
  }

  Status experts() {
    ModelConfig& c = record_.config;
    LLADA_TRY(c.experts, fields_.integer(key("expert_count")));
    if (c.experts < 1) return invalid("{}: {} is {}, at least 1 needed", name_, key("expert_count"), c.experts);
    LLADA_TRY(c.experts_used, fields_.integer(key("expert_used_count")));
    LLADA_TRY(c.expert_ffn_width,
              fields_.integer(key("expert_feed_forward_length"), dim("blk.0.ffn_gate_exps.weight", 1)));
    LLADA_TRY_STATUS(gates());
    if (dialect_.family->router == Router::sigmoid) return sigmoid_router();
    LLADA_TRY_STATUS(fields_.only(key("expert_gating_func"), {0, 1}, "softmax (1)"));
    LLADA_TRY_STATUS(fields_.only(key("expert_shared_count"), {0}, "0"));
    LLADA_TRY_STATUS(fields_.only(key("leading_dense_block_count"), {0}, "0"));
    LLADA_TRY_STATUS(fields_.only(key("expert_group_count"), {0, 1}, "0 or 1"));
    return fields_.neutral(key("expert_weights_scale"), {0, 1});
  }

  Status gates() {
    const std::string said_key = key("expert_weights_norm");
    LLADA_TRY(const auto said, flag(said_key, true));
    LLADA_TRY(const auto own, fields_.boolean(std::string(kKeyRenormalise), false));
    const bool always = dialect_.family->gates == Gates::as_said;  // llama.cpp has no such key for these
    set_gates(record_.config, always || has("expert_weights_norm") ? std::optional(said) : std::nullopt, own, said_key,
              kKeyRenormalise);
    return {};
  }

  // The keys that llama.cpp uses for the same mechanism in Bailing-MoE 2, LLaDA2's autoregressive sibling. Block
  // routing has keys in diffuse-cpp alone, so files with llama.cpp's keys have them from this project.
  Status sigmoid_router() {
    ModelConfig& c = record_.config;
    c.sigmoid_router = true;
    LLADA_TRY_STATUS(fields_.only(key("expert_gating_func"), {2}, "sigmoid (2)"));
    const Family& family = *dialect_.family;
    LLADA_TRY(c.expert_groups, fields_.integer(key("expert_group_count"), dialect_.diffuse ? family.expert_groups : 1));
    LLADA_TRY(c.expert_groups_used, fields_.integer(key("expert_group_used_count"),
                                                    dialect_.diffuse ? family.expert_groups_used : c.expert_groups));
    LLADA_TRY(c.expert_capacity, fields_.integer(key("expert_capacity"), 0));
    LLADA_TRY(c.expert_block, fields_.integer(key("expert_block_length"), c.attention_block));
    route_by_blocks(c);
    LLADA_TRY(c.delete_id, fields_.token(dialect_.diffuse ? key("delete_token_id") : std::string(kKeyDeleteId)));
    LLADA_TRY(c.split_id, fields_.token(dialect_.diffuse ? key("split_token_id") : std::string(kKeySplitId)));
    LLADA_TRY(const auto scale, fields_.positive(key("expert_weights_scale"), 1));
    c.expert_scale = static_cast<float>(scale);
    LLADA_TRY(const auto shared, fields_.integer(key("expert_shared_count"), 0));
    if (shared < 0 || shared > 64)
      return invalid("{}: {} is {}, 0 to 64 needed", name_, key("expert_shared_count"), shared);
    if (c.expert_ffn_width < 0 || c.expert_ffn_width > int64_t{1} << 24)
      return invalid("{}: {} is {}, at most 16777216 needed", name_, key("expert_feed_forward_length"),
                     c.expert_ffn_width);
    LLADA_TRY(c.shared_expert_ffn_width,
              fields_.integer(key("expert_shared_feed_forward_length"), shared * c.expert_ffn_width));
    return {};
  }

  Status token_ids() {
    ModelConfig& c = record_.config;
    LLADA_TRY(c.bos_id, id("bos_token_id", "bos_token_id"));
    LLADA_TRY(c.eos_id, id("eos_token_id", "eos_token_id"));
    LLADA_TRY(c.pad_id, id("padding_token_id", "pad_token_id"));
    LLADA_TRY(c.eot_id, id("eot_token_id", "eot_token_id"));
    LLADA_TRY(c.mask_id, id("mask_token_id", "mask_token_id"));
    LLADA_TRY(c.end_ids, fields_.further_ends());
    if (!record_.tokenizer) return {};
    TokenizerSpec& spec =
        *record_.tokenizer;  // it may know ids by their text that the metadata does not give, and vice versa
    const auto agree = [](int32_t& a, int32_t& b) {
      if (a < 0) a = b;
      if (b < 0) b = a;
    };
    agree(c.bos_id, spec.bos);
    agree(c.eos_id, spec.eos);
    if (c.pad_id < 0) c.pad_id = spec.pad;  // where both are there and differ, it is a token of text
    agree(c.eot_id, spec.eot);
    agree(c.mask_id, spec.mask);
    return {};
  }

  Result<int32_t> id(const std::string& tokenizer_key, std::string_view diffuse_key) {
    if (dialect_.diffuse && has(diffuse_key)) return fields_.token(key(diffuse_key));
    return fields_.token("tokenizer.ggml." + tokenizer_key);
  }

  // One dimension of a tensor of the file; 0 when there is no such tensor.
  int64_t dim(std::string_view name, size_t index) const {
    const GgufTensor* found = file_.tensor(name);
    return found == nullptr ? 0 : found->view.shape.dims[index];
  }

  std::string canonical(std::string_view name) const {
    std::string_view rest = name;
    if (!dialect_.diffuse || !take_prefix(rest, "blk.") || !take_index(rest)) return std::string(name);
    const RenamedParts parts = dialect_.family->diffuse_parts;
    const auto found = std::ranges::find(parts, rest, &RenamedParts::value_type::second);
    if (found == parts.end()) return std::string(name);
    return std::string(name.substr(0, name.size() - rest.size())) + std::string(found->first);
  }

  Status tensors() {
    TensorTable table(record_, name_);
    LLADA_TRY_STATUS(table.expect(file_bytes_, file_.tensors().size(), sizeof(GgufTensor)));
    for (const GgufTensor& tensor : file_.tensors())
      LLADA_TRY_STATUS(table.add({canonical(tensor.name), std::string(tensor.name), tensor.view, tensor.offset}));
    return index_and_check_tensors(record_, name_);
  }

  const GgufFile& file_;
  uint64_t file_bytes_;
  std::string_view name_;
  GgufFields fields_;
  Dialect dialect_{};
  ModelRecord record_;
};

}  // namespace

Status check_architecture(std::string_view file, std::string_view found) {
  const bool known =
      found == "diffuse" || std::ranges::any_of(families(), [&](const Family* f) { return f->name == found; });
  return known ? Status{} : unknown_architecture(file, "general.architecture", found);
}

Result<ModelRecord> read_gguf_model(const GgufFile& file, uint64_t file_bytes, std::string_view name) {
  if (const GgufValue* arch = file.find("general.architecture");
      arch != nullptr && arch->as_string() == kDiffusionGemmaArch)
    return read_diffusion_gemma_gguf(file, file_bytes, name);
  return ModelReader(file, file_bytes, name).read();
}

}  // namespace llada
