// Which rows of a model's vocabulary are tokens with a text, and the file's rules of how text becomes tokens.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/tokenizer_spec.h"
#include "decode/canvas.h"
#include "engine/model.h"

namespace llada {

// Rows without a token, ascending: those that fill the vocabulary up behind the tokenizer's, and unused ones. None
// where there is no tokenizer.
std::vector<int32_t> rows_without_text(const Model& model);

// The head's rule for a request (decode::head_rule), by which no row without a token is ever written. In the softmax of
// a prediction these rows count, as they do in the published samplers, and in a likelihood. Reports about kept logits
// leave them out, and so do lists of the best tokens.
SamplingRule text_rule(const Model& model, const decode::DecodeOptions& options, bool infill = false);

// A note for a GGUF file that does not name the rules by which its tokenizer cuts text; empty where it does.
std::string_view cut_note(const TokenizerSpec& spec);

}  // namespace llada
