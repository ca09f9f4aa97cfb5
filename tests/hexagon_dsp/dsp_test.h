// What the tests of the DSP side share: a process with one buffer for everything, a batch that is built op by op, and
// tensors in that buffer.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "devices/hexagon/host/module.h"
#include "devices/hexagon/pack.h"
#include "hexagon_dsp/dsp_process.h"
#include "tensor/quantize.h"
#include "tensor/view.h"

namespace llada::hexagon {

constexpr WireRef kNowhere = {WIRE_NO_BUFFER, 0};

inline WireOp make_op(WireKind kind, uint32_t rows, uint32_t columns = 0) {
  WireOp op{};
  op.kind = static_cast<uint16_t>(kind);
  op.rows = rows, op.columns = columns;
  for (WireRef* ref :
       {&op.in[0], &op.in[1], &op.out[0], &op.out[1], &op.out[2], &op.index, &op.trial_index, &op.table, &op.spans,
        &op.kv.keys, &op.kv.values, &op.kv.trial, &op.predictions, &op.logits, &op.out_of_softmax, &op.never_sampled})
    *ref = kNowhere;
  return op;
}

// Rows of a sequence that see its first `keys` positions: what the wire says as a span and a range per row.
struct TestSpan {
  uint32_t begin, count, sequence, keys, trial, all, all_count;
};

class DspTest : public testing::Test {
 protected:
  static constexpr uint32_t kBuffer = 3, kScratch = 200;

  void SetUp() override {
    if (const std::string why = DspProcess::missing(); !why.empty()) GTEST_SKIP() << why;
    start(32 << 20);
  }

  // vtcm: bytes of a matrix unit's memory, here and there; 0: no unit.
  void start(int64_t bytes, uint32_t vtcm = 0) {
    memory_ = std::make_unique<SharedBuffer>(bytes);
    scratch_ = std::make_unique<SharedBuffer>(16 << 20);
    dsp_ = std::make_unique<DspProcess>(0, vtcm);
    ASSERT_TRUE(dsp_->open());
    if (vtcm > 0) {
      ASSERT_EQ(dsp_->vote(WIRE_MAP_UP | WIRE_MAP_MATRIX).op, 0u);
    }
    // Whatever is read and was not written shows: as floats these are not numbers, as indices far too large.
    std::memset(memory_->data(), 0xff, static_cast<size_t>(std::min<int64_t>(memory_->bytes(), 32 << 20)));
    std::memset(scratch_->data(), 0xff, static_cast<size_t>(scratch_->bytes()));
    ASSERT_EQ(dsp_->map(kBuffer, *memory_).status, WIRE_OK);
    ASSERT_EQ(dsp_->map(kScratch, *scratch_).status, WIRE_OK);
    host_memory_ = std::make_unique<SharedBuffer>(bytes);
    host_scratch_ = std::make_unique<SharedBuffer>(16 << 20);
    host_ = std::make_unique<HostModule>(2, vtcm);
    host_->begin_batch();
    // Numbers come in order: those before the test's own are of bytes that no batch names.
    for (uint32_t i = 0; i < kScratch; ++i)
      if (i == kBuffer)
        host_->number(host_memory_->data(), host_memory_->bytes());
      else
        host_->number(host_scratch_->data() + i + 1, 0);
    host_->number(host_scratch_->data(), host_scratch_->bytes());
    used_ = 0;
  }

  WireRef reserve(int64_t bytes) {
    used_ = (used_ + 127) / 128 * 128;
    EXPECT_LE(used_ + bytes, memory_->bytes()) << "the test's buffer is too small";
    const WireRef ref = {kBuffer, static_cast<uint32_t>(used_)};
    used_ += bytes;
    return ref;
  }
  template <class T>
  WireRef put(std::span<const T> data) {
    const WireRef ref = reserve(static_cast<int64_t>(data.size_bytes()));
    std::memcpy(memory_->data() + ref.offset, data.data(), data.size_bytes());
    return ref;
  }
  template <class T>
  WireRef put(const std::vector<T>& data) {
    return put(std::span<const T>(data));
  }
  WireRef put_spans(const std::vector<TestSpan>& spans) {
    std::vector<WireSpan> wire;
    for (const TestSpan& s : spans) wire.push_back({s.begin, s.count, s.sequence, s.trial, s.all, s.all_count});
    return put(wire);
  }
  // What makes of guide a copy of the first rows.
  WireRef put_copies(uint32_t rows) {
    std::vector<WireGuide> guides;
    for (uint32_t r = 0; r < rows; ++r) guides.push_back({r, WIRE_NO_ROW, 0});
    return put(guides);
  }
  WireRef put_ranges(const std::vector<TestSpan>& spans) {
    std::vector<WireKeys> ranges;
    for (const TestSpan& s : spans) ranges.insert(ranges.end(), s.count, {0, s.keys});
    return put(ranges);
  }
  template <class T>
  std::vector<T> get(WireRef ref, int64_t count) const {
    std::vector<T> out(static_cast<size_t>(count));
    std::memcpy(out.data(), memory_->data() + ref.offset, out.size() * sizeof(T));
    return out;
  }
  // A weight in its layout; `view` has inputs x outputs.
  WireWeight put_weight(const TensorView& view) {
    const WireLayout layout = layout_for(view.type).value();
    const int64_t inputs = view.shape.columns(), outputs = view.shape.rows();
    const WireRef ref = reserve(layout_bytes(layout, outputs, inputs));
    EXPECT_FALSE(pack(layout, view, 0, outputs, memory_->data() + ref.offset));
    return {ref, layout, static_cast<uint32_t>(inputs), static_cast<uint32_t>(outputs)};
  }
  WireWeight put_vector(const std::vector<float>& values) {
    return {put(values), WIRE_STORED_F32, static_cast<uint32_t>(values.size()), 1};
  }

  std::vector<std::byte> batch(std::span<const WireOp> ops, uint32_t threads = 0) const {
    const WireBatch head = {WIRE_MAGIC,
                            WIRE_VERSION,
                            sequence_,
                            static_cast<uint32_t>(ops.size()),
                            0,
                            threads,
                            static_cast<uint32_t>(scratch_->bytes()),
                            {kScratch, 0},
                            polls_,
                            0,
                            kNowhere,
                            units_,
                            0};
    std::vector<std::byte> bytes(sizeof head + ops.size_bytes());
    std::memcpy(bytes.data(), &head, sizeof head);
    std::memcpy(bytes.data() + sizeof head, ops.data(), ops.size_bytes());
    return bytes;
  }
  // On the DSP; the module on the host has to write the same bits.
  WireReply run(std::span<const WireOp> ops, uint32_t threads = 0) {
    const auto bytes = batch(ops, threads);
    const size_t used = static_cast<size_t>(used_);
    std::memcpy(host_memory_->data(), memory_->data(), used);
    const WireReply reply = dsp_->run(bytes.data(), static_cast<uint32_t>(bytes.size()));
    if (reply.status != WIRE_OK || !host_too_) return reply;
    const WireReply host = host_->run(bytes);
    EXPECT_EQ(host.status, WIRE_OK) << host.detail;
    size_t same = 0;
    while (same < used && same_word(same)) same += 4;
    EXPECT_GE(same, used) << "the host's module differs from the DSP at byte " << same;
    return reply;
  }
  // What is no number may be any.
  bool same_word(size_t at) const {
    float a = 0, b = 0;
    std::memcpy(&a, memory_->data() + at, 4);
    std::memcpy(&b, host_memory_->data() + at, 4);
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b);
  }
  WireReply run(const WireOp& op, uint32_t threads = 0) { return run(std::span(&op, 1), threads); }

  std::unique_ptr<SharedBuffer> memory_, scratch_, host_memory_, host_scratch_;
  std::unique_ptr<HostModule> host_;
  bool host_too_ = true;  // false: a test maps buffers of its own, or writes into them while a batch runs
  std::unique_ptr<DspProcess> dsp_;
  int64_t used_ = 0;
  uint32_t polls_ = 0, units_ = 0, sequence_ = 7;  // of WireBatch
};

}  // namespace llada::hexagon
