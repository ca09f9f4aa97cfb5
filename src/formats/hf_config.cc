#include "formats/hf_config.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>

#include "formats/diffusion_gemma_files.h"
#include "formats/family.h"
#include "formats/hf_fields.h"
#include "formats/other_models.h"
#include "formats/printable.h"
#include "formats/rounded_scheme.h"

namespace llada {
namespace {

class ConfigReader : Fields {
 public:
  ConfigReader(const Json& root, const Json& generation, std::string_view file)
      : Fields(root, std::string(file)), generation_(generation, std::string(file)), file_(file) {}

  Result<ModelConfig> read() {
    LLADA_TRY(family_, family());
    config_ = config_of(*family_);
    LLADA_TRY_STATUS(geometry());
    LLADA_TRY_STATUS(quirks());
    LLADA_TRY_STATUS(refusals());
    if (family_->mixture()) LLADA_TRY_STATUS(experts());
    LLADA_TRY(config_.mask_id, token("mask_token_id"));
    LLADA_TRY(config_.bos_id, token("bos_token_id"));
    LLADA_TRY(config_.pad_id, token("pad_token_id"));
    LLADA_TRY(config_.eot_id, token("eot_token_id"));
    LLADA_TRY_STATUS(read_ends({this, &generation_}, config_));
    note_sampling();
    if (config_.mask_id < 0 && family_->has_mask(config_.vocab)) config_.mask_id = family_->mask_id;
    LLADA_TRY_STATUS(check_config(config_, file_));
    return config_;
  }

 private:
  // config.json leaves some ids to generation_config.json.
  Result<int32_t> token(std::string_view name) const { return one_token({this, &generation_}, name); }

  Result<const Family*> family() const {
    const Json* list = find("architectures");
    if (list == nullptr || (list->is_array() && list->empty())) return family_of_model_type();
    const std::string such = fmt::format("a list such as [\"{}\"]", families().front()->classes.front());
    if (!list->is_array() || !list->front().is_string()) return wrong("architectures", *list, such);
    for (const Family* one : families())
      if (std::ranges::count(one->classes, list->front().get_ref<const std::string&>()) > 0) return one;
    LLADA_TRY_STATUS(known("architectures", list->front()));
    if (const Json* type = find("model_type")) LLADA_TRY_STATUS(known("model_type", *type));
    return wrong("architectures", list->front(), all_names(&Family::classes));
  }

  // Where the class is not named. One of two families of one type is a mixture.
  Result<const Family*> family_of_model_type() const {
    const Json* type = find("model_type");
    if (type == nullptr)
      return unfit("architectures", fmt::format("a list such as [\"{}\"]", families().front()->classes.front()));
    const Family* found = nullptr;
    for (const Family* one : families()) {
      if (!type->is_string() || std::ranges::count(one->model_types, type->get_ref<const std::string&>()) == 0)
        continue;
      if (found == nullptr || one->mixture() == (find({"num_experts", "num_local_experts"}) != nullptr)) found = one;
    }
    if (found != nullptr) return found;
    LLADA_TRY_STATUS(known("model_type", *type));
    return wrong("model_type", *type, all_names(&Family::model_types));
  }

  // Refuses a model that is known and not computed.
  Status known(std::string_view key, const Json& name) const {
    if (!name.is_string()) return {};
    const std::string why = why_not_computed(name.get_ref<const std::string&>());
    if (why.empty()) return {};
    return fault(key, fmt::format("found {}, which {}", shown(name), why));
  }

  // The first names of the families of diffusion models: "llada, llada_moe or Dream".
  static std::string all_names(FamilyNames Family::* names) {
    std::vector<std::string_view> list;
    for (const Family* one : families())
      if (!one->autoregressive) list.push_back((one->*names).front());
    const std::string_view last = list.back();
    list.pop_back();
    return fmt::format("{} or {}", fmt::join(list, ", "), last);
  }

  Status geometry() {
    ModelConfig& c = config_;
    LLADA_TRY(c.layers, hf_integer(*this, {"num_hidden_layers", "n_layers"}));
    LLADA_TRY(c.width, hf_integer(*this, {"hidden_size", "d_model"}));
    LLADA_TRY(c.heads, hf_integer(*this, {"num_attention_heads", "n_heads"}));
    // A class may have a number of its own; null means the heads there too.
    const bool null = all().contains("num_key_value_heads");
    LLADA_TRY(c.kv_heads, hf_integer(*this, {"num_key_value_heads", "n_kv_heads"},
                                     null ? c.heads : family_->kv_heads.value_or(c.heads)));
    if (c.heads < 1) return invalid("{}: num_attention_heads is {}, at least 1 needed", file_, c.heads);
    const bool usual_head = !all().contains("head_dim") && family_->head_dim;
    LLADA_TRY(c.head_dim, hf_integer(*this, "head_dim", usual_head ? *family_->head_dim : c.width / c.heads));
    if (find("head_dim") == nullptr && !usual_head && c.width % c.heads != 0)
      return invalid("{}: hidden_size is {}, a multiple of the {} heads needed", file_, c.width, c.heads);
    c.rotary_dims = c.head_dim;
    for (const auto key : family_->block_keys) {
      LLADA_TRY(c.attention_block, hf_integer(*this, key, c.attention_block));
    }
    if (family_->partial_rotation) LLADA_TRY_STATUS(partial_rotation());
    // OLMo pads the table: embedding_size rows, of which vocab_size are tokens.
    LLADA_TRY(c.vocab, hf_integer(*this, {"embedding_size", "vocab_size"}));
    LLADA_TRY(c.context, hf_integer(*this, {"max_position_embeddings", "max_sequence_length"}, family_->context));
    if (family_->router == Router::softmax) return {};
    if (family_->router == Router::sigmoid) {
      LLADA_TRY(c.dense_layers, hf_integer(*this, "first_k_dense_replace", 0));
      if (c.dense_layers == 0) return {};
    }
    LLADA_TRY(const auto ratio, hf_integer(*this, "mlp_ratio", 0));
    const bool product_fits = ratio >= 0 && ratio < 1024 && c.width >= 0 && c.width < (int64_t{1} << 32);
    LLADA_TRY(c.ffn_width, hf_integer(*this, {"intermediate_size", "mlp_hidden_size"},
                                      ratio > 0 && product_fits ? std::optional(ratio * c.width) : std::nullopt));
    return {};
  }

  // LLaDA2: the leading part of a head. The published code takes it from the factor alone.
  Status partial_rotation() {
    ModelConfig& c = config_;
    LLADA_TRY(const auto factor, rope_number("partial_rotary_factor", family_->rotary_factor));
    c.rotary_dims = static_cast<int64_t>(static_cast<double>(c.head_dim) * std::min(factor, 1.0f));
    LLADA_TRY(const auto given, hf_integer(*this, "rotary_dim", c.rotary_dims));
    if (given != c.rotary_dims)
      c.notes.push_back(
          fmt::format("rotary_dim is {}: LLaDA2's published code does not read it; partial_rotary_factor "
                      "gives {} of {} dimensions",
                      given, c.rotary_dims, c.head_dim));
    return {};
  }

  // Newer writers keep the numbers of RoPE in an object of their own.
  Result<float> rope_number(std::string_view name, double absent) const {
    const Json* parameters = find("rope_parameters");
    if (find(name) != nullptr || parameters == nullptr || !parameters->is_object())
      return hf_single(*this, name, absent);
    LLADA_TRY(const Fields inner, object("rope_parameters"));
    return hf_single(inner, name, absent);
  }

  Status quirks() {
    ModelConfig& c = config_;
    LLADA_TRY(c.rms_eps, hf_single(*this, {"rms_norm_eps", "layer_norm_eps"}, family_->rms_eps));
    LLADA_TRY(c.rope_theta, rope_number("rope_theta", 10000.0));
    c.rope_pairing = RopePairing::half_split;
    LLADA_TRY(c.qkv_bias, boolean({"attention_bias", "include_qkv_bias"}, family_->bias_unless_said));
    c.qkv_bias = c.qkv_bias || family_->qkv_bias;
    if (family_->head_norms != HeadNorms::none) {
      LLADA_TRY(c.qk_norm,
                boolean({"qk_layernorm", "use_qk_norm", "qk_norm"}, family_->head_norms == HeadNorms::usual));
    }
    LLADA_TRY(c.tied_head, boolean("tie_word_embeddings", false));
    if (is_olmo()) {  // its code reads weight_tying alone, and its class ties where the key is missing
      LLADA_TRY(c.tied_head, boolean("weight_tying", true));
    } else if (family_->olmo_keys) {
      LLADA_TRY(const auto tied, boolean("weight_tying", false));
      c.tied_head = c.tied_head || tied;
    }
    return {};
  }

  // As LLaDA was published. Files with the standard names come from elsewhere.
  bool is_olmo() const { return family_->olmo_keys && find("d_model") != nullptr; }

  // Keys without which the published class builds another kind of model than we compute.
  Status needed(std::string_view name, const Json& value) const {
    if (find(name) != nullptr) return {};
    return unfit(name, shown(value));
  }

  Status refusals() {
    for (const auto name : {"clip_qkv", "final_logit_softcapping"})
      if (const Json* value = find(name)) return wrong(name, *value, "null");
    LLADA_TRY_STATUS(no_other_numbers(*this));
    const Json* window = find("sliding_window");
    if (family_->autoregressive && window != nullptr && find("use_sliding_window") == nullptr)
      return wrong("sliding_window", *window, "null");
    note_sliding_layers();
    for (const auto name :
         {"alibi", "include_bias", "bias_for_layer_norm", "attention_layer_norm", "scale_logits", "input_emb_norm",
          "multi_query_attention", "use_sliding_window", "use_bias", "use_qkv_bias"})
      LLADA_TRY_STATUS(hf_only(*this, name, {false}));
    if (is_olmo()) {
      LLADA_TRY_STATUS(needed("rope", true));
      LLADA_TRY_STATUS(needed("block_type", "llama"));
      LLADA_TRY_STATUS(needed("layer_norm_type", "rms"));
      LLADA_TRY_STATUS(needed("activation_type", "silu"));
    }
    if (family_->needs_rope_theta && find({"rope_theta", "rope_parameters"}) == nullptr)
      return unfit("rope_theta", "a number");
    LLADA_TRY_STATUS(hf_only(*this, "rope", {true}));
    LLADA_TRY_STATUS(hf_only(*this, "block_type", {"llama"}));
    LLADA_TRY_STATUS(hf_only(*this, "layer_norm_type", {"rms"}));
    LLADA_TRY_STATUS(hf_only(*this, "activation_type", {"silu"}));
    LLADA_TRY_STATUS(hf_only(*this, "hidden_act", {"silu"}));
    if (!family_->partial_rotation) LLADA_TRY_STATUS(hf_only(*this, "partial_rotary_factor", {1, 1.0}));
    for (const auto name : {"rope_scaling", "rope_parameters"}) {
      const Json* scaling = find(name);
      if (scaling == nullptr || *scaling == false) continue;  // RND1's class writes false
      if (!scaling->is_object()) return wrong(name, *scaling, "null, false or an object");
      LLADA_TRY(const Fields numbers, object(name));
      for (const auto& [key, value] : scaling->items())
        if (value.is_object()) return numbers.wrong(printable(key), value, "the same rotation in all layers");
      // A factor scales by a rule, and which one nobody can guess.
      if (scaling->contains("factor") && !scaling->contains("rope_type") && !scaling->contains("type"))
        LLADA_TRY_STATUS(numbers.text("rope_type"));
      for (const auto kind : {"rope_type", "type"})
        if (const auto found = scaling->find(kind); found != scaling->end() && *found != "default") {
          if (*found != "yarn" || !family_->yarn) return numbers.wrong(kind, *found, "no scaling");
          LLADA_TRY(config_.yarn, yarn(numbers));
        }
      LLADA_TRY(config_.query_scale, query_scale(numbers));
    }
    return {};
  }

  // Ministral 3. The later of two objects with rotary numbers counts, and both say the same.
  Result<QueryScale> query_scale(const Fields& scaling) const {
    QueryScale scale;
    LLADA_TRY(scale.beta, hf_single(scaling, "llama_4_scaling_beta", config_.query_scale.beta));
    if (scale.beta != 0) {
      LLADA_TRY(scale.period, hf_integer(scaling, "original_max_position_embeddings", config_.context));
    }
    return scale;
  }

  // Some writers fill layer_types in from a sliding window that is switched off.
  void note_sliding_layers() {
    const Json* types = find("layer_types");
    if (types == nullptr || !types->is_array() || std::ranges::find(*types, "sliding_attention") == types->end())
      return;
    config_.notes.push_back(
        "layer_types has sliding_attention: the published code does not read it, and every layer attends to all here");
  }

  // Notes the sampling settings of generation_config.json, which options of this program give; transformers' own
  // defaults say nothing.
  void note_sampling() {
    const std::pair<std::string_view, Json> usual[] = {{"do_sample", false},
                                                       {"temperature", 1.0},
                                                       {"top_p", 1.0},
                                                       {"top_k", 50},
                                                       {"min_p", 0},
                                                       {"typical_p", 1.0},
                                                       {"repetition_penalty", 1.0},
                                                       {"num_beams", 1},
                                                       {"no_repeat_ngram_size", 0},
                                                       {"suppress_tokens", {}},
                                                       {"begin_suppress_tokens", {}},
                                                       {"bad_words_ids", {}}};
    std::string found;
    for (const auto& [name, value] : usual)
      if (const Json* given = generation_.find(name); given != nullptr && !given->is_null() && *given != value)
        found += fmt::format("{}{} {}", found.empty() ? "" : ", ", name, shown(*given));
    if (!found.empty())
      config_.remarks.push_back(fmt::format("generation_config.json has {}, which is not read", found));
  }

  // Where two magnitudes are given, theirs is the one over the other's.
  Result<Yarn> yarn(const Fields& scaling) {
    Yarn y;
    LLADA_TRY(const double factor, scaling.real("factor", 0, 1e30));
    y.factor = static_cast<float>(factor);
    LLADA_TRY(y.original_context, hf_integer(scaling, "original_max_position_embeddings", config_.context));
    const double quotient = static_cast<double>(config_.context) / static_cast<double>(y.original_context);
    if (scaling.find("original_max_position_embeddings") != nullptr && quotient != static_cast<double>(y.factor))
      config_.notes.push_back(
          fmt::format("YaRN's factor is {} and the context {} of {} original positions: the factor is followed, as "
                      "transformers 5 does; transformers 4 takes their quotient",
                      y.factor, config_.context, y.original_context));
    LLADA_TRY(y.beta_fast, hf_single(scaling, "beta_fast", 32));
    LLADA_TRY(y.beta_slow, hf_single(scaling, "beta_slow", 1));
    LLADA_TRY_STATUS(hf_only(scaling, "truncate", {true}));
    const auto magnitude = [&](double scale) { return y.factor <= 1 ? 1 : 0.1 * scale * std::log(y.factor) + 1; };
    LLADA_TRY(const auto scale, hf_single(scaling, "mscale", 0));
    LLADA_TRY(const auto scale_all, hf_single(scaling, "mscale_all_dim", 0));
    if (scaling.find("attention_factor") != nullptr) {
      LLADA_TRY(y.attention_factor, hf_single(scaling, "attention_factor", 1));
    } else if (scale > 0 && scale_all > 0) {
      y.attention_factor = magnitude(static_cast<double>(scale)) / magnitude(static_cast<double>(scale_all));
    }
    return y;
  }

  Status experts() {
    ModelConfig& c = config_;
    LLADA_TRY(c.experts, hf_integer(*this, {"num_experts", "num_local_experts"}, family_->experts));
    if (c.experts < 1) return invalid("{}: num_experts is {}, at least 1 needed", file_, c.experts);
    LLADA_TRY(c.experts_used, hf_integer(*this, "num_experts_per_tok", family_->experts_used));
    LLADA_TRY(c.expert_ffn_width, hf_integer(*this, {"expert_intermediate_size", "moe_intermediate_size"}));
    LLADA_TRY_STATUS(gates());
    if (family_->router == Router::sigmoid) return sigmoid_router();
    LLADA_TRY_STATUS(hf_only(*this, "shared_expert_intermediate_size", {0}));
    LLADA_TRY_STATUS(hf_only(*this, "num_shared_experts", {0}));
    LLADA_TRY_STATUS(hf_only(*this, "moe_router_enable_expert_bias", {false}));
    LLADA_TRY_STATUS(hf_only(*this, "routed_scaling_factor", {1, 1.0}));
    LLADA_TRY_STATUS(hf_only(*this, "moe_router_score_function", {"softmax"}));
    LLADA_TRY_STATUS(hf_only(*this, "first_k_dense_replace", {0}));
    const Json* every = find("moe_layer_freq");
    if (every == nullptr) return {};
    const bool all =
        every->is_array() ? std::ranges::all_of(*every, [](const Json& one) { return one == 1; }) : *every == 1;
    return all ? Status{} : wrong("moe_layer_freq", *every, "1 for every layer");
  }

  // A key of this project asks for renormalised gates in LLaDA-MoE's shape. So does norm_topk_prob where model_type is
  // llada_moe, which only tools/train has written.
  Status gates() {
    constexpr const char *kKey = "norm_topk_prob", *kOwnKey = "llada_renormalise_gates";
    LLADA_TRY(const auto said, boolean(kKey, false));
    const Json* kind = find("model_type");
    LLADA_TRY(const auto own, boolean(kOwnKey, said && kind != nullptr && *kind == "llada_moe"));
    set_gates(config_, find(kKey) != nullptr ? std::optional(said) : std::nullopt, own, kKey, kOwnKey);
    return {};
  }

  // LLaDA2: sigmoid scores with a selection bias, groups, a scale and shared experts.
  Status sigmoid_router() {
    ModelConfig& c = config_;
    c.sigmoid_router = true;
    LLADA_TRY_STATUS(hf_only(*this, "score_function", {"sigmoid"}));
    LLADA_TRY_STATUS(hf_only(*this, "moe_router_enable_expert_bias", {true}));
    LLADA_TRY(c.expert_groups, hf_integer(*this, "n_group", family_->expert_groups));
    LLADA_TRY(c.expert_groups_used, hf_integer(*this, "topk_group", family_->expert_groups_used));
    LLADA_TRY(c.expert_capacity, hf_integer(*this, "expert_capacity", 0));
    LLADA_TRY(c.expert_block, hf_integer(*this, "block_size", c.attention_block));
    route_by_blocks(c);
    LLADA_TRY(c.delete_id, token("delete_token_id"));
    LLADA_TRY(c.split_id, token("split_token_id"));
    LLADA_TRY(c.expert_scale, hf_single(*this, "routed_scaling_factor", family_->expert_scale));
    LLADA_TRY(const auto shared, hf_integer(*this, "num_shared_experts", 0));
    if (shared < 0 || shared > 64) return invalid("{}: num_shared_experts is {}, 0 to 64 needed", file_, shared);
    LLADA_TRY(const auto shared_width, hf_integer(*this, "moe_shared_expert_intermediate_size", c.expert_ffn_width));
    if (shared_width < 0 || shared_width > (int64_t{1} << 24))
      return invalid("{}: moe_shared_expert_intermediate_size is {}, at most 16777216 needed", file_, shared_width);
    c.shared_expert_ffn_width = shared * shared_width;
    return {};
  }

  const Fields generation_;
  std::string_view file_;
  const Family* family_ = nullptr;
  ModelConfig config_;
};

// By the first class, or where there is none by the type.
bool names_diffusion_gemma(const Json& root) {
  const auto classes = root.find("architectures"), type = root.find("model_type");
  if (classes != root.end() && classes->is_array() && !classes->empty())
    return classes->front() == std::string(kDiffusionGemmaClass);
  const bool none = classes == root.end() || classes->is_null() || (classes->is_array() && classes->empty());
  return none && type != root.end() && *type == "diffusion_gemma";
}

}  // namespace

Result<ModelConfig> read_hf_config(std::string_view config_json, std::string_view generation_json,
                                   std::string_view file, std::string_view quant_json) {
  LLADA_TRY(const Json root, parse_json_object(config_json, file, kConfigLimits));
  Json generation = Json::object();
  if (!generation_json.empty()) {
    LLADA_TRY(generation, parse_json_object(generation_json, fmt::format("{} (generation_config.json)", file)));
  }
  LLADA_TRY(ModelConfig config, names_diffusion_gemma(root) ? read_diffusion_gemma_config(root, generation, file)
                                                            : ConfigReader(root, generation, file).read());
  LLADA_TRY(config.rounded, read_rounded_scheme(root, quant_json, file));
  return config;
}

}  // namespace llada
