// The data that a step's kernels read beside weights and activations, packed into one transfer. It has tokens,
// positions, which rows belong to which sequence, attention's tiles, rotary angles, and the rules of the head.
#pragma once
#include <cstddef>
#include <vector>

#include "devices/cuda/kernels.h"
#include "devices/cuda/runtime.h"
#include "devices/value_plan.h"
#include "graph/program.h"

namespace llada::cuda {

class StepData {
 public:
  struct Part {
    int64_t offset = 0;
    int64_t count = 0;
  };
  // Angles of the computed rows in one rotary geometry.
  struct Rotary {
    Part cos = {}, sin = {};
  };

  // Packs and queues the transfer. The transfer before has ended.
  Status bind(Memory& memory, const StepInputs& inputs, const Program& program, std::vector<KvPlace> stores,
              cudaStream_t stream);

  const Rotary& rotary(const Op& rope) const { return rotaries_[static_cast<size_t>(rope.attributes)]; }

  // By RowSet: attention's tiles of all and of wanted rows.
  std::array<Part, 2> tiles;
  // The same of the ranges that rows read in one of the program's ways of attending.
  const std::array<Part, 2>& ranges(const Attention& attention) const {
    return ranges_[static_cast<size_t>(&sets.of(attention) - sets.reads.data())];
  }
  Part tokens, wanted, kept_at, stores, stored_rows, overrides, guided, head_rows, head_tokens;
  RowSets sets;
  std::vector<KvPlace> places;          // of the streams' stores
  bool halves = false, floats = false;  // among them

  template <class T>
  const T* at(const Part& part) const {
    return reinterpret_cast<const T*>(device_.data() + part.offset);
  }

 private:
  template <class T>
  Part put(const std::vector<T>& values);

  RopeTables ropes_;
  std::vector<Rotary> rotaries_;             // by rope of the program
  std::vector<std::array<Part, 2>> ranges_;  // by window: sets.reads
  std::vector<std::byte> packed_;
  PinnedBytes pinned_;
  DeviceBytes device_;
};

}  // namespace llada::cuda
