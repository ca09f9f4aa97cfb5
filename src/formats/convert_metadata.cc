#include "formats/convert_metadata.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/pretokenizer_regexes.h"
#include "formats/convert.h"
#include "formats/diffusion_gemma_files.h"
#include "formats/family.h"
#include "formats/gguf_model.h"

namespace llada {
namespace {

constexpr uint32_t kAlignment = 32;
constexpr int64_t kSigmoidGating = 2;         // llama.cpp's expert_gating_func
constexpr uint32_t kQuantizationVersion = 2;  // of ggml's group layouts

void add_id(GgufWriter& out, std::string_view key, int32_t preferred, int32_t otherwise) {
  const int32_t id = preferred >= 0 ? preferred : otherwise;
  if (id >= 0) out.add_u32(key, static_cast<uint32_t>(id));
}

// As llama.cpp reads it: attn_factor comes on top of YaRN's own magnitude.
void add_yarn(GgufWriter& out, const std::string& prefix, const Yarn& y) {
  out.add_string(prefix + "type", "yarn");
  out.add_f32(prefix + "factor", static_cast<float>(y.factor));
  out.add_u32(prefix + "original_context_length", static_cast<uint32_t>(y.original_context));
  out.add_f32(prefix + "yarn_beta_fast", static_cast<float>(y.beta_fast));
  out.add_f32(prefix + "yarn_beta_slow", static_cast<float>(y.beta_slow));
  if (y.attention_factor)
    out.add_f32(prefix + "attn_factor", static_cast<float>(*y.attention_factor / (0.1 * std::log(y.factor) + 1)));
}

void add_model(GgufWriter& out, const ModelConfig& c) {
  if (c.gemma) return add_diffusion_gemma_metadata(out, c);
  const std::string prefix = std::string(c.family->name) + ".";
  const auto u32 = [&](std::string_view key, int64_t value) {
    out.add_u32(prefix + std::string(key), static_cast<uint32_t>(value));
  };
  u32("block_count", c.layers);
  u32("context_length", c.context);
  u32("embedding_length", c.width);
  if (c.ffn_width > 0) u32("feed_forward_length", c.ffn_width);
  u32("attention.head_count", c.heads);
  u32("attention.head_count_kv", c.kv_heads);
  if (c.head_dim * c.heads != c.width) {
    u32("attention.key_length", c.head_dim);
    u32("attention.value_length", c.head_dim);
  }
  out.add_f32(prefix + "attention.layer_norm_rms_epsilon", c.rms_eps);
  out.add_f32(prefix + "rope.freq_base", c.rope_theta);
  u32("rope.dimension_count", c.rotary_dims);
  if (c.yarn) add_yarn(out, prefix + "rope.scaling.", *c.yarn);
  if (c.query_scale.beta != 0) {
    out.add_f32(prefix + "attention.temperature_scale", static_cast<float>(c.query_scale.beta));
    if (!c.yarn) u32("rope.scaling.original_context_length", c.query_scale.period);
  }
  u32("vocab_size", c.vocab);
  if (c.experts > 0) {
    u32("expert_count", c.experts);
    u32("expert_used_count", c.experts_used);
    u32("expert_feed_forward_length", c.expert_ffn_width);
    out.add_bool(prefix + "expert_weights_norm", c.norm_topk);
    if (c.norm_topk && c.family->gates == Gates::raw) out.add_bool(kKeyRenormalise, true);
    if (c.sigmoid_router) u32("expert_gating_func", kSigmoidGating);
    if (c.expert_groups > 1) {
      u32("expert_group_count", c.expert_groups);
      u32("expert_group_used_count", c.expert_groups_used);
    }
    if (c.expert_capacity > 0) {
      u32("expert_capacity", c.expert_capacity);
      u32("expert_block_length", c.expert_block);
    }
    if (c.expert_scale != 1) out.add_f32(prefix + "expert_weights_scale", c.expert_scale);
    if (c.shared_expert_ffn_width > 0) {
      u32("expert_shared_count", 1);
      u32("expert_shared_feed_forward_length", c.shared_expert_ffn_width);
    }
    if (c.dense_layers > 0) u32("leading_dense_block_count", c.dense_layers);
  }
  if (c.attention_block > 0 || (c.family->autoregressive && c.attention_block == 0))
    u32("attention.block_length", c.attention_block);
  out.add_bool(prefix + "attention.causal", false);
  out.add_bool("diffusion.shift_logits", c.shift_logits);
}

void add_ids(GgufWriter& out, const ModelConfig& c, const TokenizerSpec& spec) {
  add_id(out, "tokenizer.ggml.bos_token_id", c.bos_id, spec.bos);
  add_id(out, "tokenizer.ggml.eos_token_id", c.eos_id, spec.eos);
  add_id(out, "tokenizer.ggml.padding_token_id", c.pad_id, spec.pad);
  add_id(out, "tokenizer.ggml.eot_token_id", c.eot_id, spec.eot);
  add_id(out, "tokenizer.ggml.mask_token_id", c.mask_id, spec.mask);
  if (!c.end_ids.empty()) out.add_i32s(kKeyEndIds, c.end_ids);
  add_id(out, kKeyDeleteId, c.delete_id, -1);
  add_id(out, kKeySplitId, c.split_id, -1);
}

// llama.cpp's name (tokenizer.ggml.pre) for the pre-tokenizer regexes of a tokenizer.json file; "default" where it has
// none. exact: the name means the same splits; otherwise it is the closest one that llama.cpp has, and the regexes
// themselves must be stored beside it.
struct PretokenizerName {
  std::string_view name;
  bool exact;
};

// Line ends stand in tokenizer.json as themselves or as escapes.
std::string spelled_out(std::string_view regex) {
  std::string out;
  for (const char c : regex) {
    if (c == '\r')
      out += "\\r";
    else if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

PretokenizerName pretokenizer_name(std::span<const std::string> regexes) {
  std::vector<std::string> plain;
  for (const std::string& regex : regexes) plain.push_back(spelled_out(regex));
  if (const PreTokenizerRules* rules = find_pre_tokenizer(plain)) return {rules->written_name(), true};
  // Nothing in llama.cpp splits as the tiny models do; bailingmoe differs in how punctuation joins a following word or
  // line end.
  const bool tiny = plain.size() == 1 && plain[0] == kTinyRegex;
  return {tiny ? "bailingmoe" : "default", false};
}

// tokenizer.ggml.pre as it is written. A name that comes with rules is the source's guess at them, so ours
// goes first where it is exact.
PretokenizerName written_pretokenizer(const TokenizerSpec& spec) {
  if (spec.regexes.empty()) return {spec.pre, true};
  const PretokenizerName known = pretokenizer_name(spec.regexes);
  return spec.pre.empty() || known.exact ? known : PretokenizerName{spec.pre, false};
}

Status add_tokenizer(GgufWriter& out, const ModelConfig& c, const TokenizerSpec& spec) {
  if (spec.tokens.size() != spec.kinds.size() || static_cast<int64_t>(spec.tokens.size()) > c.vocab)
    return invalid("tokenizer: {} tokens and {} types for a vocabulary of {}", spec.tokens.size(), spec.kinds.size(),
                   c.vocab);
  out.add_string("tokenizer.ggml.model", spec.characters ? kGemma4Tokenizer : "gpt2");
  // A file that did not say by which rules does not say it now.
  if (const auto pre = written_pretokenizer(spec); !spec.characters && !pre.name.empty())
    out.add_string("tokenizer.ggml.pre", pre.name);
  // llama.cpp counts on one token for every row of the table: ids without a text get a name.
  std::vector<std::string> tokens = spec.tokens;
  std::vector<int32_t> kinds;
  tokens.resize(static_cast<size_t>(c.vocab));
  for (size_t id = 0; id < tokens.size(); ++id) {
    const bool missing = tokens[id].empty();
    if (missing) tokens[id] = fmt::format("[PAD{}]", id);
    kinds.push_back(static_cast<int32_t>(missing || id >= spec.kinds.size() ? TokenKind::unused : spec.kinds[id]));
  }
  out.add_strings("tokenizer.ggml.tokens", tokens);
  out.add_i32s("tokenizer.ggml.token_type", kinds);
  out.add_strings("tokenizer.ggml.merges", spec.merges);
  add_ids(out, c, spec);
  out.add_bool("tokenizer.ggml.add_bos_token", spec.add_bos);
  if (!spec.chat_template.empty()) out.add_string("tokenizer.chat_template", spec.chat_template);
  if (spec.single_turn) out.add_bool(kKeySingleTurn, true);
  if (!spec.regexes.empty()) out.add_strings(kKeyRegexes, spec.regexes);
  // Written whenever there is an exact pre-tokenizer to go with: their defaults follow the name, which may be
  // approximate.
  if (!spec.regexes.empty() || spec.nfc) out.add_bool(kKeyNfc, spec.nfc);
  if (!spec.regexes.empty() || spec.ignore_merges) out.add_bool(kKeyIgnoreMerges, spec.ignore_merges);
  return {};
}

}  // namespace

std::vector<std::string> llama_cpp_notes(const ModelConfig& c, const TokenizerSpec* tokenizer) {
  std::vector<std::string> notes;
  const bool moe = c.family == &kLladaMoeFamily;
  if (moe && !c.qk_norm) notes.push_back("llama.cpp will not open this file: its llada-moe has norms on q and k");
  if (moe && c.tied_head) notes.push_back("llama.cpp will not open this file: its llada-moe has a head of its own");
  if (moe && c.norm_topk)
    notes.push_back(
        "llama.cpp will give other tokens: its llada-moe does not renormalise the gates, and this model was "
        "trained with gates that are");
  if (tokenizer == nullptr) return notes;
  const PretokenizerName pre = written_pretokenizer(*tokenizer);
  if (!pre.exact)
    notes.push_back(
        fmt::format("llama.cpp may cut text otherwise: it has no name for this tokenizer's rules, and "
                    "tokenizer.ggml.pre is {} (the rules themselves stand in {})",
                    pre.name, kKeyRegexes));
  return notes;
}

uint32_t file_type(DType type) {
  constexpr std::array<uint32_t, kFileTypeCount> numbers = {0,  1,  32, 7,  2,  3,  8,  9,  15, 17, 18, 10, 12,
                                                            25, 30, 19, 20, 28, 23, 26, 24, 31, 36, 37, 38, 39};
  return numbers[static_cast<size_t>(type)];
}

Status add_metadata(GgufWriter& out, const ModelConfig& config, const TokenizerSpec* tokenizer, uint32_t type_number) {
  out.add_string("general.architecture", config.family->name);
  out.add_string("general.type", "model");
  out.add_string("general.name", config.name);
  add_model(out, config);
  if (tokenizer != nullptr) {
    LLADA_TRY_STATUS(add_tokenizer(out, config, *tokenizer));
  } else {
    out.add_string("tokenizer.ggml.model", "no_vocab");
    add_ids(out, config, {});
  }
  out.add_u32("general.file_type", type_number);
  out.add_u32("general.quantization_version", kQuantizationVersion);
  out.add_u32("general.alignment", kAlignment);
  return {};
}

}  // namespace llada
