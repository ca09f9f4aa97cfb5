// The first five experiments on a phone (docs/hexagon.md), each one command of this program; the same program runs
// against the stand-in on a PC, where a test holds it to what the emulator answers.
//   hexagon_probe query | map | matmul | ladder [MEBIBYTES] | speed
// Prints "name value" lines; exit status 0: the experiment went well, 1: the DSP refused or answered wrongly, 2: usage.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "devices/hexagon/pack.h"
#include "devices/hexagon/session.h"

namespace {

using namespace llada;
using namespace llada::hexagon;

constexpr WireRef kNone{WIRE_NO_BUFFER, 0};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

WireOp empty_op(WireKind kind, uint32_t rows, uint32_t columns) {
  WireOp op{};
  op.kind = static_cast<uint16_t>(kind), op.rows = rows, op.columns = columns;
  for (WireRef* ref : {&op.in[0], &op.in[1], &op.out[0], &op.out[1], &op.out[2], &op.index, &op.trial_index, &op.table,
                       &op.spans, &op.kv.keys, &op.kv.values, &op.kv.trial, &op.predictions, &op.logits,
                       &op.out_of_softmax, &op.never_sampled, &op.weight[0].data, &op.weight[1].data, &op.weight[2].data})
    *ref = kNone;
  return op;
}

// One op over one buffer, all of which both sides touch.
Result<WireReply> run(Session& session, const WireOp& op, uint32_t number, const Buffer& buffer, WireRef scratch,
                      uint32_t scratch_bytes, uint32_t threads) {
  static uint64_t sequence = 0;
  WireBatch head{WIRE_MAGIC, WIRE_VERSION, ++sequence, 1, 1, threads, scratch_bytes, scratch, 0, 0, {}, 0, 0};
  head.flags.buffer = WIRE_NO_BUFFER;
  const WireRange all{{number, 0}, static_cast<uint32_t>(buffer.bytes()), WIRE_HOST_WROTE | WIRE_HOST_READS};
  std::vector<std::byte> batch(sizeof head + sizeof op + sizeof all);
  std::memcpy(batch.data(), &head, sizeof head);
  std::memcpy(batch.data() + sizeof head, &op, sizeof op);
  std::memcpy(batch.data() + sizeof head + sizeof op, &all, sizeof all);
  LLADA_TRY(const WireReply reply, session.run(batch, sequence, 60));
  if (reply.status != WIRE_OK) return failed("the DSP answered {}", describe(reply));
  return reply;
}

Status query(const std::shared_ptr<Library>& library) {
  const double begin = now();
  LLADA_TRY(const auto session, Session::open(library, int64_t{7} << 29, 30));
  std::printf("library %s\narch %u\nthreads %u\nemulated %u\nopen_ms %.2f\n", library->path().c_str(), session->info().arch,
              session->info().threads, session->info().emulated, (now() - begin) * 1e3);
  return {};
}

Status map(const std::shared_ptr<Library>& library) {
  LLADA_TRY(const auto session, Session::open(library, int64_t{7} << 29, 30));
  const auto buffer = Buffer::allocate(library, 1 << 20);
  if (buffer == nullptr) return failed("no shared memory");
  auto* x = reinterpret_cast<float*>(buffer->data());
  for (int i = 0; i < 64; ++i) x[i] = static_cast<float>(i + 1), x[64 + i] = 2.0f;
  const double begin = now();
  LLADA_TRY(const uint32_t number, session->map(buffer));
  const double mapped = now();
  WireOp op = empty_op(WIRE_RMS_NORM, 1, 64);
  op.in[0] = {number, 0}, op.out[0] = {number, 1024};
  op.weight[0] = {{number, 256}, WIRE_STORED_F32, 64, 1};
  LLADA_TRY([[maybe_unused]] const WireReply reply, run(*session, op, number, *buffer, {number, 65536}, 65536, 1));
  double squares = 0;
  for (int i = 1; i <= 64; ++i) squares += i * i;
  const double wanted = 64 * 2.0 / std::sqrt(squares / 64), got = x[256 + 63];
  std::printf("map_us %.1f\nvalue %.6f\nneeded %.6f\n", (mapped - begin) * 1e6, got, wanted);
  if (std::abs(got - wanted) > 1e-4) return failed("the DSP's value is wrong");
  return session->unmap(*buffer);
}

// Q4_0 weights and activations of small integers: every product is exact, so the sums can be checked exactly.
struct Matmul {
  static constexpr int64_t kRows = 32, kInputs = 4096, kOutputs = 256;
  std::shared_ptr<Buffer> buffer;
  WireOp op = empty_op(WIRE_MATMUL, kRows, kInputs);
  uint32_t number = 0, scratch = 0;
  static constexpr uint32_t kScratch = 4 << 20;

  static int weight(int64_t n, int64_t k) { return static_cast<int>((n * 7 + k * 13 + n * k) % 16) - 8; }
  static int input(int64_t r, int64_t k) { return k % 32 == 0 ? 127 : static_cast<int>((r * 5 + k * 3) % 255) - 127; }

  static Result<Matmul> make(const std::shared_ptr<Library>& library, Session& session) {
    Matmul m;
    std::vector<std::byte> stored;
    for (int64_t n = 0; n < kOutputs; ++n)
      for (int64_t b = 0; b < kInputs / 32; ++b) {
        const uint16_t one = 0x3c00;  // the group's scale: 1 in half precision
        uint8_t nibbles[16];
        for (int i = 0; i < 16; ++i)
          nibbles[i] = static_cast<uint8_t>((weight(n, b * 32 + i) + 8) | (weight(n, b * 32 + 16 + i) + 8) << 4);
        const auto* scale = reinterpret_cast<const std::byte*>(&one);
        const auto* quants = reinterpret_cast<const std::byte*>(nibbles);
        stored.insert(stored.end(), scale, scale + 2);
        stored.insert(stored.end(), quants, quants + 16);
      }
    TensorView view{stored.data(), DType::Q4_0, {}};
    view.shape.dims = {kInputs, kOutputs, 1, 1};
    view.shape.rank = 2;
    const int64_t weights = layout_bytes(WIRE_TILE_Q4_0, kOutputs, kInputs), x = kRows * kInputs * 4, y = kRows * kOutputs * 4;
    m.buffer = Buffer::allocate(library, weights + x + y + kScratch);
    if (m.buffer == nullptr) return failed("no shared memory");
    pack(WIRE_TILE_Q4_0, view, 0, kOutputs, m.buffer->data());
    auto* inputs = reinterpret_cast<float*>(m.buffer->data() + weights);
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t k = 0; k < kInputs; ++k) inputs[r * kInputs + k] = static_cast<float>(input(r, k));
    LLADA_TRY(m.number, session.map(m.buffer));
    m.op.in[0] = {m.number, static_cast<uint32_t>(weights)};
    m.op.out[0] = {m.number, static_cast<uint32_t>(weights + x)};
    m.op.weight[0] = {{m.number, 0}, WIRE_TILE_Q4_0, kInputs, kOutputs};
    m.scratch = static_cast<uint32_t>(weights + x + y);
    return m;
  }
  Result<WireReply> multiply(Session& session, uint32_t threads) const {
    return run(session, op, number, *buffer, {number, scratch}, kScratch, threads);
  }
};

Status matmul(const std::shared_ptr<Library>& library) {
  LLADA_TRY(const auto session, Session::open(library, int64_t{7} << 29, 30));
  LLADA_TRY(const Matmul m, Matmul::make(library, *session));
  LLADA_TRY([[maybe_unused]] const WireReply reply, m.multiply(*session, 0));
  const auto* y = reinterpret_cast<const float*>(m.buffer->data() + m.op.out[0].offset);
  double worst = 0;
  uint64_t hash = 1469598103934665603ull;  // FNV-1a over the bits: equal on every machine if the arithmetic is
  for (int64_t r = 0; r < Matmul::kRows; ++r)
    for (int64_t n = 0; n < Matmul::kOutputs; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < Matmul::kInputs; ++k) sum += Matmul::weight(n, k) * Matmul::input(r, k);
      const float got = y[r * Matmul::kOutputs + n];
      worst = std::max(worst, std::abs(sum - static_cast<double>(got)));
      uint32_t bits = 0;
      std::memcpy(&bits, &got, 4);
      for (int b = 0; b < 4; ++b) hash = (hash ^ (bits >> 8 * b & 255)) * 1099511628211ull;
    }
  std::printf("worst_error %.6g\nhash %016llx\n", worst, static_cast<unsigned long long>(hash));
  return worst < 64 ? Status{} : failed("the DSP multiplies wrongly");  // 4096 products up to 1016, each off by 2^-15 of it
}

Status ladder(const std::shared_ptr<Library>& library, int64_t bytes) {
  LLADA_TRY(const auto session, Session::open(library, int64_t{7} << 29, 30));
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::string refusal = "none: all numbers of buffers are in use";
  double longest = 0;
  for (int i = 0; i < WIRE_BUFFERS; ++i) {
    buffers.push_back(Buffer::allocate(library, bytes));
    if (buffers.back() == nullptr) {
      refusal = "no more shared memory";
      buffers.pop_back();
      break;
    }
    const double begin = now();
    const auto number = session->map(buffers.back());
    longest = std::max(longest, now() - begin);
    if (number) continue;
    refusal = number.error().message;
    buffers.pop_back();
    break;
  }
  std::printf("step_mib %lld\nmapped_mib %lld\nlongest_map_us %.1f\nrefusal %s\n", static_cast<long long>(bytes >> 20),
              static_cast<long long>(session->mapped_bytes() >> 20), longest * 1e6, refusal.c_str());
  for (const auto& buffer : buffers) LLADA_TRY_STATUS(session->unmap(*buffer));
  std::printf("left_mapped %lld\n", static_cast<long long>(session->mapped_bytes()));
  return buffers.empty() ? failed("not even one buffer could be mapped") : Status{};
}

Status speed(const std::shared_ptr<Library>& library) {
  LLADA_TRY(const auto session, Session::open(library, int64_t{7} << 29, 30));
  LLADA_TRY(const Matmul m, Matmul::make(library, *session));
  for (const uint32_t threads : {1u, 0u}) {
    double best = 1e9, dsp = 1e9;
    uint64_t packets = 0;
    for (int i = 0; i < 5; ++i) {
      const double begin = now();
      LLADA_TRY(const WireReply reply, m.multiply(*session, threads));
      best = std::min(best, now() - begin);
      dsp = std::min(dsp, reply.microseconds[WIRE_MATMUL] * 1e-6);
      packets = reply.packets;
    }
    const double macs = 32.0 * 4096 * 256;
    std::printf("threads %u\ncall_us %.1f\ndsp_us %.1f\ngmac_per_s %.3f\npackets %llu\npackets_per_mac %.5f\n", threads, best * 1e6,
                dsp * 1e6, dsp > 0 ? macs / dsp / 1e9 : 0, static_cast<unsigned long long>(packets),
                static_cast<double>(packets) / macs);
  }
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "";
  const auto library = Library::open("");
  if (!library) {
    std::printf("error %s\n", library.error().message.c_str());
    return 1;
  }
  Status status;
  if (what == "query") {
    status = query(*library);
  } else if (what == "map") {
    status = map(*library);
  } else if (what == "matmul") {
    status = matmul(*library);
  } else if (what == "ladder") {
    const int64_t mebibytes = count > 2 ? std::atoll(arguments[2]) : 256;
    if (mebibytes < 1 || mebibytes > 2047) return 2;
    status = ladder(*library, mebibytes << 20);
  } else if (what == "speed") {
    status = speed(*library);
  } else {
    std::fprintf(stderr, "usage: hexagon_probe query | map | matmul | ladder [MEBIBYTES] | speed\n");
    return 2;
  }
  if (!status) std::printf("error %s\n", status.error().message.c_str());
  return status ? 0 : 1;
}
