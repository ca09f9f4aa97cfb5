// The peaked models in the engine: opened from memory, and what was recorded of them in tests/data/geometry.
#pragma once
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "engine/session.h"
#include "geometry/model_files.h"
#include "geometry/peaked_model.h"
#include "must.h"

namespace llada {

struct PeakedGolden {
  struct Row {
    int32_t position;
    double mean, deviation;                        // of the whole row
    std::vector<std::pair<int32_t, double>> some;  // token and logit: the best, and others over the whole vocabulary
  };
  std::string checksum;
  int64_t prompt = 0, answer = 0;
  int64_t block = 0, forwards = 0;
  double threshold = 0;
  std::vector<int32_t> tokens;  // the answer
  std::vector<Row> rows;        // over the prompt and `answer` masks
};

inline PeakedGolden load_peaked_golden(const std::string& name) {
  const auto text = must(read_file(LLADA_SOURCE_DIR "/tests/data/geometry/" + name + ".json"));
  const auto json = nlohmann::json::parse(*text);
  const auto& run = json.at("generation");
  PeakedGolden g{.checksum = json.at("checksum"),
                 .prompt = json.at("prompt"),
                 .answer = json.at("answer"),
                 .block = run.at("block"),
                 .forwards = run.at("forwards"),
                 .threshold = run.at("threshold"),
                 .tokens = run.at("tokens"),
                 .rows = {}};
  for (const auto& row : json.at("rows"))
    g.rows.push_back({row.at("position"), row.at("mean"), row.at("deviation"), row.at("some")});
  return g;
}

// The model and the engine's view of it.
struct PeakedEngine {
  const PeakedSpec& spec;
  std::unique_ptr<SmallModel> weights;
  std::shared_ptr<const Model> model;
  std::unique_ptr<Session> session;

  PeakedEngine(const std::string& name, DType type, const LoadOptions& options)
      : spec(peaked_spec(name)), weights(std::make_unique<SmallModel>(make_peaked_model(spec, type))) {
    model = *must(Model::from_memory(in_memory(*weights), nullptr, options, {}));
    open_session();
  }
  // A file or folder.
  PeakedEngine(const std::string& name, const std::string& path, const LoadOptions& options) : spec(peaked_spec(name)) {
    model = *must(Model::load(path, options));
    open_session();
  }

  std::vector<float> logits(const std::vector<int32_t>& tokens, const std::vector<int32_t>& positions) const {
    return *must(session->logits(tokens, positions));
  }
  Generation generate(const std::vector<int32_t>& prompt, const decode::DecodeOptions& options) const {
    return *must(session->generate(prompt, options, {}));
  }

 private:
  void open_session() { session = *must(Session::create(model, {})); }
};

// The engine's logits at the recorded positions beside the recorded ones.
struct LogitError {
  double worst = 0,
         root_mean_square = 0;  // in logits; their standard deviation is about 2.5, the best token's margin 11 and more
  int64_t other_best = 0;       // rows whose best token is another one
};
inline LogitError logit_error(const PeakedEngine& engine, const PeakedGolden& golden, size_t rows = SIZE_MAX) {
  std::vector<int32_t> tokens = random_prompt(engine.spec, golden.prompt), positions;
  tokens.resize(tokens.size() + static_cast<size_t>(golden.answer), engine.spec.config.mask_id);
  for (const auto& row : golden.rows)
    if (positions.size() < rows) positions.push_back(row.position);
  const auto logits = engine.logits(tokens, positions);
  const auto vocab = static_cast<size_t>(engine.spec.config.vocab);
  LogitError error;
  double squares = 0;
  int64_t n = 0;
  for (size_t r = 0; r < positions.size(); ++r) {
    const float* row = logits.data() + r * vocab;
    error.other_best += std::max_element(row, row + vocab) - row != golden.rows[r].some[0].first;
    double sum = 0;
    for (size_t t = 0; t < vocab; ++t) sum += row[t];
    const double mean = sum / static_cast<double>(vocab);
    error.worst = std::max(error.worst, std::fabs(mean - golden.rows[r].mean));
    for (const auto& [token, expected] : golden.rows[r].some) {
      const double off = row[token] - expected;
      squares += off * off, ++n;
      error.worst = std::max(error.worst, std::isfinite(off) ? std::fabs(off) : HUGE_VAL);
    }
  }
  error.root_mean_square = std::sqrt(squares / static_cast<double>(n));
  return error;
}

}  // namespace llada
