// LLaDA2: block-causal; leading dense layers, then a sigmoid router with groups and shared experts. Metadata keys of
// GGUF are those of Bailing-MoE 2, its autoregressive sibling.
#include "formats/family.h"

namespace llada {

constexpr std::string_view kLlada2Classes[] = {"LLaDA2MoeModelLM"};
constexpr std::string_view kLlada2Types[] = {"llada2_moe", "llada2_moe_veomni"};

// LLaDA2.0 (arXiv 2512.15745) and, with token editing, LLaDA2.1, over exact block K/V.
constexpr FamilyPreset kLlada2Presets[] = {
    {"llada2", "--accept llada2 --threshold 0.95 --kv block --early-stop block"},
    {"llada2.1", "--threshold 0.7 --edit-threshold 0.5 --kv block --early-stop block"},
};

constexpr Family kLlada2Family = {
    .name = "llada2",
    .classes = kLlada2Classes,
    .model_types = kLlada2Types,
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
    .mask_id = 156895,  // from its model card
    .mask_vocab = 157184,
    .presets = kLlada2Presets,
};

}  // namespace llada
