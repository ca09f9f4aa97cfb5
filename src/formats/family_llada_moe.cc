// LLaDA-MoE: a softmax router in every layer, norms on q and k. Its config.json may have model_type "llada" too.
#include "formats/family.h"

namespace llada {

constexpr std::string_view kLladaMoeClasses[] = {"LLaDAMoEModelLM", "LLaDAMoEModel", "FusedLLaDAMoEModelLM"};
constexpr std::string_view kLladaMoeTypes[] = {"llada_moe", "llada"};

constexpr Family kLladaMoeFamily = {
    .name = "llada-moe",
    .classes = kLladaMoeClasses,
    .model_types = kLladaMoeTypes,
    .head_norms = HeadNorms::where_said,
    .router = Router::softmax,
    .needs_rope_theta = true,
    .mask_id = 156895,  // from its model card
    .mask_vocab = 157184,
};

}  // namespace llada
