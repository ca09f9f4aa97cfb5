// Hugging Face tensor names to canonical ones. All name families are understood for every architecture: OLMo-style
// (model.transformer.blocks.0.q_proj.weight, LLaDA-8B), standard (model.layers.0.self_attn.q_proj.weight) and
// DiffusionGemma's (model.decoder.layers.0.self_attn.q_proj.weight). Trap: ff_out is the down projection inside a block
// and the output matrix outside.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace llada {

// Takes "12." off the front; leading zeros are refused, so that one index has one spelling.
std::optional<std::string_view> take_index(std::string_view& rest);
bool take_prefix(std::string_view& rest, std::string_view prefix);

// nullopt: a name of no family.
std::optional<std::string> canonical_name(std::string_view hf_name);

// Tables in checkpoints that the configuration gives too: frequencies, positions, masks.
bool is_buffer(std::string_view hf_name);

// A part of a matrix that GPTQ, AWQ, bitsandbytes or compressed-tensors has rounded: groups, scales, zeros.
bool is_quantized_part(std::string_view hf_name);

}  // namespace llada
