// Diffusion models that are Llama's layers.
#include "formats/family.h"

namespace llada {
namespace {

// Models of model_type "llama" too, which the class alone tells apart.
constexpr std::string_view kDiffCoderClasses[] = {"StableDiffcoderForCausalLM"},
                           kDiffCoderTypes[] = {"stable_diffcoder"};
constexpr std::string_view kLlamaClasses[] = {"LlamaForCausalLM"}, kLlamaTypes[] = {"llama"};
constexpr std::string_view kNemotronClasses[] = {"NemotronLabsDiffusionModel", "NemotronLabsDiffusionVLMModel"},
                           kNemotronTypes[] = {"nemotron_labs_diffusion", "nemotron_labs_diffusion_vlm"},
                           kNemotronBlock[] = {"block_size"},
                           kNemotronImages[] = {"vision_tower.", "multi_modal_projector."};
constexpr std::string_view kMistral3Classes[] = {"Ministral3ForCausalLM"}, kMistral3Types[] = {"ministral3"};

// As vLLM decodes it, and its own generate() at its threshold; the second is its linear_spec_generate(). Both end with
// the mask that was the last one before an end token.
constexpr FamilyPreset kNemotronPresets[] = {
    {"nemotron", "--threshold 0.9 --kv block --early-stop answer"},
    {"nemotron-spec", "--accept causal --kv block --early-stop answer"},
};

constexpr Family kLlamaFamilies[] = {
    {.name = "stable-diffcoder",
     .classes = kDiffCoderClasses,
     .model_types = kDiffCoderTypes,
     .attention_block = 4,  // its card's
     .cuts_last_block = true,
     .rms_eps = 1e-6,
     .context = 2048,
     .mask_id = 5,  // its generation code's
     .mask_vocab = 155136},
    // Ministral 3 in blocks behind causal text.
    {.name = "nemotron-labs-diffusion",
     .classes = kNemotronClasses,
     .model_types = kNemotronTypes,
     .attention_block = 32,
     .causal_text = true,
     .block_keys = kNemotronBlock,
     .rms_eps = 1e-5,
     .context = 262144,
     .kv_heads = 8,
     .needs_rope_theta = true,
     .made_for = "tekken",
     .mask_id = 100,
     .image_tensors = kNemotronImages,
     .presets = kNemotronPresets},
    {.name = "llama",
     .classes = kLlamaClasses,
     .model_types = kLlamaTypes,
     .permuted_in_gguf = true,
     .autoregressive = true,
     .attention_block = -1,
     .rms_eps = 1e-6,
     .context = 2048},
    {.name = "mistral3",  // GGUF files of Nemotron-Labs-Diffusion too
     .classes = kMistral3Classes,
     .model_types = kMistral3Types,
     .permuted_in_gguf = true,
     .autoregressive = true,
     .attention_block = -1,
     .causal_text = true,
     .rms_eps = 1e-5,
     .context = 262144,
     .kv_heads = 8},
};

}  // namespace

std::span<const Family> llama_families() { return kLlamaFamilies; }

}  // namespace llada
