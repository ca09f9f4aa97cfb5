#include "lab/bench/replay.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "bench/machine.h"
#include "decode/canvas.h"

namespace llada::bench {
namespace {

std::vector<int32_t> expanded(const std::vector<PositionRange>& ranges) {
  std::vector<int32_t> positions;
  for (const PositionRange& r : ranges)
    for (int32_t p = r.begin; p < r.end; ++p) positions.push_back(p);
  return positions;
}

class Replay final : public decode::Strategy {
 public:
  Replay(const RecordedRun& run, int64_t vocab) : run_(run), vocab_(vocab) {}

  decode::StepPlan plan(const decode::Canvas& canvas) override {
    const RecordedStep& step = run_.steps[at_];
    decode::StepPlan plan;
    plan.rows = expanded(step.rows), plan.logits = expanded(step.wanted);
    plan.keys = step.keys;
    plan.block_begin = step.block.begin, plan.block_end = step.block.end;
    plan.inputs = decode::tokens_at(canvas, plan.rows);
    plan.trials = trials(canvas, step.trials);
    plan.sparse.rows = expanded(step.sparse_rows);
    plan.sparse.inputs = decode::tokens_at(canvas, plan.sparse.rows);
    plan.sparse.trials = trials(canvas, step.sparse_trials);
    plan.sparse.keys = step.keys;
    // Recorded edits are followed, so nothing is lost by a pass that lands at once.
    if (!plan.sparse.empty()) {
      plan.landing.when = decode::Landing::When::waited;
      std::ranges::set_difference(plan.sparse.rows, plan.rows, std::back_inserter(plan.landing.stored));
    }
    return plan;
  }

  std::vector<decode::Edit> accept(const decode::Canvas& canvas, const decode::StepResult&) override {
    std::vector<decode::Edit> edits = run_.steps[at_++].edits;
    // A step that only waited for a pass has no forward of its own.
    for (; at_ < run_.steps.size() && run_.steps[at_].row_count() == 0; ++at_)
      for (const decode::Edit& edit : run_.steps[at_].edits) decode::put(edits, edit);
    for (decode::Edit& edit : edits)
      edit.token =
          edit.state == decode::TokenState::masked ? canvas.mask_id : static_cast<int32_t>(edit.token % vocab_);
    return edits;
  }

  bool done(const decode::Canvas&) const override { return at_ == run_.steps.size(); }
  int64_t step_bound() const override { return std::ssize(run_.steps); }

 private:
  // A second row, of models whose rows predict the position behind them, is the one before.
  static std::vector<decode::Trial> trials(const decode::Canvas& canvas, const std::vector<RecordedTrial>& recorded) {
    std::vector<decode::Trial> trials;
    for (const RecordedTrial& r : recorded)
      trials.push_back(decode::trial_of(canvas, r.position, r.position + 1 - r.rows));
    return trials;
  }

  const RecordedRun& run_;
  const int64_t vocab_;
  size_t at_ = 0;
};

Result<WholeRun> follow(const Model& model, const RecordedRun& run, const std::function<bool()>& stopped) {
  // No token of a recording is to end the run early.
  const int64_t plain = ordinary_ids(model);
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < run.prompt_tokens; ++i) prompt.push_back(static_cast<int32_t>(i % plain));
  const auto strategy = [&](const decode::Canvas&) { return replay_strategy(run, plain); };
  return run_whole(model, prompt, run.positions - run.prompt_tokens, strategy, stopped);
}

}  // namespace

int64_t answer_tokens(const RecordedRun& run) {
  std::vector<int32_t> tokens(static_cast<size_t>(run.positions), -1);
  for (const RecordedStep& step : run.steps)
    for (const decode::Edit& edit : step.edits)
      tokens[static_cast<size_t>(edit.position)] = edit.state == decode::TokenState::masked ? -1 : edit.token;
  while (!tokens.empty() && tokens.back() < 0) tokens.pop_back();
  const int32_t padding = tokens.empty() ? -1 : tokens.back();
  while (!tokens.empty() && (tokens.back() < 0 || tokens.back() == padding)) tokens.pop_back();
  return std::ranges::count_if(tokens, [](int32_t token) { return token >= 0; });
}

std::vector<std::vector<RecordedRun>> nearest_runs(const Recording& recording, int64_t prompt_tokens, int64_t tokens,
                                                   int64_t most) {
  std::vector<std::vector<RecordedRun>> chosen;
  std::vector<std::string> seen;
  for (const RecordedRun& first : recording.runs) {
    if (std::ranges::find(seen, first.strategy) != seen.end()) continue;
    seen.push_back(first.strategy);
    std::vector<std::pair<int64_t, size_t>> order;  // distance, index
    for (size_t i = 0; i < recording.runs.size(); ++i) {
      const RecordedRun& run = recording.runs[i];
      if (run.strategy != first.strategy) continue;
      order.emplace_back(std::abs(run.prompt_tokens - prompt_tokens) + std::abs(answer_tokens(run) - tokens), i);
    }
    std::ranges::sort(order);
    order.resize(std::min(order.size(), static_cast<size_t>(most)));
    std::ranges::sort(order, {}, &std::pair<int64_t, size_t>::second);
    chosen.emplace_back();
    for (const auto& [distance, i] : order) chosen.back().push_back(recording.runs[i]);
  }
  return chosen;
}

Result<std::unique_ptr<decode::Strategy>> replay_strategy(const RecordedRun& run, int64_t vocab) {
  const auto refuse = [&](std::string_view found) {
    return invalid("--replay: strategy {}, example {}: found {}, which is not followed; needed a recording without it",
                   run.strategy, run.example, found);
  };
  if (run.guided) return refuse("guidance");
  for (const RecordedStep& step : run.steps) {
    for (const RecordedTrial& trial : step.trials)
      if (trial.rows > 2 || trial.position < trial.rows - 1) return refuse("a trial of other rows than its own");
  }
  if (run.steps.empty()) return refuse("no step");
  return std::make_unique<Replay>(run, vocab);
}

Status check_attention(const std::vector<RecordedRun>& runs, int64_t attention_block) {
  for (const RecordedRun& run : runs)
    if (run.attention_block != attention_block)
      return invalid(
          "--replay: strategy {}, example {}: found an attention block of {}, needed {}, the model's (0: full "
          "attention)",
          run.strategy, run.example, run.attention_block, attention_block);
  return {};
}

Result<ReplayResult> measure_replay(const Model& model, const std::vector<RecordedRun>& runs, int repeats,
                                    const RunSettings& settings) {
  std::vector<ReplayResult> repeated;
  std::vector<double> readings;
  for (int i = 0; i < repeats; ++i) {
    ReplayResult result = {.strategy = runs.front().strategy, .options = runs.front().options};
    result.bound.bytes_per_token = settings.bytes_per_token;
    if (settings.read_gb_per_s) readings.push_back(settings.read_gb_per_s());
    for (const RecordedRun& run : runs) {
      LLADA_TRY(const auto followed, follow(model, run, settings.stopped));
      const decode::RunStats& stats = followed.stats;
      ++result.runs;
      result.prompt_tokens += run.prompt_tokens;
      result.tokens += answer_tokens(run);
      result.forwards += stats.nfe, result.rows += stats.rows, result.logit_rows += stats.logit_rows;
      result.seconds += followed.seconds;
      result.bound.first_seconds += followed.first_seconds;
      // Padding may be among the tokens that the first forward decides, and is none of the answer's tokens.
      result.bound.first_tokens += std::min(followed.first_tokens, answer_tokens(run));
    }
    repeated.push_back(std::move(result));
  }
  std::ranges::sort(repeated, {}, &ReplayResult::seconds);
  ReplayResult middle = repeated[repeated.size() / 2];
  middle.seconds_min = repeated.front().seconds, middle.seconds_max = repeated.back().seconds;
  middle.bound.read_gb_per_s = median(readings);
  return middle;
}

}  // namespace llada::bench
