// Which part of a canvas is the answer: the generated text before the first end token. Positions behind it have no
// content. They are all set to one token, so that runs that stopped at different moments end with equal canvases.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "decode/choice.h"
#include "decode/types.h"

namespace llada::decode {

struct Field;

// None of the three changes the text before the first end token; they save the forwards after it.
enum class EarlyStop {
  none,    // until no mask is left, padding among them
  block,   // after the block that holds an end token
  answer,  // once an end token and everything before it is final
};

inline constexpr std::string_view kEarlyStopWords[] = {"none", "block", "answer"};
constexpr Words words(EarlyStop) { return kEarlyStopWords; }

struct EndingOptions {
  EarlyStop early_stop = EarlyStop::answer;
  bool logits_eos_inf = false;          // the end-of-sequence token is never sampled
  bool confidence_eos_eot_inf = false;  // end tokens are sampled but have confidence 0: committed last
};
std::span<const Field> ending_fields();

// Position of the first end token that is not fixed in [begin, end), or end. Masked positions hold none.
int64_t first_end(const Canvas& canvas, int64_t begin, int64_t end, std::span<const int32_t> end_ids);

// Tokens from begin before the first end token; all of them, less padding, when there is none. Masks that are
// left are counted.
int64_t answer_length(const Canvas& canvas, int64_t begin, std::span<const int32_t> end_ids);

// The tokens that count for speed: decided positions of the answer (of the gaps when infilling). Padding, end
// tokens, masks and fixed text are not content.
int64_t content_tokens(const Canvas& canvas, const SpecialIds& ids);

// Length of [begin, ...) that can no longer change: everything fixed or stable.
int64_t final_length(const Canvas& canvas, int64_t begin);

// Whether there is padding, and all before it is final: tokens decided in the padding would be seen by nobody.
bool length_is_final(const Canvas& canvas);

// Whether an end token and everything before it is final, or all but padding. Never for infilling.
bool answer_is_final(const Canvas& canvas, const SpecialIds& ids);

// When answer_is_final(): every position behind the first end token, and all padding, becomes eos (that end token
// where the model has no eos; padding without either stays) and stable. The end token itself stays. Returns the
// positions that changed, as edits of confidence 1. Otherwise nothing changes: a cancelled run keeps its masks.
std::vector<Edit> canonical_tail(Canvas& canvas, const SpecialIds& ids);

}  // namespace llada::decode
