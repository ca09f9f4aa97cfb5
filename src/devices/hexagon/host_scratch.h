// Scratch memory for the DSP's module in this process.
#pragma once
#include <memory>

#include "base/error.h"
#include "devices/hexagon/library.h"
#include "devices/hexagon/reserve.h"
#include "devices/hexagon/wire.h"

namespace llada::hexagon {

// The reply of `run`, which runs a batch over this scratch. Where the batch asks for more, `run` is called again with
// as much. The buffer is kept for the next call.
template <class Run>
Result<WireReply> run_with_scratch(std::shared_ptr<Buffer>& scratch, Run run) {
  for (int64_t bytes = kFirstScratch;;) {
    if (scratch == nullptr || scratch->bytes() < bytes) {
      scratch = nullptr;
      scratch = Buffer::allocate(nullptr, bytes);
    }
    if (scratch == nullptr) return failed("hexagon: {} bytes for scratch could not be allocated", bytes);
    LLADA_TRY(const WireReply reply, run());
    if (reply.status != WIRE_NO_SCRATCH || reply.detail <= scratch->bytes()) return reply;
    bytes = reply.detail;
  }
}

}  // namespace llada::hexagon
