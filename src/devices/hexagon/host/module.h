// The DSP's module in this process: the sources of devices/hexagon/dsp, compiled for the host. It runs the batches that
// a session would send to the DSP, over the same buffers, and gives the same bits. Matrix products are the host's own
// kernels (tiles.h). Nothing needs to be mapped.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "devices/hexagon/wire.h"

namespace llada::hexagon {

class HostModule {
 public:
  // One thread calls; with it `threads` work (at most dsp::kMaxWorkers). vtcm: bytes of a modelled matrix unit's
  // memory; 0: no unit.
  explicit HostModule(int threads, uint32_t vtcm = 0);
  ~HostModule();

  // The names of the batch before are void.
  void begin_batch();
  // The number by which the batch names the buffer that begins at `data`. WIRE_BUFFERS: it names too many.
  uint32_t number(std::byte* data, int64_t bytes);
  WireReply run(std::span<const std::byte> batch);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Runs a batch of this op alone, which names buffers by the module's numbers. units: bits of WireUnit.
WireReply run_alone(HostModule& module, const WireOp& op, WireRef scratch, uint32_t scratch_bytes, uint32_t units = 0);

}  // namespace llada::hexagon
