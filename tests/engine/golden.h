// Reads golden.json: what a plain float32 reference computed with the shipped weights (models/README.md).
#pragma once
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "engine/session.h"
#include "must.h"

namespace llada {

struct GoldenRun {
  decode::DecodeOptions options;
  int64_t nfe = 0;
  std::vector<int32_t> tokens;
  std::string text;
  std::vector<std::vector<std::pair<int32_t, int32_t>>> trace;  // per step: (position, token)
};

struct GoldenItem {
  std::string prompt;
  int64_t prompt_tokens = 0;
  std::vector<int32_t> canvas;
  std::vector<std::pair<int32_t, std::vector<float>>> logits;  // position, whole row
  struct Top {
    int32_t position;
    std::vector<int32_t> ids;
    std::vector<float> logits;
  };
  std::vector<Top> top20;
  GoldenRun one_per_step, threshold;
};

inline GoldenRun golden_run(const nlohmann::json& json, int64_t gen_length) {
  GoldenRun run;
  run.options.gen_length = gen_length;
  run.options.block_length = json.at("block_length");
  run.options.early_stop = decode::EarlyStop::none;
  if (json.contains("thr")) {
    run.options.acceptance = decode::Acceptance::threshold;
    run.options.threshold = json.at("thr");
  } else {
    run.options.steps = json.at("steps");
  }
  run.nfe = json.at("nfe");
  run.tokens = json.at("tokens").get<std::vector<int32_t>>();
  run.text = json.at("text");
  for (const auto& step : json.at("trace")) run.trace.push_back(step.get<std::vector<std::pair<int32_t, int32_t>>>());
  return run;
}

inline std::vector<GoldenItem> load_golden(const std::string& path) {
  const auto text = must(read_file(path));
  std::vector<GoldenItem> items;
  const nlohmann::json golden = nlohmann::json::parse(*text);
  for (const auto& json : golden.at("items")) {
    GoldenItem item;
    item.prompt = json.at("prompt");
    item.prompt_tokens = json.at("prompt_len");
    item.canvas = json.at("canvas").get<std::vector<int32_t>>();
    for (const auto& row : json.at("logits"))
      item.logits.emplace_back(row.at("pos"), row.at("values").get<std::vector<float>>());
    for (const auto& row : json.at("top20"))
      item.top20.push_back(
          {row.at("pos"), row.at("ids").get<std::vector<int32_t>>(), row.at("logits").get<std::vector<float>>()});
    item.one_per_step = golden_run(json.at("one_token_per_step"), json.at("gen_length"));
    item.threshold = golden_run(json.at("threshold_0.9"), json.at("gen_length"));
    items.push_back(std::move(item));
  }
  if (items.size() != 4) throw std::runtime_error(path + ": four items expected");
  return items;
}

// Set where every instruction is expensive (emulators, sanitizers): fewer examples, shorter runs, the same
// checks.
inline bool quick() { return std::getenv("LLADA_TEST_QUICK") != nullptr; }

inline const char* isa_from_environment() {
  const char* isa = std::getenv("LLADA_ISA");
  return isa != nullptr ? isa : "";
}

inline std::shared_ptr<const Model> load_model(const std::string& path, int threads = 2,
                                               std::string isa = isa_from_environment()) {
  const char* device = std::getenv("LLADA_TEST_DEVICE");  // another device than the cpu, where one is at hand
  return *must(
      Model::load(path, {.device = device != nullptr ? device : "cpu", .isa = std::move(isa), .threads = threads}));
}

inline std::unique_ptr<Session> open_session(const std::shared_ptr<const Model>& model, int threads = 0) {
  return *must(Session::create(model, {.threads = threads}));
}

}  // namespace llada
