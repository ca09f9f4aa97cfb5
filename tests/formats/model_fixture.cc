#include "formats/model_fixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "formats/expectations.h"
#include "tensor/quantize.h"

namespace llada::testing_models {

ModelConfig tiny_config(const Family* family) {
  ModelConfig c;
  c.family = family;
  c.name = "tiny";
  c.layers = 2;
  c.width = 64;
  c.heads = 4;
  c.kv_heads = family->qkv_bias || family->head_norms == HeadNorms::usual ? 2 : 4;
  c.head_dim = c.rotary_dims = 16;
  c.vocab = 40;
  c.context = 128;
  c.rms_eps = 1e-5f;
  c.rope_theta = 10000.0f;
  c.shift_logits = family->shift_logits;
  c.qkv_bias = family->qkv_bias || family->bias_unless_said;
  c.attention_block = family->attention_block;
  c.decided_first = family->decided_first;
  c.qk_norm = family->head_norms != HeadNorms::none;
  c.mask_id = 36;
  c.eos_id = c.pad_id = 37;
  if (family->router == Router::softmax) {
    c.experts = 4;
    c.experts_used = 2;
    c.expert_ffn_width = 32;
    c.norm_topk = family->gates == Gates::as_said;
  } else {
    c.ffn_width = 96;
  }
  if (family == &kLlada2Family) {
    c.rotary_dims = 8;
    c.experts = 8, c.experts_used = 2, c.expert_ffn_width = 32, c.shared_expert_ffn_width = 32, c.dense_layers = 1;
    c.sigmoid_router = c.norm_topk = true;
    c.expert_groups = 4, c.expert_groups_used = 2, c.expert_scale = 2.5f;
  }
  return c;
}

std::vector<FakeTensor> fake_tensors(const ModelConfig& config, bool split_experts) {
  std::vector<FakeTensor> tensors;
  for_each_expected(config, split_experts, [&](const ExpectedTensor& expected) {
    if (!expected.required) return true;
    uint32_t state = 2166136261u;
    for (const char c : expected.name) state = (state ^ static_cast<unsigned char>(c)) * 16777619u;
    FakeTensor tensor{std::string(expected.name), expected.shape,
                      std::vector<float>(static_cast<size_t>(expected.shape.elements()))};
    for (float& value : tensor.values) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<float>(static_cast<int>(state >> 24) - 128) / 64.0f;
    }
    tensors.push_back(std::move(tensor));
    return true;
  });
  return tensors;
}

TokenizerSpec tiny_tokenizer() {
  TokenizerSpec spec;
  for (char c = 'a'; c <= 'z'; ++c) spec.tokens.push_back(std::string(1, c));
  for (char c = '0'; c <= '7'; ++c) spec.tokens.push_back(std::string(1, c));
  spec.tokens.insert(spec.tokens.end(), {"th", "the", "<|mdm_mask|>", "<|endoftext|>", "<|eot_id|>", "[PAD39]"});
  spec.kinds.assign(36, TokenKind::normal);
  spec.kinds.insert(spec.kinds.end(), {TokenKind::control, TokenKind::control, TokenKind::control, TokenKind::unused});
  spec.merges = {"t h", "th e"};
  spec.pre = "bailingmoe";
  spec.mask = 36;
  spec.eos = spec.pad = 37;
  return spec;
}

GgufWriter gguf_metadata(const ModelConfig& c, const GgufOptions& options) {
  GgufWriter out;
  const std::string p = options.arch + ".";
  const auto u32 = [&](const std::string& key, int64_t value) { out.add_u32(p + key, static_cast<uint32_t>(value)); };
  out.add_string("general.architecture", options.arch);
  out.add_string("general.name", c.name);
  if (options.alignment_key) out.add_u32("general.alignment", 32);
  if (!options.model_type.empty()) out.add_string("diffuse.model_type", options.model_type);
  u32("block_count", c.layers);
  u32("context_length", c.context);
  u32("embedding_length", c.width);
  if (c.ffn_width > 0) u32("feed_forward_length", c.ffn_width);
  u32("attention.head_count", c.heads);
  u32("attention.head_count_kv", c.kv_heads);
  out.add_f32(p + "attention.layer_norm_rms_epsilon", c.rms_eps);
  out.add_f32(p + "rope.freq_base", c.rope_theta);
  u32("vocab_size", c.vocab);
  if (c.experts > 0) {
    u32("expert_count", c.experts);
    u32("expert_used_count", c.experts_used);
    u32("expert_feed_forward_length", c.expert_ffn_width);
  }
  if (c.family == &kLlada2Family) {
    u32("rope.dimension_count", c.rotary_dims);
    u32("expert_gating_func", 2);
    u32("expert_group_count", c.expert_groups);
    u32("expert_group_used_count", c.expert_groups_used);
    out.add_f32(p + "expert_weights_scale", c.expert_scale);
    u32("expert_shared_feed_forward_length", c.shared_expert_ffn_width);
    u32("leading_dense_block_count", c.dense_layers);
  }
  if (options.arch == "diffuse") u32("mask_token_id", c.mask_id);
  if (options.tokenizer) {
    const TokenizerSpec spec = tiny_tokenizer();
    std::vector<int32_t> kinds;
    for (const TokenKind kind : spec.kinds) kinds.push_back(static_cast<int32_t>(kind));
    out.add_string("tokenizer.ggml.model", "gpt2");
    out.add_string("tokenizer.ggml.pre", spec.pre);
    out.add_strings("tokenizer.ggml.tokens", spec.tokens);
    out.add_i32s("tokenizer.ggml.token_type", kinds);
    out.add_strings("tokenizer.ggml.merges", spec.merges);
    out.add_u32("tokenizer.ggml.eos_token_id", 37);
    out.add_u32("tokenizer.ggml.padding_token_id", 37);
    out.add_u32("tokenizer.ggml.mask_token_id", 36);
  }
  return out;
}

namespace {

DType stored_type(const FakeTensor& tensor, DType type) { return tensor.shape.rank == 1 ? DType::F32 : type; }

}  // namespace

GgufWriter gguf_writer(const ModelConfig& c, const GgufOptions& options) {
  GgufWriter out = gguf_metadata(c, options);
  for (const FakeTensor& tensor : fake_tensors(c, false))
    out.add_tensor(tensor.name, stored_type(tensor, options.type), tensor.shape);
  return out;
}

std::string gguf_bytes(const ModelConfig& config, const GgufOptions& options) {
  return gguf_bytes(gguf_metadata(config, options), fake_tensors(config, false), options.type);
}

std::string gguf_bytes(GgufWriter metadata, const std::vector<FakeTensor>& tensors, DType type) {
  for (const FakeTensor& tensor : tensors) metadata.add_tensor(tensor.name, stored_type(tensor, type), tensor.shape);
  std::string bytes = metadata.header();
  for (const FakeTensor& tensor : tensors) {
    const auto n = static_cast<int64_t>(tensor.values.size());
    std::string packed(static_cast<size_t>(row_bytes(stored_type(tensor, type), n)), '\0');
    quantize_row(stored_type(tensor, type), tensor.values.data(), reinterpret_cast<std::byte*>(packed.data()), n);
    bytes += packed;
    bytes.resize((bytes.size() + 31) / 32 * 32);
  }
  return bytes;
}

std::vector<std::string> gguf_parts(const ModelConfig& config, const GgufOptions& options,
                                    const std::vector<size_t>& counts) {
  const auto tensors = fake_tensors(config, false);
  std::vector<std::string> parts;
  auto from = tensors.begin();
  for (size_t i = 0; i < counts.size(); ++i) {
    GgufWriter out;
    if (i == 0) out = gguf_metadata(config, options);
    out.add_u32("split.no", static_cast<uint32_t>(i));
    out.add_u32("split.count", static_cast<uint32_t>(counts.size()));
    out.add_u32("split.tensors.count", static_cast<uint32_t>(tensors.size()));
    const auto to = i + 1 < counts.size() ? from + static_cast<std::ptrdiff_t>(counts[i]) : tensors.end();
    parts.push_back(gguf_bytes(std::move(out), {from, to}, options.type));
    from = to;
  }
  return parts;
}

std::vector<FakeTensor> with_fused_qkv(const std::vector<FakeTensor>& tensors) {
  std::vector<FakeTensor> fused;
  for (const FakeTensor& tensor : tensors) {
    const size_t at = tensor.name.find(".attn_");
    if (at == std::string::npos || tensor.name[at + 7] != '.') {  // not attn_q, attn_k or attn_v
      fused.push_back(tensor);
      continue;
    }
    const std::string name = tensor.name.substr(0, at) + ".attn_qkv" + tensor.name.substr(at + 7);
    const auto begun = std::ranges::find(fused, name, &FakeTensor::name);
    if (begun == fused.end()) {
      fused.push_back({name, tensor.shape, tensor.values});
    } else {
      begun->shape.dims[tensor.shape.rank == 1 ? 0 : 1] += tensor.shape.dims[tensor.shape.rank == 1 ? 0 : 1];
      begun->values.insert(begun->values.end(), tensor.values.begin(), tensor.values.end());
    }
  }
  return fused;
}

std::string safetensors_bytes(const std::vector<FakeTensor>& tensors, const std::map<std::string, std::string>& names,
                              DType type) {
  std::string header = R"({"__metadata__":{"format":"pt"})", data;
  for (const FakeTensor& tensor : tensors) {
    std::string packed(static_cast<size_t>(row_bytes(type, tensor.shape.elements())), '\0');
    quantize_row(type, tensor.values.data(), reinterpret_cast<std::byte*>(packed.data()), tensor.shape.elements());
    std::vector<int64_t> dims(tensor.shape.dims.begin(), tensor.shape.dims.begin() + tensor.shape.rank);
    header += fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", names.at(tensor.name),
                          type == DType::F32 ? "F32" : "BF16", fmt::join(dims.rbegin(), dims.rend(), ","), data.size(),
                          data.size() + packed.size());
    data += packed;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string out(8, '\0');
  for (size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(header.size() >> (8 * i));
  return out + header + data;
}

std::map<std::string, std::string> hf_names(const ModelConfig& config, Style style) {
  const bool olmo = style == Style::olmo;
  std::map<std::string, std::string> names;
  names["token_embd.weight"] = olmo ? "model.transformer.wte.weight" : "model.embed_tokens.weight";
  names["output_norm.weight"] = olmo ? "model.transformer.ln_f.weight" : "model.norm.weight";
  names["output.weight"] = olmo ? "model.transformer.ff_out.weight" : "lm_head.weight";
  struct Part {
    std::string canonical, olmo, standard;
  };
  const std::vector<Part> parts = {{"attn_norm.weight", "attn_norm.weight", "input_layernorm.weight"},
                                   {"attn_q.weight", "q_proj.weight", "self_attn.q_proj.weight"},
                                   {"attn_k.weight", "k_proj.weight", "self_attn.k_proj.weight"},
                                   {"attn_v.weight", "v_proj.weight", "self_attn.v_proj.weight"},
                                   {"attn_q.bias", "q_proj.bias", "self_attn.q_proj.bias"},
                                   {"attn_k.bias", "k_proj.bias", "self_attn.k_proj.bias"},
                                   {"attn_v.bias", "v_proj.bias", "self_attn.v_proj.bias"},
                                   {"attn_output.weight", "attn_out.weight", "self_attn.o_proj.weight"},
                                   {"attn_q_norm.weight", "", "self_attn.q_norm.weight"},
                                   {"attn_k_norm.weight", "", "self_attn.k_norm.weight"},
                                   {"ffn_norm.weight", "ff_norm.weight", "post_attention_layernorm.weight"},
                                   {"ffn_gate.weight", "ff_proj.weight", "mlp.gate_proj.weight"},
                                   {"ffn_up.weight", "up_proj.weight", "mlp.up_proj.weight"},
                                   {"ffn_down.weight", "ff_out.weight", "mlp.down_proj.weight"},
                                   {"ffn_gate_inp.weight", "", "mlp.gate.weight"}};
  for (int64_t i = 0; i < config.layers; ++i) {
    for (const Part& part : parts)
      names[fmt::format("blk.{}.{}", i, part.canonical)] =
          olmo ? fmt::format("model.transformer.blocks.{}.{}", i, part.olmo)
               : fmt::format("model.layers.{}.{}", i, part.standard);
    for (int64_t e = 0; e < config.experts; ++e)
      for (const char* kind : {"gate", "up", "down"})
        names[fmt::format("blk.{}.ffn_{}_exps.{}.weight", i, kind, e)] =
            fmt::format("model.layers.{}.mlp.experts.{}.{}_proj.weight", i, e, kind);
  }
  if (config.family != &kLlada2Family) return names;
  names["token_embd.weight"] = "model.word_embeddings.weight";
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string ours = fmt::format("blk.{}.", i), theirs = fmt::format("model.layers.{}.", i);
    names[ours + "attn_qkv.weight"] = theirs + "attention.query_key_value.weight";
    names[ours + "attn_output.weight"] = theirs + "attention.dense.weight";
    names[ours + "attn_q_norm.weight"] = theirs + "attention.query_layernorm.weight";
    names[ours + "attn_k_norm.weight"] = theirs + "attention.key_layernorm.weight";
    names[ours + "exp_probs_b.bias"] = theirs + "mlp.gate.expert_bias";
    for (const std::string kind : {"gate", "up", "down"})
      names[ours + "ffn_" + kind + "_shexp.weight"] = theirs + "mlp.shared_experts." + kind + "_proj.weight";
  }
  return names;
}

std::vector<FakeTensor> hf_tensors(const ModelConfig& config) {
  const auto tensors = fake_tensors(config, true);
  return config.family == &kLlada2Family ? with_fused_qkv(tensors) : tensors;
}

std::string hf_config_json(const ModelConfig& c, Style style) {
  const bool llada2 = c.family == &kLlada2Family;
  std::string out = fmt::format(
      R"({{"architectures":["{}"],"model_type":"llada","vocab_size":{},"rms_norm_eps":1e-05,"rope_theta":10000.0,)"
      R"("mask_token_id":{},"eos_token_id":{},"pad_token_id":{})",
      c.family->classes.front(), c.vocab, c.mask_id, c.eos_id, c.pad_id);
  if (style == Style::olmo) {
    out += fmt::format(
        R"(,"d_model":{},"n_layers":{},"n_heads":{},"n_kv_heads":{},"mlp_hidden_size":{},"embedding_size":{},)"
        R"("max_sequence_length":{},"block_type":"llama","rope":true,"layer_norm_type":"rms","activation_type":"silu",)"
        R"("weight_tying":false,"alibi":false,"multi_query_attention":null}})",
        c.width, c.layers, c.heads, c.kv_heads, c.ffn_width, c.vocab, c.context);
    return out;
  }
  if (!c.family->block_keys.empty()) out += fmt::format(R"(,"{}":{})", c.family->block_keys.front(), c.attention_block);
  out += fmt::format(
      R"(,"hidden_size":{},"num_hidden_layers":{},"num_attention_heads":{},"num_key_value_heads":{},"head_dim":{},)"
      R"("max_position_embeddings":{},"tie_word_embeddings":false,"rope_scaling":null)",
      c.width, c.layers, c.heads, c.kv_heads, c.head_dim, c.context);
  if (llada2)
    out += fmt::format(
        R"(,"num_experts":{},"num_experts_per_tok":{},"moe_intermediate_size":{},"num_shared_experts":1,"n_group":{},)"
        R"("topk_group":{},"routed_scaling_factor":{},"score_function":"sigmoid","moe_router_enable_expert_bias":true,)"
        R"("first_k_dense_replace":{},"intermediate_size":{},"partial_rotary_factor":0.5,"use_qk_norm":true,)"
        R"("use_bias":false,"norm_topk_prob":true}})",
        c.experts, c.experts_used, c.expert_ffn_width, c.expert_groups, c.expert_groups_used, c.expert_scale,
        c.dense_layers, c.ffn_width);
  else if (c.experts > 0)
    out += fmt::format(
        R"(,"num_experts":{},"num_experts_per_tok":{},"expert_intermediate_size":{},"qk_layernorm":true,"norm_topk_prob":{},)"
        R"("moe_layer_freq":[1,1]}})",
        c.experts, c.experts_used, c.expert_ffn_width, c.norm_topk);
  else
    out += fmt::format(R"(,"intermediate_size":{}{}}})", c.ffn_width,
                       c.family->head_norms == HeadNorms::where_said ? R"(,"qk_norm":true)" : "");
  return out;
}

std::vector<float> values(const TensorView& view) {
  std::vector<float> out(static_cast<size_t>(view.shape.elements()));
  dequantize_row(view.type, view.data, out.data(), view.shape.elements());
  return out;
}

}  // namespace llada::testing_models
