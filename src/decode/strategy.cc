#include "decode/strategy.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "decode/block_strategy.h"
#include "decode/canvas.h"
#include "decode/causal_strategy.h"
#include "decode/decided_first.h"
#include "decode/self_speculation.h"
#include "decode/uniform_strategy.h"

namespace llada::decode {
namespace {

class PlannedForwards final : public Strategy {
 public:
  explicit PlannedForwards(std::vector<StepPlan> plans) : plans_(std::move(plans)) {}
  StepPlan plan(const Canvas& /*canvas*/) override { return plans_[next_]; }
  std::vector<Edit> accept(const Canvas& /*canvas*/, const StepResult& /*result*/) override {
    ++next_;
    return {};
  }
  bool done(const Canvas& /*canvas*/) const override { return next_ == plans_.size(); }
  int64_t step_bound() const override { return std::ssize(plans_); }

 private:
  const std::vector<StepPlan> plans_;
  size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> planned_forwards(std::vector<StepPlan> plans) {
  return std::make_unique<PlannedForwards>(std::move(plans));
}
std::unique_ptr<Strategy> one_forward(StepPlan plan) { return planned_forwards({std::move(plan)}); }

Result<std::unique_ptr<Strategy>> make_strategy(const DecodeOptions& options, const SpecialIds& ids,
                                                const Canvas& canvas, std::shared_ptr<const forms::TokenForm> form) {
  LLADA_TRY_STATUS(validate(options, canvas.infill, ids.kind()));
  const bool uniform = ids.uniform.length > 0;
  if (uniform && (canvas.mask_id >= 0 || ids.vocab < 1))
    return invalid("canvas: found mask {} and a vocabulary of {}, needed no mask and tokens to draw from",
                   canvas.mask_id, ids.vocab);
  if (!uniform && (ids.mask < 0 || canvas.mask_id != ids.mask)) {
    return invalid("mask token: found id {} (canvas {}), needed the model's mask token", ids.mask, canvas.mask_id);
  }
  if (!uniform &&
      (ids.eos == ids.mask || ids.eot == ids.mask || std::ranges::find(ids.end_ids, ids.mask) != ids.end_ids.end())) {
    return invalid("end tokens: found the mask token {} among them", ids.mask);
  }
  if (canvas.size() > std::numeric_limits<int32_t>::max()) {
    return invalid("canvas: found {} positions, needed at most {}", canvas.size(), std::numeric_limits<int32_t>::max());
  }
  if (canvas.states.size() != canvas.tokens.size()) {
    return invalid("canvas: found {} states for {} tokens", canvas.states.size(), canvas.tokens.size());
  }
  std::unique_ptr<FormKeeper> keeper;
  if (form != nullptr) keeper = std::make_unique<FormKeeper>(std::move(form), options, ids, canvas);
  if (uniform) return std::make_unique<UniformStrategy>(options, ids, canvas, std::move(keeper));
  if (options.acceptance == Acceptance::causal) {
    if (generated_begin(canvas) == 0 && (ids.causal_text || ids.shift_logits))
      return invalid("accept: found causal without a prompt; needed a token that the answer goes on from");
    const int64_t prompt = generated_begin(canvas);
    return std::make_unique<SelfSpeculation>(options, ids.causal_text ? ids : ids.behind(prompt), canvas);
  }
  const bool finished_counts = ids.attention_block > 0 && !ids.kind().keeps_finished() && !ids.prompt_ends_block;
  const int64_t from = finished_counts ? 0 : generated_begin(canvas);
  DecodeOptions own = options;
  own.slide = options.slide || ids.decided_first;
  // A sliding block moves over one tile; the schedule is that of the whole run.
  const int64_t tile = own.slide ? std::max<int64_t>(canvas.size(), 1) : options.block_length;
  std::vector<Block> blocks = tile_blocks(canvas, from, tile);
  const int64_t steps = options.steps > 0 ? options.steps : count_masked(canvas);
  if (steps < static_cast<int64_t>(blocks.size())) {
    return invalid("steps: found {}, needed at least one for each of {} blocks with gaps", steps, blocks.size());
  }
  std::vector<int64_t> block_steps =
      options.acceptance == Acceptance::llada2
          ? even_steps(static_cast<int64_t>(blocks.size()), options.steps, options.block_length)
          : share_steps(blocks, steps, is_dream(options.acceptance));
  SpecialIds seen = ids.kind().keeps_finished() ? ids : ids.behind(generated_begin(canvas));
  if (ids.kind().keeps_finished()) seen.attention_block = 1;
  const bool takes_first = keeper == nullptr;
  std::unique_ptr<Strategy> strategy =
      std::make_unique<BlockStrategy>(own, seen, canvas, std::move(blocks), std::move(block_steps), std::move(keeper));
  if (ids.causal_text) strategy = std::make_unique<CausalStrategy>(options, canvas, std::move(strategy), takes_first);
  if (ids.decided_first) strategy = std::make_unique<DecidedFirst>(options, canvas, std::move(strategy));
  return strategy;
}

}  // namespace llada::decode
