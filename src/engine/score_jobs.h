// The two kinds of scores under way: over canvases that are known beforehand, and along a decoding order.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "decode/denoiser.h"
#include "decode/types.h"
#include "engine/likelihood.h"
#include "engine/score_canvases.h"

namespace llada {

// How many canvases of at most so many rows may be computed at a time, each in a K/V store of its own that is as long
// as the longest of them: what such stores hold is bounded by the rows of a forward, or is one store.
int64_t score_lanes(const Model& model, int64_t canvas_rows, int64_t rows);

// Canvases in any order, as many at a time as the rows of a forward allow. With full attention each is computed whole.
// Of a block-causal model one at a time: what it has in common with the one before, up to a block, stays in the store.
class CanvasScore final : public ScoreJob {
 public:
  CanvasScore(std::shared_ptr<const Model> model, const ScoreRequest& request);

  Status allocate(Device& device, PrefixCache* prefixes) override;
  bool done() const override { return cancelled() || taken_ == canvases_.size(); }
  std::vector<RequestStep> steps(int64_t rows) override;
  Status take(RequestStep& step, double device_seconds, PrefixCache* prefixes) override;
  ScoreResult finish() override;

 private:
  // A store and the canvas that is computed in it.
  struct Lane {
    RequestState state;
    std::unique_ptr<decode::Denoiser> denoiser = {};  // of one forward
    int64_t rows = 0;                                 // of that
    std::optional<size_t> canvas = {};
    std::vector<int32_t> stored = {};  // tokens whose K/V the store holds
  };
  // What a canvas said of its targets, in their order.
  struct Answer {
    std::vector<TokenScore> tokens;
    std::vector<bool> best;
  };

  Status add_lane();
  void lay(Lane& lane, size_t canvas) const;
  int64_t rows_of_next() const;

  const std::shared_ptr<const Model> model_;
  const ScoreRequest request_;
  const std::vector<ScoreCanvas> canvases_;
  int64_t positions_ = 1;  // of the longest canvas
  Device* device_ = nullptr;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Answer> answers_;
  size_t next_ = 0, taken_ = 0;  // canvases laid, and those whose answers are there
  int64_t rows_ = 0;
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
  Device* device_ = nullptr;
  size_t at_ = 0;
  std::unique_ptr<decode::Denoiser> denoiser_;  // of this continuation
  std::optional<RequestState> state_;
  ScoreResult result_;
};

}  // namespace llada
