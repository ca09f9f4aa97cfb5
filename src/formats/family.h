// A family: the differences of the models of one architecture, as data. Each is described in a file family_*.cc, which
// both parsers, the converter, `inspect` and the decoding presets read. Deliberately absent: fields that every file has
// itself (model_config.h), and tensor names, which families share (tensor_names.h).
#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "formats/model_config.h"

namespace llada {

using FamilyNames = std::span<const std::string_view>;
// llama.cpp's name of a thing and another file format's.
using RenamedParts = std::span<const std::pair<std::string_view, std::string_view>>;

// RMSNorm of each head of q and k. where_said: where a key of config.json or a tensor of a GGUF file asks for it;
// usual: also in a folder without the key.
enum class HeadNorms { none, where_said, usual };

enum class Router { none, softmax, sigmoid };  // sigmoid: with groups, shared experts and leading dense layers

// Whether the gates of the experts used are scaled to a sum of 1. as_said: by norm_topk_prob; of_several: where more
// than one expert is used, whatever the file says; raw: only where a key of this project asks for it.
enum class Gates { raw, of_several, as_said };

// A decoding preset that follows the family's published sampler.
struct FamilyPreset {
  std::string_view name, options;  // as on the command line
};

struct Family {
  std::string_view name;    // general.architecture, as it is read and written
  FamilyNames classes;      // of `architectures` in config.json; errors name the first
  FamilyNames model_types;  // of `model_type`, read where config.json names no class
  // diffuse-cpp writes it too: diffuse.model_type is the name or one of model_types. Its keys (behind "diffuse.") and
  // the tensors of a layer where they have other names than llama.cpp's.
  bool diffuse = false;
  RenamedParts diffuse_keys = {}, diffuse_parts = {};
  bool permuted_in_gguf = false;  // q and k rows in llama.cpp's files: adjacent elements of a head rotate together

  // The architecture is an autoregressive model's, and diffusion models keep it in their files. Such a file does not
  // say how it is decoded: options give the id of the mask and the attention block (Overrides).
  bool autoregressive = false;

  bool shift_logits = false;
  bool qkv_bias = false;          // always; otherwise where the file has it
  bool bias_unless_said = false;  // a bias where config.json does not say
  HeadNorms head_norms = HeadNorms::none;
  bool partial_rotation = false;   // only the leading part of a head rotates
  double rotary_factor = 1;        // share of the head that rotates, where config.json does not say
  bool yarn = true;                // the published code scales rotary positions
  bool olmo_keys = false;          // config.json may have OLMo's names
  bool head_is_embedding = false;  // a tied head is the embedding, even where the file has an output matrix

  Router router = Router::none;
  Gates gates = Gates::raw;
  int64_t expert_groups = 0, expert_groups_used = 0;  // where a file does not say
  double expert_scale = 1;

  int64_t attention_block = 0;     // where a file does not say; 0: full attention
  bool causal_text = false;        // ModelConfig::causal_text
  bool decided_first = false;      // ModelConfig::decided_first
  bool prompt_ends_block = false;  // ModelConfig::prompt_ends_block
  bool cuts_last_block = false;    // ModelConfig::cuts_last_block
  FamilyNames block_keys = {};     // of config.json that give it
  // One class for full and block-causal attention: a folder or repository with this word in its name has blocks of
  // named_block.
  std::string_view block_word = {};
  int64_t named_block = 0;

  // The defaults of the published configuration class where config.json has no such key; nothing: the key is needed, or
  // follows from others.
  double rms_eps = 1e-5;
  int64_t context = 4096;
  std::optional<int64_t> kv_heads = {}, head_dim = {}, experts = {}, experts_used = {};
  bool needs_rope_theta = false;

  std::string_view pre_tokenizer = {};  // of a GGUF file that does not name one
  std::string_view made_for = {};       // the pre-tokenizer, where published files have a wrong one, too

  // The id of the mask where no file gives it, in a vocabulary of mask_vocab tokens (0: of any that has the id).
  int32_t mask_id = -1;
  int64_t mask_vocab = 0;

  FamilyNames image_tensors = {};  // prefixes of a folder's tensors that are ignored: those of its part for images

  std::span<const FamilyPreset> presets = {};

  bool mixture() const { return router != Router::none; }
  bool has_mask(int64_t vocab) const { return mask_vocab > 0 ? vocab == mask_vocab : vocab > mask_id; }
};

std::span<const Family> qwen_families();   // family_qwen.cc
std::span<const Family> llama_families();  // family_llama.cc

// All, in the order in which errors list them.
std::span<const Family* const> families();

// The missing parts of a known diffusion model that is not supported, by its architecture, class or model_type; empty
// for all other names.
std::string_view missing_for(std::string_view name);

// A configuration with the family's values, before a file's are read.
ModelConfig config_of(const Family& family);

// Null: none of that general.architecture.
const Family* find_family(std::string_view name);

}  // namespace llada
