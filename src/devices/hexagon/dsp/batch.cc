#include "devices/hexagon/dsp/batch.h"

#include "devices/hexagon/dsp/attention.h"
#include "devices/hexagon/dsp/batch-inl.h"
#include "devices/hexagon/dsp/rows.h"

namespace dsp {

uint32_t supported_kinds() {
  return (1u << WIRE_SELECT_ROWS | 1u << WIRE_RMS_NORM | 1u << WIRE_HEAD_NORM | 1u << WIRE_MATMUL | 1u << WIRE_ROPE |
          1u << WIRE_STORE_KV | 1u << WIRE_ATTENTION | 1u << WIRE_SWIGLU | 1u << WIRE_ADD | 1u << WIRE_ADD_BIAS |
          1u << WIRE_GUIDE | 1u << WIRE_HEAD | 1u << WIRE_SHOW | 1u << WIRE_JOIN);
}

uint32_t supported_matrix_layouts() {
  return 1u << WIRE_STORED_F32 | 1u << WIRE_TILE_Q4_0 | 1u << WIRE_TILE_Q8_0 | 1u << WIRE_TILE_F16;
}

uint32_t supported_units() { return os_matrix().bytes > 0 ? WIRE_UNIT_MATRIX : 0; }

Fault Batch::value(WireRef ref, uint64_t rows, uint64_t columns, Use use, float*& out, uint32_t alignment) {
  return at(ref, rows * columns * 4, use, out, alignment);
}

Fault Batch::vector(const WireWeight& weight, uint32_t length, const float*& out) {
  if (weight.layout != WIRE_STORED_F32) return {WIRE_UNSUPPORTED, weight.layout};
  if (weight.inputs != length || weight.outputs != 1) return {WIRE_BAD_OP, WIRE_CHECK_WEIGHT};
  return at(weight.data, uint64_t{length} * 4, Use::reads, out);
}

// A list that was copied while checking is there when the op runs.
Fault Batch::list(WireRef ref, uint64_t bytes, const CopiedList*& out) {
  if (bytes > WIRE_MAX_LIST_BYTES) return {WIRE_BAD_OP, WIRE_CHECK_LISTS};
  out = copy_.find(ref, static_cast<uint32_t>(bytes));
  if (out != nullptr) return {};
  const uint32_t* from = nullptr;
  DSP_TRY(at(ref, bytes, Use::reads, from));
  if (from == nullptr) return {WIRE_BAD_REF, ref.buffer};  // it is not there for certain
  out = copy_.add(ref, touched_[touched_count_ - 1].place, from, static_cast<uint32_t>(bytes));
  return out != nullptr ? Fault{} : Fault{WIRE_BAD_OP, WIRE_CHECK_LISTS};
}

Fault Batch::indices(WireRef ref, uint32_t count, uint32_t limit, const uint32_t*& out) {
  const CopiedList* copied = nullptr;
  DSP_TRY(list(ref, uint64_t{count} * 4, copied));
  out = copied->words;
  return copied->largest < limit ? Fault{} : Fault{WIRE_BAD_OP, WIRE_CHECK_INDEX};
}

Fault Batch::spans(const WireOp& op, const WireSpan*& out) {
  if (op.span_count > op.rows + 1) return {WIRE_BAD_OP, WIRE_CHECK_SPANS};
  const CopiedList* copied = nullptr;
  DSP_TRY(list(op.spans, uint64_t{op.span_count} * sizeof(WireSpan), copied));
  out = reinterpret_cast<const WireSpan*>(copied->words);
  uint32_t next = 0;
  for (uint32_t i = 0; i < op.span_count; ++i) {
    const WireSpan& s = out[i];
    if (s.begin != next || s.count > op.rows - next || s.sequence >= op.kv.sequences || s.trial > 1)
      return {WIRE_BAD_OP, WIRE_CHECK_SPANS};
    next += s.count;
  }
  return next == op.rows ? Fault{} : Fault{WIRE_BAD_OP, WIRE_CHECK_SPANS};
}

Fault Batch::key_ranges(const WireOp& op, const WireKeys*& out) {
  const CopiedList* copied = nullptr;
  DSP_TRY(list(op.index, uint64_t{op.rows} * sizeof(WireKeys), copied));
  out = reinterpret_cast<const WireKeys*>(copied->words);
  for (uint32_t r = 0; r < op.rows; ++r)
    if (out[r].first >= out[r].last || out[r].last > op.kv.positions) return {WIRE_BAD_OP, WIRE_CHECK_SPANS};
  return {};
}

// rows_of_all: how many rows the trial area holds.
Fault Batch::cache(const WireOp& op, const WireSpan* spans, uint32_t rows_of_all, Use use, uint8_t*& keys,
                   uint8_t*& values, uint8_t*& trial) {
  const WireKv& kv = op.kv;
  const Fault bad = {WIRE_BAD_OP, WIRE_CHECK_KV};
  if (kv.heads == 0 || kv.heads > 1024 || kv.head_dim == 0 || kv.head_dim > 1024 || kv.sequences == 0 || kv.half > 1 ||
      kv.sequences > 1024)
    return bad;
  const uint64_t element = kv.half != 0 ? 2 : 4, head = uint64_t{kv.positions} * kv.head_dim * element;
  if (head > kv.head_stride || uint64_t{kv.heads} * kv.head_stride > kv.sequence_stride ||
      kv.head_stride % element != 0 || kv.sequence_stride % element != 0)
    return bad;
  // The last sequence may lack the padding behind its last head.
  const uint64_t bytes =
      uint64_t{kv.sequences - 1} * kv.sequence_stride + uint64_t{kv.heads - 1} * kv.head_stride + head;
  trial = nullptr;
  for (uint32_t i = 0; i < op.span_count && trial == nullptr; ++i)
    if (spans[i].trial != 0)
      DSP_TRY(at(kv.trial, uint64_t{rows_of_all} * kv.heads * 2 * kv.head_dim * element, Use::writes, trial, 64));
  // Attention of trials has their rows in the store for a moment.
  if (trial != nullptr) use = Use::writes;
  DSP_TRY(at(kv.keys, bytes, use, keys, 64));
  return at(kv.values, bytes, use, values, 64);
}

Fault Batch::select_rows(const WireOp& op) {
  if (op.source_rows == 0 || op.source_rows > WIRE_MAX_ROWS) return {WIRE_BAD_OP, WIRE_CHECK_ROWS};
  float *from = nullptr, *to = nullptr;
  const uint32_t* rows = nullptr;
  DSP_TRY(value(op.in[0], op.source_rows, op.columns, Use::reads, from));
  DSP_TRY(value(op.out[0], op.rows, op.columns, Use::writes, to));
  DSP_TRY(indices(op.index, op.rows, op.source_rows, rows));
  const uint32_t n = op.columns;
  if (!checking_) each_row(op.rows, [&](uint32_t r) { copy(from + uint64_t{rows[r]} * n, n, to + uint64_t{r} * n); });
  return {};
}

Fault Batch::norm(const WireOp& op, bool heads) {
  const uint32_t n = heads ? op.head_dim : op.columns;
  const uint64_t vectors = uint64_t{op.rows} * (heads ? op.heads : 1);
  if (n == 0 || vectors == 0) return {WIRE_BAD_OP, WIRE_CHECK_HEADS};
  float *x = nullptr, *y = nullptr;
  const float* weight = nullptr;
  DSP_TRY(value(op.in[0], vectors, n, heads ? Use::writes : Use::reads, x));
  y = x;
  if (!heads) DSP_TRY(value(op.out[0], vectors, n, Use::replaces, y));
  DSP_TRY(vector(op.weight[0], n, weight));
  if (!checking_)
    each_row(static_cast<uint32_t>(vectors),
             [&](uint32_t i) { rms_norm(x + uint64_t{i} * n, weight, op.parameter, n, y + uint64_t{i} * n); });
  return {};
}

Fault Batch::rope(const WireOp& op) {
  const uint32_t n = uint32_t{op.heads} * op.head_dim;
  if (n == 0 || n != op.columns || op.rotary % 2 != 0 || op.rotary == 0 || op.rotary > op.head_dim)
    return {WIRE_BAD_OP, WIRE_CHECK_HEADS};
  float* x = nullptr;
  const float* table = nullptr;
  DSP_TRY(value(op.in[0], op.rows, n, Use::writes, x));
  DSP_TRY(at(op.table, uint64_t{op.rows} * op.rotary * 4, Use::reads, table));
  if (!checking_)
    each_row(op.rows, [&](uint32_t r) {
      dsp::rope(x + uint64_t{r} * n, table + uint64_t{r} * op.rotary, op.heads, op.head_dim, op.rotary,
                op.rope_adjacent != 0);
    });
  return {};
}

Fault Batch::elementwise(const WireOp& op) {
  const uint32_t n = op.columns;
  float *x = nullptr, *other = nullptr, *out = nullptr;
  const float* bias = nullptr;
  DSP_TRY(value(op.in[0], op.rows, n, op.kind == WIRE_SWIGLU ? Use::reads : Use::writes, x));
  DSP_TRY(op.kind == WIRE_ADD_BIAS ? vector(op.weight[0], n, bias) : value(op.in[1], op.rows, n, Use::reads, other));
  if (op.kind == WIRE_SWIGLU) DSP_TRY(value(op.out[0], op.rows, n, Use::replaces, out));
  if (!checking_)
    each_row(op.rows, [&](uint32_t r) {
      const uint64_t first = uint64_t{r} * n;
      if (op.kind == WIRE_SWIGLU)
        swiglu(x + first, other + first, n, out + first);
      else
        add(op.kind == WIRE_ADD ? other + first : bias, n, x + first);
    });
  return {};
}

Fault Batch::guide(const WireOp& op) {
  if (op.source_rows == 0 || op.source_rows > WIRE_MAX_ROWS) return {WIRE_BAD_OP, WIRE_CHECK_ROWS};
  const uint32_t n = op.columns;
  float *x = nullptr, *out = nullptr;
  const CopiedList* copied = nullptr;
  DSP_TRY(value(op.in[0], op.source_rows, n, Use::reads, x));
  DSP_TRY(value(op.out[0], op.rows, n, Use::writes, out));
  DSP_TRY(list(op.index, uint64_t{op.rows} * sizeof(WireGuide), copied));
  const auto* guides = reinterpret_cast<const WireGuide*>(copied->words);
  for (uint32_t r = 0; r < op.rows; ++r)
    if (guides[r].conditional >= op.source_rows ||
        (guides[r].unconditional >= op.source_rows && guides[r].unconditional != WIRE_NO_ROW))
      return {WIRE_BAD_OP, WIRE_CHECK_INDEX};
  if (!checking_)
    each_row(op.rows, [&](uint32_t r) {
      const WireGuide& g = guides[r];
      const float* c = x + uint64_t{g.conditional} * n;
      float* to = out + uint64_t{r} * n;
      if (g.unconditional != WIRE_NO_ROW)
        dsp::guide(c, x + uint64_t{g.unconditional} * n, g.factor, n, to);
      else
        copy(c, n, to);
    });
  return {};
}

Fault Batch::execute(const WireOp& op) {
  if (op.rows == 0 || op.rows > WIRE_MAX_ROWS) return {WIRE_BAD_OP, WIRE_CHECK_ROWS};
  if (op.columns > kMaxColumns || (op.columns == 0 && op.kind != WIRE_HEAD_NORM && op.kind != WIRE_ATTENTION))
    return {WIRE_BAD_OP, WIRE_CHECK_COLUMNS};
  switch (op.kind) {
    case WIRE_SELECT_ROWS:
      return select_rows(op);
    case WIRE_RMS_NORM:
      return norm(op, false);
    case WIRE_HEAD_NORM:
      return norm(op, true);
    case WIRE_MATMUL:
      return matmul(op);
    case WIRE_ROPE:
      return rope(op);
    case WIRE_STORE_KV:
      return store_kv(op);
    case WIRE_ATTENTION:
      return attention(op);
    case WIRE_SWIGLU:
    case WIRE_ADD:
    case WIRE_ADD_BIAS:
      return elementwise(op);
    case WIRE_GUIDE:
      return guide(op);
    case WIRE_HEAD:
      return head(op);
    case WIRE_SHOW:
      return show(op);
    case WIRE_JOIN:
      return join(op);
    default:
      return {WIRE_UNSUPPORTED, op.kind};
  }
}

Fault Batch::maintain(uint32_t use) {
  for (uint32_t i = 0; i < copy_.head().range_count; ++i) {
    const WireRange& range = copy_.ranges()[i];
    if ((range.use & use) == 0) continue;
    if (copy_.passing(range.at.buffer) != nullptr) return {WIRE_BAD_REF, range.at.buffer};
    if (range.count == 0 || (range.count > 1 && (range.stride < WIRE_LINE || range.stride < range.bytes)))
      return {WIRE_BAD_REF, range.at.buffer};
    uint8_t* bytes = nullptr;
    touched_count_ = 0;
    DSP_TRY(at(range.at, uint64_t{range.count - 1} * range.stride + range.bytes, Use::reads, bytes, 1));
    // Cleaned and invalidated line by line: lines that the host wrote are not there in newer form, lines that it reads
    // are written.
    for (uint32_t piece = 0; !checking_ && piece < range.count; ++piece)
      clean(bytes + piece * range.stride, range.bytes);
  }
  return {};
}

void Batch::clean(const uint8_t* bytes, uint32_t count) {
  if (count == 0) return;
  const auto at = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(bytes) % WIRE_LINE);
  lines_ += (at + count + WIRE_LINE - 1) / WIRE_LINE;
  os_clean(bytes, count);
}

Fault Batch::touch(const Place& place, Use use) {
  if (place.overlaps(scratch_place_) || touched_count_ == kMostTouched) return {WIRE_BAD_OP, WIRE_CHECK_ALIAS};
  touched_[touched_count_++] = {place, use};
  return {};
}

Fault Batch::passing_at(const WirePassing& passing, uint32_t offset, uint64_t bytes, Use use, uint8_t*& out,
                        uint32_t alignment) {
  const Fault bad = {WIRE_BAD_REF, passing.buffer};
  if (offset > passing.bytes || bytes > passing.bytes - offset || use != Use::reads || op_ > passing.last) return bad;
  if (offset % alignment != 0) return {WIRE_BAD_OP, WIRE_CHECK_ALIGNMENT};
  out = nullptr;
  if (checking_) return touch({passing.fd, offset, offset + static_cast<uint32_t>(bytes)}, use);
  Buffer& buffer = buffers_.list[passing.buffer];
  for (;;) {
    const uint32_t asked = __atomic_load_n(&buffers_.asked, __ATOMIC_SEQ_CST);
    {
      const LockGuard held(buffers_.lock);
      if (buffer.address != nullptr) {
        if (buffer.fd != passing.fd || buffer.bytes < passing.bytes) return bad;
        buffer.used = true;
        out = buffer.address + offset;
        return {};
      }
    }
    if (flags_ == nullptr) return bad;
    clean(reinterpret_cast<const uint8_t*>(&flags_->stop), sizeof flags_->stop);
    if (__atomic_load_n(&flags_->stop, __ATOMIC_SEQ_CST) != 0) return bad;
    os_wait(&buffers_.asked, asked);
  }
}

void Batch::done(uint32_t op) {
  for (uint32_t i = 0; copy_.releases(op) && i < copy_.head().passing_count; ++i) {
    const WirePassing& passing = copy_.all_passing()[i];
    if (passing.last != op) continue;
    const LockGuard held(buffers_.lock);
    buffers_.list[passing.buffer].used = false;
  }
  if (flags_ == nullptr) return;
  __atomic_store_n(&flags_->done, WIRE_DONE(copy_.head().sequence, op + 1), __ATOMIC_SEQ_CST);
  clean(reinterpret_cast<const uint8_t*>(&flags_->done), sizeof flags_->done);
}

Fault Batch::check_aliases(uint32_t op) {
  for (uint32_t w = 0; w < touched_count_; ++w) {
    const Touched& written = touched_[w];
    if (written.use == Use::reads) continue;
    for (uint32_t t = 0; t < touched_count_; ++t) {
      const bool itself = t == w || (written.use == Use::replaces && t == 0 && written.place.equals(touched_[t].place));
      if (!itself && written.place.overlaps(touched_[t].place)) return {WIRE_BAD_OP, WIRE_CHECK_ALIAS};
    }
    copy_.note_write(written.place, op);
  }
  return {};
}

Fault Batch::check_lists(uint32_t& op) const {
  for (uint32_t w = 0; w < copy_.write_count(); ++w)
    for (uint32_t i = 0; i < copy_.list_count(); ++i)
      if (copy_.writes()[w].place.overlaps(copy_.lists()[i].place)) {
        op = copy_.writes()[w].op;
        return {WIRE_BAD_OP, WIRE_CHECK_ALIAS};
      }
  return {};
}

Fault Batch::check(uint32_t& op) {
  const WireBatch& batch = copy_.head();
  const LockGuard held(buffers_.lock);
  checking_ = true, scratch_needed_ = 0, op = 0;
  DSP_TRY(maintain(WIRE_HOST_WROTE | WIRE_HOST_READS));
  // The host's data is looked at only after the caches forgot it.
  checking_ = false;
  maintain(WIRE_HOST_WROTE);
  checking_ = true;
  touched_count_ = 0;
  if (batch.scratch_bytes > 0) {
    DSP_TRY(at(batch.scratch, batch.scratch_bytes, Use::writes, scratch_, 128));
    scratch_place_ = touched_[0].place;
  }
  if (batch.flags.buffer != WIRE_NO_BUFFER) {
    touched_count_ = 0;
    DSP_TRY(at(batch.flags, sizeof(WireFlags), Use::writes, flags_, 64));
    copy_.note_write(touched_[0].place, 0);
    clean(reinterpret_cast<const uint8_t*>(flags_), sizeof *flags_);  // which the host has set back
  }
  for (; op < batch.op_count; ++op) {
    touched_count_ = 0, op_ = op;
    DSP_TRY(execute(copy_.op(op)));
    DSP_TRY(check_aliases(op));
  }
  DSP_TRY(check_lists(op));
  op = 0;
  if (scratch_needed_ <= batch.scratch_bytes) return {};
  return {WIRE_NO_SCRATCH, scratch_needed_ < 0xffffffffu ? static_cast<uint32_t>(scratch_needed_) : 0xffffffffu};
}

void Batch::run(const void* data, uint32_t bytes, WireReply& reply) {
  const uint64_t first_packet = os_packets();
  reply.status = WIRE_BAD_BATCH;
  if (!copy_.take(data, bytes)) return;
  const WireBatch& batch = copy_.head();
  reply.sequence = batch.sequence;
  if ((batch.units & ~supported_units()) != 0) {
    reply.status = WIRE_UNSUPPORTED, reply.detail = batch.units;
    return;
  }
  if ((batch.units & WIRE_UNIT_MATRIX) != 0) unit_ = os_matrix();
  const auto fail = [&](Fault fault, uint32_t op) {
    reply.status = fault.status, reply.detail = fault.detail, reply.op = op;
    reply.lines = lines_;
  };
  pool_.use(batch.threads);
  const Pool::Awake awake(pool_, batch.polls);

  uint32_t op = 0;
  if (const Fault f = check(op)) return fail(f, op);
  reply.check_packets = static_cast<uint32_t>(os_packets() - first_packet);
  const uint32_t served = __atomic_load_n(&buffers_.served, __ATOMIC_SEQ_CST);
  checking_ = false;
  uint64_t before = os_microseconds();
  for (uint32_t i = 0; i < batch.op_count; ++i) {
    const WireOp& running = copy_.op(i);
    op_ = i;
    const Fault f = execute(running);
    const uint64_t now = os_microseconds();
    const bool of_product = running.kind == WIRE_SHOW || running.kind == WIRE_JOIN;
    reply.microseconds[of_product ? WIRE_MATMUL : running.kind] += static_cast<uint32_t>(now - before);
    before = now;
    if (f) {
      maintain(WIRE_HOST_READS);  // so that the host may write there again
      return fail(f, i);
    }
    done(i);
  }
  maintain(WIRE_HOST_READS);
  reply.packets = pool_.packets(), reply.wakes = pool_.wakes();
  reply.maps_beside = __atomic_load_n(&buffers_.served, __ATOMIC_SEQ_CST) - served;
  fail({}, batch.op_count);
}

}  // namespace dsp
