// The reader of recorded acceptance dynamics for simulate (read_replay): how many rows each pass computed and
// what it committed. The format is that of recordings, of which nothing else is looked at.
#include <algorithm>

#include "formats/json.h"
#include "study/simulate.h"
#include "text/text_file.h"

namespace llada {
namespace {

constexpr int64_t kMostRows = 1 << 20, kMostPasses = 1 << 20;

using nlohmann::json;

struct Place {
  std::string where;  // file and line
  std::unexpected<Error> wrong(std::string_view field, std::string_view needed) const {
    return invalid("{}: {}: needed {}", where, field, needed);
  }
};

Result<int64_t> count(const json& step, const char* field, const Place& at, int64_t least) {
  if (!step.contains(field) || !step[field].is_number_integer()) return at.wrong(field, "a count");
  const auto n = step[field].get<int64_t>();
  if (n < least || n > kMostRows) return at.wrong(field, fmt::format("{} to {}", least, kMostRows));
  return n;
}

// Positions in a list of ranges [begin, end).
Result<int64_t> positions(const json& step, const char* field, const Place& at) {
  if (!step.contains(field) || !step[field].is_array()) return at.wrong(field, "a list of ranges");
  int64_t sum = 0, last = 0;
  for (const json& range : step[field]) {
    if (!range.is_array() || range.size() != 2 || !range[0].is_number_integer() || !range[1].is_number_integer())
      return at.wrong(field, "ranges [begin, end]");
    const auto begin = range[0].get<int64_t>(), end = range[1].get<int64_t>();
    if (begin < last || end <= begin || end > kMostRows) return at.wrong(field, "ascending ranges");
    sum += end - begin, last = end;
  }
  return sum;
}

// Rows of trials: [position, rows, token, confidence].
Result<int64_t> trial_rows(const json& step, const char* field, const Place& at) {
  if (!step.contains(field)) return 0;
  if (!step[field].is_array()) return at.wrong(field, "a list of trials");
  int64_t sum = 0;
  for (const json& trial : step[field]) {
    if (!trial.is_array() || trial.size() < 2 || !trial[1].is_number_integer())
      return at.wrong(field, "trials [position, rows, ...]");
    const auto rows = trial[1].get<int64_t>();
    if (rows < 1 || rows > kMostRows) return at.wrong(field, "trials of 1 row or more");
    sum += rows;
  }
  return sum;
}

// Rows and logits of states computed beside the step: [rows, wanted].
Result<std::pair<int64_t, int64_t>> draft_rows(const json& step, const Place& at) {
  std::pair<int64_t, int64_t> sum{0, 0};
  if (!step.contains("drafts")) return sum;
  if (!step["drafts"].is_array()) return at.wrong("drafts", "a list of drafts");
  for (const json& draft : step["drafts"]) {
    if (!draft.is_array() || draft.size() != 2 || !draft[0].is_number_integer() || !draft[1].is_number_integer())
      return at.wrong("drafts", "drafts [rows, wanted]");
    const auto rows = draft[0].get<int64_t>(), wanted = draft[1].get<int64_t>();
    if (rows < 1 || rows > kMostRows || wanted < 0 || wanted > rows)
      return at.wrong("drafts", "drafts of 1 row or more, wanted ones among them");
    sum.first += rows, sum.second += wanted;
  }
  return sum;
}

// With guidance both streams compute the step's rows; their logits are one set (the head takes the mixture).
Result<SimulatedPass> read_step(const json& step, const Place& at, int64_t streams) {
  if (!step.is_object()) return at.wrong("step", "an object");
  LLADA_TRY(const int64_t computed, positions(step, "rows", at));
  LLADA_TRY(const int64_t trials, trial_rows(step, "trials", at));
  LLADA_TRY(const int64_t wanted, positions(step, "wanted", at));
  LLADA_TRY(const int64_t keys, count(step, "keys", at, 1));
  LLADA_TRY(const auto drafts, draft_rows(step, at));
  const int64_t rows = computed + trials + drafts.first,
                logits = wanted + drafts.second +
                         (step.contains("trials") ? static_cast<int64_t>(step["trials"].size()) : 0);
  if (rows < 1 || rows > kMostRows) return at.wrong("rows", fmt::format("1 to {} rows", kMostRows));
  if (logits > rows) return at.wrong("wanted", "no more than the rows");
  SimulatedPass pass{static_cast<int32_t>(streams * rows), static_cast<int32_t>(logits), static_cast<int32_t>(keys)};
  if (step.contains("left")) {
    LLADA_TRY(const int64_t left, positions(step, "left", at));
    if (left > computed - wanted || (left > 0 && (wanted == 0 || trials > 0 || streams > 1)))
      return at.wrong("left", "rows without logits, in a step without trials or guidance that has some with");
    pass.left = static_cast<int32_t>(left);
  }
  if (step.contains("sparse_rows")) {
    LLADA_TRY(const int64_t sparse, positions(step, "sparse_rows", at));
    LLADA_TRY(const int64_t sparse_trials, trial_rows(step, "sparse_trials", at));
    if (sparse + sparse_trials > kMostRows) return at.wrong("sparse_rows", fmt::format("at most {} rows", kMostRows));
    pass.sparse = static_cast<int32_t>(streams * (sparse + sparse_trials));
    pass.sparse_wanted = step.contains("sparse_trials") ? static_cast<int32_t>(step["sparse_trials"].size()) : 0;
  }
  return pass;
}

Status read_run(const json& run, const Place& at, ReplayTrace& trace) {
  if (!run.is_object()) return at.wrong("run", "an object");
  for (const auto& [field, to] : {std::pair{"strategy", &trace.strategy}, {"task", &trace.task}})
    if (run.contains(field) && run[field].is_string()) *to = run[field].get<std::string>();
  if (run.contains("prompt_tokens")) {
    LLADA_TRY(trace.prompt_tokens, count(run, "prompt_tokens", at, 0));
  }
  if (run.contains("streams")) {
    LLADA_TRY(trace.streams, count(run, "streams", at, 1));
    if (trace.streams > 2) return at.wrong("streams", "1 or 2");
  }
  return {};
}

}  // namespace

Result<ReplayTrace> parse_replay(std::string_view text, std::string_view origin, int64_t run) {
  ReplayTrace trace;
  int64_t number = 0, runs = 0;
  for (; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const Place at{fmt::format("{}:{}", origin, number + 1)};
    LLADA_TRY(const json object,
              parse_json_object(line, at.where, {.depth = 8, .values = 1 << 20, .run_bytes = 1 << 20}));
    if (number == 0) {
      if (!object.contains("format") || object["format"] != "llada-recording" || !object.contains("version") ||
          object["version"] != 1)
        return at.wrong("format", "llada-recording, version 1");
      continue;
    }
    if (object.contains("run") && runs++ == run) LLADA_TRY_STATUS(read_run(object["run"], at, trace));
    if (!object.contains("step") || runs - 1 != run) continue;
    LLADA_TRY(const SimulatedPass pass, read_step(object["step"], at, trace.streams));
    if (static_cast<int64_t>(trace.passes.size()) >= kMostPasses)
      return at.wrong("step", fmt::format("at most {}", kMostPasses));
    const json& step = object["step"];
    if (!step.contains("committed") || !step["committed"].is_number_integer()) return at.wrong("committed", "a count");
    const auto committed = step["committed"].get<int64_t>();
    if (committed < -kMostRows || committed > kMostRows) return at.wrong("committed", "a count");
    // A step that an earlier one had computed took no pass.
    if (!(step.contains("known") && step["known"] == 1)) trace.passes.push_back(pass);
    trace.tokens += committed;
  }
  if (trace.passes.empty()) return invalid("{}: found {} runs, needed run {} (from 0) with steps", origin, runs, run);
  return trace;
}

Result<ReplayTrace> read_replay(const std::string& path, int64_t run) {
  LLADA_TRY(const std::string text, read_text_file(path));
  return parse_replay(text, path, run);
}

}  // namespace llada
