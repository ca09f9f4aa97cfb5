#include "devices/hexagon/batch_runner.h"

#include <algorithm>

#include "devices/hexagon/reserve.h"
#include "devices/hexagon/session.h"

namespace llada::hexagon {
namespace {

// The host's digests of keys and values that the batch is about to write.
void forget_digests(const Run& run, size_t first, size_t last) {
  for (size_t i = first; i < last; ++i) {
    const Op& op = run.program->ops[i];
    if (op.kind != OpKind::store_kv) continue;
    for (const RowSpan& span : run.inputs->spans)
      for (int32_t r = span.begin; r < span.begin + span.count; ++r)
        run.inputs->streams[static_cast<size_t>(span.stream)].kv->changed(
            op.layer, span.sequence, run.inputs->positions[static_cast<size_t>(r)]);
  }
}

}  // namespace

Status BatchRunner::run(const Work& work) {
  const auto& [run, first, last, plan, rows, arena, weight, number, send] = work;
  if (scratch_ == nullptr) scratch_ = Buffer::allocate(memory_, kFirstScratch);
  std::vector<std::shared_ptr<Buffer>> stores;
  for (const Stream& s : run.inputs->streams)
    if (s.kv != nullptr)
      if (auto buffer = library_->find(s.kv->memory())) stores.push_back(std::move(buffer));
  for (;;) {
    if (scratch_ == nullptr) return failed("hexagon: memory for scratch could not be allocated");
    const BatchSources sources{.run = &run,
                               .plan = &plan,
                               .rows = &rows,
                               .rope = &rope_,
                               .arena = arena,
                               .scratch = scratch_,
                               .kv = stores,
                               .infos = weights_->infos(),
                               .layouts = weights_->layouts(),
                               .weight = weight,
                               .number = number,
                               .sequence = ++sequence_};
    forget_digests(run, first, last);
    LLADA_TRY(const Batch batch, build_batch(sources, first, last, staging_, memory_));
    LLADA_TRY(const WireReply reply, send(batch, sequence_));
    if (reply.status == WIRE_NO_SCRATCH && reply.detail > scratch_->bytes()) {
      scratch_ = nullptr;
      scratch_ = Buffer::allocate(memory_, reply.detail);
      continue;
    }
    if (reply.status != WIRE_OK) return failed("hexagon: running ops {} to {}: {}", first, last - 1, describe(reply));
    for (size_t k = 0; k < std::min(times.size(), std::size(reply.microseconds)); ++k)
      times[k] += reply.microseconds[k] / 1e3;
    return batch.has_head ? read_head(batch, staging_, rows, run) : Status{};
  }
}

}  // namespace llada::hexagon
