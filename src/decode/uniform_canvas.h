// Canvases of random tokens (DiffusionGemma's sampler, as its class in the package transformers has it). There is no
// mask: an undecided position holds some token of the vocabulary, and every forward sees the whole canvas.
//
//   encode    the prompt, later the last canvas, goes through the model's other pass. Each position reads the positions
//             before it, its keys and values are stored for good, nothing is predicted
//   denoise   step n of N computes the canvas behind it, bidirectional, at the temperature t_min + (t_max - t_min) (N -
//             n) / N with n from 0. It gives the best token of every position, a drawn one and the entropy. From the
//             second step on the model also reads the predictions of the step before (self-conditioning)
//   accept    positions in ascending order of entropy, as long as the entropies before them sum to entropy_bound at
//             most, take the token that was drawn. All others become fresh random tokens. Nothing is kept for longer
//             than a step: an accepted token may go again
//   commit    when the best tokens have not changed in the last stability_threshold steps and the mean entropy is below
//             confidence_threshold. After N steps at the latest. The canvas becomes the best tokens, all at once
//
// With a form, the best tokens are those of the best sequence that fits, and accepted positions take these. Tokens that
// the form leaves no choice about are there in every step.
//
// An answer has as many canvases as gen_length needs, the last as short as it can be (base/uniform_canvas.h). The
// model's class always makes whole ones. After a canvas with an end token there is none. Accepted tokens are
// `visible` in the canvas, random ones `masked`, committed ones `stable`.
//
// Deliberately absent: caches of a canvas's K/V, drafts, revision, guidance, infilling: the model has no mask that a
// gap or an unconditional prompt could hold.
#pragma once
#include <cstdint>
#include <span>

#include "decode/types.h"

namespace llada::decode {

struct DecodeOptions;
struct Field;

// Bounds on the cost of a canvas, named as in the model's generation_config.json; entropy_bound is that of the rule
// `entropy`, which is the same. The other numbers are the model's alone (base/uniform_canvas.h); --temperature scales
// its two temperatures.
struct UniformOptions {
  int64_t denoising_steps = UniformCanvas().steps;
  double confidence_threshold = UniformCanvas().confidence_threshold;
};
std::span<const Field> uniform_fields();

// Draws of a run are functions of its seed, the number of the denoising forward that they are for or of, from 0, and
// the position.
double token_draw(uint64_t seed, int64_t forward, int64_t position);
int32_t random_token(uint64_t seed, int64_t forward, int64_t position, int64_t vocab);

}  // namespace llada::decode
