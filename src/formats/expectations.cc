#include "formats/expectations.h"

#include <fmt/format.h>

#include <string>

namespace llada {
namespace {

class Visitor {
 public:
  Visitor(const ModelConfig& config, bool split_experts, const std::function<bool(const ExpectedTensor&)>& visit)
      : c_(config), split_experts_(split_experts), visit_(visit) {}

  void run() {
    one("token_embd.weight", matrix(c_.width, c_.vocab));
    if (c_.gemma) self_conditioning();
    for (layer_ = 0; layer_ < c_.layers && go_on_; ++layer_) c_.gemma ? layer_of_gemma() : layer();
    one("output_norm.weight", vector_of(c_.width));
    if (!c_.gemma) one("output.weight", matrix(c_.width, c_.vocab), !c_.tied_head);
  }

 private:
  void one(std::string_view name, const Shape& shape, bool required = true) {
    if (go_on_) go_on_ = visit_({name, shape, required});
  }
  void in_layer(std::string_view leaf, const Shape& shape) { one(fmt::format("blk.{}.{}", layer_, leaf), shape); }
  void norm(std::string_view leaf) { in_layer(fmt::format("{}.weight", leaf), vector_of(c_.width)); }

  void layer() {
    attention(c_.head_dim, c_.kv_heads);
    norm("ffn_norm");
    if (c_.experts == 0 || layer_ < c_.dense_layers) return network("", c_.ffn_width);
    in_layer("ffn_gate_inp.weight", matrix(c_.width, c_.experts));
    if (c_.sigmoid_router) in_layer("exp_probs_b.bias", vector_of(c_.experts));
    experts();
    if (c_.shared_expert_ffn_width > 0) network("_shexp", c_.shared_expert_ffn_width);
  }

  void attention(int64_t head_dim, int64_t kv_heads, bool values = true) {
    const int64_t q = c_.heads * head_dim, kv = kv_heads * head_dim;
    norm("attn_norm");
    in_layer("attn_q.weight", matrix(c_.width, q));
    in_layer("attn_k.weight", matrix(c_.width, kv));
    if (values) in_layer("attn_v.weight", matrix(c_.width, kv));
    if (c_.qkv_bias) {
      in_layer("attn_q.bias", vector_of(q));
      in_layer("attn_k.bias", vector_of(kv));
      in_layer("attn_v.bias", vector_of(kv));
    }
    if (c_.qk_norm) {
      in_layer("attn_q_norm.weight", vector_of(head_dim));
      in_layer("attn_k_norm.weight", vector_of(head_dim));
    }
    in_layer("attn_output.weight", matrix(q, c_.width));
  }

  void network(std::string_view suffix, int64_t inner) {
    in_layer(fmt::format("ffn_gate{}.weight", suffix), matrix(c_.width, inner));
    in_layer(fmt::format("ffn_up{}.weight", suffix), matrix(c_.width, inner));
    in_layer(fmt::format("ffn_down{}.weight", suffix), matrix(inner, c_.width));
  }

  void experts() {
    stacked("ffn_gate_exps", c_.width, c_.expert_ffn_width);
    stacked("ffn_up_exps", c_.width, c_.expert_ffn_width);
    stacked("ffn_down_exps", c_.expert_ffn_width, c_.width);
  }
  void stacked(std::string_view name, int64_t in, int64_t out) {
    if (!split_experts_) return in_layer(fmt::format("{}.weight", name), stack(in, out, c_.experts));
    for (int64_t e = 0; e < c_.experts && go_on_; ++e) in_layer(fmt::format("{}.{}.weight", name, e), matrix(in, out));
  }

  // DiffusionGemma's.
  void self_conditioning() {
    one("self_cond_pre_norm.weight", vector_of(c_.width));
    one("self_cond_gate.weight", matrix(c_.width, c_.ffn_width));
    one("self_cond_up.weight", matrix(c_.width, c_.ffn_width));
    one("self_cond_down.weight", matrix(c_.ffn_width, c_.width));
    // A folder has none: its numbers say the same (rope_factor()).
    one(kRopeFactors, vector_of(c_.gemma->head_dim / 2), !split_experts_);
  }

  // A dense network and experts side by side. Global layers have no values of their own.
  void layer_of_gemma() {
    const DiffusionGemma& g = *c_.gemma;
    const bool global = g.global[static_cast<size_t>(layer_)];
    attention(global ? g.head_dim : c_.head_dim, global ? g.kv_heads : c_.kv_heads, !global);
    norm("post_attention_norm");
    norm("ffn_norm");
    network("", c_.ffn_width);
    norm("post_ffw_norm_1");
    in_layer("ffn_gate_inp.scale", vector_of(c_.width));
    in_layer("ffn_gate_inp.weight", matrix(c_.width, c_.experts));
    in_layer("ffn_down_exps.scale", vector_of(c_.experts));
    norm("pre_ffw_norm_2");
    experts();
    norm("post_ffw_norm_2");
    norm("post_ffw_norm");
    in_layer("layer_output_scale.weight", vector_of(1));
    in_layer("enc_layer_output_scale.weight", vector_of(1));
  }

  const ModelConfig& c_;
  const bool split_experts_;
  const std::function<bool(const ExpectedTensor&)>& visit_;
  int64_t layer_ = 0;
  bool go_on_ = true;
};

}  // namespace

void for_each_expected(const ModelConfig& config, bool split_experts,
                       const std::function<bool(const ExpectedTensor&)>& visit) {
  Visitor(config, split_experts, visit).run();
}

}  // namespace llada
