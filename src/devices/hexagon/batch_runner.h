// Ops as batches, for whoever computes them: the DSP, or its module on the host. Keeps the memory that batches need
// beside arena, weights and K/V: what is staged of a step, and the kernels' scratch, which grows to what is asked for.
#pragma once
#include <functional>
#include <memory>

#include "devices/hexagon/batch.h"
#include "devices/hexagon/slabs.h"

namespace llada::hexagon {

class BatchRunner {
 public:
  // memory: whose memory is taken; null: the host's alone, where the library has lost its DSP or may be asked no more.
  BatchRunner(std::shared_ptr<Library> library, std::shared_ptr<Library> memory, std::shared_ptr<const Weights> weights)
      : library_(std::move(library)), memory_(std::move(memory)), weights_(std::move(weights)) {}

  struct Work {
    const Run& run;
    size_t first, last;  // its ops
    const ValuePlan& plan;
    const RowSets& rows;
    std::shared_ptr<Buffer> arena;
    std::function<PlacedWeight(WeightId)> weight;
    std::function<Result<uint32_t>(const std::shared_ptr<Buffer>&)> number;  // BatchSources::number
    std::function<Result<WireReply>(const Batch&, uint64_t sequence)> send;
  };
  Status run(const Work& work);

  int64_t staging_bytes() const { return staging_.bytes(); }
  int64_t scratch_bytes() const { return scratch_ ? scratch_->bytes() : 0; }
  PhaseTimes times{};

 private:
  std::shared_ptr<Library> library_, memory_;
  std::shared_ptr<const Weights> weights_;
  std::shared_ptr<Buffer> scratch_;
  Staging staging_;
  RopeTables rope_;
  uint64_t sequence_ = 0;
};

}  // namespace llada::hexagon
