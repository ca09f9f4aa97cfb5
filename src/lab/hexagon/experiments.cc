#include "lab/hexagon/experiments.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "devices/hexagon/pack.h"
#include "lab/hexagon/one_op.h"

namespace llada::hexagon {
namespace {

constexpr WireRef kNoRef{WIRE_NO_BUFFER, 0};
constexpr uint32_t kScratch = 4 << 20;

}  // namespace

WireOp empty_op(WireKind kind, uint32_t rows, uint32_t columns) {
  WireOp op{};
  op.kind = static_cast<uint16_t>(kind), op.rows = rows, op.columns = columns;
  for (WireRef* ref :
       {&op.in[0], &op.in[1], &op.out[0], &op.out[1], &op.out[2], &op.index, &op.trial_index, &op.table, &op.spans,
        &op.kv.keys, &op.kv.values, &op.kv.trial, &op.predictions, &op.logits, &op.out_of_softmax, &op.never_sampled,
        &op.weight[0].data, &op.weight[1].data, &op.weight[2].data})
    *ref = kNoRef;
  return op;
}

Result<WireReply> run_op(Session& session, const WireOp& op, uint32_t number, const Buffer& buffer,
                         const OneOpRun& how) {
  static std::atomic<uint64_t> last = 0;
  const uint64_t sequence = ++last;
  const WireRange all{{number, 0}, static_cast<uint32_t>(buffer.bytes()), how.use, 1, 0};
  const uint32_t ranges = how.use != 0 ? 1 : 0;
  WireBatch head{};
  head.magic = WIRE_MAGIC, head.version = WIRE_VERSION, head.sequence = sequence;
  head.op_count = 1, head.range_count = ranges;
  head.threads = how.threads, head.units = how.units;
  head.scratch = how.scratch, head.scratch_bytes = how.scratch_bytes, head.flags = kNoRef;
  std::vector<std::byte> batch(sizeof head + sizeof op + ranges * sizeof all);
  std::memcpy(batch.data(), &head, sizeof head);
  std::memcpy(batch.data() + sizeof head, &op, sizeof op);
  if (ranges > 0) std::memcpy(batch.data() + sizeof head + sizeof op, &all, sizeof all);
  if ((how.use & WIRE_HOST_WROTE) != 0) buffer.give();
  LLADA_TRY(const WireReply reply, session.run(batch, sequence, how.deadline_s));
  if ((how.use & WIRE_HOST_READS) != 0) buffer.take();
  if (reply.status != WIRE_OK) return failed("hexagon: an experiment: the DSP answered {}", describe(reply));
  return reply;
}

Result<std::shared_ptr<Buffer>> buffer_of(const std::shared_ptr<Library>& library, int64_t bytes) {
  if (auto buffer = Buffer::allocate(library, bytes)) return buffer;
  return failed("hexagon: {} bytes of shared memory could not be allocated: end other programs", bytes);
}

namespace {

int weight(int64_t n, int64_t k) { return static_cast<int>((n * 7 + k * 13 + n * k) % 16) - 8; }
int input(int64_t r, int64_t k) { return k % 32 == 0 ? 127 : static_cast<int>((r * 5 + k * 3) % 255) - 127; }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

Result<Product> Product::make(const std::shared_ptr<Library>& library, const std::shared_ptr<Session>& session,
                              int64_t outputs) {
  Product p;
  p.session_ = session;
  p.outputs_ = outputs;
  struct Group {
    uint16_t scale = 0x3c00;  // 1 in half precision
    uint8_t nibbles[16];
  };
  static_assert(sizeof(Group) == 18);
  std::vector<Group> stored(static_cast<size_t>(outputs * kInputs / 32));
  for (int64_t n = 0; n < outputs; ++n)
    for (int64_t b = 0; b < kInputs / 32; ++b)
      for (int i = 0; i < 16; ++i)
        stored[static_cast<size_t>(n * kInputs / 32 + b)].nibbles[i] =
            static_cast<uint8_t>((weight(n, b * 32 + i) + 8) | (weight(n, b * 32 + 16 + i) + 8) << 4);
  TensorView view{reinterpret_cast<const std::byte*>(stored.data()), DType::Q4_0, {}};
  view.shape.dims = {kInputs, outputs, 1, 1};
  view.shape.rank = 2;
  p.weight_bytes_ = layout_bytes(WIRE_TILE_Q4_0, outputs, kInputs);
  const int64_t x = kRows * kInputs * 4, y = kRows * outputs * 4;
  p.scratch_ = static_cast<uint32_t>((p.weight_bytes_ + x + y + 127) / 128 * 128);
  LLADA_TRY(p.buffer_, buffer_of(library, p.scratch_ + kScratch));
  static_cast<void>(pack(WIRE_TILE_Q4_0, view, 0, outputs, p.buffer_->data()));
  auto* inputs = reinterpret_cast<float*>(p.buffer_->data() + p.weight_bytes_);
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t k = 0; k < kInputs; ++k) inputs[r * kInputs + k] = static_cast<float>(input(r, k));
  LLADA_TRY(p.number_, session->map(p.buffer_));
  return p;
}

Product::Work Product::work(int64_t rows) const {
  const auto x = static_cast<uint32_t>(weight_bytes_), y = x + static_cast<uint32_t>(kRows * kInputs * 4);
  WireOp op = empty_op(WIRE_MATMUL, static_cast<uint32_t>(rows), kInputs);
  op.in[0] = {number_, x}, op.out[0] = {number_, y};
  op.weight[0] = {{number_, 0}, WIRE_TILE_Q4_0, kInputs, static_cast<uint32_t>(outputs_)};
  return {op, buffer_, scratch_, kScratch};
}

Result<Product::Run> Product::run(uint32_t threads, int64_t rows) {
  const double begin = now_us();
  LLADA_TRY(const WireReply reply,
            run_op(*session_, work(rows).op, number_, *buffer_,
                   {.scratch = {number_, scratch_}, .scratch_bytes = kScratch, .threads = threads}));
  return Run{now_us() - begin, static_cast<double>(reply.microseconds[WIRE_MATMUL]), reply.cycles, reply.packets};
}

Product::Check Product::check() const {
  const auto* y = reinterpret_cast<const float*>(buffer_->data() + weight_bytes_ + kRows * kInputs * 4);
  Check check{0, 1469598103934665603ull};  // FNV-1a
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t n = 0; n < outputs_; ++n) {
      int64_t sum = 0;
      for (int64_t k = 0; k < kInputs; ++k) sum += weight(n, k) * input(r, k);
      const float got = y[r * outputs_ + n];
      const double error = std::abs(static_cast<double>(sum) - static_cast<double>(got));
      check.worst_error = error > check.worst_error || std::isnan(error) ? error : check.worst_error;
      uint32_t bits = 0;
      std::memcpy(&bits, &got, 4);
      for (int b = 0; b < 4; ++b) check.hash = (check.hash ^ (bits >> 8 * b & 255)) * 1099511628211ull;
    }
  return check;
}

Result<Space> measure_space(const std::shared_ptr<Library>& library, Session& session, int64_t step) {
  Space space;
  const int64_t before = session.mapped_bytes();
  std::vector<std::shared_ptr<Buffer>> buffers;
  for (const int64_t bytes : {step, step / 4}) {
    space.refusal.clear();
    while (session.mapped_bytes() + bytes < int64_t{1} << 32) {
      auto buffer = Buffer::allocate(library, bytes);
      if (buffer == nullptr) {
        space.of_memory = true;
        space.refusal = fmt::format("{} bytes of shared memory could not be allocated", bytes);
        break;
      }
      const double begin = now_us();
      const auto number = session.map(buffer);
      space.longest_map_us = std::max(space.longest_map_us, now_us() - begin);
      if (!number) {
        if (!session.alive()) return std::unexpected(number.error());
        space.refusal = number.error().message;
        break;
      }
      buffers.push_back(std::move(buffer));
    }
  }
  space.bytes = session.mapped_bytes() - before;
  for (const auto& buffer : buffers) LLADA_TRY_STATUS(session.unmap(*buffer));
  return space;
}

Result<MapPrice> measure_maps(const std::shared_ptr<Library>& library, Session& session, int64_t large, Product* busy) {
  constexpr int64_t kSmall = 1 << 20;
  std::atomic<bool> stop = false;
  std::thread work;
  if (busy != nullptr)
    work = std::thread([&] {
      while (!stop && busy->run(0)) {
      }
    });
  const auto timed = [&](int64_t bytes) -> Result<double> {
    std::vector<double> times;
    for (int i = 0; i < 5; ++i) {
      LLADA_TRY(const auto buffer, buffer_of(library, bytes));
      const double begin = now_us();
      LLADA_TRY([[maybe_unused]] const uint32_t number, session.map(buffer));
      times.push_back(now_us() - begin);
      LLADA_TRY_STATUS(session.unmap(*buffer));
    }
    return median(times);
  };
  const auto small_us = timed(kSmall), large_us = timed(large);
  stop = true;
  if (work.joinable()) work.join();
  for (const auto* us : {&small_us, &large_us})
    if (!*us) return std::unexpected(us->error());
  const double per_byte = std::max(0.0, (*large_us - *small_us) / static_cast<double>(large - kSmall));
  return MapPrice{std::max(0.0, *small_us - per_byte * static_cast<double>(kSmall)), per_byte * 1e6};
}

Result<Coherency> measure_coherency(const std::shared_ptr<Library>& library, Session& session) {
  constexpr uint32_t kValues = 8192, kOther = 64 << 10, kScratchAt = 128 << 10;
  LLADA_TRY(const auto buffer, buffer_of(library, 256 << 10));
  auto* x = reinterpret_cast<float*>(buffer->data());
  auto* y = reinterpret_cast<float*>(buffer->data() + kOther);
  const auto write = [&](float first) {
    for (uint32_t i = 0; i < kValues; ++i) x[i] = first + static_cast<float>(i), y[i] = 1;
  };
  write(10);  // lines that are dirty when the buffer is mapped
  LLADA_TRY(const uint32_t number, session.map(buffer));
  // Whether the host reads the DSP's result of the written values: first + 1, value by value.
  const auto right = [&](float first, uint32_t use) -> Result<bool> {
    WireOp op = empty_op(WIRE_ADD, 1, kValues);
    op.in[0] = {number, 0}, op.in[1] = {number, kOther};
    LLADA_TRY([[maybe_unused]] const WireReply reply,
              run_op(session, op, number, *buffer,
                     {.scratch = {number, kScratchAt}, .scratch_bytes = 64 << 10, .threads = 1, .use = use}));
    for (uint32_t i = 0; i < kValues; ++i)
      if (x[i] != first + static_cast<float>(i) + 1) return false;
    return true;
  };
  Coherency c;
  LLADA_TRY(const bool dirty, right(10, WIRE_HOST_READS));
  write(20);
  LLADA_TRY(c.asked, right(20, kMaintained));
  write(30);
  LLADA_TRY([[maybe_unused]] const bool held, right(30, 0));
  write(40);  // of lines that the DSP holds since then
  LLADA_TRY(const bool old, right(40, WIRE_HOST_READS));
  c.host_to_dsp = dirty && old;
  write(50);
  LLADA_TRY(c.dsp_to_host, right(50, WIRE_HOST_WROTE));
  LLADA_TRY_STATUS(session.unmap(*buffer));
  return c;
}

Result<OneOp> run_one_op(const std::shared_ptr<Library>& library, Session& session) {
  LLADA_TRY(const auto buffer, buffer_of(library, 1 << 20));
  auto* x = reinterpret_cast<float*>(buffer->data());
  double squares = 0;
  for (int i = 0; i < 64; ++i) {
    x[i] = static_cast<float>(i + 1), x[64 + i] = 2.0f;
    squares += (i + 1) * (i + 1);
  }
  OneOp one;
  const double begin = now_us();
  LLADA_TRY(const uint32_t number, session.map(buffer));
  one.map_us = now_us() - begin;
  WireOp op = empty_op(WIRE_RMS_NORM, 1, 64);
  op.in[0] = {number, 0}, op.out[0] = {number, 1024};
  op.weight[0] = {{number, 256}, WIRE_STORED_F32, 64, 1};
  LLADA_TRY([[maybe_unused]] const WireReply reply,
            run_op(session, op, number, *buffer, {.scratch = {number, 65536}, .scratch_bytes = 65536, .threads = 1}));
  one.needed = 64 * 2.0 / std::sqrt(squares / 64), one.value = static_cast<double>(x[256 + 63]);
  LLADA_TRY_STATUS(session.unmap(*buffer));
  return one;
}

Result<double> measure_call_us(Session& session, int count) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const double begin = now_us();
    LLADA_TRY_STATUS(session.empty_call());
    times.push_back(now_us() - begin);
  }
  return median(times);
}

}  // namespace llada::hexagon
