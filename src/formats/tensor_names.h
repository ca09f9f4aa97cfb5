// Hugging Face tensor names to canonical ones. Both name families are understood for every architecture:
// OLMo-style (model.transformer.blocks.0.q_proj.weight, LLaDA-8B) and standard
// (model.layers.0.self_attn.q_proj.weight). Trap: ff_out is the down projection inside a block and the output
// matrix outside.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace llada {

// nullopt: a name of neither family.
std::optional<std::string> canonical_name(std::string_view hf_name);

// Buffers that old checkpoints carry and that hold nothing beyond the configuration.
bool is_known_buffer(std::string_view hf_name);

}  // namespace llada
