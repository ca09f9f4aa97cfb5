#include "formats/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace llada {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;  // Hugging Face, canonical

constexpr std::array kGlobals = {
    Pair{"model.transformer.wte.weight", "token_embd.weight"},
    Pair{"model.transformer.ln_f.weight", "output_norm.weight"},
    Pair{"model.transformer.ff_out.weight", "output.weight"},
    Pair{"model.embed_tokens.weight", "token_embd.weight"},
    Pair{"model.word_embeddings.weight", "token_embd.weight"},
    Pair{"model.norm.weight", "output_norm.weight"},
    Pair{"lm_head.weight", "output.weight"},
    Pair{"encoder.embed_tokens.weight", "token_embd.weight"},
    Pair{"encoder.norm.weight", "output_norm.weight"},
    Pair{"diffusion_head.weight", "output.weight"},
    Pair{"model.decoder.embed_tokens.weight", "token_embd.weight"},
    Pair{"model.decoder.norm.weight", "output_norm.weight"},
    Pair{"model.decoder.self_conditioning.pre_norm.weight", "self_cond_pre_norm.weight"},
    Pair{"model.decoder.self_conditioning.gate_proj.weight", "self_cond_gate.weight"},
    Pair{"model.decoder.self_conditioning.up_proj.weight", "self_cond_up.weight"},
    Pair{"model.decoder.self_conditioning.down_proj.weight", "self_cond_down.weight"},
};
constexpr std::array kOlmoParts = {
    Pair{"attn_norm.weight", "attn_norm.weight"}, Pair{"q_proj.weight", "attn_q.weight"},
    Pair{"k_proj.weight", "attn_k.weight"},       Pair{"v_proj.weight", "attn_v.weight"},
    Pair{"q_proj.bias", "attn_q.bias"},           Pair{"k_proj.bias", "attn_k.bias"},
    Pair{"v_proj.bias", "attn_v.bias"},           Pair{"attn_out.weight", "attn_output.weight"},
    Pair{"ff_norm.weight", "ffn_norm.weight"},    Pair{"ff_proj.weight", "ffn_gate.weight"},
    Pair{"up_proj.weight", "ffn_up.weight"},      Pair{"ff_out.weight", "ffn_down.weight"},
};
constexpr std::array kStandardParts = {
    Pair{"input_layernorm.weight", "attn_norm.weight"},
    Pair{"self_attn.q_proj.weight", "attn_q.weight"},
    Pair{"self_attn.k_proj.weight", "attn_k.weight"},
    Pair{"self_attn.v_proj.weight", "attn_v.weight"},
    Pair{"self_attn.q_proj.bias", "attn_q.bias"},
    Pair{"self_attn.k_proj.bias", "attn_k.bias"},
    Pair{"self_attn.v_proj.bias", "attn_v.bias"},
    Pair{"self_attn.o_proj.weight", "attn_output.weight"},
    Pair{"self_attn.q_norm.weight", "attn_q_norm.weight"},
    Pair{"self_attn.k_norm.weight", "attn_k_norm.weight"},
    Pair{"post_attention_layernorm.weight", "ffn_norm.weight"},
    Pair{"mlp.gate_proj.weight", "ffn_gate.weight"},
    Pair{"mlp.up_proj.weight", "ffn_up.weight"},
    Pair{"mlp.down_proj.weight", "ffn_down.weight"},
    Pair{"mlp.gate.weight", "ffn_gate_inp.weight"},
    Pair{"mlp.gate.gate_proj.weight", "ffn_gate_inp.weight"},  // MLX
    Pair{"mlp.gate.expert_bias", "exp_probs_b.bias"},
    Pair{"mlp.shared_experts.gate_proj.weight", "ffn_gate_shexp.weight"},
    Pair{"mlp.shared_experts.up_proj.weight", "ffn_up_shexp.weight"},
    Pair{"mlp.shared_experts.down_proj.weight", "ffn_down_shexp.weight"},
    Pair{"attention.query_key_value.weight", "attn_qkv.weight"},
    Pair{"attention.query_layernorm.weight", "attn_q_norm.weight"},
    Pair{"attention.key_layernorm.weight", "attn_k_norm.weight"},
    Pair{"attention.dense.weight", "attn_output.weight"},
    // All experts of a layer in one tensor: MLX, training code of LLaDA2 (dFactory), and dInfer, which also puts gate
    // and up together.
    Pair{"mlp.switch_mlp.gate_proj.weight", "ffn_gate_exps.weight"},
    Pair{"mlp.switch_mlp.up_proj.weight", "ffn_up_exps.weight"},
    Pair{"mlp.switch_mlp.down_proj.weight", "ffn_down_exps.weight"},
    Pair{"mlp.experts.gate_proj", "ffn_gate_exps.weight"},
    Pair{"mlp.experts.up_proj", "ffn_up_exps.weight"},
    Pair{"mlp.experts.down_proj", "ffn_down_exps.weight"},
    Pair{"mlp.w1", "ffn_gate_up_exps.weight"},
    Pair{"mlp.w2", "ffn_down_exps.weight"},
};
constexpr std::array kGemmaParts = {
    Pair{"input_layernorm.weight", "attn_norm.weight"},
    Pair{"self_attn.q_proj.weight", "attn_q.weight"},
    Pair{"self_attn.k_proj.weight", "attn_k.weight"},
    Pair{"self_attn.v_proj.weight", "attn_v.weight"},
    Pair{"self_attn.o_proj.weight", "attn_output.weight"},
    Pair{"self_attn.q_norm.weight", "attn_q_norm.weight"},
    Pair{"self_attn.k_norm.weight", "attn_k_norm.weight"},
    Pair{"post_attention_layernorm.weight", "post_attention_norm.weight"},
    Pair{"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
    Pair{"mlp.gate_proj.weight", "ffn_gate.weight"},
    Pair{"mlp.up_proj.weight", "ffn_up.weight"},
    Pair{"mlp.down_proj.weight", "ffn_down.weight"},
    Pair{"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
    Pair{"post_feedforward_layernorm_1.weight", "post_ffw_norm_1.weight"},
    Pair{"pre_feedforward_layernorm_2.weight", "pre_ffw_norm_2.weight"},
    Pair{"post_feedforward_layernorm_2.weight", "post_ffw_norm_2.weight"},
    Pair{"router.proj.weight", "ffn_gate_inp.weight"},
    Pair{"router.scale", "ffn_gate_inp.scale"},
    Pair{"router.per_expert_scale", "ffn_down_exps.scale"},
    Pair{"experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    Pair{"experts.gate_proj", "ffn_gate_exps.weight"},
    Pair{"experts.up_proj", "ffn_up_exps.weight"},
    Pair{"experts.down_proj", "ffn_down_exps.weight"},
    Pair{"experts.gate_up_proj.weight", "ffn_gate_up_exps.weight"},  // MLX, with this word and a module between
    Pair{"experts.gate_proj.weight", "ffn_gate_exps.weight"},
    Pair{"experts.up_proj.weight", "ffn_up_exps.weight"},
    Pair{"experts.down_proj.weight", "ffn_down_exps.weight"},
    Pair{"experts.switch_glu.gate_proj.weight", "ffn_gate_exps.weight"},
    Pair{"experts.switch_glu.up_proj.weight", "ffn_up_exps.weight"},
    Pair{"experts.switch_glu.down_proj.weight", "ffn_down_exps.weight"},
    Pair{"layer_scalar", "layer_output_scale.weight"},
};
// The encoder shares everything else with the decoder.
constexpr std::array kGemmaEncoderParts = {
    Pair{"layer_scalar", "enc_layer_output_scale.weight"},
};
constexpr std::array kExpertParts = {
    Pair{"gate_proj.weight", "ffn_gate_exps"},
    Pair{"up_proj.weight", "ffn_up_exps"},
    Pair{"down_proj.weight", "ffn_down_exps"},
};

// The text before a layer's number, and the names behind it.
struct Layers {
  std::string_view prefix;
  std::span<const Pair> parts;
  std::string_view experts = {};  // the text before an expert's number, whose matrices may be tensors of their own
};
constexpr Layers kLayers[] = {
    {"model.transformer.blocks.", kOlmoParts},
    {"model.layers.", kStandardParts, "mlp.experts."},
    {"encoder.layers.", kStandardParts, "mlp.experts."},
    {"model.decoder.layers.", kGemmaParts, "experts."},
    {"model.encoder.language_model.layers.", kGemmaEncoderParts},
};

std::optional<std::string_view> look_up(std::span<const Pair> table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &Pair::first);
  if (found == table.end()) return std::nullopt;
  return found->second;
}

}  // namespace

std::optional<std::string_view> take_index(std::string_view& rest) {
  const size_t dot = rest.find('.');
  if (dot == std::string_view::npos || dot == 0 || dot > 5) return std::nullopt;
  const auto digits = rest.substr(0, dot);
  if (!std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
  if (digits.size() > 1 && digits[0] == '0') return std::nullopt;
  rest.remove_prefix(dot + 1);
  return digits;
}

bool take_prefix(std::string_view& rest, std::string_view prefix) {
  if (!rest.starts_with(prefix)) return false;
  rest.remove_prefix(prefix.size());
  return true;
}

std::optional<std::string> canonical_name(std::string_view hf_name) {
  take_prefix(hf_name, "language_model.");  // of a model that reads images, too
  if (const auto global = look_up(kGlobals, hf_name)) return std::string(*global);
  std::string_view rest = hf_name;
  const auto layers = std::ranges::find_if(kLayers, [&](const Layers& one) { return take_prefix(rest, one.prefix); });
  if (layers == std::end(kLayers)) return std::nullopt;
  const auto layer = take_index(rest);
  if (!layer) return std::nullopt;
  if (const auto part = look_up(layers->parts, rest)) return fmt::format("blk.{}.{}", *layer, *part);
  if (layers->experts.empty() || !take_prefix(rest, layers->experts)) return std::nullopt;
  const auto expert = take_index(rest);
  const auto part = expert ? look_up(kExpertParts, rest) : std::nullopt;
  return part ? std::optional(fmt::format("blk.{}.{}.{}.weight", *layer, *part, *expert)) : std::nullopt;
}

bool is_buffer(std::string_view hf_name) {
  constexpr std::array<std::string_view, 9> kBuffers = {"inv_freq",    "cos_cached",  "sin_cached",
                                                        "cos_cache",   "sin_cache",   "position_ids",
                                                        "masked_bias", "causal_mask", "num_batches_tracked"};
  const std::string_view last = hf_name.substr(hf_name.rfind('.') + 1);
  return std::ranges::find(kBuffers, last) != kBuffers.end() || hf_name.ends_with(".attn.bias") ||
         hf_name.ends_with(".attention.bias");
}

bool is_quantized_part(std::string_view hf_name) {
  constexpr std::array<std::string_view, 18> kParts = {
      "qweight",      "qzeros",    "scales",        "g_idx",         "SCB",           "weight_format",
      "absmax",       "quant_map", "nested_absmax", "weight_packed", "weight_scale",  "weight_scale_inv",
      "weight_shape", "W_q",       "codes",         "codebooks",     "weight_blocks", "weight_scales"};
  const std::string_view last = hf_name.substr(hf_name.rfind('.') + 1);
  return std::ranges::find(kParts, last) != kParts.end() || last.starts_with("bitsandbytes__");
}

}  // namespace llada
