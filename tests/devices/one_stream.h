// A step of one stream, as most tests write it: what its rows read is given per span, guidance by halves of `wanted`.
#pragma once
#include <numeric>
#include <utility>
#include <vector>

#include "sched/executor.h"

namespace llada {

struct OneStream {
  struct Span {
    int32_t begin = 0, count = 0, sequence = 0, keys = 0;  // positions [0, keys) of the sequence have keys
    bool trial = false;
  };
  std::vector<int32_t> tokens, positions;
  std::vector<int32_t> places = {};  // of keys and values; empty: at the positions
  std::vector<Span> spans;
  std::vector<int32_t> wanted;
  double guidance = 0;  // > 0: the second half of `wanted` is unconditional
  SamplingRule sampling;
  bool keep_logits = false;
  KeyRule rule;
  ClassReading reading = {};

  StepInputs over(KvStore& kv) const {
    StepInputs step;
    step.streams = {stream_over(kv)};
    add_to(step, 0);
    return step;
  }
  Stream stream_over(KvStore& kv) const {
    return {.kv = &kv, .sampling = sampling, .keep_logits = keep_logits, .reading = reading};
  }
  // Adds the rows to a step that has the stream already.
  void add_to(StepInputs& step, int32_t stream) const {
    const auto before = static_cast<int32_t>(step.tokens.size()),
               wanted_before = static_cast<int32_t>(step.wanted.size());
    for (const Span& s : spans) {
      const auto part = [&](const std::vector<int32_t>& of) {
        return std::span(of).subspan(static_cast<size_t>(s.begin), static_cast<size_t>(s.count));
      };
      append_span(step, {.stream = stream, .sequence = s.sequence, .trial = s.trial}, part(tokens), part(positions),
                  rule, s.keys, places.empty() ? std::span<const int32_t>() : part(places));
    }
    for (const int32_t row : wanted) step.wanted.push_back(before + row);
    const auto predictions = static_cast<int32_t>(wanted.size()) / (guidance > 0 ? 2 : 1);
    for (int32_t p = wanted_before; p < wanted_before + predictions; ++p)
      step.predictions.push_back({p, guidance > 0 ? p + predictions : -1, guidance});
  }
};

inline std::vector<int32_t> ascending(int32_t first, int32_t last) {
  std::vector<int32_t> all(static_cast<size_t>(last - first));
  std::iota(all.begin(), all.end(), first);
  return all;
}

// The rows of a canvas at these positions, which see all of it.
inline OneStream step_of(const std::vector<int32_t>& canvas, const std::vector<int32_t>& positions,
                         const std::vector<int32_t>& wanted, const KeyRule& rule = {}) {
  OneStream in;
  for (const int32_t p : positions) in.tokens.push_back(canvas[static_cast<size_t>(p)]);
  in.positions = positions;
  in.spans = {{0, static_cast<int32_t>(std::ssize(positions)), 0, static_cast<int32_t>(std::ssize(canvas))}};
  in.wanted = wanted;
  in.keep_logits = true;
  in.rule = rule;
  return in;
}

struct OneResult {
  std::vector<Prediction> predictions;
  std::vector<float> logits;
  std::vector<RowScores> scores;

  OneResult() = default;
  explicit OneResult(StepOutputs out) : predictions(std::move(out.predictions)) {
    if (!out.logits.empty()) logits = std::move(out.logits[0]);
    if (!out.scores.empty()) scores = std::move(out.scores[0]);
  }
};

inline Status run_one(Executor& executor, const OneStream& step, KvStore& kv, OneResult& result) {
  StepOutputs out;
  LLADA_TRY_STATUS(executor.run(step.over(kv), out));
  result = OneResult(std::move(out));
  return {};
}

}  // namespace llada
