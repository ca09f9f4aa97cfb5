// Shared by the experiments: an op alone in a batch over one buffer, and such buffers.
#pragma once
#include <chrono>
#include <memory>

#include "devices/hexagon/session.h"

namespace llada::hexagon {

inline constexpr uint32_t kMaintained = WIRE_HOST_WROTE | WIRE_HOST_READS;

inline double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Without refs.
WireOp empty_op(WireKind kind, uint32_t rows, uint32_t columns);

struct OneOpRun {
  WireRef scratch;
  uint32_t scratch_bytes = 0, threads = 0;
  uint32_t use = kMaintained;  // WireRangeUse of all of the buffer
  uint32_t units = 0;
  double deadline_s = 60;
};
Result<WireReply> run_op(Session& session, const WireOp& op, uint32_t number, const Buffer& buffer,
                         const OneOpRun& how);

Result<std::shared_ptr<Buffer>> buffer_of(const std::shared_ptr<Library>& library, int64_t bytes);

}  // namespace llada::hexagon
