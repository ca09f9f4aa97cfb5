// Tensors of DiffusionGemma, and what of its configuration must hold.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "formats/diffusion_gemma_files.h"
#include "formats/expectations.h"
#include "formats/model_record.h"
#include "formats/tensor_names.h"

namespace llada {
namespace gemma {
namespace {

using Pair = TensorNamePair;

constexpr Pair kGlobals[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight"},
    {"self_conditioning.pre_norm.weight", "self_cond_pre_norm.weight"},
    {"self_conditioning.gate_proj.weight", "self_cond_gate.weight"},
    {"self_conditioning.up_proj.weight", "self_cond_up.weight"},
    {"self_conditioning.down_proj.weight", "self_cond_down.weight"},
};
constexpr Pair kParts[] = {
    {"input_layernorm.weight", "attn_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"post_attention_layernorm.weight", "post_attention_norm.weight"},
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
    {"post_feedforward_layernorm_1.weight", "post_ffw_norm_1.weight"},
    {"pre_feedforward_layernorm_2.weight", "pre_ffw_norm_2.weight"},
    {"post_feedforward_layernorm_2.weight", "post_ffw_norm_2.weight"},
    {"router.proj.weight", "ffn_gate_inp.weight"},
    {"router.scale", "ffn_gate_inp.scale"},
    {"router.per_expert_scale", "ffn_down_exps.scale"},
    {"experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    {"experts.down_proj", "ffn_down_exps.weight"},
    {"layer_scalar", "layer_output_scale.weight"},
};

class Visitor {
 public:
  Visitor(const ModelConfig& config, bool split_experts, const std::function<bool(const ExpectedTensor&)>& visit)
      : c_(config), g_(*config.gemma), split_experts_(split_experts), visit_(visit) {}

  void run() {
    one("token_embd.weight", matrix(c_.width, c_.vocab));
    one("self_cond_pre_norm.weight", vector_of(c_.width));
    one("self_cond_gate.weight", matrix(c_.width, c_.ffn_width));
    one("self_cond_up.weight", matrix(c_.width, c_.ffn_width));
    one("self_cond_down.weight", matrix(c_.ffn_width, c_.width));
    // A folder has none: its numbers say the same (rope_factor()).
    one("rope_freqs.weight", vector_of(g_.head_dim / 2), !split_experts_);
    for (layer_ = 0; layer_ < c_.layers && go_on_; ++layer_) layer();
    one("output_norm.weight", vector_of(c_.width));
  }

 private:
  void one(std::string_view name, const Shape& shape, bool required = true) {
    if (go_on_) go_on_ = visit_({name, shape, required});
  }
  void in_layer(std::string_view name, const Shape& shape, bool required = true) {
    one(fmt::format("blk.{}.{}", layer_, name), shape, required);
  }

  void layer() {
    const bool global = g_.global[static_cast<size_t>(layer_)];
    const int64_t head_dim = global ? g_.head_dim : c_.head_dim, kv_heads = global ? g_.kv_heads : c_.kv_heads;
    in_layer("attn_q.weight", matrix(c_.width, c_.heads * head_dim));
    in_layer("attn_k.weight", matrix(c_.width, kv_heads * head_dim));
    if (!global) in_layer("attn_v.weight", matrix(c_.width, kv_heads * head_dim));
    in_layer("attn_output.weight", matrix(c_.heads * head_dim, c_.width));
    in_layer("attn_q_norm.weight", vector_of(head_dim));
    in_layer("attn_k_norm.weight", vector_of(head_dim));
    for (const auto norm : {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "post_ffw_norm_1",
                            "pre_ffw_norm_2", "post_ffw_norm_2"})
      in_layer(fmt::format("{}.weight", norm), vector_of(c_.width));
    in_layer("ffn_gate.weight", matrix(c_.width, c_.ffn_width));
    in_layer("ffn_up.weight", matrix(c_.width, c_.ffn_width));
    in_layer("ffn_down.weight", matrix(c_.ffn_width, c_.width));
    in_layer("ffn_gate_inp.weight", matrix(c_.width, c_.experts));
    in_layer("ffn_gate_inp.scale", vector_of(c_.width));
    in_layer("ffn_down_exps.scale", vector_of(c_.experts));
    experts();
    in_layer("layer_output_scale.weight", vector_of(1));
    in_layer("enc_layer_output_scale.weight", vector_of(1));
  }

  void experts() {
    const int64_t inner = c_.expert_ffn_width;
    if (!split_experts_) {
      in_layer("ffn_gate_exps.weight", stack(c_.width, inner, c_.experts));
      in_layer("ffn_up_exps.weight", stack(c_.width, inner, c_.experts));
      in_layer("ffn_down_exps.weight", stack(inner, c_.width, c_.experts));
      return;
    }
    for (int64_t e = 0; e < c_.experts && go_on_; ++e) {
      in_layer(fmt::format("ffn_gate_exps.{}.weight", e), matrix(c_.width, inner));
      in_layer(fmt::format("ffn_up_exps.{}.weight", e), matrix(c_.width, inner));
      in_layer(fmt::format("ffn_down_exps.{}.weight", e), matrix(inner, c_.width));
    }
  }

  const ModelConfig& c_;
  const DiffusionGemma& g_;
  const bool split_experts_;
  const std::function<bool(const ExpectedTensor&)>& visit_;
  int64_t layer_ = 0;
  bool go_on_ = true;
};

}  // namespace
}  // namespace gemma

DiffusionGemmaTensor diffusion_gemma_tensor(std::string_view hf_name) {
  using Part = DiffusionGemmaTensor::Part;
  constexpr std::string_view kDecoder = "model.decoder.", kEncoder = "model.encoder.language_model.layers.";
  for (const std::string_view prefix : {"model.encoder.vision_tower.", "model.encoder.embed_vision."})
    if (hf_name.starts_with(prefix)) return {Part::vision, {}};
  std::string_view rest = hf_name;
  if (take_prefix(rest, kEncoder)) {
    const auto layer = take_index(rest);
    if (!layer || rest != "layer_scalar") return {};
    return {Part::text, fmt::format("blk.{}.enc_layer_output_scale.weight", *layer)};
  }
  if (!take_prefix(rest, kDecoder)) return {};
  if (const auto global = look_up(gemma::kGlobals, rest)) return {Part::text, std::string(*global)};
  if (!take_prefix(rest, "layers.")) return {};
  const auto layer = take_index(rest);
  const auto part = layer ? look_up(gemma::kParts, rest) : std::nullopt;
  if (!part) return {};
  return {Part::text, fmt::format("blk.{}.{}", *layer, *part)};
}

void for_each_of_diffusion_gemma(const ModelConfig& config, bool split_experts,
                                 const std::function<bool(const ExpectedTensor&)>& visit) {
  gemma::Visitor(config, split_experts, visit).run();
}

float rope_factor(int64_t pair, int64_t rotary_dims) { return 2 * pair < rotary_dims ? 1 : 1e30f; }

Status check_diffusion_gemma(const ModelConfig& c, std::string_view file) {
  const DiffusionGemma& g = *c.gemma;
  if (std::ssize(g.global) != c.layers)
    return invalid("{}: {} layers are said to be sliding or global, {} needed", file, g.global.size(), c.layers);
  LLADA_TRY_STATUS(in_range(file, "number of experts", c.experts, 1, 4096));
  LLADA_TRY_STATUS(in_range(file, "feed-forward width", c.ffn_width, 1, int64_t{1} << 22));
  LLADA_TRY_STATUS(in_range(file, "sliding window", g.window, 1, int64_t{1} << 24));
  LLADA_TRY_STATUS(in_range(file, "key/value heads of global layers", g.kv_heads, 1, c.heads));
  if (c.heads % g.kv_heads != 0)
    return invalid("{}: {} heads over {} key/value heads of global layers, a multiple needed", file, c.heads,
                   g.kv_heads);
  LLADA_TRY_STATUS(in_range(file, "head width of global layers", g.head_dim, 2, 8192));
  if (g.head_dim % 2 != 0)
    return invalid("{}: head width of global layers is {}, an even number needed", file, g.head_dim);
  LLADA_TRY_STATUS(in_range(file, "rotary dimensions of global layers", g.rotary_dims, 0, g.head_dim));
  LLADA_TRY_STATUS(in_range(file, "canvas length", c.canvas.length, 1, int64_t{1} << 16));
  LLADA_TRY_STATUS(in_range(file, "denoising steps", c.canvas.steps, 1, 10000));
  LLADA_TRY_STATUS(in_range(file, "stability threshold", c.canvas.stability_threshold, 1, 1000));
  if (!(std::isfinite(g.rope_theta) && g.rope_theta >= 1))
    return invalid("{}: RoPE base of global layers is {}, a finite number from 1 needed", file, g.rope_theta);
  for (const auto& [what, value] :
       {std::pair{"soft cap of the logits", static_cast<double>(g.logit_cap)},
        std::pair{"lowest temperature", c.canvas.t_min}, std::pair{"highest temperature", c.canvas.t_max},
        std::pair{"entropy bound", c.canvas.entropy_bound},
        std::pair{"confidence threshold", c.canvas.confidence_threshold}})
    if (!(std::isfinite(value) && value > 0))
      return invalid("{}: {} is {}, a finite positive number needed", file, what, value);
  if (c.canvas.t_max <= c.canvas.t_min)
    return invalid("{}: highest temperature is {}, more than the lowest, {}, needed", file, c.canvas.t_max,
                   c.canvas.t_min);
  return {};
}

}  // namespace llada
