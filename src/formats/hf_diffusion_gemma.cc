// config.json of DiffusionGemma: the text model's numbers in text_config, some of them by layer.

#include "formats/diffusion_gemma_files.h"
#include "formats/hf_fields.h"
#include "formats/model_record.h"

namespace llada {
namespace hf_gemma {
namespace {

class Reader {
 public:
  Reader(const Fields& root, const Fields& text, const Fields& generation, std::string_view file)
      : root_(root), text_(text), generation_(generation), file_(file) {}

  Result<ModelConfig> read() {
    c_.family = &kDiffusionGemmaFamily;
    LLADA_TRY_STATUS(geometry());
    LLADA_TRY_STATUS(layers());
    LLADA_TRY_STATUS(global_layers());
    LLADA_TRY_STATUS(rotation());
    LLADA_TRY_STATUS(token_ids());
    LLADA_TRY_STATUS(sampler());
    c_.gemma = std::move(g_);
    LLADA_TRY_STATUS(check_config(c_, file_));
    return std::move(c_);
  }

 private:
  // Where a key is missing, the class's own default.
  Status geometry() {
    LLADA_TRY(c_.layers, hf_integer(text_, "num_hidden_layers", 30));
    LLADA_TRY(c_.width, hf_integer(text_, "hidden_size"));
    LLADA_TRY(c_.ffn_width, hf_integer(text_, "intermediate_size"));
    LLADA_TRY(c_.heads, hf_integer(text_, "num_attention_heads", 8));
    LLADA_TRY(c_.kv_heads, hf_integer(text_, "num_key_value_heads", 4));
    LLADA_TRY(c_.head_dim, hf_integer(text_, "head_dim", 256));
    LLADA_TRY(c_.vocab, hf_integer(text_, "vocab_size", 262144));
    LLADA_TRY(c_.context, hf_integer(text_, "max_position_embeddings", 131072));
    LLADA_TRY(c_.experts, hf_integer(text_, "num_experts"));
    LLADA_TRY(c_.experts_used, hf_integer(text_, "top_k_experts"));
    LLADA_TRY(c_.expert_ffn_width, hf_integer(text_, "moe_intermediate_size"));
    LLADA_TRY(c_.rms_eps, hf_single(text_, "rms_norm_eps", 1e-6));
    LLADA_TRY(g_.window, hf_integer(text_, "sliding_window", 512));
    LLADA_TRY(g_.logit_cap, hf_single(text_, "final_logit_softcapping", 30));
    LLADA_TRY(c_.canvas.length, hf_integer(root_, "canvas_length", 256));
    c_.rotary_dims = c_.head_dim;
    c_.qk_norm = c_.norm_topk = c_.tied_head = true;
    LLADA_TRY_STATUS(hf_only(text_, "hidden_activation", {"gelu_pytorch_tanh"}));
    LLADA_TRY_STATUS(hf_only(text_, "attention_bias", {false}));
    LLADA_TRY_STATUS(hf_only(text_, "use_bidirectional_attention", {"vision"}));
    LLADA_TRY_STATUS(hf_only(text_, "tie_word_embeddings", {true}));
    LLADA_TRY_STATUS(hf_only(text_, "hidden_size_per_layer_input", {0}));
    LLADA_TRY_STATUS(hf_only(text_, "num_kv_shared_layers", {0}));
    LLADA_TRY_STATUS(no_other_numbers(text_));
    return hf_only(root_, "tie_word_embeddings", {true});
  }

  Status layers() {
    if (c_.layers < 1 || c_.layers > 1024) return {};  // check_config() says so
    const Json* types = text_.find("layer_types");
    for (int64_t i = 0; types == nullptr && i < c_.layers; ++i) g_.global.push_back(i % 6 == 5 || i + 1 == c_.layers);
    if (types == nullptr) return {};
    if (!types->is_array() || std::ssize(*types) != c_.layers)
      return text_.fault(
          "layer_types",
          fmt::format("found {}, needed a list of {}",
                      types->is_array() ? fmt::format("a list of {}", types->size()) : shown(*types), c_.layers));
    for (const Json& type : *types) {
      if (type != "sliding_attention" && type != "full_attention")
        return text_.wrong("layer_types", type, "sliding_attention or full_attention for each layer");
      g_.global.push_back(type == "full_attention");
    }
    return {};
  }

  // Either for all of them, or as the same numbers for each.
  Status global_layers() {
    LLADA_TRY(g_.head_dim, hf_integer(text_, "global_head_dim", 512));
    LLADA_TRY(g_.kv_heads, hf_integer(text_, "num_global_key_value_heads", c_.kv_heads));
    if (text_.find("per_layer_config") == nullptr) return {};
    LLADA_TRY(const Fields by_layer, text_.object("per_layer_config"));
    bool first = true;
    for (size_t i = 0; i < g_.global.size(); ++i) {
      const std::string layer = fmt::format("{}", i);
      const Json* given = by_layer.find(layer);
      if (given == nullptr && !g_.global[i]) continue;
      if (given == nullptr)
        return invalid("{}: text_config.per_layer_config.{} is missing: that layer is global", file_, i);
      LLADA_TRY(const Fields own, by_layer.object(layer));
      int64_t head_dim = 0, kv_heads = 0;
      LLADA_TRY(head_dim, hf_integer(own, "head_dim", c_.head_dim));
      LLADA_TRY(kv_heads, hf_integer(own, "num_key_value_heads", c_.kv_heads));
      const int64_t needed_dim = !g_.global[i] ? c_.head_dim
                                 : first       ? head_dim
                                               : g_.head_dim,
                    needed_heads = !g_.global[i] ? c_.kv_heads
                                   : first       ? kv_heads
                                                 : g_.kv_heads;
      if (head_dim != needed_dim || kv_heads != needed_heads)
        return invalid(
            "{}: text_config.per_layer_config.{} has {} key/value heads of {}, {} of {} needed as in other "
            "layers of its kind",
            file_, i, kv_heads, head_dim, needed_heads, needed_dim);
      if (!g_.global[i]) continue;
      g_.head_dim = head_dim, g_.kv_heads = kv_heads;
      first = false;
    }
    return {};
  }

  Status rotation() {
    double part = 0.25;
    c_.rope_theta = 1e4f;
    if (text_.find("rope_parameters") != nullptr) {
      LLADA_TRY(const Fields ropes, text_.object("rope_parameters"));
      LLADA_TRY(const Fields sliding, ropes.object("sliding_attention"));
      LLADA_TRY(const Fields full, ropes.object("full_attention"));
      LLADA_TRY_STATUS(hf_only(sliding, "rope_type", {"default"}));
      LLADA_TRY_STATUS(hf_only(sliding, "partial_rotary_factor", {1, 1.0}));
      LLADA_TRY_STATUS(hf_only(full, "rope_type", {"proportional"}));
      LLADA_TRY_STATUS(hf_only(full, "factor", {1, 1.0}));
      LLADA_TRY(c_.rope_theta, hf_single(sliding, "rope_theta", 1e4));
      LLADA_TRY(g_.rope_theta, hf_single(full, "rope_theta", 1e6));
      LLADA_TRY(part, hf_number(full, "partial_rotary_factor", 1));
    }
    if (!(part <= 1)) return invalid("{}: partial_rotary_factor is {}, 0 to 1 needed", file_, part);
    if (g_.head_dim < 0 || g_.head_dim > 8192) return {};  // check_config() says so
    g_.rotary_dims = 2 * (static_cast<int64_t>(part * static_cast<double>(g_.head_dim)) / 2);
    return {};
  }

  Status token_ids() {
    LLADA_TRY(c_.bos_id, one_token({&text_}, "bos_token_id"));
    LLADA_TRY(c_.pad_id, one_token({&text_}, "pad_token_id"));
    return read_ends({&generation_, &root_, &text_}, c_);
  }

  Status sampler() {
    UniformCanvas& u = c_.canvas;
    LLADA_TRY(u.steps, hf_integer(generation_, "max_denoising_steps", u.steps));
    LLADA_TRY(u.stability_threshold, hf_integer(generation_, "stability_threshold", u.stability_threshold));
    LLADA_TRY(u.t_min, hf_number(generation_, "t_min", u.t_min));
    LLADA_TRY(u.t_max, hf_number(generation_, "t_max", u.t_max));
    LLADA_TRY(u.confidence_threshold, hf_number(generation_, "confidence_threshold", u.confidence_threshold));
    if (generation_.find("sampler_config") == nullptr) return {};
    LLADA_TRY(const Fields own, generation_.object("sampler_config"));
    LLADA_TRY(u.entropy_bound, hf_number(own, "entropy_bound", u.entropy_bound));
    return {};
  }

  const Fields &root_, &text_, &generation_;
  std::string_view file_;
  ModelConfig c_;
  DiffusionGemma g_;
};

}  // namespace
}  // namespace hf_gemma

Result<ModelConfig> read_diffusion_gemma_config(const Json& root, const Json& generation, std::string_view file) {
  const Fields all(root, std::string(file)), more(generation, fmt::format("{}: generation_config.json", file));
  LLADA_TRY(const Fields text, all.object("text_config"));
  return hf_gemma::Reader(all, text, more, file).read();
}

}  // namespace llada
