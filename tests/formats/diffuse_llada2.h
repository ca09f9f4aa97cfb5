// LLaDA2 as a fork of diffuse-cpp writes it: its keys, and its names of tensors.
#pragma once
#include <array>
#include <string>

#include "formats/gguf_writer.h"
#include "formats/model_config.h"

namespace llada::testing_models {

inline GgufWriter diffuse_llada2_metadata(const ModelConfig& c) {
  GgufWriter out;
  const auto u32 = [&](const std::string& key, int64_t value) {
    out.add_u32("diffuse." + key, static_cast<uint32_t>(value));
  };
  out.add_string("general.architecture", "diffuse");
  u32("block_count", c.layers);
  u32("embedding_length", c.width);
  u32("attention.head_count", c.heads);
  u32("attention.head_count_kv", c.kv_heads);
  u32("feed_forward_length", c.ffn_width);
  u32("context_length", c.context);
  u32("vocab_size", c.vocab);
  u32("mask_token_id", c.mask_id);
  u32("head_dim", c.head_dim);
  u32("rotary_dim", c.rotary_dims);
  u32("use_qk_norm", 1);
  u32("expert_count", c.experts);
  u32("expert_used_count", c.experts_used);
  u32("expert_shared_count", c.shared_expert_ffn_width / c.expert_ffn_width);
  u32("expert_feed_forward_length", c.expert_ffn_width);
  u32("first_k_dense_replace", c.dense_layers);
  u32("norm_topk_prob", 1);
  u32("block_length", c.attention_block);
  u32("n_group", c.expert_groups);
  u32("topk_group", c.expert_groups_used);
  if (c.expert_capacity > 0) u32("moe_block_size", c.expert_block), u32("expert_capacity", c.expert_capacity);
  if (c.eos_id >= 0) u32("eos_token_id", c.eos_id);
  if (c.delete_id >= 0) u32("delete_token_id", c.delete_id), u32("split_token_id", c.split_id);
  out.add_f32("diffuse.routed_scaling_factor", c.expert_scale);
  out.add_f32("diffuse.rope.freq_base", c.rope_theta);
  out.add_f32("diffuse.attention.layer_norm_rms_epsilon", c.rms_eps);
  out.add_string("diffuse.model_type", "llada2_moe");
  return out;
}

inline std::string diffuse_llada2_name(std::string name) {
  constexpr std::array<std::array<std::string_view, 2>, 6> kRenamed = {{{"ffn_norm", "post_attn_norm"},
                                                                        {"ffn_gate_inp", "moe_gate"},
                                                                        {"exp_probs_b.bias", "moe_gate_bias.weight"},
                                                                        {"_exps", ""},
                                                                        {"_shexp", ""},
                                                                        {"", ""}}};
  const bool experts = name.contains("_exps."), shared = name.contains("_shexp.");
  for (const auto& [ours, theirs] : kRenamed)
    if (const size_t at = name.find(ours); at != std::string::npos && !ours.empty())
      name.replace(at, ours.size(), theirs);
  if (experts || shared) name.replace(name.find("ffn_"), 4, experts ? "moe_experts_" : "moe_shared_");
  return name;
}

}  // namespace llada::testing_models
