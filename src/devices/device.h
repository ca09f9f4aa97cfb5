// The interface of anything that can compute: load weights once, run parts of a program against the K/V stores of a
// step's streams. A run is consecutive ops on one unit of a device. Devices never see models, strategies or text.
//
// Words:
//   unit    a processor of a device (a phone's chip has two, its NPU and its CPU; a plain device has one)
//   slab    weights that are mapped together (memory/slabs.h)
//   window  how many of the weights a unit can address at once
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/pages.h"
#include "base/trace.h"
#include "devices/experts.h"
#include "graph/program.h"
#include "memory/kv_store.h"
#include "memory/slabs.h"
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

// Calls to the owner of the stored bytes while weights are loaded; each may be empty.
struct WeightHooks {
  std::function<void(std::span<const size_t>)> planned;  // these will be read next, in this order, before any is
  std::function<void(size_t)> wanted;                    // weight i is about to be read for the first time
  std::function<void(size_t)> packed;  // the stored bytes of weight i are no longer needed: no rows are picked from it
  std::function<Status(int64_t)> admit = {};  // before packed weights take so many bytes; an error ends the load
};

enum class Unit : uint8_t { accelerator, host };  // a device with one unit takes both for it

// How much an accelerator can address. Where weight_bytes is unlimited nothing needs to be mapped.
struct DeviceWindow {
  int64_t weight_bytes = -1;        // of one session, beside activations, K/V and code; -1: unlimited
  int sessions = 1;                 // windows that can be open at once
  bool cuts_slabs = true;           // part of a slab can be mapped; false where a slab is one buffer
  int64_t page_bytes = kPageBytes;  // slabs are whole pages of this size
};

struct DeviceSlab {
  std::vector<WeightId> weights;  // a weight that two slabs name needs both
  int64_t bytes = 0;
  int session = 0;
  bool pinned = false;  // stays mapped from its first mapping on, so that it may share a buffer with others
};

enum class MapMode : uint8_t {
  remap,  // the slab's pages become addressable
  copy,   // its bytes are copied into memory that stays mapped; an error where the device does not
};

// Emulated time and its parts since the last reset. Modelled, from `profile`; never wall clock.
struct EmulatedStats {
  std::string profile;
  double seconds = 0, joules = 0;
  double npu_s = 0, cpu_s = 0, map_s = 0, dma_s = 0;  // each lane's working time
  double exposed_map_s = 0;                           // in which work waited for a mapping alone
  int64_t mapped_bytes = 0, maps = 0;
  int64_t moved_expert_bytes = 0;  // experts that were moved to the accelerator
};

struct Run {
  std::shared_ptr<const Program> program;
  size_t first = 0, last = 0;  // ops [first, last)
  const StepInputs* inputs = nullptr;
  StepOutputs* outputs = nullptr;  // filled by a head op
  Unit unit = Unit::accelerator;
  // For a run that is one experts op: which unit computes which expert, and which experts are moved for it. Units may
  // round differently; otherwise results do not depend on it. Null: one unit computes them all.
  const ExpertsPlan* experts = nullptr;
};

using Ticket = int64_t;

// ---- Capabilities that only some devices have. A device shows it by a pointer (Capabilities), null where it cannot.

// Memory that must be mapped before the accelerator uses it.
class Window {
 public:
  virtual ~Window() = default;
  virtual DeviceWindow window() const = 0;
  virtual std::vector<int64_t> weight_sizes() const = 0;  // stored bytes
  // Replaces the slabs; nothing is mapped afterwards. An op on a weight in a slab that is not mapped, or in
  // none, is an error of submit().
  virtual Status define_slabs(std::vector<DeviceSlab> slabs) = 0;
  // Both return at once; a run that needs the slab waits for it, and unmapping waits for runs that use it.
  // Mapping more than the window holds is an error.
  virtual Status map(int slab, MapMode mode) = 0;
  virtual Status unmap(int slab) = 0;
  // Called after a failure. Where the machine has refused less than window() allows, shrinks window() and returns a
  // line that says so; then slabs are to be defined again. Empty: nothing has changed.
  virtual std::string narrow() { return {}; }
};

// Experts whose routing can be looked at before they are computed, and of which the accelerator may hold some
// (experts.h).
class ExpertHost {
 public:
  virtual ~ExpertHost() = default;
  // A value of the program whose runs are under way: rows x columns. It is read after the run that wrote it and before
  // later ones reuse its memory. Empty where the device cannot show it.
  virtual std::span<const float> peek(const Program& program, ValueId id) const = 0;
  // After a run that ended with an op of experts: the rows that the down matrix of one of them was multiplied by. They
  // are in the order of the step's rows. Empty where no row chose it, or where the device cannot show them.
  virtual std::span<const float> peek_hidden(const Program&, int /*expert*/) const { return {}; }
  virtual ExpertLink expert_link() { return {}; }
  // Begins another run of steps, and returns its number. No expert is resident then, and ExpertBooks of earlier runs
  // are void.
  int64_t begin_expert_run() {
    drop_experts();
    return ++expert_run_;
  }
  int64_t expert_run() const { return expert_run_; }  // the last that began; 0: none

 protected:
  virtual void drop_experts() {}

 private:
  int64_t expert_run_ = 0;
};

// Time that is emulated.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual EmulatedStats emulated() = 0;
  virtual void reset_emulated() = 0;
  // The device prices work and does none, so that no results come back and no store is touched.
  virtual bool dry() const = 0;
};

// Passes of their own on the host unit while the device works on steps. They are computed one after another, in the
// order in which they are given.
class SidePasses {
 public:
  virtual ~SidePasses() = default;
  // Does not wait. The data that the run points to must live until it is waited for, and it must not share K/V with a
  // step.
  virtual Result<Ticket> submit_side_pass(const Run& run) = 0;
  // Whether wait() would return at once.
  virtual bool ready(Ticket ticket) = 0;
  // True: results are there after wait(). False: on return of submit_side_pass(), since only emulated time overlaps.
  virtual bool overlaps() const = 0;
};

// Requirements on the host unit beside an accelerator.
class HostUnit {
 public:
  virtual ~HostUnit() = default;
  // Keeps activations in `memory`, at the offsets of plan_values() (value_plan.h), so that it works on the values of
  // the accelerator. bytes must cover every program that is run.
  virtual void use_arena(SharedBytes memory, int64_t bytes) = 0;
  // Loads weights now that would otherwise be loaded by the first run that needs them, with its errors.
  virtual Status load(std::span<const WeightId> ids) = 0;
};

struct Capabilities {
  Window* window = nullptr;  // null: the device sees all memory
  ExpertHost* experts = nullptr;
  Clock* clock = nullptr;  // null: real time
  SidePasses* side_passes = nullptr;
  HostUnit* host = nullptr;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceInfo info() const = 0;

  // Another device over the same loaded weights with its own threads and scratch memory; the two may run at
  // the same time.
  virtual Result<std::unique_ptr<Device>> share(int threads) const = 0;

  // Failed: the device cannot run the program, because of an op or its attributes; the line names the op. Asked before
  // anything of a program is submitted; a program that was refused must not be submitted.
  virtual Status supports(const Program& program) const = 0;

  // Values that cross from one run to the next of a program live in the device's arena; runs of one program
  // follow in order.
  virtual Result<Ticket> submit(const Run& run) = 0;
  virtual Status wait(Ticket ticket) = 0;

  // Bytes that the device keeps beside a store of this shape at most (KvStore::reserve_digests).
  virtual int64_t digest_bytes(const KvShape&) const { return 0; }

  // Memory that every unit of the device sees: K/V that is made of it needs no copies. Null when there is none.
  virtual SharedBytes allocate(int64_t bytes) { return allocate_shared(bytes); }

  // The unit on which an op belongs: the accelerator where it can run it.
  virtual Unit place(const Op&) const { return Unit::accelerator; }

  // The same at any time; valid as long as the device.
  virtual Capabilities capabilities() { return {}; }

  virtual PhaseTimes take_phase_times() = 0;
  virtual int64_t memory_bytes() const = 0;  // allocated by the device: packed weights and scratch
  virtual void set_trace(Trace* trace) = 0;
};

}  // namespace llada
