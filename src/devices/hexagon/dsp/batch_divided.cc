// The ops around a product whose last columns the host computes: show its input, join the host's columns.
#include "devices/hexagon/dsp/batch-inl.h"
#include "devices/hexagon/dsp/rows.h"

namespace dsp {

Fault Batch::pitched(WireRef ref, uint32_t rows, uint32_t columns, uint32_t pitch, float*& out) {
  if (pitch != 0 && (pitch < columns || pitch > 1u << 24)) return {WIRE_BAD_OP, WIRE_CHECK_COLUMNS};
  const uint64_t step = pitch != 0 ? pitch : columns;
  return value(ref, 1, (rows - 1) * step + columns, Use::writes, out);
}

Fault Batch::show(const WireOp& op) {
  const uint32_t n = op.columns;
  float *x = nullptr, *to = nullptr;
  DSP_TRY(value(op.in[0], op.rows, n, Use::reads, x));
  DSP_TRY(value(op.out[0], op.rows, n, Use::writes, to));
  if (checking_) return {};
  each_row(op.rows, [&](uint32_t r) { copy(x + uint64_t{r} * n, n, to + uint64_t{r} * n); });
  clean(reinterpret_cast<const uint8_t*>(to), op.rows * n * 4);  // before done() says that it is there
  return {};
}

Fault Batch::join(const WireOp& op) {
  if (copy_.head().flags.buffer == WIRE_NO_BUFFER) return {WIRE_BAD_REF, WIRE_NO_BUFFER};
  const uint32_t n = op.columns, pitch = op.pitch[0] != 0 ? op.pitch[0] : n;
  float *x = nullptr, *to = nullptr;
  DSP_TRY(value(op.in[0], op.rows, n, Use::reads, x));
  DSP_TRY(pitched(op.out[0], op.rows, n, op.pitch[0], to));
  if (checking_) return {};
  const uint32_t begin = WIRE_DONE(copy_.head().sequence, 0);
  for (;;) {
    os_clean(reinterpret_cast<const uint8_t*>(&flags_->stop), 2 * sizeof flags_->stop);  // `joined` is its neighbour
    const uint32_t joined = __atomic_load_n(&flags_->joined, __ATOMIC_SEQ_CST) - begin;
    if (joined > op_ && joined <= WIRE_MAX_OPS) break;
    if (__atomic_load_n(&flags_->stop, __ATOMIC_SEQ_CST) != 0) return {WIRE_NO_PART, 0};
    os_pause();
  }
  clean(reinterpret_cast<const uint8_t*>(x), op.rows * n * 4);  // copies that are older than the host's
  each_row(op.rows, [&](uint32_t r) { copy(x + uint64_t{r} * n, n, to + uint64_t{r} * pitch); });
  return {};
}

}  // namespace dsp
