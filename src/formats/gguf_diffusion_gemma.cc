// GGUF of DiffusionGemma, as llama.cpp's open pull requests write it: numbers of the sliding layers under keys that end
// in _swa, which layers slide and how many key/value heads each has as arrays, the canvas under diffusion.*.
#include <algorithm>

#include "formats/diffusion_gemma_files.h"
#include "formats/gguf_fields.h"
#include "formats/gguf_model.h"
#include "formats/tensor_table.h"
#include "tensor/quantize.h"

namespace llada {
namespace gguf_gemma {
namespace {

class Reader {
 public:
  Reader(const GgufFile& file, uint64_t file_bytes, std::string_view name)
      : file_(file), file_bytes_(file_bytes), name_(name), fields_(file, name) {}

  Result<ModelRecord> read() {
    record_.format = "gguf";
    c_.family = &kDiffusionGemmaFamily;
    LLADA_TRY(record_.tokenizer, read_gguf_tokenizer(file_, file_bytes_, name_));
    LLADA_TRY_STATUS(geometry());
    LLADA_TRY_STATUS(layers());
    LLADA_TRY_STATUS(rotation());
    LLADA_TRY_STATUS(sampler());
    LLADA_TRY_STATUS(token_ids());
    LLADA_TRY_STATUS(fields_.finish(key(""), c_.notes));
    c_.gemma = std::move(g_);
    LLADA_TRY_STATUS(check_config(c_, name_));
    if (record_.tokenizer && std::ssize(record_.tokenizer->tokens) != c_.vocab)
      return invalid("{}: tokenizer.ggml.tokens has {} tokens, the vocabulary size {} needed", name_,
                     record_.tokenizer->tokens.size(), c_.vocab);
    LLADA_TRY_STATUS(tensors());
    LLADA_TRY_STATUS(check_frequencies());
    return std::move(record_);
  }

 private:
  static std::string key(std::string_view suffix) { return fmt::format("{}.{}", kDiffusionGemmaArch, suffix); }
  Result<int64_t> integer(std::string_view suffix, std::optional<int64_t> absent = std::nullopt) const {
    return fields_.integer(key(suffix), absent);
  }
  Result<float> single(std::string_view suffix, std::optional<double> absent = std::nullopt) const {
    LLADA_TRY(const double value, fields_.positive(key(suffix), absent));
    return static_cast<float>(value);
  }
  Status only(std::string_view suffix, int64_t needed) const {
    return fields_.only(key(suffix), {needed}, fmt::format("{}", needed));
  }

  Status geometry() {
    LLADA_TRY(c_.name, fields_.string("general.name", ""));
    LLADA_TRY(c_.layers, integer("block_count"));
    LLADA_TRY(c_.width, integer("embedding_length"));
    LLADA_TRY(c_.ffn_width, integer("feed_forward_length"));
    LLADA_TRY(c_.context, integer("context_length"));
    LLADA_TRY(c_.heads, integer("attention.head_count"));
    LLADA_TRY(c_.head_dim, integer("attention.key_length_swa"));
    LLADA_TRY_STATUS(only("attention.value_length_swa", c_.head_dim));
    LLADA_TRY_STATUS(only("rope.dimension_count_swa", c_.head_dim));
    c_.rotary_dims = c_.head_dim;
    LLADA_TRY(g_.head_dim, integer("attention.key_length"));
    LLADA_TRY_STATUS(only("attention.value_length", g_.head_dim));
    LLADA_TRY_STATUS(only("rope.dimension_count", g_.head_dim));
    LLADA_TRY(g_.window, integer("attention.sliding_window"));
    LLADA_TRY(c_.rms_eps, single("attention.layer_norm_rms_epsilon"));
    LLADA_TRY(c_.experts, integer("expert_count"));
    LLADA_TRY(c_.experts_used, integer("expert_used_count"));
    LLADA_TRY(c_.expert_ffn_width, integer("expert_feed_forward_length"));
    LLADA_TRY(g_.logit_cap, single("final_logit_softcapping", 30));
    LLADA_TRY_STATUS(fields_.off(key("attention.causal")));
    c_.qk_norm = c_.norm_topk = c_.tied_head = true;
    const GgufTensor* table = file_.tensor("token_embd.weight");
    const int64_t rows = table != nullptr ? table->view.shape.dims[1] : 0;
    LLADA_TRY(c_.vocab, integer("vocab_size", record_.tokenizer ? std::ssize(record_.tokenizer->tokens) : rows));
    return {};
  }

  // A number for each layer; one for all in a file that has no array.
  Result<std::vector<int64_t>> by_layer(std::string_view suffix) const {
    const GgufValue* value = fields_.find(key(suffix));
    if (value == nullptr) return invalid("{}: metadata key {} is missing, an array needed", name_, key(suffix));
    if (c_.layers < 1 || c_.layers > 1024)
      return invalid("{}: number of layers is {}, 1 to 1024 needed", name_, c_.layers);
    const auto layers = static_cast<size_t>(c_.layers);
    if (const auto one = value->as_integer()) return std::vector<int64_t>(layers, *one);
    std::vector<int64_t> list;
    if (value->type == GgufType::array && value->count == layers && value->element == GgufType::boolean)
      for (const std::byte b : value->data) list.push_back(b != std::byte{0});
    else if (value->type == GgufType::array && value->count == layers)
      list = value->as_integers().value_or(list);
    if (list.size() != layers)
      return invalid("{}: {} is {} x {}, one for each of {} layers needed", name_, key(suffix), value->count,
                     gguf_type_name(value->type == GgufType::array ? value->element : value->type), layers);
    return list;
  }

  // Layers of one kind have the same number of heads.
  Status layers() {
    LLADA_TRY(const auto slides, by_layer("attention.sliding_window_pattern"));
    LLADA_TRY(const auto heads, by_layer("attention.head_count_kv"));
    for (size_t i = 0; i < slides.size(); ++i) {
      g_.global.push_back(slides[i] == 0);
      int64_t& of_kind = slides[i] == 0 ? g_.kv_heads : c_.kv_heads;
      if (of_kind == 0) of_kind = heads[i];
      if (of_kind != heads[i])
        return invalid("{}: {}: layer {} has {}, other {} layers {}", name_, key("attention.head_count_kv"), i,
                       heads[i], slides[i] == 0 ? "global" : "sliding", of_kind);
    }
    if (g_.kv_heads == 0) g_.kv_heads = c_.kv_heads;
    if (c_.kv_heads == 0) c_.kv_heads = g_.kv_heads;
    return {};
  }

  Status rotation() {
    LLADA_TRY(c_.rope_theta, single("rope.freq_base_swa", 1e4));
    LLADA_TRY(g_.rope_theta, single("rope.freq_base", 1e6));
    // Which of a head turns stands in a tensor: 1 for a pair that does, a divisor beyond all angles for one that rests.
    g_.rotary_dims = g_.head_dim;
    const GgufTensor* factors = file_.tensor(kRopeFactors);
    if (factors == nullptr)
      return invalid("{}: tensor rope_freqs.weight is missing, {} needed", name_, g_.head_dim / 2);
    frequencies_ = floats_of(factors->view);
    const auto rests = std::ranges::find_if(frequencies_, [](float f) { return f >= 1e29f; });
    g_.rotary_dims = 2 * (rests - frequencies_.begin());
    return {};
  }
  static std::vector<float> floats_of(const TensorView& view) {
    constexpr int64_t kMost = 8192;
    if (view.shape.rank != 1 || view.shape.columns() > kMost || traits(view.type).quantized) return {};
    std::vector<float> floats(static_cast<size_t>(view.shape.columns()));
    dequantize_row(view.type, view.data, floats.data(), std::ssize(floats));
    return floats;
  }
  Status check_frequencies() const {
    for (int64_t i = 0; i < std::ssize(frequencies_); ++i) {
      const float f = frequencies_[static_cast<size_t>(i)];
      if (2 * i < record_.config.gemma->rotary_dims ? f != 1 : !(f >= 1e29f))
        return invalid("{}: tensor rope_freqs.weight: factor {} is {}, ones and behind them 1e30 needed", name_, i, f);
    }
    return {};
  }

  Status sampler() {
    const auto name = [](std::string_view leaf) { return fmt::format("diffusion.{}", leaf); };
    UniformCanvas& u = c_.canvas;
    LLADA_TRY(u.length, fields_.integer(name("canvas_length")));
    LLADA_TRY(u.steps, fields_.integer(name("eb_max_steps"), u.steps));
    LLADA_TRY(u.stability_threshold, fields_.integer(name("eb_stability_threshold"), u.stability_threshold));
    LLADA_TRY(u.t_min, fields_.positive(name("eb_t_min"), u.t_min));
    LLADA_TRY(u.t_max, fields_.positive(name("eb_t_max"), u.t_max));
    LLADA_TRY(u.entropy_bound, fields_.positive(name("eb_entropy_bound"), u.entropy_bound));
    LLADA_TRY(u.confidence_threshold, fields_.positive(name("eb_confidence_threshold"), u.confidence_threshold));
    return fields_.off(name("shift_logits"));
  }

  Status token_ids() {
    LLADA_TRY(c_.bos_id, fields_.token("tokenizer.ggml.bos_token_id"));
    LLADA_TRY(c_.eos_id, fields_.token("tokenizer.ggml.eos_token_id"));
    LLADA_TRY(c_.pad_id, fields_.token("tokenizer.ggml.padding_token_id"));
    LLADA_TRY(c_.eot_id, fields_.token("tokenizer.ggml.eot_token_id"));
    LLADA_TRY(c_.end_ids, fields_.further_ends());
    return {};
  }

  Status tensors() {
    TensorTable table(record_, name_);
    LLADA_TRY_STATUS(table.expect(file_bytes_, file_.tensors().size(), sizeof(GgufTensor)));
    for (const GgufTensor& t : file_.tensors())
      LLADA_TRY_STATUS(table.add({std::string(t.name), std::string(t.name), t.view, t.offset}));
    return index_and_check_tensors(record_, name_);
  }

  const GgufFile& file_;
  uint64_t file_bytes_;
  std::string_view name_;
  GgufFields fields_;
  ModelRecord record_;
  ModelConfig& c_ = record_.config;
  DiffusionGemma g_;
  std::vector<float> frequencies_;  // factors of rope_freqs.weight
};

}  // namespace
}  // namespace gguf_gemma

void add_diffusion_gemma_metadata(GgufWriter& out, const ModelConfig& c) {
  const DiffusionGemma& g = *c.gemma;
  const auto key = [](std::string_view suffix) { return fmt::format("{}.{}", kDiffusionGemmaArch, suffix); };
  for (const auto& [suffix, value] :
       std::initializer_list<std::pair<std::string_view, int64_t>>{{"block_count", c.layers},
                                                                   {"context_length", c.context},
                                                                   {"embedding_length", c.width},
                                                                   {"feed_forward_length", c.ffn_width},
                                                                   {"attention.head_count", c.heads},
                                                                   {"attention.key_length", g.head_dim},
                                                                   {"attention.value_length", g.head_dim},
                                                                   {"attention.key_length_swa", c.head_dim},
                                                                   {"attention.value_length_swa", c.head_dim},
                                                                   {"attention.sliding_window", g.window},
                                                                   {"rope.dimension_count", g.head_dim},
                                                                   {"rope.dimension_count_swa", c.head_dim},
                                                                   {"expert_count", c.experts},
                                                                   {"expert_used_count", c.experts_used},
                                                                   {"expert_feed_forward_length", c.expert_ffn_width},
                                                                   {"attention.shared_kv_layers", 0},
                                                                   {"embedding_length_per_layer_input", 0},
                                                                   {"vocab_size", c.vocab}})
    out.add_u32(key(suffix), static_cast<uint32_t>(value));
  std::vector<int32_t> heads;
  std::vector<bool> slides;
  for (const bool global : g.global) {
    heads.push_back(static_cast<int32_t>(global ? g.kv_heads : c.kv_heads));
    slides.push_back(!global);
  }
  out.add_i32s(key("attention.head_count_kv"), heads);
  out.add_bools(key("attention.sliding_window_pattern"), slides);
  out.add_f32(key("attention.layer_norm_rms_epsilon"), c.rms_eps);
  out.add_f32(key("rope.freq_base"), g.rope_theta);
  out.add_f32(key("rope.freq_base_swa"), c.rope_theta);
  out.add_f32(key("final_logit_softcapping"), g.logit_cap);
  out.add_bool(key("attention.causal"), false);
  const UniformCanvas &u = c.canvas, usual;
  out.add_u32("diffusion.canvas_length", static_cast<uint32_t>(u.length));
  const auto count = [&](const char* name, int64_t value, int64_t absent) {
    if (value != absent) out.add_u32(name, static_cast<uint32_t>(value));
  };
  const auto number = [&](const char* name, double value, double absent) {
    if (value != absent) out.add_f32(name, static_cast<float>(value));
  };
  count("diffusion.eb_max_steps", u.steps, usual.steps);
  count("diffusion.eb_stability_threshold", u.stability_threshold, usual.stability_threshold);
  number("diffusion.eb_t_min", u.t_min, usual.t_min);
  number("diffusion.eb_t_max", u.t_max, usual.t_max);
  number("diffusion.eb_entropy_bound", u.entropy_bound, usual.entropy_bound);
  number("diffusion.eb_confidence_threshold", u.confidence_threshold, usual.confidence_threshold);
}

Result<ModelRecord> read_diffusion_gemma_gguf(const GgufFile& file, uint64_t file_bytes, std::string_view name) {
  return gguf_gemma::Reader(file, file_bytes, name).read();
}

}  // namespace llada
