// The inputs that change from step to step: the rows that a forward computes, and the requests that they belong to.
//
// Words:
//   stream  one request's part of a step, with its own K/V store and its own rules of sampling
//   span    consecutive rows of one sequence of a stream
//   trial   rows that are computed as if they stood in their sequence, and leave no trace there
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/key_range.h"
#include "tensor/class_scores.h"
#include "tensor/prediction.h"

namespace llada {

class KvStore;

// A model may compute in more than one way over one set of weights.
enum class Pass : uint8_t {
  denoise,  // rows of a canvas, and predictions of some of them
  encode,   // a prompt: each row reads the rows before it, keys and values are stored, nothing is predicted
};

// Probabilities of tokens for each row of a canvas, from a step before (self-conditioning).
struct SoftTokens {
  std::vector<int64_t> begin = {0};  // row i has entries [begin[i], begin[i + 1])
  std::vector<int32_t> tokens;       // of a row ascending
  std::vector<float> probabilities;
};

// For a stream whose rows are a canvas of random tokens, all of them predicted. Predictions are of softmax(logits /
// temperature): the best token of each is chosen, and another one is drawn. 0: neither. The logits are kept.
struct Tempering {
  double temperature = 0;
  std::span<const double> draws = {};  // by prediction, from 0 to 1
};
struct Tempered {
  std::vector<int32_t> drawn;  // the first token whose probability and those of all lower ids sum to more than the draw
  SoftTokens soft;             // tokens so improbable that they change no activation are left out
};

struct Stream {
  KvStore* kv = nullptr;  // no other stream's; null where the program stores no keys
  SamplingRule sampling = {};
  bool keep_logits = false;
  // A number for the block of the request that its rows are of: steps of one block choose experts alike.
  int32_t block = 0;
  // Self-conditioning of all rows of the stream, in order; null: none. For programs with soft_embed.
  const SoftTokens* soft = nullptr;
  Tempering tempering = {};
  ClassReading reading = {};  // of the rows of its predictions
};

// Rows [begin, begin + count) of the step belong to one sequence of one stream. A trial's rows store nothing. Each
// attends to the sequence as it is after the step's other rows were stored, with the trial's own keys and values at the
// trial's positions. No other span sees these.
struct RowSpan {
  int32_t begin = 0, count = 0;
  int32_t stream = 0, sequence = 0;
  bool trial = false;
};

// One prediction, by indices into the step's wanted rows, both of one stream. The head reads u + (scale + 1)(c - u) of
// the conditional and the unconditional row, or c alone where there is no unconditional row.
struct PredictedRow {
  int32_t conditional = 0, unconditional = -1;
  double scale = 0;
};

// One forward. Every row is one token at one position of its span's sequence, and reads one range of that sequence. The
// model's rule (KeyRule) made this range when the step was put together.
struct StepInputs {
  std::vector<Stream> streams;
  std::vector<RowSpan> spans;  // cover all rows, in order
  std::vector<int32_t> tokens, positions;
  std::vector<int32_t> places = {};  // where in its sequence a row's keys and values lie; empty: at its position
  std::vector<KeyRange> ranges;
  std::vector<int32_t> wanted;            // rows that predictions need, ascending
  std::vector<PredictedRow> predictions;  // of a stream together
  Pass pass = Pass::denoise;

  const std::vector<int32_t>& kept_at() const { return places.empty() ? positions : places; }
};

struct StepOutputs {
  std::vector<Prediction> predictions;         // as in StepInputs
  std::vector<std::vector<float>> logits;      // by stream: its predictions x vocabulary; empty where they are not kept
  std::vector<std::vector<RowScores>> scores;  // by stream: of its predictions; empty where it has no reading
  std::vector<Tempered> tempered = {};         // by stream; empty where no stream asks for it
};

// How a model attends, as one rule for all its rows. The parts narrow each other; none of them: every row reads all.
struct KeyRule {
  int32_t block = 0;         // > 0: nothing behind the row's own block of so many positions, counted from `origin`
  int32_t origin = 0;        // positions before it are one shorter block
  int32_t before = -1;       // >= 0: at most so many positions before the row's own
  int32_t after = -1;        // >= 0: at most so many behind it
  int32_t causal_below = 0;  // rows at lower positions (a prompt's) read no later position

  static KeyRule full() { return {}; }
  static KeyRule causal() { return {.after = 0}; }
  static KeyRule block_causal(int32_t block) { return {.block = block}; }
  static KeyRule window(int32_t before, int32_t after) { return {.before = before, .after = after}; }

  // The keys that a row at `position` reads where positions [0, keys) have keys; at least one.
  KeyRange of(int32_t position, int32_t keys) const;
};

// A sliding window of some layers' attention: it cuts a row's range to at least one key. Counted from the row's own
// position, or from that of the first row of its span, so that all rows of a canvas see the same; -1: no limit.
struct KeyWindow {
  int32_t before = -1, after = -1;
  bool of_span = false;

  bool none() const { return before < 0 && after < 0; }
  KeyRange of(int32_t position, KeyRange range) const;
  bool operator==(const KeyWindow&) const = default;
};

// Adds rows to a step as a span of its own. The rule gives the keys that they read: by their places where they are not
// kept at their positions.
void append_span(StepInputs& step, const RowSpan& whose, std::span<const int32_t> tokens,
                 std::span<const int32_t> positions, const KeyRule& rule, int32_t keys,
                 std::span<const int32_t> places = {});

}  // namespace llada
