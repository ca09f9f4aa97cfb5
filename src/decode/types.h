// The data of decoding. Everything here is plain data; strategies are pure functions of it and are tested without a
// model. Words:
//   canvas  the token array that is denoised
//   block   a span of the canvas that commits together
//   step    one forward pass
//   plan    a strategy's request for one step
//   row     one canvas position computed in a step
//   edit    one changed position
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/uniform_canvas.h"
#include "tensor/class_scores.h"
#include "tensor/prediction.h"

namespace llada::decode {

enum class TokenState : uint8_t {
  fixed,    // prompt or template text: never edited
  masked,   // not decided
  visible,  // committed, may still be revised
  stable,   // final
};

// positions 0..size-1. The generated region is everything that is not `fixed`; for plain generation it is one
// span at the end, for infilling it may be several gaps.
struct Canvas {
  std::vector<int32_t> tokens;
  std::vector<TokenState> states;
  int32_t mask_id = -1;  // -1: there is none, and an undecided position holds any token
  bool infill = false;   // gaps in a fixed text: an end token would not end it
  // The last positions that only fill the last block of a block-causal model with masks. They are decided like all
  // others, since the model sees them, but are no part of the answer.
  int64_t padding = 0;

  // The token to feed at an undecided position. Whether a position is undecided, only its state says.
  int32_t undecided_token() const { return mask_id; }
  bool may_hold(int32_t token, TokenState state) const {
    return mask_id < 0 ? token >= 0 : (token == mask_id) == (state == TokenState::masked);
  }
  bool is_undecided(int64_t position) const { return states[static_cast<size_t>(position)] == TokenState::masked; }

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  int64_t answer_end() const { return size() - padding; }
};

// Which kinds of options a model can be decoded with.
struct ModelKind {
  int64_t attention_block = 0;  // as in SpecialIds
  UniformCanvas uniform = {};   // length > 0: canvases of random tokens
  bool causal_text = false;     // as in SpecialIds
  bool decided_first = false;   // as in SpecialIds
  bool moves_text = true;       // false: it is known to have no ids for deletions and insertions
  bool whole_blocks = false;    // rows of a block are computed together

  // Whether finished text is final, because later forwards have read it causally.
  bool keeps_finished() const { return causal_text || decided_first; }

  ModelKind(int64_t block = 0, const UniformCanvas& canvas = {}, bool causal = false)
      : attention_block(block), uniform(canvas), causal_text(causal) {}
};

struct SpecialIds {
  int32_t mask = -1;
  int32_t eos = -1;                   // also fills the canonical tail; -1: none
  int32_t eot = -1;                   // end of turn; -1: none
  std::vector<int32_t> end_ids = {};  // the tokens that end an answer
  bool shift_logits = false;          // row i - 1 predicts position i, and row 0 also position 0 (Dream)
  // > 0: block-causal attention (LLaDA2): a position sees its own block of so many positions, counted from 0,
  // and all blocks before it. 0: every position sees all.
  int64_t attention_block = 0;
  // The blocks are counted from the end of the prompt. A position before the current block sees only the positions
  // before itself, and its row then predicts the next position (causal_strategy.h). With an attention_block.
  bool causal_text = false;
  // Attention is causal over the decided positions, and behind them the masks, which keep their positions (WeDLM,
  // decided_first.h). attention_block is the window of positions that are decided together.
  bool decided_first = false;
  // Blocks are counted from the end of the prompt, whose first one may be shorter (dLLM's sampler, which fills up a
  // prompt to whole blocks from the left).
  bool prompt_ends_block = false;
  bool cuts_last_block = false;  // the last block ends with the answer, and is not filled up with masks
  UniformCanvas uniform = {};    // length > 0: canvases of random tokens below vocab, and no mask (uniform_canvas.h)
  int64_t vocab = 0;
  // Special tokens that are edits, no text (LLaDA2.2). Predicted at a position, delete_id deletes the token there, and
  // split_id inserts a mask before it. -1: none.
  int32_t delete_id = -1, split_id = -1;
  bool whole_blocks = false;  // the rows of a block choose experts together, so they are computed together

  ModelKind kind() const {
    ModelKind kind(attention_block, uniform, causal_text);
    kind.moves_text = delete_id >= 0 && split_id >= 0;
    kind.whole_blocks = whole_blocks;
    kind.decided_first = decided_first;
    return kind;
  }

  // For one run: positions before it are one shorter block, or the prompt.
  int64_t block_origin = 0;
  SpecialIds behind(int64_t prompt) const {
    SpecialIds ids = *this;
    if (causal_text || decided_first)
      ids.block_origin = prompt;
    else if (prompt_ends_block && attention_block > 0)
      ids.block_origin = prompt % attention_block;
    return ids;
  }
  // The block that a position is in; with an attention_block.
  int64_t block_begin(int64_t position) const {
    return position < block_origin ? 0 : position - (position - block_origin) % attention_block;
  }
  int64_t block_end(int64_t position) const {
    return position < block_origin ? block_origin : block_begin(position) + attention_block;
  }

  // Where finished text has final K/V that other requests may read: such a prefix is a multiple of this number of
  // positions. It is a whole block; causally encoded text can be cut anywhere. 0: nowhere.
  int64_t prefix_unit() const {
    if (prompt_ends_block) return 0;  // the length of the prompt counts
    constexpr int64_t kCausal = 32;
    return uniform.length > 0 || causal_text || decided_first ? kCausal : attention_block;
  }
  // For one run: how many of the positions before this one have K/V that nothing from this one on changes. Another run
  // may read it where its blocks are counted from the same origin.
  int64_t final_before(int64_t position) const {
    if (prompt_ends_block && attention_block > 0) return block_begin(position);
    const int64_t unit = prefix_unit();
    return unit > 0 ? position / unit * unit : 0;
  }

  // The row whose logits predict a position, and the last position that a row predicts.
  int32_t row_of(int64_t position) const {
    return static_cast<int32_t>(shift_logits && position > 0 ? position - 1 : position);
  }
  int64_t predicted_by(int64_t row) const { return shift_logits ? row + 1 : row; }
};

using llada::Prediction;

struct Edit {
  int32_t position = 0;
  int32_t token = -1;
  TokenState state = TokenState::stable;
  double confidence = 0;
  int32_t from = -1;     // where the token stood, or the row that predicted it, when a deletion or insertion moved it
  bool by_form = false;  // text of the form itself, which left no choice
};

// A few rows of a forward that are computed with other inputs than the canvas holds, to ask "what would be predicted
// here if this were masked?". They read the stored K/V of all other positions, and their own at theirs, which is not
// stored: no other row sees it.
struct Trial {
  std::vector<int32_t> rows;                // positions, ascending
  std::vector<int32_t> inputs;              // token fed at each
  std::vector<int32_t> unconditional = {};  // token fed at each row of guidance's second stream
  int32_t logits = 0;                       // the one of `rows` whose prediction is wanted
  bool operator==(const Trial&) const = default;
};

// A pass that needs nothing of the step's dense rows and can run beside them on another device, and beside those of
// later steps. It reads the canvas and the K/V as they were before the step that begins it. Its results land at the end
// of a step, which that step's plan says (Landing); until then nobody sees them. One pass of a request is under way at
// a time. Where there is one device it runs first and is charged as a forward of its own.
struct SparsePlan {
  std::vector<int32_t> rows;                // positions whose K/V is recomputed; none of the dense rows
  std::vector<int32_t> inputs;              // token fed at each
  std::vector<int32_t> unconditional = {};  // token fed at each row of guidance's second stream
  std::vector<Trial> trials;
  // Attention reads positions [0, keys): all of them have K/V before the step. With a horizon that moves it is less
  // than the step's own keys, some of which the step itself computes for the first time.
  int32_t keys = 0;

  bool empty() const { return rows.empty() && trials.empty(); }
  bool operator==(const SparsePlan&) const = default;
};

// Whether the pass under way, which this step may have begun, lands at the end of the step.
struct Landing {
  enum class When { not_yet, if_there, waited };  // waited: the step ends no earlier than the pass
  When when = When::not_yet;
  // The rows of the pass whose K/V replaces the stored one: neither the token nor the stored K/V has changed since the
  // pass began. Ascending.
  std::vector<int32_t> stored = {};
  bool operator==(const Landing&) const = default;
};

// One forward as a strategy asks for it. It computes `rows`; the K/V of all other positions that it reads is in the
// store from earlier steps. rows may be empty where there are trials, or where the step only waits for a pass to land.
struct StepPlan {
  std::vector<int32_t> rows;    // positions to compute, ascending
  std::vector<int32_t> inputs;  // token fed at each row (usually the canvas token; a revision feeds the mask)
  // Where the rows' keys and values are kept, and which of them a row reads (decided_first.h); empty: at its position.
  std::vector<int32_t> places = {};
  std::vector<int32_t> logits;  // positions (a subset of rows) whose predictions are wanted, ascending
  int32_t ranked = 0;           // best tokens that are wanted beside each of these predictions
  int32_t keys = 0;             // attention reads positions [0, keys)
  int32_t block_origin = 0;     // as in SpecialIds, where attention is block-causal
  int32_t causal_below = 0;     // rows and trials at positions before this one read no later position
  // > 0: guidance by a second, unconditional stream with the prompt masked; logits = u + (s + 1)(c - u).
  double cfg_scale = 0;
  std::vector<int32_t> unconditional = {};  // token fed at each row of that stream; empty without guidance
  int32_t block_begin = 0, block_end = 0;   // the current block [begin, end)
  std::vector<Trial> trials = {};           // ride in the same forward as the rows and read their fresh K/V
  SparsePlan sparse = {};                   // begins with the step, beside its rows; empty: no pass begins
  Landing landing = {};                     // of the pass under way
  // The rows go through the model's pass that encodes a prompt: each reads the positions before it, nothing is
  // predicted.
  bool encode = false;
  // > 0: predictions are of softmax(logits / temperature). draws: for each of `logits` a number u in (0, 1); it draws
  // the first token, by id, at which the cumulative probability exceeds u.
  double temperature = 0;
  std::vector<double> draws = {};
  // Self-conditioning: the rows also read softmax(logits / temperature) of the last step with a temperature.
  bool conditioned = false;
  bool operator==(const StepPlan&) const = default;
};

// The results of a step.
struct StepResult {
  std::vector<Prediction> predictions = {};  // in plan.logits' order
  std::vector<Prediction> trials = {};       // one per plan.trials
  std::vector<int32_t> drawn = {};           // one per plan.draws
  // plan.ranked tokens for each prediction: those that may be sampled, the best first (ties: the lower id), then -1.
  std::vector<int32_t> ranked = {};
  std::vector<Prediction> sparse = {};  // one per trial of the sparse pass that landed
  std::optional<int64_t> landed = {};   // the number of that pass's forward; none has landed without
  // For a request with a form, by the classes of its tokens: of predictions, trials and sparse.
  std::vector<RowScores> scores = {}, trial_scores = {}, sparse_scores = {};
};

}  // namespace llada::decode
