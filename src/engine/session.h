// Runs requests on a model one after the other, on the caller's thread. Not thread-safe; sessions of one model may run
// in parallel, each with its own share of the device. For many requests at a time: engine.h.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/trace.h"
#include "engine/decide.h"
#include "engine/likelihood.h"
#include "engine/request.h"

namespace llada {

struct SessionOptions {
  int threads = 0;         // 0: use the model's device itself; otherwise a share with that many threads
  Trace* trace = nullptr;  // outlives the session; may be null
  std::function<Status(const RoutedLayer&)> routing = {};  // gets each router's choices; mixtures of experts only
  std::function<void(const std::string&)> warn = {};       // gets one line when the fallback replaces a failed device
  std::shared_ptr<PrefixCache> prefixes = {};              // final K/V of earlier requests; null: none is kept
};

class Session {
 public:
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Model> model, const SessionOptions& options);

  // Denoises options.gen_length masks after the prompt.
  Result<Generation> generate(std::span<const int32_t> prompt, const decode::DecodeOptions& options,
                              const StepCallback& on_step);

  // Runs any request. Where it has gaps these are filled, and its other text stays as it is.
  Result<Generation> run(const Ready& request, const StepCallback& on_step);

  // The log-probabilities of the continuations (likelihood.h), one forward at a time.
  Result<ScoreResult> score(const ScoreRequest& request);

  // Decisions (decide.h), one forward at a time.
  Result<DecideResult> decide(const DecideRequest& request);

  // All logits of one forward over `tokens` at the given positions (ascending): positions x vocabulary. For tests and
  // evaluation. prompt: how many tokens are the prompt's; a mask id behind them is an undecided position.
  Result<std::vector<float>> logits(std::span<const int32_t> tokens, std::span<const int32_t> positions,
                                    int64_t prompt = 0);

 private:
  Session(std::shared_ptr<const Model> model, OwnDevices own, const SessionOptions& options)
      : model_(std::move(model)), own_(std::move(own)), options_(options) {}
  // Runs the job's steps one at a time, to its end.
  Status finish_alone(ForwardJob& job, PrefixCache* prefixes);
  Result<ExecutorOptions> listening() const;  // the executor's options, with SessionOptions::routing
  Device& device() const { return device_of(*model_, own_); }

  std::shared_ptr<const Model> model_;
  OwnDevices own_;
  SessionOptions options_;
};

}  // namespace llada
