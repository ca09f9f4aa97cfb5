// The geometries of published models, so that weights can be made and speed measured or simulated where no checkpoint
// is at hand. A preset is the model's own configuration, with the special tokens at their published ids, and the list
// of its tensors under llama.cpp's GGUF names. "tiny" is no published model; it is small enough for tests. Sources: the
// models' config.json files. llama.cpp has no GGUF form of LLaDA2 yet: the names are those of Bailing-MoE 2 there, with
// q, k and v in matrices of their own.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/model_config.h"
#include "tensor/view.h"

namespace llada {

struct PresetToken {
  int32_t id;
  std::string_view text;
};

struct Preset {
  std::string_view name;  // as on the command line: "llada-8b"
  ModelConfig config;     // config.name is the published model's; ids are set
  std::vector<PresetToken> control_tokens;
  std::string_view pre_tokenizer;     // as tokenizer.ggml.pre names it
  std::string_view chat_template;     // enough of it for the chat style to be recognised
  bool nfc = false, add_bos = false;  // of its tokenizer
};

// One tensor of a model file: name and shape as GGUF has them ({in, out}; experts {in, out, experts}).
struct PresetTensor {
  std::string name;
  Shape shape;
  int layer = -1;  // -1: before the first or after the last layer
  // For DiffusionGemma: stored in Q6_K where the others are in Q4_K, as llama-quantize makes Q4_K_M.
  bool more_bits = false;
};

std::vector<std::string_view> preset_names();
// The error lists them.
Result<Preset> find_preset(std::string_view name);

// "llada-8b:q4_0" as preset and type; the error says which half is wrong.
struct PresetSpec {
  Preset preset;
  DType type;
};
Result<PresetSpec> parse_preset(std::string_view spec);

// The same model with that many layers; dense leading layers of a mixture come first as before.
Result<Preset> with_layers(Preset preset, int64_t layers);

// In the order in which files hold them: embedding, layers, output norm, head.
std::vector<PresetTensor> tensors_of(const Preset& preset);

int64_t parameters_of(const Preset& preset);

// The type that a tensor gets in a file of `type`. Vectors and routers are F32 as llama.cpp writes them. Rows that are
// no multiple of the group get the type that llama-quantize takes then.
DType stored_type(const PresetTensor& tensor, DType type);

}  // namespace llada
