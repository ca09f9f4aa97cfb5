// Whole runs at the pace of a recording: a model, which may have random weights, does the forwards that a trained one
// did, row for row (llada eval --record; eval/recording.h). Which tokens were decided, and when, is the recording's.
// Deliberately absent: recordings with guidance.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "decode/strategy.h"
#include "engine/model.h"
#include "eval/recording.h"
#include "lab/bench/whole_run.h"

namespace llada::bench {

// One strategy of a recording: sums over the runs that were followed.
struct ReplayResult {
  std::string strategy, options;
  int64_t runs = 0, prompt_tokens = 0;
  int64_t tokens = 0;  // of the answers, without the padding behind their ends
  int64_t forwards = 0, rows = 0, logit_rows = 0;
  double seconds = 0;  // median over the repeats of a sum over the runs
  double seconds_min = 0, seconds_max = 0;
  AutoregressionBound bound = {};
};

// The decided positions of a run before its last token and all repetitions of that: an end, and padding.
int64_t answer_tokens(const RecordedRun& run);

// The `most` runs of each strategy whose prompts and answers are nearest to so many tokens, in the recording's order.
std::vector<std::vector<RecordedRun>> nearest_runs(const Recording& recording, int64_t prompt_tokens, int64_t tokens,
                                                   int64_t most);

// A strategy that follows the run; the error names a run that cannot be followed, and why. vocab: ids are below it.
Result<std::unique_ptr<decode::Strategy>> replay_strategy(const RecordedRun& run, int64_t vocab);

// Refuses recordings of another kind of attention than the model's; attention_block: of the model, 0: full.
Status check_attention(const std::vector<RecordedRun>& runs, int64_t attention_block);

// Follows the runs, all of one strategy.
Result<ReplayResult> measure_replay(const Model& model, const std::vector<RecordedRun>& runs, int repeats,
                                    const RunSettings& settings = {});

}  // namespace llada::bench
