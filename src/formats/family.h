// A family: what sets the models of one architecture apart, as data. Each is described in a file of its own,
// family_*.cc, which both parsers, the converter and `inspect` read. Deliberately absent: what every file says itself
// (model_config.h), and tensor names, which families share (tensor_names.h).
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "formats/model_config.h"

namespace llada {

using FamilyNames = std::span<const std::string_view>;

struct Family {
  Architecture architecture;
  std::string_view name;          // general.architecture, as it is read and written
  FamilyNames classes;            // of `architectures` in config.json; errors name the first
  FamilyNames model_types;        // where config.json names no class
  bool diffuse = false;           // diffuse-cpp writes it too, with the name as diffuse.model_type
  bool permuted_in_gguf = false;  // q and k rows in llama.cpp's files: adjacent elements of a head rotate together

  bool shift_logits = false;
  bool qkv_bias = false;           // always; otherwise where the file has it
  bool partial_rotation = false;   // of the leading part of a head
  bool yarn = true;                // the published code scales rotary positions
  bool head_is_embedding = false;  // where it is tied, whatever else the file holds
  bool sigmoid_router = false;     // with groups and shared experts
  int64_t attention_block = 0;     // where a file does not say

  // What the published configuration class takes where config.json has no such key; nothing: the key is needed, or
  // follows from others.
  double rms_eps = 1e-5;
  int64_t context = 4096;
  std::optional<int64_t> kv_heads = {}, experts = {}, experts_used = {};
  bool needs_rope_theta = false;

  // The id of the mask where no file gives it, in a vocabulary of mask_vocab tokens (0: of any that has the id).
  int32_t mask_id = -1;
  int64_t mask_vocab = 0;

  bool has_mask(int64_t vocab) const { return mask_vocab > 0 ? vocab == mask_vocab : vocab > mask_id; }
};

extern const Family kLladaFamily, kLladaMoeFamily, kLlada2Family, kDreamFamily, kDiffusionGemmaFamily;

// In the order in which errors list them.
std::span<const Family* const> families();

const Family& family_of(Architecture architecture);

}  // namespace llada
