// One conversation or one request: a canvas denoised by a strategy on a model. Not thread-safe; sessions of
// one model may run in parallel, each with its own device share. For many requests at a time see engine.h.
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
  Trace* trace = nullptr;  // of this session's runs, which it outlives; may be null
  std::function<Status(const RoutedLayer&)> routing = {};  // what every router decided; a mixture's only
  std::function<void(const std::string&)> warn = {};       // one line when a device failed and the fallback took over
  std::shared_ptr<PrefixCache> prefixes = {};  // of a block-causal model: what earlier requests computed; null: nothing
};

class Session {
 public:
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Model> model, const SessionOptions& options);

  // Denoises options.gen_length masks after the prompt.
  Result<Generation> generate(std::span<const int32_t> prompt, const decode::DecodeOptions& options,
                              const StepCallback& on_step);

  // Any request: one with gaps is filled, its other text stays as it is.
  Result<Generation> run(const Ready& request, const StepCallback& on_step);

  // How probable the continuations are (likelihood.h), one forward at a time.
  Result<ScoreResult> score(const ScoreRequest& request);

  // Decisions (decide.h), one forward at a time.
  Result<DecideResult> decide(const DecideRequest& request);

  // All logits of one forward over `tokens` at the given positions (ascending): positions x vocabulary. For tests and
  // evaluation. So many tokens are the prompt's: every mask id behind them is a position that is not decided.
  Result<std::vector<float>> logits(std::span<const int32_t> tokens, std::span<const int32_t> positions,
                                    int64_t prompt = 0);

 private:
  Session(std::shared_ptr<const Model> model, OwnDevices own, const SessionOptions& options)
      : model_(std::move(model)), own_(std::move(own)), options_(options) {}
  // One of its steps at a time, to its end; with options_.prefixes where they are wanted.
  Status finish_alone(ForwardJob& job, PrefixCache* prefixes);
  Result<ExecutorOptions> listening() const;  // the executor's options, with who hears what routers decide
  Device& device() const { return device_of(*model_, own_); }

  std::shared_ptr<const Model> model_;
  OwnDevices own_;
  SessionOptions options_;
};

}  // namespace llada
