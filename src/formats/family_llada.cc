// LLaDA-8B and LLaDA-1.5: OLMo's keys and tensor names, full attention.
#include "formats/family.h"

namespace llada {

constexpr std::string_view kLladaClasses[] = {"LLaDAModelLM"};
constexpr std::string_view kLladaTypes[] = {"llada"};

constexpr Family kLladaFamily = {
    .architecture = Architecture::llada,
    .name = "llada",
    .classes = kLladaClasses,
    .model_types = kLladaTypes,
    .diffuse = true,
    .permuted_in_gguf = true,
    .yarn = false,
    .head_is_embedding = true,
};

}  // namespace llada
