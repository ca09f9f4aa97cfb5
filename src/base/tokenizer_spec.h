// A tokenizer as data, with the fields that GGUF metadata and tokenizer.json share. formats/ and text/ fill it in,
// text/ runs it.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llada {

// GGUF's tokenizer.ggml.token_type values.
enum class TokenKind : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct TokenizerSpec {
  // tokens[id]: for normal tokens in the byte alphabet of GPT-2 (space is U+0120), for control and
  // user-defined ones as plain UTF-8. kinds has the same length. With `characters`, normal ones are UTF-8 too.
  std::vector<std::string> tokens;
  std::vector<TokenKind> kinds;
  std::vector<std::string> merges;  // "left right", rank = index
  // Ascending ids of the control and user-defined tokens that are looked for last, in the text between the others
  // (tokenizer.json: added_tokens with "normalized"). GGUF cannot say it.
  std::vector<int32_t> matched_last;

  std::string pre;                   // pre-tokenizer name ("gpt-2", "llama-bpe", "qwen2", "bailingmoe"...), or empty
  std::vector<std::string> regexes;  // from tokenizer.json when present; applied in order, each splitting further
  bool nfc = false;                  // normalise to NFC first (Qwen2's tokenizer.json)
  bool ignore_merges = false;        // a whole pre-token that is in the vocabulary is taken as it is (llama-bpe)
  // Merges join characters, not bytes (Gemma 4): a space is U+2581, and a character without a token is byte tokens.
  bool characters = false;
  bool add_bos = false;
  std::string chat_template;  // Jinja source as shipped; its texts are read, it is never run
  bool single_turn = false;   // trained on single questions: a message stands alone, whatever was said before it

  // -1: not given.
  int32_t bos = -1, eos = -1, pad = -1, eot = -1, mask = -1;
};

// Bytes of a chat template at most, whichever file it stands in.
inline constexpr size_t kMaxChatTemplateBytes = size_t{1} << 20;

// The texts of the mask and of the end of a turn in published tokenizers, for files that do not say them; the first one
// found counts.
inline constexpr std::array<std::string_view, 2> kMaskTexts = {"<|mdm_mask|>", "<|mask|>"};
inline constexpr std::array<std::string_view, 4> kEndOfTurnTexts = {"<|eot_id|>", "<|im_end|>", "<|role_end|>",
                                                                    "<turn|>"};

// The values of tokenizer.ggml.model and tokenizer.ggml.pre where `characters` is set.
inline constexpr std::string_view kGemma4Tokenizer = "gemma4";

// The id of the control token with one of these texts; of several, the earliest text counts. -1: there is none.
inline int32_t find_control_token(const TokenizerSpec& spec, std::span<const std::string_view> texts) {
  for (const std::string_view text : texts)
    for (size_t i = 0; i < spec.tokens.size(); ++i)
      if (spec.kinds[i] == TokenKind::control && spec.tokens[i] == text) return static_cast<int32_t>(i);
  return -1;
}

}  // namespace llada
