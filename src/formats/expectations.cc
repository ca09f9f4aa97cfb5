#include "formats/expectations.h"

#include <fmt/format.h>

#include <string>

#include "formats/diffusion_gemma_files.h"

namespace llada {
namespace {

class Visitor {
 public:
  Visitor(const ModelConfig& config, bool split_experts, const std::function<bool(const ExpectedTensor&)>& visit)
      : config_(config), split_experts_(split_experts), visit_(visit) {}

  bool run() {
    if (!one("token_embd.weight", matrix(config_.width, config_.vocab))) return false;
    for (int64_t i = 0; i < config_.layers; ++i)
      if (!attention(i) || !(config_.experts > 0 && i >= config_.dense_layers ? experts(i) : dense(i))) return false;
    return one("output_norm.weight", vector_of(config_.width)) &&
           one("output.weight", matrix(config_.width, config_.vocab), !config_.tied_head);
  }

 private:
  bool one(std::string_view name, const Shape& shape, bool required = true) { return visit_({name, shape, required}); }

  bool in_layer(int64_t layer, std::string_view name, const Shape& shape) {
    return one(fmt::format("blk.{}.{}", layer, name), shape);
  }

  bool attention(int64_t i) {
    const int64_t q = config_.heads * config_.head_dim, kv = config_.kv_heads * config_.head_dim;
    return in_layer(i, "attn_norm.weight", vector_of(config_.width)) &&
           in_layer(i, "attn_q.weight", matrix(config_.width, q)) &&
           in_layer(i, "attn_k.weight", matrix(config_.width, kv)) &&
           in_layer(i, "attn_v.weight", matrix(config_.width, kv)) &&
           (!config_.qkv_bias ||
            (in_layer(i, "attn_q.bias", vector_of(q)) && in_layer(i, "attn_k.bias", vector_of(kv)) &&
             in_layer(i, "attn_v.bias", vector_of(kv)))) &&
           (!config_.qk_norm || (in_layer(i, "attn_q_norm.weight", vector_of(config_.head_dim)) &&
                                 in_layer(i, "attn_k_norm.weight", vector_of(config_.head_dim)))) &&
           in_layer(i, "attn_output.weight", matrix(q, config_.width)) &&
           in_layer(i, "ffn_norm.weight", vector_of(config_.width));
  }

  bool dense(int64_t i) {
    return in_layer(i, "ffn_gate.weight", matrix(config_.width, config_.ffn_width)) &&
           in_layer(i, "ffn_up.weight", matrix(config_.width, config_.ffn_width)) &&
           in_layer(i, "ffn_down.weight", matrix(config_.ffn_width, config_.width));
  }

  bool experts(int64_t i) {
    const int64_t width = config_.width, inner = config_.expert_ffn_width;
    if (!in_layer(i, "ffn_gate_inp.weight", matrix(width, config_.experts))) return false;
    if (config_.sigmoid_router && !in_layer(i, "exp_probs_b.bias", vector_of(config_.experts))) return false;
    if (!expert_stack(i, "ffn_gate_exps", width, inner) || !expert_stack(i, "ffn_up_exps", width, inner) ||
        !expert_stack(i, "ffn_down_exps", inner, width))
      return false;
    const int64_t shared = config_.shared_expert_ffn_width;
    return shared == 0 || (in_layer(i, "ffn_gate_shexp.weight", matrix(width, shared)) &&
                           in_layer(i, "ffn_up_shexp.weight", matrix(width, shared)) &&
                           in_layer(i, "ffn_down_shexp.weight", matrix(shared, width)));
  }

  bool expert_stack(int64_t i, std::string_view name, int64_t in, int64_t out) {
    if (!split_experts_) return in_layer(i, fmt::format("{}.weight", name), stack(in, out, config_.experts));
    for (int64_t e = 0; e < config_.experts; ++e)
      if (!in_layer(i, fmt::format("{}.{}.weight", name, e), matrix(in, out))) return false;
    return true;
  }

  const ModelConfig& config_;
  const bool split_experts_;
  const std::function<bool(const ExpectedTensor&)>& visit_;
};

}  // namespace

void for_each_expected(const ModelConfig& config, bool split_experts,
                       const std::function<bool(const ExpectedTensor&)>& visit) {
  if (config.gemma) return for_each_of_diffusion_gemma(config, split_experts, visit);
  Visitor(config, split_experts, visit).run();
}

}  // namespace llada
