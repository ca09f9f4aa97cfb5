// The fields of DiffusionGemma's files (google, 2026-06) beside those of every model. Its weights are used in two
// passes: a causal one encodes finished text, another denoises a canvas behind it. ModelConfig's numbers of heads and
// of RoPE are those of the sliding layers.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace llada {

// The tensor of a GGUF file that says how many elements of a head rotate in the global layers.
inline constexpr std::string_view kRopeFactors = "rope_freqs.weight";

struct DiffusionGemma {
  std::vector<bool> global = {};       // by layer: attends to everything; the others by a window, sliding
  int64_t window = 0;                  // keys that a row of a sliding layer reads, its own among them
  int64_t kv_heads = 0, head_dim = 0;  // of global layers, whose values are their keys before norm and rotation
  float rope_theta = 1e6f;             // of global layers
  int64_t rotary_dims = 0;             // elements of a global head that turn; frequencies are those of all of them
  float logit_cap = 30;
};

}  // namespace llada
