#include "devices/hexagon/host_share.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "devices/hexagon/divided.h"
#include "devices/hexagon/host_scratch.h"
#include "devices/hexagon/mapped_slabs.h"
#include "devices/hexagon/session.h"

namespace llada::hexagon {

int64_t HostShare::tiles_of(int64_t outputs) const {
  const int64_t tiles = (outputs + 31) / 32;
  return std::min(static_cast<int64_t>(std::llround(share_ * static_cast<double>(tiles))), tiles - 1);
}

void HostShare::begin(const Batch& batch, uint64_t sequence, const Stagings& staging, std::shared_ptr<Buffer> flags) {
  if (batch.parts.empty()) return;
  over_ = false;
  ticket_ = lane_.post([this, parts = batch.parts, sequence, shown = staging.shown.buffer(),
                        to = staging.parts.buffer(), flags = std::move(flags)]() -> Status {
    const Status status = within_memory([&] { return follow(parts, sequence, *shown, *to, *flags); });
    if (!status) flags->give([&] { std::atomic_ref(reinterpret_cast<WireFlags*>(flags->data())->stop) = 1; });
    return status;
  });
}

Status HostShare::end() {
  if (ticket_ == 0) return {};
  over_ = true;
  static_cast<void>(lane_.wait(std::exchange(ticket_, 0)));
  return lane_.drain();
}

Status HostShare::follow(const std::vector<Batch::Part>& parts, uint64_t sequence, const Buffer& shown,
                         const Buffer& to, const Buffer& flags) {
  for (const Batch::Part& part : parts) {
    if (!await(flags, WIRE_DONE(sequence, part.shown))) return {};
    shown.take();
    if (on_part_) LLADA_TRY_STATUS(on_part_());
    LLADA_TRY_STATUS(compute(part, shown, to));
    ++computed_;
    to.give();
    flags.give([&] {
      std::atomic_ref(reinterpret_cast<WireFlags*>(flags.data())->joined) = WIRE_DONE(sequence, part.joined);
    });
  }
  return {};
}

// The next part is mostly there soon, so it looks without pause at first.
bool HostShare::await(const Buffer& flags, uint32_t done) const {
  using namespace std::chrono_literals;
  const auto eager = std::chrono::steady_clock::now() + 200us;
  for (;;) {
    if (Progress::reached(flags, done)) return true;
    if (over_) return false;
    if (std::chrono::steady_clock::now() < eager)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(20us);
  }
}

Status HostShare::compute(const Batch::Part& part, const Buffer& shown, const Buffer& to) {
  if (module_ == nullptr) module_ = std::make_unique<HostModule>(threads_);
  LLADA_TRY(const WireReply reply, run_with_scratch(scratch_, [&]() -> Result<WireReply> {
              module_->begin_batch();
              const auto number = [&](const Buffer& buffer) { return module_->number(buffer.data(), buffer.bytes()); };
              WireOp op = part.op;
              op.in[0].buffer = number(shown);
              for (size_t i = 0; i < part.weights.size(); ++i) {
                op.out[i].buffer = number(to);
                op.weight[i].data.buffer = number(*part.weights[i]);
              }
              return run_alone(*module_, op, {number(*scratch_), 0}, static_cast<uint32_t>(scratch_->bytes()));
            }));
  if (reply.status != WIRE_OK) return failed("hexagon: the host's columns of a product: {}", describe(reply));
  return {};
}

Result<double> time_on_host(const Buffer& buffer, WireOp op, uint32_t scratch, uint32_t scratch_bytes, int threads,
                            int repeats) {
  HostModule module(threads);
  double best = 0;
  for (int i = 0; i <= repeats; ++i) {  // the first starts the threads
    module.begin_batch();
    const uint32_t number = module.number(buffer.data(), buffer.bytes());
    op.in[0].buffer = op.out[0].buffer = op.weight[0].data.buffer = number;
    const auto begin = std::chrono::steady_clock::now();
    const WireReply reply = run_alone(module, op, {number, scratch}, scratch_bytes);
    const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
    if (reply.status != WIRE_OK) return failed("hexagon: a product on the host: {}", describe(reply));
    if (i == 1 || us < best) best = us;
  }
  return best;
}

}  // namespace llada::hexagon
