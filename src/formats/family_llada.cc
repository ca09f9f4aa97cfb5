// LLaDA-8B, LLaDA-1.5 and iLLaDA (grouped K/V heads, a tied head): OLMo's keys and tensor names, full attention.
// Uncertain: iLLaDA is said to run in LLaDA's code; its configuration was not at hand.
#include "formats/family.h"

namespace llada {

constexpr std::string_view kLladaClasses[] = {"LLaDAModelLM"};
constexpr std::string_view kLladaTypes[] = {"llada"};

constexpr Family kLladaFamily = {
    .name = "llada",
    .classes = kLladaClasses,
    .model_types = kLladaTypes,
    .diffuse = true,
    .permuted_in_gguf = true,
    .yarn = false,
    .olmo_keys = true,
    .head_is_embedding = true,
    .mask_id = 5,  // iLLaDA, by its README; its config.json names no mask
    .mask_vocab = 155136,
};

}  // namespace llada
