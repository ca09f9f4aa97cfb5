// A prompt's tokens, for every way in. One without text is refused, since its answer would be about nothing.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model.h"

namespace llada {

bool is_blank(std::string_view text);  // nothing but white space

// Taken as it is. Invalid: an empty text; white space is one.
Result<std::vector<int32_t>> text_prompt(const Model& model, std::string_view text);

// In the model's chat template. Invalid: no message, none with text, or a user's last one without.
Result<std::vector<int32_t>> chat_prompt(const Model& model, std::span<const ChatMessage> messages, bool think = false);

// Tokens of a continuation behind a context as lm-evaluation-harness cuts them. Blanks at the context's end go to the
// continuation. The continuation is the tokens of the whole text less those of the context alone.
struct TextPair {
  std::vector<int32_t> context, continuation;
};
Result<TextPair> encode_pair(const Model& model, std::string context, std::string continuation);

}  // namespace llada
