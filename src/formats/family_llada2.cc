// LLaDA2: block-causal; leading dense layers, then a sigmoid router with groups and shared experts. Metadata keys of
// GGUF are those of Bailing-MoE 2, its autoregressive sibling.
#include "formats/family.h"

namespace llada {

constexpr std::string_view kLlada2Classes[] = {"LLaDA2MoeModelLM"};
constexpr std::string_view kLlada2Types[] = {"llada2_moe", "llada2_moe_veomni"};

constexpr Family kLlada2Family = {
    .architecture = Architecture::llada2,
    .name = "llada2",
    .classes = kLlada2Classes,
    .model_types = kLlada2Types,
    .partial_rotation = true,
    .sigmoid_router = true,
    .attention_block = kLlada2Block,
    .context = 16384,
    .experts = 16,
    .experts_used = 2,
    .mask_id = 156895,  // from its model card
    .mask_vocab = 157184,
};

}  // namespace llada
