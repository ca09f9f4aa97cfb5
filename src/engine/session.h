// One conversation or one request: a canvas denoised by a strategy on a model. Not thread-safe; sessions of
// one model may run in parallel, each with its own device share.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/trace.h"
#include "decode/loop.h"
#include "decode/options.h"
#include "engine/model.h"
#include "sched/executor.h"

namespace llada {

// What the live view and a server get after every step.
using StepCallback = std::function<bool(const decode::StepEvent&)>;

struct GenerationStats {
  decode::RunStats decode;
  int64_t prompt_tokens = 0;
  int64_t content_tokens = 0;  // generated tokens before the end token
  double seconds = 0;          // measured wall clock of the denoising loop
  double device_seconds = 0;   // of it inside the device
  std::array<double, kOpKindCount> phase_ms{};
  int64_t kv_bytes = 0;
  uint64_t canvas_hash = 0;
  std::string device;
  std::optional<MoeStats> experts;        // where they were shared out between units
  std::optional<EmulatedStats> emulated;  // of a device that lives in emulated time; modelled, not measured

  double content_tokens_per_s() const {
    return seconds > 0 ? static_cast<double>(content_tokens) / seconds : 0;
  }
  double ms_per_step() const {
    return decode.steps > 0 ? seconds * 1e3 / static_cast<double>(decode.steps) : 0;
  }
};

struct Generation {
  std::vector<int32_t>
      tokens;        // the generated region (all of it, tail included); for infilling the whole canvas
  std::string text;  // decoded content; for infilling the whole text
  GenerationStats stats;
};

struct SessionOptions {
  int threads = 0;         // 0: use the model's device itself; otherwise a share with that many threads
  Trace* trace = nullptr;  // of this session's runs, which it outlives; may be null
  std::function<Status(const RoutedLayer&)> routing = {};  // what every router decided; a mixture's only
  std::function<void(const std::string&)> warn = {};  // one line when a device failed and the fallback took over
};

// Positions of the canvas that a prompt and what is generated behind it need, padding of a block-causal model included.
int64_t canvas_positions(const Model& model, int64_t prompt_tokens, int64_t gen_length);

// Whether a prompt and what is generated behind it fit the model's context.
Status check_context(const Model& model, int64_t prompt_tokens, int64_t gen_length);

// Whether all are ids of the model's vocabulary.
Status check_tokens(const Model& model, std::span<const int32_t> tokens);

class Session {
 public:
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Model> model,
                                                 const SessionOptions& options);

  // Denoises options.gen_length masks after the prompt.
  Result<Generation> generate(std::span<const int32_t> prompt, const decode::DecodeOptions& options,
                              const StepCallback& on_step);

  // Fills the gaps (positions in `tokens`, whose ids there are ignored). The rest of the text stays as it is.
  Result<Generation> infill(std::span<const int32_t> tokens, std::span<const int32_t> gaps,
                            const decode::DecodeOptions& options, const StepCallback& on_step);

  // All logits of one forward over `tokens` at the given positions (ascending): positions x vocabulary. For
  // tests and evaluation.
  Result<std::vector<float>> logits(std::span<const int32_t> tokens, std::span<const int32_t> positions);

 private:
  Session(std::shared_ptr<const Model> model, std::unique_ptr<Device> own, std::unique_ptr<Device> fallback,
          const SessionOptions& options)
      : model_(std::move(model)),
        own_device_(std::move(own)),
        own_fallback_(std::move(fallback)),
        threads_(options.threads),
        trace_(options.trace),
        routing_(options.routing),
        warn_(options.warn) {}
  Result<ExecutorOptions> executor_options() const;
  Device& device() const { return own_device_ ? *own_device_ : model_->device(); }
  Result<Generation> denoise(decode::Canvas& canvas, const decode::DecodeOptions& options, bool infill,
                             const StepCallback& on_step);

  std::shared_ptr<const Model> model_;
  std::unique_ptr<Device> own_device_, own_fallback_;  // null: the model's own
  int threads_;
  Trace* trace_;
  std::function<Status(const RoutedLayer&)> routing_;
  std::function<void(const std::string&)> warn_;
};

}  // namespace llada
