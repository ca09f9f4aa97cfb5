// What the engine asks of anything that can compute: load weights once, run stretches of a program against a
// K/V store. A run is consecutive ops on one device. Devices never see models, strategies or text.
#pragma once
#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/trace.h"
#include "graph/program.h"
#include "memory/kv_store.h"
#include "tensor/view.h"

namespace llada {

struct DeviceInfo {
  std::string name;         // "cpu"
  std::string description;  // processor, instruction set, threads
  int threads = 1;
  std::string processor;  // the hardware alone: "AMD EPYC 9B45"
};

// Milliseconds by kind of op, summed since the last reset; measured wall clock of the whole device.
using PhaseTimes = std::array<double, kOpKindCount>;

struct Run {
  std::shared_ptr<const Program> program;
  size_t first = 0, last = 0;  // ops [first, last)
  const StepInputs* inputs = nullptr;
  KvStore* kv = nullptr;
  StepOutputs* outputs = nullptr;  // filled by a head op
};

using Ticket = int64_t;

class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceInfo info() const = 0;

  // Another device over the same loaded weights with its own threads and scratch memory; the two may run at
  // the same time.
  virtual Result<std::unique_ptr<Device>> share(int threads) const = 0;

  // Values that cross from one run to the next of a program live in the device's arena; runs of one program
  // follow in order.
  virtual Result<Ticket> submit(const Run& run) = 0;
  virtual Status wait(Ticket ticket) = 0;

  virtual PhaseTimes take_phase_times() = 0;
  virtual int64_t memory_bytes() const = 0;  // allocated by the device: packed weights and scratch
  virtual void set_trace(Trace* trace) = 0;
};

}  // namespace llada
