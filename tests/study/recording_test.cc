// Recordings come back as they were written, tell what the run did, and hostile ones are refused in one line.
// labels of this file: native
#include "eval/recording.h"

#include "engine/golden.h"
#include "study/simulate.h"

namespace llada {
namespace {

Recording recorded_golden() {
  const auto model = load_model(LLADA_SOURCE_DIR "/models/tiny-llada", 1);
  const auto items = load_golden(LLADA_SOURCE_DIR "/models/tiny-llada/golden.json");
  const auto session = open_session(model);
  decode::DecodeOptions options;
  options.gen_length = 64;
  options.acceptance = decode::Acceptance::threshold;
  options.threshold = 0.6;
  options.kv = decode::KvChoice::dual;
  options.refresh_after = 3;
  options.revision = decode::Revision::dual_path;
  options.revise_lateness = 0;
  options.stable_threshold = 0.9999;  // so that there is something to check
  Recording recording{"models/tiny-llada", {}};
  int64_t sparse = 0;
  for (const size_t i : {items.size() - 1, items.size() - 2}) {
    const GoldenItem& item = items[i];
    RunRecorder recorder("dual \"quoted\"", "--threshold 0.9", "golden", static_cast<int64_t>(i));
    const auto g = session->generate(std::span(item.canvas).first(static_cast<size_t>(item.prompt_tokens)), options,
                                     [&](const decode::StepEvent& event) { return recorder.step(event), true; });
    if (!g) throw std::runtime_error(g.error().message);
    const RecordedRun& run = recorder.run();
    int64_t rows = 0, committed = 0;
    for (const RecordedStep& step : run.steps) {
      rows += step.row_count();
      committed += step.committed;
      sparse += step.sparse_row_count() > 0;
    }
    EXPECT_EQ(static_cast<int64_t>(run.steps.size()), g->stats.decode.steps);
    EXPECT_EQ(rows, g->stats.decode.rows);
    EXPECT_EQ(committed, g->stats.decode.committed);
    EXPECT_EQ(run.prompt_tokens, item.prompt_tokens);
    EXPECT_EQ(run.positions, item.prompt_tokens + 64);
    recording.runs.push_back(run);
  }
  EXPECT_GT(sparse, 0);  // the run has something to record on the sparse path
  return recording;
}

std::string text_of(const Recording& recording) {
  std::string text = recording_header(recording.model);
  for (const RecordedRun& run : recording.runs) text += recording_lines(run);
  return text;
}

TEST(Recording, ComesBackToTheLastBit) {
  const Recording recording = recorded_golden();
  const auto back = must(parse_recording(text_of(recording), "f"));
  ASSERT_EQ(back->runs.size(), 2u);
  EXPECT_EQ(back->model, recording.model);
  for (size_t r = 0; r < 2; ++r) {
    const RecordedRun &a = recording.runs[r], &b = back->runs[r];
    EXPECT_EQ(a.strategy, b.strategy);
    EXPECT_EQ(a.example, b.example);
    EXPECT_EQ(a.positions, b.positions);
    ASSERT_EQ(a.steps.size(), b.steps.size());
    for (size_t i = 0; i < a.steps.size(); ++i) {
      EXPECT_EQ(a.steps[i].rows, b.steps[i].rows);
      EXPECT_EQ(a.steps[i].wanted, b.steps[i].wanted);
      EXPECT_EQ(a.steps[i].block, b.steps[i].block);
      EXPECT_EQ(a.steps[i].predicted, b.steps[i].predicted);
      EXPECT_EQ(a.steps[i].confidence, b.steps[i].confidence);
      EXPECT_EQ(a.steps[i].final, b.steps[i].final);
      EXPECT_EQ(a.steps[i].trials, b.steps[i].trials);
      EXPECT_EQ(a.steps[i].sparse_rows, b.steps[i].sparse_rows);
      EXPECT_EQ(a.steps[i].sparse_trials, b.steps[i].sparse_trials);
      ASSERT_EQ(a.steps[i].edits.size(), b.steps[i].edits.size());
      for (size_t e = 0; e < a.steps[i].edits.size(); ++e) {
        EXPECT_EQ(a.steps[i].edits[e].position, b.steps[i].edits[e].position);
        EXPECT_EQ(a.steps[i].edits[e].token, b.steps[i].edits[e].token);
        EXPECT_EQ(a.steps[i].edits[e].state, b.steps[i].edits[e].state);
        EXPECT_EQ(a.steps[i].edits[e].confidence, b.steps[i].edits[e].confidence);
      }
    }
  }
  EXPECT_EQ(text_of(*back), text_of(recording));
}

TEST(Recording, TheSimulatorReplaysWhatWasRecorded) {
  const Recording recording = recorded_golden();
  for (size_t r = 0; r < recording.runs.size(); ++r) {
    const auto replay = must(parse_replay(text_of(recording), "f", static_cast<int64_t>(r)));
    const auto& steps = recording.runs[r].steps;
    ASSERT_EQ(replay->passes.size(), steps.size());
    int64_t committed = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      EXPECT_EQ(replay->passes[i].rows, steps[i].dense_row_count());
      EXPECT_EQ(replay->passes[i].sparse, steps[i].sparse_row_count());
      committed += steps[i].committed;
    }
    EXPECT_EQ(replay->tokens, committed);
  }
}

TEST(Recording, RangesHoldTheirPositions) {
  const std::vector<int32_t> rows = {0, 1, 2, 7, 9, 10};
  const auto ranges = ranges_of(rows);
  EXPECT_EQ(ranges, (std::vector<PositionRange>{{0, 3}, {7, 8}, {9, 11}}));
  EXPECT_TRUE(ranges_of({}).empty());
}

const std::string kHead = R"({"format":"llada-recording","version":1,"model":"m"})"
                          "\n";
const std::string kRunLine =
    R"({"run":{"strategy":"s","options":"","task":"t","example":0,"prompt_tokens":2,"positions":6,"streams":1}})"
    "\n";
const std::string kStep =
    R"({"step":{"rows":[[0,6]],"keys":6,"block":[2,6],"wanted":[[2,3],[4,6]],"predicted":[7,8,9],"confidence":[0.5,1,0.25],"trials":[[3,1,7,0.5]],"sparse_rows":[],"sparse_trials":[],"edits":[[4,8,"stable",1]],"committed":1,"final":0}})"
    "\n";
const std::string kEnd = R"({"end":{"steps":1,"rows":7,"committed":1}})"
                         "\n";

TEST(Recording, HostileTextIsRefusedInOneLine) {
  const std::string good = kHead + kRunLine + kStep + kEnd;
  ASSERT_TRUE(parse_recording(good, "f"));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::pair<std::string, std::string> cases[] = {
      {"", "f: empty"},
      {kRunLine, "f:1: format: is missing"},
      {kHead + kStep, "f:2: a step outside a run"},
      {kHead + kEnd, "f:2: an end outside a run"},
      {kHead + kRunLine + kRunLine, "f:3: a run begins before"},
      {kHead + kRunLine + kStep, "f: the last run has no 'end'"},
      {good.substr(0, good.size() / 2), "not valid JSON"},
      {kHead + std::string(100'000, '['), "nested"},
      {with("\"positions\":6", "\"positions\":99999999999"), "positions: "},
      {with("\"prompt_tokens\":2", "\"prompt_tokens\":7"), "prompt_tokens: found 7"},
      {with("\"streams\":1", "\"streams\":3"), "streams: found 3"},
      {with("\"streams\":1", "\"streams\":1,\"attention_block\":0"), "attention_block: found 0"},
      {with("[[0,6]]", "[[0,7]]"), "rows: found [0,7]"},
      {with("[[0,6]]", "[[3,3]]"), "rows: found [3,3]"},
      {with("[[0,6]]", "[[-1,3]]"), "rows: found [-1,3]"},
      {with("[[0,6]]", "[[0,18446744073709551615]]"), "rows: "},
      {with("[[0,6]]", "[[0,1],[1,6]]"), "rows: found [1,6]"},  // touching: one range
      {with("[[0,6]]", "[[0]]"), "needed lists of 2"},
      {with("[[0,6]]", "[[0,2]]"), "step.wanted: found 3 of 2 rows"},
      {with("[2,6]", "[6,2]"), "block: "},
      {with("\"keys\":6", "\"keys\":0"), "keys: found 0"},
      {with("[7,8,9]", "[7,8]"), "step.predicted: found 2, with 3 confidence for 3 wanted"},
      {with("[0.5,1,0.25]", "[0.5,1,1.5]"), "confidence: found 1.5"},
      {with("[0.5,1,0.25]", "[0.5,1,null]"), "confidence: found null"},
      {with("[[4,8,\"stable\",1]]", "[[6,8,\"stable\",1]]"), "edits: "},
      {with("\"stable\"", "\"fixed\""), "edits: "},
      {with("\"committed\":1,", "\"committed\":2,"), "committed: found 2"},
      {with("\"final\":0", "\"final\":0,\"extra\":1"), "extra: is not known"},
      {with("\"final\":0", "\"final\":0,\"moved\":[[5,4]]"), "moved: found [5,4], needed [position, from]"},
      {with("\"final\":0", "\"final\":0,\"moved\":[[4,6]]"), "moved: found [4,6], needed [position, from]"},
      {with("\"final\":0", "\"final\":0,\"moved\":[[4,null]]"), "moved: found [4,null], needed [position, from]"},
      {with("\"rows\":7", "\"rows\":8"), "f:4: end.rows: found 8, needed 7"},
      {with("[[3,1,7,0.5]]", "[[6,1,7,0.5]]"), "trials: "},
      {with("[[3,1,7,0.5]]", "[[3,0,7,0.5]]"), "trials: "},
      {with("\"sparse_rows\":[]", "\"sparse_rows\":[[5,5]]"), "sparse_rows: "},
      {with("\"sparse_trials\":[],", ""), "sparse_trials: is missing"},
      {with("{\"end\"", "{\"bend\""), "needed one of the fields"},
  };
  for (const auto& [text, says] : cases) {
    const auto recording = parse_recording(text, "f");
    ASSERT_FALSE(recording) << says;
    EXPECT_EQ(recording.error().kind, ErrorKind::invalid_input);
    EXPECT_NE(recording.error().message.find(says), std::string::npos)
        << recording.error().message << "\n  needed: " << says;
    EXPECT_EQ(recording.error().message.find('\n'), std::string::npos);
  }
}

TEST(Recording, SaysWhereATokenStoodThatMoved) {
  std::string step = kStep;
  step.insert(step.find("}}"), ",\"moved\":[[4,3]]");
  const auto recording = must(parse_recording(kHead + kRunLine + step + kEnd, "f"));
  EXPECT_EQ(recording->runs[0].steps[0].edits[0].from, 3);
  EXPECT_NE(text_of(*recording).find("\"moved\":[[4,3]]"), std::string::npos);
  EXPECT_EQ(text_of(*parse_recording(kHead + kRunLine + kStep + kEnd, "f")).find("moved"), std::string::npos);
}

TEST(Recording, AnyMutationIsReadOrRefused) {
  const std::string good = kHead + kRunLine + kStep + kEnd;
  for (size_t at = 0; at < good.size(); ++at)
    for (const char c : {'9', '-', '"', ']', ',', '\0', 'e'}) {
      std::string text = good;
      text[at] = c;
      const auto recording = parse_recording(text, "f");
      if (!recording) {
        EXPECT_EQ(recording.error().kind, ErrorKind::invalid_input);
      }
    }
}

}  // namespace
}  // namespace llada
