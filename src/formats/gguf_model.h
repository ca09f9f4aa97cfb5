// From GGUF metadata to a model, in llama.cpp's dialects (llada, dream, llada-moe) and diffuse-cpp's. The latter has
// keys under diffuse.*, diffuse.model_type = llada or dream, q and k rows in Hugging Face's order, usually no
// tokenizer. A fork of it has llada2_moe, with keys and tensor names of its own. Quirk: only arch "llada" stores q and
// k rows permuted for adjacent-pair RoPE; all others rotate half against half. diffusion.shift_logits has no arch
// prefix; absent means shifted for Dream, not shifted otherwise.
#pragma once
#include "formats/gguf.h"
#include "formats/model_record.h"

namespace llada {

// Our own keys, beside llama.cpp's: the exact pre-tokenizer where tokenizer.ggml.pre has no name for it.
inline constexpr std::string_view kKeyRegexes = "llada.tokenizer.regex";               // array of strings
inline constexpr std::string_view kKeyNfc = "llada.tokenizer.nfc";                     // bool
inline constexpr std::string_view kKeyIgnoreMerges = "llada.tokenizer.ignore_merges";  // bool
inline constexpr std::string_view kKeyEndIds = "llada.tokenizer.end_token_ids";  // array of int32, beside eos and eot
inline constexpr std::string_view kKeyDeleteId = "llada.tokenizer.delete_token_id";  // uint32, as kKeySplitId
inline constexpr std::string_view kKeySplitId = "llada.tokenizer.split_token_id";
inline constexpr std::string_view kKeySingleTurn = "llada.chat.single_turn";  // bool

// Gates of a softmax router are renormalised over the experts used; llama.cpp never does that for llada-moe.
inline constexpr std::string_view kKeyRenormalise = "llada.experts.renormalise";  // bool

// Invalid: a general.architecture that is not supported.
Status check_architecture(std::string_view file, std::string_view found);

// The record's views point into the bytes that `file` was parsed from.
Result<ModelRecord> read_gguf_model(const GgufFile& file, uint64_t file_bytes, std::string_view name);

// The tokenizer.ggml.* metadata; nullopt when there is none ("none", "no_vocab" or no tokenizer keys).
Result<std::optional<TokenizerSpec>> read_gguf_tokenizer(const GgufFile& file, uint64_t file_bytes,
                                                         std::string_view name);

}  // namespace llada
