// DiffusionGemma: Gemma 4 in two ways, a causal one for finished text and one for the canvas behind it. Its readers are
// files of their own (diffusion_gemma.h).
#include "formats/diffusion_gemma_files.h"
#include "formats/family.h"

namespace llada {

constexpr std::string_view kGemmaClasses[] = {kDiffusionGemmaClass};
constexpr std::string_view kGemmaTypes[] = {"diffusion_gemma"};
constexpr std::string_view kGemmaImages[] = {"model.encoder.vision_tower.", "model.encoder.embed_vision."};

constexpr Family kDiffusionGemmaFamily = {
    .name = kDiffusionGemmaArch,
    .classes = kGemmaClasses,
    .model_types = kGemmaTypes,
    .head_is_embedding = true,
    .rms_eps = 1e-6,
    .image_tensors = kGemmaImages,
};

}  // namespace llada
