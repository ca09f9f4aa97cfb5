// Dream: Qwen2.5 with full attention, whose row i - 1 predicts position i.
#include "formats/family.h"

namespace llada {

constexpr std::string_view kDreamClasses[] = {"DreamModel"};
constexpr std::string_view kDreamTypes[] = {"Dream"};

constexpr Family kDreamFamily = {
    .name = "dream",
    .classes = kDreamClasses,
    .model_types = kDreamTypes,
    .diffuse = true,
    .shift_logits = true,
    .qkv_bias = true,
    .rms_eps = 1e-6,
    .kv_heads = 32,
    .mask_id = 151666,
};

}  // namespace llada
