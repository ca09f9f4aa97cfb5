// As much canvas as the answer needs (--gen-length auto), after DAEDAL (arXiv 2508.00819). A model that sees how much
// room is left plans its answer for it, and masks far behind the end cost rows for nothing. The canvas is laid for the
// longest answer, but only the positions before a horizon are seen and computed. Where the model predicts end tokens at
// the last positions before the horizon, there is room enough. Where it does not, the answer goes on behind the
// horizon.
//
// The horizon begins two blocks behind the prompt and lies at the end of the block that is being decided or behind it.
// Each forward that computes the last block_length positions before it, behind the current block, also predicts them
// (no row is computed for that). Their mean probability of an end token decides: below kGrow the horizon moves a block
// away, above kShrink it comes a block nearer. DAEDAL asks in separate forwards before it decodes, and puts masks into
// the middle of an answer later. Here every step asks, and blocks are added behind only, since decided tokens are never
// moved. A block that ends without an end token always gets another one behind it, up to gen_length.
//
// With a tail (--tail) the horizon says nothing, as attention sees so many masks behind the block in any case; nor for
// block-causal models, which see nothing behind it. There `auto` only means that no answer is cut before gen_length.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "decode/blocks.h"
#include "decode/types.h"

namespace llada::decode {

struct DecodeOptions;
struct Field;

// Where an answer goes, and how far the blocks reach in which it is decided.
struct LengthOptions {
  int64_t gen_length = 128;   // positions to generate, at most where auto_length; not used when infilling
  bool auto_length = false;   // the canvas is as long as the answer needs (length.h)
  int64_t block_length = 32;  // positions per block; the last block may be shorter
  bool slide = false;         // one block that begins at the first mask, wherever that is, in place of fixed ones
  int64_t steps = 0;          // forwards of the whole run, for the rules with a schedule; 0: one token per step
};
std::span<const Field> length_fields();

inline constexpr int64_t kAutoLength = 1024;  // most positions of `auto`, where no other number is given
inline constexpr int64_t kMaxGenLength = int64_t{1} << 20;
inline constexpr int64_t kMaxSteps = int64_t{1} << 30;

// Whether auto_length needs a Length. A tail or a block-causal model bounds the visible canvas without one, and there
// the length is only a cap. Never when infilling.
bool predicts_length(const DecodeOptions& options, int64_t attention_block);

class Length {
 public:
  static constexpr double kGrow = 0.5, kShrink = 0.9;

  // begin: of the generated region; size: of the canvas.
  Length(const LengthOptions& options, const SpecialIds& ids, int64_t begin, int64_t size);

  // A step of the block comes next.
  void enter(const Block& block);
  int64_t horizon() const { return horizon_; }

  // Positions behind the block and before the horizon, at most block_length of them: to be predicted where they are
  // computed.
  std::vector<int32_t> last_positions(const Block& block) const;

  // The predictions of all last_positions().
  void answered(const Block& block, std::span<const Prediction> predictions);

 private:
  double end_probability(const Prediction& prediction) const;

  const int64_t block_length_, size_;
  const std::vector<int32_t> end_ids_;
  int64_t horizon_;
  int32_t block_ = -1;
};

}  // namespace llada::decode
