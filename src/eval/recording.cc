#include "eval/recording.h"

#include <algorithm>
#include <array>
#include <optional>

#include "json/fields.h"
#include "json/lines.h"
#include "json/parse.h"
#include "text/text_file.h"

namespace llada {
namespace {

using decode::TokenState;

constexpr int64_t kVersion = 1;
constexpr int64_t kMostPositions = int64_t{1} << 24;
constexpr int64_t kMostTokens = int64_t{1} << 30;
constexpr int64_t kMostSteps = int64_t{1} << 32;
constexpr size_t kMostBytes = size_t{4} << 30;
constexpr std::array kStates = {std::pair{TokenState::masked, "masked"}, std::pair{TokenState::visible, "visible"},
                                std::pair{TokenState::stable, "stable"}};

const char* state_name(TokenState state) {
  for (const auto& [value, text] : kStates)
    if (value == state) return text;
  return "fixed";
}

std::string line(const char* kind, Json object) {
  Json json = Json::object();
  json[kind] = std::move(object);
  return json_line(json);
}

Json ranges_json(const std::vector<PositionRange>& ranges) {
  Json list = Json::array();
  for (const PositionRange& r : ranges) list.push_back(Json::array({r.begin, r.end}));
  return list;
}

int64_t total(const std::vector<PositionRange>& ranges) {
  int64_t sum = 0;
  for (const PositionRange& r : ranges) sum += r.end - r.begin;
  return sum;
}

int64_t total(const std::vector<RecordedTrial>& trials) {
  int64_t rows = 0;
  for (const RecordedTrial& trial : trials) rows += trial.rows;
  return rows;
}

Json trials_json(const std::vector<RecordedTrial>& trials) {
  Json list = Json::array();
  for (const RecordedTrial& t : trials) list.push_back(Json::array({t.position, t.rows, t.token, t.confidence}));
  return list;
}

std::vector<RecordedTrial> recorded(std::span<const decode::Trial> trials,
                                    std::span<const decode::Prediction> predictions) {
  std::vector<RecordedTrial> out;
  for (size_t i = 0; i < trials.size(); ++i)
    out.push_back({trials[i].logits, static_cast<int32_t>(trials[i].rows.size()), predictions[i].token,
                   predictions[i].probability});
  return out;
}

int64_t row_sum(const RecordedRun& run) {
  int64_t sum = 0;
  for (const RecordedStep& step : run.steps) sum += step.row_count();
  return sum;
}

int64_t committed_sum(const RecordedRun& run) {
  int64_t sum = 0;
  for (const RecordedStep& step : run.steps) sum += step.committed;
  return sum;
}

bool is_whole(const Json& value, int64_t least, int64_t most) {
  return value.is_number_integer() && value.get<int64_t>() >= least && value.get<int64_t>() <= most;
}

Result<std::vector<PositionRange>> read_ranges(Fields& fields, const char* name, int64_t positions) {
  std::vector<PositionRange> out;
  const auto item = [&](const Json& pair) -> Status {
    const int64_t least = out.empty() ? 0 : out.back().end + 1;
    if (!is_whole(pair[0], least, positions) || !is_whole(pair[1], pair[0].get<int64_t>() + 1, positions))
      return fields.wrong(name, pair, fmt::format("ascending ranges inside 0 to {}", positions));
    out.push_back({pair[0].get<int32_t>(), pair[1].get<int32_t>()});
    return {};
  };
  LLADA_TRY_STATUS(fields.tuples(name, 2, item));
  return out;
}

bool is_probability(const Json& value) {
  return value.is_number() && value.get<double>() >= 0 && value.get<double>() <= 1 + 1e-6;
}

Result<std::vector<RecordedTrial>> read_trials(Fields& fields, const char* name, int64_t positions) {
  std::vector<RecordedTrial> out;
  const auto item = [&](const Json& t) -> Status {
    if (!is_whole(t[0], 0, positions - 1) || !is_whole(t[1], 1, positions) || !is_whole(t[2], 0, kMostTokens) ||
        !is_probability(t[3]))
      return fields.wrong(name, t,
                          fmt::format("[position, rows, token, confidence] with positions below {}", positions));
    out.push_back({t[0].get<int32_t>(), t[1].get<int32_t>(), t[2].get<int32_t>(), t[3].get<double>()});
    return {};
  };
  LLADA_TRY_STATUS(fields.tuples(name, 4, item));
  return out;
}

Result<std::vector<decode::Edit>> read_edits(Fields& fields, int64_t positions) {
  std::vector<decode::Edit> out;
  const auto item = [&](const Json& e) -> Status {
    const auto state =
        std::ranges::find_if(kStates, [&](const auto& entry) { return e[2].is_string() && e[2] == entry.second; });
    const int64_t least = out.empty() ? 0 : out.back().position + 1;
    if (!is_whole(e[0], least, positions - 1) || !is_whole(e[1], 0, kMostTokens) || state == kStates.end() ||
        !is_probability(e[3]))
      return fields.wrong(
          "edits", e, fmt::format("[position, token, state, confidence] with ascending positions below {}", positions));
    out.push_back({e[0].get<int32_t>(), e[1].get<int32_t>(), state->first, e[3].get<double>()});
    return {};
  };
  LLADA_TRY_STATUS(fields.tuples("edits", 4, item));
  return out;
}

// Where the tokens of some edits stood before.
Status read_moves(Fields& fields, int64_t positions, std::vector<decode::Edit>& edits) {
  return fields.tuples("moved", 2, [&](const Json& m) -> Status {
    const bool whole = is_whole(m[0], 0, positions - 1) && is_whole(m[1], 0, positions - 1);
    const auto edit = whole ? std::ranges::find(edits, m[0].get<int32_t>(), &decode::Edit::position) : edits.end();
    if (edit == edits.end())
      return fields.wrong("moved", m,
                          fmt::format("[position, from], the position of an edit and one below {}", positions));
    edit->from = m[1].get<int32_t>();
    return {};
  });
}

Result<RecordedRun> read_run(Fields fields) {
  RecordedRun run;
  LLADA_TRY(run.strategy, fields.text("strategy"));
  LLADA_TRY(run.options, fields.text("options"));
  LLADA_TRY(run.task, fields.text("task"));
  LLADA_TRY(run.example, fields.integer("example", 0, kMostSteps));
  LLADA_TRY(run.positions, fields.integer("positions", 1, kMostPositions));
  LLADA_TRY(run.prompt_tokens, fields.integer("prompt_tokens", 0, run.positions));
  LLADA_TRY(const int64_t streams, fields.integer("streams", 1, 2));
  run.guided = streams == 2;
  if (fields.has("attention_block")) {
    LLADA_TRY(run.attention_block, fields.integer("attention_block", 1, kMostPositions));
  }
  LLADA_TRY_STATUS(fields.finish());
  return run;
}

Result<RecordedStep> read_step(Fields fields, const RecordedRun& run) {
  RecordedStep step;
  LLADA_TRY(step.rows, read_ranges(fields, "rows", run.positions));
  LLADA_TRY(step.wanted, read_ranges(fields, "wanted", run.positions));
  if (total(step.wanted) > total(step.rows))
    return fields.fault(
        "wanted", fmt::format("found {} of {} rows, needed no more than these", total(step.wanted), total(step.rows)));
  LLADA_TRY(const int64_t keys, fields.integer("keys", 1, run.positions));
  step.keys = static_cast<int32_t>(keys);
  LLADA_TRY(const auto block, fields.integers("block", 0, run.positions));
  if (block.size() != 2 || block[0] > block[1])
    return fields.fault("block", fmt::format("needed [begin, end] inside 0 to {}", run.positions));
  step.block = {block[0], block[1]};
  LLADA_TRY(step.predicted, fields.integers("predicted", 0, kMostTokens));
  LLADA_TRY(step.confidence, fields.reals("confidence", 0, 1 + 1e-6));
  const auto wanted = static_cast<size_t>(total(step.wanted));
  if (step.predicted.size() != wanted || step.confidence.size() != wanted)
    return fields.fault("predicted",
                        fmt::format("found {}, with {} confidence for {} wanted positions, needed one each",
                                    step.predicted.size(), step.confidence.size(), wanted));
  LLADA_TRY(step.trials, read_trials(fields, "trials", run.positions));
  LLADA_TRY(step.sparse_rows, read_ranges(fields, "sparse_rows", run.positions));
  LLADA_TRY(step.sparse_trials, read_trials(fields, "sparse_trials", run.positions));
  LLADA_TRY(step.edits, read_edits(fields, run.positions));
  if (fields.has("moved")) LLADA_TRY_STATUS(read_moves(fields, run.positions, step.edits));
  const auto edits = static_cast<int64_t>(step.edits.size());
  LLADA_TRY(step.committed, fields.integer("committed", -edits, edits));
  LLADA_TRY(step.final, fields.integer("final", 0, run.positions));
  LLADA_TRY_STATUS(fields.finish());
  return step;
}

Status check_end(Fields fields, const RecordedRun& run) {
  const auto same = [&](const char* name, int64_t needed) -> Status {
    LLADA_TRY(const int64_t found, fields.integer(name, INT64_MIN, INT64_MAX));
    if (found != needed) return fields.wrong(name, found, fmt::format("{}, the sum of the run's steps", needed));
    return {};
  };
  LLADA_TRY_STATUS(same("steps", static_cast<int64_t>(run.steps.size())));
  LLADA_TRY_STATUS(same("rows", row_sum(run)));
  LLADA_TRY_STATUS(same("committed", committed_sum(run)));
  return fields.finish();
}

}  // namespace

int64_t RecordedStep::dense_row_count() const { return total(rows) + total(trials); }
int64_t RecordedStep::sparse_row_count() const { return total(sparse_rows) + total(sparse_trials); }
int64_t RecordedStep::logit_count() const { return total(wanted) + static_cast<int64_t>(trials.size()); }

std::vector<PositionRange> ranges_of(std::span<const int32_t> ascending) {
  std::vector<PositionRange> out;
  for (const int32_t p : ascending) {
    if (!out.empty() && out.back().end == p) {
      ++out.back().end;
    } else {
      out.push_back({p, p + 1});
    }
  }
  return out;
}

RunRecorder::RunRecorder(std::string strategy, std::string options, std::string task, int64_t example,
                         int64_t attention_block) {
  run_.strategy = std::move(strategy);
  run_.options = std::move(options);
  run_.task = std::move(task);
  run_.example = example;
  run_.attention_block = attention_block;
}

void RunRecorder::step(const decode::StepEvent& event) {
  const auto is_decided = [](TokenState s) { return s == TokenState::visible || s == TokenState::stable; };
  const auto decided = static_cast<int64_t>(std::ranges::count_if(event.canvas.states, is_decided));
  if (run_.steps.empty()) {
    run_.positions = event.canvas.size();
    run_.prompt_tokens = std::ranges::count(event.canvas.states, TokenState::fixed);
  }
  run_.guided = run_.guided || event.plan.cfg_scale > 0;
  RecordedStep step;
  step.rows = ranges_of(event.plan.rows);
  step.wanted = ranges_of(event.plan.logits);
  step.keys = event.plan.keys;
  step.block = {event.plan.block_begin, event.plan.block_end};
  for (const decode::Prediction& p : event.predictions) {
    step.predicted.push_back(p.token);
    step.confidence.push_back(p.probability);
  }
  step.trials = recorded(event.plan.trials, event.result.trials);
  step.sparse_rows = ranges_of(event.plan.sparse.rows);
  if (!event.plan.sparse.empty()) {
    // A pass that never lands predicts the present tokens.
    std::vector<decode::Prediction> none;
    for (const decode::Trial& trial : event.plan.sparse.trials)
      none.push_back({.token = event.canvas.tokens[static_cast<size_t>(trial.logits)]});
    step.sparse_trials = recorded(event.plan.sparse.trials, none);
    pass_ = run_.steps.size();
  }
  step.edits.assign(event.edits.begin(), event.edits.end());
  step.committed = decided - decided_;
  step.final = event.committed;
  decided_ = decided;
  run_.steps.push_back(std::move(step));
  if (event.landed != nullptr) run_.steps[pass_].sparse_trials = recorded(event.landed->trials, event.result.sparse);
}

std::string recording_header(const std::string& model) {
  return json_line({{"format", "llada-recording"}, {"version", kVersion}, {"model", model}});
}

std::string recording_lines(const RecordedRun& run) {
  Json head = {{"strategy", run.strategy},
               {"options", run.options},
               {"task", run.task},
               {"example", run.example},
               {"prompt_tokens", run.prompt_tokens},
               {"positions", run.positions},
               {"streams", run.guided ? 2 : 1}};
  if (run.attention_block > 0) head["attention_block"] = run.attention_block;
  std::string out = line("run", std::move(head));
  for (const RecordedStep& step : run.steps) {
    Json edits = Json::array(), moved = Json::array();
    for (const decode::Edit& e : step.edits) {
      edits.push_back(Json::array({e.position, e.token, state_name(e.state), e.confidence}));
      if (e.from >= 0) moved.push_back(Json::array({e.position, e.from}));
    }
    Json json = {{"rows", ranges_json(step.rows)},
                 {"keys", step.keys},
                 {"block", Json::array({step.block.begin, step.block.end})},
                 {"wanted", ranges_json(step.wanted)},
                 {"predicted", step.predicted},
                 {"confidence", step.confidence},
                 {"trials", trials_json(step.trials)},
                 {"sparse_rows", ranges_json(step.sparse_rows)},
                 {"sparse_trials", trials_json(step.sparse_trials)},
                 {"edits", std::move(edits)},
                 {"committed", step.committed},
                 {"final", step.final}};
    if (!moved.empty()) json["moved"] = std::move(moved);
    out += line("step", std::move(json));
  }
  return out + line("end", {{"steps", run.steps.size()}, {"rows", row_sum(run)}, {"committed", committed_sum(run)}});
}

Result<Recording> parse_recording(std::string_view text, const std::string& source) {
  std::optional<Recording> recording;
  std::optional<RecordedRun> open;
  const auto visit = [&](std::string_view row, std::string where) -> Status {
    LLADA_TRY(auto fields, Fields::parse(row, where));
    if (!recording) {
      LLADA_TRY_STATUS(fields.head("llada-recording", kVersion));
      recording.emplace();
      LLADA_TRY(recording->model, fields.text("model"));
      return fields.finish();
    }
    if (fields.has("run")) {
      if (open) return invalid("{}: a run begins before the last one's 'end'", where);
      LLADA_TRY(auto object, fields.object("run"));
      LLADA_TRY(open, read_run(std::move(object)));
    } else if (fields.has("step")) {
      if (!open) return invalid("{}: a step outside a run", where);
      LLADA_TRY(auto object, fields.object("step"));
      LLADA_TRY(auto step, read_step(std::move(object), *open));
      open->steps.push_back(std::move(step));
    } else if (fields.has("end")) {
      if (!open) return invalid("{}: an end outside a run", where);
      LLADA_TRY(auto object, fields.object("end"));
      LLADA_TRY_STATUS(check_end(std::move(object), *open));
      recording->runs.push_back(std::move(*open));
      open.reset();
    } else {
      return invalid("{}: needed one of the fields 'run', 'step' and 'end'", where);
    }
    return fields.finish();
  };
  LLADA_TRY_STATUS(for_each_json_line(text, source, visit));
  if (!recording) return invalid("{}: empty, needed a recording", source);
  if (open) return invalid("{}: the last run has no 'end': the file was cut off", source);
  return std::move(*recording);
}

Result<Recording> read_recording(const std::string& path) {
  LLADA_TRY(const std::string text, read_text_file(path, kMostBytes));
  return parse_recording(text, path);
}

}  // namespace llada
