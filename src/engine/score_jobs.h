// The two kinds of scores under way: over canvases that are known beforehand, and along a decoding order.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "decode/denoiser.h"
#include "decode/types.h"
#include "engine/canvas_lanes.h"
#include "engine/likelihood.h"
#include "engine/score_canvases.h"

namespace llada {

// lanes_at_once() for a score's canvases of at most `canvas_rows` rows; 1 where they come in order.
int64_t score_lanes(const Model& model, int64_t canvas_rows, int64_t rows);

// Canvases of one prompt and its continuations. Those of a block-causal model come in order.
class CanvasScore final : public ScoreJob {
 public:
  CanvasScore(std::shared_ptr<const Model> model, const ScoreRequest& request);

  Status allocate(Device& device, PrefixCache* /*prefixes*/) override { return lanes_.allocate(device, nullptr); }
  bool done() const override { return cancelled() || lanes_.done(); }
  std::vector<RequestStep> steps(int64_t rows) override { return lanes_.steps(rows); }
  Status take(RequestStep& step, double device_seconds, PrefixCache* prefixes) override;
  ScoreResult finish() override;

 private:
  // The results of a canvas for its targets, in their order.
  struct Answer {
    std::vector<TokenScore> tokens;
    std::vector<bool> best;
  };
  CanvasLanes::Setup lanes_setup() const;

  const std::shared_ptr<const Model> model_;
  const ScoreRequest request_;
  const std::vector<int32_t> no_text_;
  const std::vector<ScoreCanvas> canvases_;
  std::vector<Answer> answers_;
  CanvasLanes lanes_;
};

// One continuation after the other, each decoded by its rule with the given tokens in the place of the predicted ones.
class DuelScore final : public ScoreJob {
 public:
  static Result<std::unique_ptr<ScoreJob>> create(std::shared_ptr<const Model> model, const ScoreRequest& request);

  Status allocate(Device& device, PrefixCache* prefixes) override;
  bool done() const override { return cancelled() || at_ == request_.continuations.size(); }
  std::vector<RequestStep> steps(int64_t /*rows*/) override { return {{denoiser_.get(), &*state_}}; }
  Status take(RequestStep& step, double device_seconds, PrefixCache* prefixes) override;
  ScoreResult finish() override { return std::move(result_); }

 private:
  DuelScore(std::shared_ptr<const Model> model, const ScoreRequest& request);
  Status begin();  // the next continuation that has tokens

  const std::shared_ptr<const Model> model_;
  const ScoreRequest request_;
  const std::vector<int32_t> no_text_;
  Device* device_ = nullptr;
  size_t at_ = 0;
  std::unique_ptr<decode::Denoiser> denoiser_;  // of this continuation
  std::optional<RequestState> state_;
  ScoreResult result_;
};

}  // namespace llada
