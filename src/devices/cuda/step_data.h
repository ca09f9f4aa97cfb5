// What a step's kernels read beside weights and activations, packed into one transfer: tokens, positions, which rows
// belong to which sequence, attention's tiles, rotary angles, the rules of the head.
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
  // Angles of the computed rows in one rotary geometry; both pairings read the same.
  struct Rotary {
    float theta = 0;
    int rotary = 0;
    Part cos = {}, sin = {};
  };
  // Of a program: one for every geometry that its rope ops have.
  static std::vector<Rotary> rotaries_of(const Program& program);

  // Packs and queues the transfer. The transfer before has ended.
  Status bind(Memory& memory, const StepInputs& inputs, std::vector<KvPlace> stores,
              const std::vector<Rotary>& rotaries, cudaStream_t stream);

  const Rotary& rotary(const Op& rope) const;

  // By RowSet: attention's tiles and ranges of all and of wanted rows.
  std::array<Part, 2> tiles, ranges;
  Part tokens, wanted, positions, stores, stored_rows, overrides, guided, head_rows, head_tokens;
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
  std::vector<Rotary> rotaries_;
  std::vector<std::byte> packed_;
  SharedBytes pinned_;
  int64_t pinned_bytes_ = 0;
  DeviceBytes device_;
};

}  // namespace llada::cuda
