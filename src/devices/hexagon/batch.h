// Ops of a program as the batch that the DSP runs (wire.h). Values become places in the arena, weights places in their
// slab. Data that changes from step to step (tokens, positions, spans, rotary angles) is staged in a shared buffer.
// Deliberately absent: anything about sessions and mapping; buffers are numbered by the caller's function.
#pragma once
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "devices/device.h"
#include "devices/hexagon/library.h"
#include "devices/hexagon/wire.h"
#include "devices/value_plan.h"

namespace llada::hexagon {

// Places in a shared buffer for the inputs and outputs of one batch, handed out in order.
class Staging {
 public:
  // Starts anew. Grows the buffer when the last round was too small.
  Status restart(const std::shared_ptr<Library>& library);
  // 128-byte aligned room; `fits` turns false when it is not there, and the round is lost.
  uint32_t take(int64_t bytes);
  template <class T>
  uint32_t put(std::span<const T> data) {
    const uint32_t at = take(static_cast<int64_t>(data.size_bytes()));
    if (fits() && !data.empty()) std::memcpy(buffer_->data() + at, data.data(), data.size_bytes());
    return at;
  }
  bool fits() const { return used_ <= bytes(); }
  int64_t used() const { return used_; }
  int64_t bytes() const { return buffer_ != nullptr ? buffer_->bytes() : 0; }
  std::byte* at(uint32_t offset) const { return buffer_->data() + offset; }
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }

 private:
  std::shared_ptr<Buffer> buffer_;
  int64_t used_ = 0;
};

// Where a weight lies on the DSP; layout WIRE_NO_LAYOUT: it is not there.
struct PlacedWeight {
  std::shared_ptr<Buffer> buffer;
  uint32_t offset = 0;
};

struct BatchSources {
  const Run* run = nullptr;
  const ValuePlan* plan = nullptr;
  const RowSets* rows = nullptr;
  RopeTables* rope = nullptr;  // extended as far as the step needs
  std::shared_ptr<Buffer> arena, scratch;
  std::vector<std::shared_ptr<Buffer>> kv;  // by stream; empty where no op needs them
  // Values that are brought from the host's arena before the first op, and those that come back behind the last.
  std::shared_ptr<Buffer> host_arena = {};
  std::vector<ValueId> in = {}, out = {};
  std::vector<std::vector<KvRows>> written = {};  // rows that the host wrote since the last batch, by stream
  std::span<const WeightInfo> infos;
  std::span<const WireLayout> layouts;  // by weight
  std::function<PlacedWeight(WeightId)> weight;
  std::function<Result<uint32_t>(const std::shared_ptr<Buffer>&)> number;  // of a buffer, mapping it where needed
  // Whether a weight's buffer comes or goes while the batch runs; then flags is there (WireFlags).
  std::function<bool(const Buffer&)> passes = {};
  std::shared_ptr<Buffer> flags = {};
  uint32_t threads = 0;  // of the DSP; 0: all
  uint32_t units = 0;    // WireUnit that may be used
  // Tiles of a product's weight that are the host's, the last ones; then flags is there. Empty: none are.
  std::function<int64_t(WeightId)> host_tiles = {};
  uint64_t sequence = 0;
};

struct Batch {
  std::vector<std::byte> bytes;
  // For a head op: where its results are written.
  bool has_head = false;
  uint32_t predictions = 0, logits = WIRE_NO_BUFFER;
  int64_t head_rows = 0, vocabulary = 0;
  std::vector<uint32_t> out;     // offsets of the values of BatchSources::out
  double macs = 0;               // multiply-accumulates, for the deadline
  std::vector<uint32_t> ops_at;  // ops of the batch up to the end of each op of the run
  // The host's columns of a product: a matmul by itself, but for the numbers of its buffers. It reads Stagings::shown
  // and writes Stagings::parts.
  struct Part {
    WireOp op{};
    std::vector<std::shared_ptr<Buffer>> weights = {};
    uint32_t shown = 0;   // ops of the batch that are done when the input is there
    uint32_t joined = 0;  // ops of the batch up to the last join
  };
  std::vector<Part> parts;  // in the order of the ops
};

// Whether the DSP has code for the op: not for soft caps, other activations than SiLU, norms without weight.
bool on_dsp(const Op& op);

// Tells the stores of a step which rows a batch with these ops of the program writes.
void wrote_rows(const Run& run, size_t first, size_t last, KvViewer by);

// The most ops of a batch that an op of the program becomes. There is one for the rows of each stream where streams
// have different rules for the DSP. A product may be divided, with ops around it.
size_t wire_ops(const Op& op, const StepInputs& inputs);

// The messages between a batch and its host, in one pair of buffers for all batches of a device. Host and DSP write to
// buffers of their own, so that no cache line holds bytes of both.
struct Stagings {
  Staging in;   // written by the host
  Staging out;  // written by the DSP; the host only marks the predictions before
  // One divided product after the other has them: its input, written by the DSP, and the host's columns, written by it.
  Staging shown, parts;
  int64_t bytes() const { return in.bytes() + out.bytes() + shown.bytes() + parts.bytes(); }
};

// Ops [first, last) of the run's program. The staging buffers grow until they hold the staged data.
Result<Batch> build_batch(const BatchSources& sources, size_t first, size_t last, Stagings& staging,
                          const std::shared_ptr<Library>& library);

// Brings the values of sources.out to the host's arena.
void take_values(const BatchSources& sources, const Batch& batch, const Staging& out);

// The layout of the heads in a half (keys or values) of a K/V store, in bytes.
struct KvHeads {
  int64_t count, row, stride, half;
};
KvHeads heads_of(const KvStore& store);
// Those rows of all heads in the buffer with that number: two ranges for each stretch.
void add_rows(const KvHeads& heads, uint32_t number, std::span<const KvRows> rows, uint32_t use,
              std::vector<WireRange>& ranges);

// The predictions of a batch with a head op, and the logits where the step keeps them. Samples on the host from the
// DSP's logits at temperature > 0, by the rule of every device. A row with a logit that is not finite becomes a
// prediction that is none (tensor/prediction.h). Fails on answers that no head could give.
Status read_head(const Batch& batch, const Staging& out, const RowSets& rows, const Run& run);

}  // namespace llada::hexagon
