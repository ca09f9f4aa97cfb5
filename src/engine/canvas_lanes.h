// Canvases that are known beforehand, each read off one forward of its own: laid into K/V stores ("lanes"), as many at
// a time as the rows of a forward allow. The results of a canvas do not depend on which others share its forward.
//
// With full attention each canvas is computed whole. Where finished text has final K/V, whole units of a prefix that
// all canvases share are computed once: by the first canvas, or never where a PrefixCache has them. Or the canvases of
// a block-causal model come in order through one lane, and each computes the part that it does not share with the one
// before. A model of random canvases encodes the rest of a prompt in a forward of its own.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decode/denoiser.h"
#include "engine/model_runner.h"
#include "memory/prefix_cache.h"

namespace llada {

struct FixedCanvas {
  std::vector<int32_t> tokens;     // masks among them, or random ones
  std::vector<int32_t> positions;  // whose predictions are asked for
  int64_t prompt = 0;              // positions of the prompt, which guidance masks and random canvases follow
  bool first = true;               // of the canvases of its prompt
  std::vector<bool> decided = {};  // by position; true for a mask id that the text itself has
};

// Reads results off a canvas that was computed.
class CanvasReading {
 public:
  CanvasReading(const Model& model, const decode::StepEvent& event, std::span<const float> logits)
      : model_(model), event_(event), logits_(logits) {}
  std::span<const float> logits(int64_t position) const;  // of the whole vocabulary
  int32_t best(int64_t position) const;                   // the token of the prediction there

 private:
  size_t index(int64_t position) const;
  const Model& model_;
  const decode::StepEvent& event_;
  const std::span<const float> logits_;
};

// How many canvases of `canvas_rows` rows a forward of `rows` rows takes; at least 1. Each has a K/V store of its own.
int64_t lanes_at_once(int64_t canvas_rows, int64_t rows);
inline constexpr int64_t kMostLanesWithPrefix = 8;  // of which each holds a copy of it

class CanvasLanes {
 public:
  struct Setup {
    size_t canvases = 0;
    std::function<int64_t(size_t)> size = {};        // positions of a canvas
    std::function<FixedCanvas(size_t)> canvas = {};  // laid when its turn comes
    int64_t positions = 1;                           // of the longest
    double cfg_scale = 0;
    std::vector<int32_t> shared = {};  // not with guidance: the beginning that all canvases share (shared_prefix())
    bool in_order = false;             // block-causal: one lane, nothing shared by others
  };
  CanvasLanes(std::shared_ptr<const Model> model, Setup setup);

  Status allocate(Device& device, PrefixCache* prefixes);
  bool done() const { return taken_ == setup_.canvases; }
  // As in ForwardJob. read: called once for each canvas, in any order.
  std::vector<RequestStep> steps(int64_t rows);
  Status take(RequestStep& step, PrefixCache* prefixes,
              const std::function<void(size_t canvas, const CanvasReading& reading)>& read);

  int64_t forwards() const { return forwards_; }  // of the canvases that were taken, were each alone
  int64_t rows() const { return rows_; }          // in them
  int64_t reused() const { return reused_; }      // tokens of prompts whose K/V came from the PrefixCache

 private:
  // A store and the canvas that is computed in it.
  struct Lane {
    RequestState state;
    std::unique_ptr<decode::Denoiser> denoiser = {};  // of one forward, or of two
    int64_t rows = 0;                                 // of the larger one
    std::optional<size_t> canvas = {};
    std::vector<int32_t> stored = {};  // tokens whose K/V the store holds
  };
  Status add_lane();
  void lay(Lane& lane, size_t canvas);
  int64_t most_lanes(int64_t rows) const;
  int64_t rows_of(int64_t positions) const;

  const std::shared_ptr<const Model> model_;
  const Setup setup_;
  Device* device_ = nullptr;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::optional<PrefixCache::Cursor> cursor_ = {};
  bool prefix_there_ = false;    // in the first lane
  size_t next_ = 0, taken_ = 0;  // canvases laid, and those that were read
  int64_t forwards_ = 0, rows_ = 0, reused_ = 0;
};

}  // namespace llada
