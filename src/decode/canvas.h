// Laying a canvas, and the rules its predictions are made under.
#pragma once
#include <cstdint>
#include <span>

#include "decode/options.h"
#include "decode/types.h"

namespace llada::decode {

// Positions of the canvas that lay_generation() makes.
int64_t generation_size(int64_t prompt_tokens, int64_t gen_length, const SpecialIds& ids, int64_t context = 0);

// prompt ++ gen_length masks; for a block-causal model more masks, up to the end of a block or of a window
// (Canvas::padding), which ends with the model's context (0: unlimited). For a model of random canvases whole canvases,
// whose positions hold token 0 until their first step. The prompt is fixed whatever it holds: a mask id in it is text,
// not a gap. gen_length has passed validate().
Canvas lay_generation(std::span<const int32_t> prompt, int64_t gen_length, const SpecialIds& ids, int64_t context = 0);

// A text without open positions, for results that are read off a forward over it; its tokens may be masks.
Canvas fixed_canvas(std::span<const int32_t> tokens);

// The template with a mask at every gap position (any order, no repeats, at least one); the rest is fixed.
Result<Canvas> lay_infill(std::span<const int32_t> template_tokens, std::span<const int32_t> gap_positions,
                          const SpecialIds& ids);

// Which tokens may be sampled, and which take part in the softmax. The mask id is never sampled, though it stays in the
// softmax as in the reference. Options act as in LLaDA's generate(). One of its quirks is kept: at temperature > 0,
// confidence_eos_eot_inf takes only the end-of-turn token out of the softmax. The reference changes the end-of-sequence
// logit in the sampled copy alone. infill: no end token is sampled and none is in the softmax, since the text goes on
// behind the gap.
SamplingRule head_rule(const DecodeOptions& options, const SpecialIds& ids, bool infill = false);

// The tokens that rows at these positions are fed.
std::vector<int32_t> tokens_at(const Canvas& canvas, std::span<const int32_t> positions);

// Asks what `row` would predict of a position if that were not decided.
Trial trial_of(const Canvas& canvas, int32_t position, int32_t row);

// First position that is not fixed; size() when all are.
int64_t generated_begin(const Canvas& canvas);
int64_t count_masked(const Canvas& canvas);

// FNV-1a over the tokens as little-endian 32-bit words: equal canvases have equal hashes on every machine.
uint64_t canvas_hash(const Canvas& canvas);

}  // namespace llada::decode
