// LLaDA2: block-causal; leading dense layers, then a sigmoid router and shared experts. The router of LLaDA2.0 and 2.1
// keeps the best groups of experts; in LLaDA2.2 the rows of a block choose a set of experts together (expert_capacity),
// and its published code reads no groups although config.json has them. Metadata keys of GGUF are those of
// Bailing-MoE 2, its autoregressive sibling, or those of a fork of diffuse-cpp.
#include "formats/family.h"

namespace llada {

constexpr std::string_view kLlada2Classes[] = {"LLaDA2MoeModelLM"};
constexpr std::string_view kLlada2Types[] = {"llada2_moe", "llada2_moe_veomni"};

// LLaDA2.0 (arXiv 2512.15745) and, with token editing, LLaDA2.1, and with edits that move text LLaDA2.2, over exact
// block K/V.
constexpr FamilyPreset kLlada2Presets[] = {
    {"llada2", "--accept llada2 --threshold 0.95 --kv block --early-stop block"},
    {"llada2.1", "--threshold 0.7 --edit-threshold 0.5 --kv block --early-stop block"},
    {"llada2.2", "--revision levenshtein --threshold 0.5 --edit-threshold 0 --kv block --early-stop block"},
};

constexpr std::pair<std::string_view, std::string_view> kDiffuseKeys[] = {
    {"attention.key_length", "head_dim"},
    {"rope.dimension_count", "rotary_dim"},
    {"leading_dense_block_count", "first_k_dense_replace"},
    {"attention.block_length", "block_length"},
    {"expert_weights_norm", "norm_topk_prob"},
    {"expert_weights_scale", "routed_scaling_factor"},
    {"expert_group_count", "n_group"},
    {"expert_group_used_count", "topk_group"},
    {"expert_block_length", "moe_block_size"},
};
constexpr std::pair<std::string_view, std::string_view> kDiffuseParts[] = {
    {"ffn_norm.weight", "post_attn_norm.weight"},        {"ffn_gate_inp.weight", "moe_gate.weight"},
    {"exp_probs_b.bias", "moe_gate_bias.weight"},        {"ffn_gate_exps.weight", "moe_experts_gate.weight"},
    {"ffn_up_exps.weight", "moe_experts_up.weight"},     {"ffn_down_exps.weight", "moe_experts_down.weight"},
    {"ffn_gate_shexp.weight", "moe_shared_gate.weight"}, {"ffn_up_shexp.weight", "moe_shared_up.weight"},
    {"ffn_down_shexp.weight", "moe_shared_down.weight"},
};

constexpr Family kLlada2Family = {
    .name = "llada2",
    .classes = kLlada2Classes,
    .model_types = kLlada2Types,
    .diffuse = true,
    .diffuse_keys = kDiffuseKeys,
    .diffuse_parts = kDiffuseParts,
    .head_norms = HeadNorms::usual,
    .partial_rotation = true,
    .rotary_factor = 0.5,
    .router = Router::sigmoid,
    .gates = Gates::of_several,
    .expert_groups = 8,
    .expert_groups_used = 4,
    .expert_scale = 2.5,
    .attention_block = 32,  // the published sampler's
    .context = 16384,
    .experts = 16,
    .experts_used = 2,
    .pre_tokenizer = "bailingmoe2",
    .mask_id = 156895,  // from its model card
    .mask_vocab = 157184,
    .presets = kLlada2Presets,
};

}  // namespace llada
