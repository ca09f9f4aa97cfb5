// Recordings: decoding step by step (rows, confidences, edits), written by `llada eval --record`. A simulator replays
// them, which needs the dynamics of acceptance but no model. JSON lines; docs/lab/recording.md has the fields.
// Deliberately absent: token texts, logits, times (a recording is the same on every machine that computes the same
// predictions).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "decode/denoiser.h"

namespace llada {

// Positions [begin, end).
struct PositionRange {
  int32_t begin = 0, end = 0;
  bool operator==(const PositionRange&) const = default;
};

// A token that was predicted again with itself masked.
struct RecordedTrial {
  int32_t position = 0;
  int32_t rows = 1;  // computed for it, and never stored
  int32_t token = 0;
  double confidence = 0;
  bool operator==(const RecordedTrial&) const = default;
};

struct RecordedStep {
  std::vector<PositionRange> rows;    // computed positions, ascending, not touching
  std::vector<PositionRange> wanted;  // those whose logits were computed, ascending
  int32_t keys = 0;                   // attention read positions [0, keys)
  PositionRange block;                // the current block
  std::vector<int32_t> predicted;     // best token of each wanted position, in order
  std::vector<double> confidence;     // its probability, in the same order
  std::vector<RecordedTrial> trials;  // in the same forward as the rows
  // The sparse plan, which may run beside the rows: positions whose K/V it renewed, and its trials.
  std::vector<PositionRange> sparse_rows;
  std::vector<RecordedTrial> sparse_trials;
  std::vector<decode::Edit> edits;  // ascending by position
  int64_t committed = 0;            // positions decided in this step minus those masked again
  int64_t final = 0;                // length of the final contiguous text after the step

  int64_t dense_row_count() const;   // rows and trials
  int64_t sparse_row_count() const;  // 0: no sparse plan
  int64_t logit_count() const;       // of rows and trials
  int64_t row_count() const { return dense_row_count() + sparse_row_count(); }
};

struct RecordedRun {
  std::string strategy, options, task;
  int64_t example = 0;  // index in the file of tasks, from 0
  int64_t prompt_tokens = 0;
  int64_t positions = 0;        // of the canvas, prompt included
  bool guided = false;          // classifier-free guidance: every row was computed twice
  int64_t attention_block = 0;  // of a block-causal model; 0: full attention
  std::vector<RecordedStep> steps;
};

struct Recording {
  std::string model;  // its path when it was recorded
  std::vector<RecordedRun> runs;
};

std::vector<PositionRange> ranges_of(std::span<const int32_t> ascending);

// Collects the steps of one run.
class RunRecorder {
 public:
  // attention_block: of the model.
  RunRecorder(std::string strategy, std::string options, std::string task, int64_t example,
              int64_t attention_block = 0);
  void step(const decode::StepEvent& event);
  const RecordedRun& run() const { return run_; }

 private:
  RecordedRun run_;
  size_t pass_ = 0;  // step that began the last sparse pass
  int64_t decided_ = 0;
};

// The first line of a file, and the lines of one run; each ends with a newline.
std::string recording_header(const std::string& model);
std::string recording_lines(const RecordedRun& run);

// Errors name the line and the field. Whatever the text holds, memory stays proportional to its size.
Result<Recording> parse_recording(std::string_view text, const std::string& source);
Result<Recording> read_recording(const std::string& path);

}  // namespace llada
