// The rows of every pass of a recorded run, and the tokens that came of it, for simulate (read_replay).
#include <algorithm>

#include "eval/recording.h"
#include "study/simulate.h"

namespace llada {
namespace {

constexpr int64_t kMostRows = 1 << 20;  // of a pass

// With guidance both streams compute the step's rows; their logits are one set (the head takes the mixture).
// A step without rows waits for the pass under way, so it is not the first (least 1).
Result<SimulatedPass> pass_of(const RecordedStep& step, int64_t streams, int64_t least) {
  const int64_t dense = step.dense_row_count(), sparse = step.sparse_row_count();
  if (dense < least || dense > kMostRows || sparse > kMostRows)
    return invalid("found {} rows, needed {} to {}", dense < least ? dense : std::max(dense, sparse), least, kMostRows);
  return SimulatedPass{.rows = static_cast<int32_t>(streams * dense),
                       .wanted = static_cast<int32_t>(step.logit_count()),
                       .keys = step.keys,
                       .sparse = static_cast<int32_t>(streams * sparse),
                       .sparse_wanted = static_cast<int32_t>(step.sparse_trials.size())};
}

Result<ReplayTrace> replay_of(const Recording& recording, std::string_view origin, int64_t number) {
  const auto runs = static_cast<int64_t>(recording.runs.size());
  if (number < 0 || number >= runs || recording.runs[static_cast<size_t>(number)].steps.empty())
    return invalid("{}: found {} runs, needed run {} (from 0) with steps", origin, runs, number);
  const RecordedRun& run = recording.runs[static_cast<size_t>(number)];
  ReplayTrace trace{.passes = {},
                    .strategy = run.strategy,
                    .task = run.task,
                    .prompt_tokens = run.prompt_tokens,
                    .streams = run.guided ? 2 : 1};
  for (size_t i = 0; i < run.steps.size(); ++i) {
    const RecordedStep& step = run.steps[i];
    trace.tokens += step.committed;
    const auto pass = pass_of(step, trace.streams, i == 0 ? 1 : 0);
    if (!pass) return invalid("{}: run {}, step {}: {}", origin, number, i, pass.error().message);
    trace.passes.push_back(*pass);
  }
  return trace;
}

}  // namespace

Result<ReplayTrace> parse_replay(std::string_view text, const std::string& origin, int64_t run) {
  LLADA_TRY(const Recording recording, parse_recording(text, origin));
  return replay_of(recording, origin, run);
}

Result<ReplayTrace> read_replay(const std::string& path, int64_t run) {
  LLADA_TRY(const Recording recording, read_recording(path));
  return replay_of(recording, path, run);
}

}  // namespace llada
