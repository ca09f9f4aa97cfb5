// The options of decoding: the sum of its parts. Each part is declared, listed and used in a file of its own; pairs.cc
// says which options exclude each other. Sources: LLaDA's generate() (arXiv 2502.09992); threshold and factor:
// Fast-dLLM (arXiv 2505.22618); entropy: the EB-Sampler (arXiv 2505.24857); Dream's three: its generation code.
// Speculation and progressive revision are from the llada.cpp paper (arXiv 2606.13740), editing from LLaDA2.1's report.
// The rules for canvases of random tokens are from DiffusionGemma's class in the package transformers. Names, ranges,
// text forms and help of every option: fields.h. Deliberately absent: the model's context limit (the engine knows it),
// and rules that were tried and left (docs/lab/rules.md).
#pragma once
#include <type_traits>
#include <utility>

#include "decode/acceptance.h"
#include "decode/answer.h"
#include "decode/form_options.h"
#include "decode/kv_policy.h"
#include "decode/length.h"
#include "decode/revision.h"
#include "decode/sampling.h"
#include "decode/speculation.h"
#include "decode/uniform_canvas.h"

namespace llada::decode {

struct DecodeOptions : LengthOptions,
                       AcceptanceOptions,
                       SamplingOptions,
                       EndingOptions,
                       FormOptions,
                       CacheOptions,
                       SpeculationOptions,
                       RevisionOptions,
                       UniformOptions {
  DecodeOptions() = default;
  // The defaults with these parts: DecodeOptions(LengthOptions{.gen_length = 8}, CacheOptions{.kv = KvChoice::dual}).
  template <class... Parts>
    requires(std::is_base_of_v<Parts, DecodeOptions> && ...)
  DecodeOptions(Parts... parts) {
    ((static_cast<Parts&>(*this) = std::move(parts)), ...);
  }
};

// Why options are refused.
struct Refused : Error {
  Refused(Error error, bool model = false) : Error(std::move(error)), of_model(model) {}
  bool of_model;  // another kind of model could do it
};
template <class T>
using OrRefused = std::expected<T, Refused>;

// Refuses options that cannot work or would be silently ignored, with one line "KEY: ..." (invalid input; pairs.cc).
// With infill, gen_length is not looked at; make_strategy() then compares steps with the blocks of the canvas. kind:
// refuses options that such a model cannot follow as well. With block-causal attention the K/V of a finished block is
// final and exact (kv_policy.h). So policies that live with stale K/V have no meaning, nor have gaps whose right-hand
// text the model cannot see. With canvases of random tokens there is one way of decoding (uniform_canvas.h), whose
// options mean nothing elsewhere.
OrRefused<void> validate(const DecodeOptions& options, bool infill = false, const ModelKind& kind = {});
// Whether the options work with no model of full attention, so that only their own model can say what is wrong.
bool needs_blocks(const DecodeOptions& options);

}  // namespace llada::decode
