// From a step shape to results: builds (or finds) the program, cuts it into runs by placement, submits them
// in order. With one device there is one run; the cut is where more devices join.
#pragma once
#include <functional>
#include <list>
#include <memory>

#include "devices/device.h"
#include "graph/program.h"

namespace llada {

class Executor {
 public:
  using Build = std::function<Result<std::shared_ptr<const Program>>(StepShape)>;

  Executor(Device& device, Build build) : device_(device), build_(std::move(build)) {}

  // One forward over `kv`. inputs.wanted may be empty: then only K/V is refreshed.
  Status run(const StepInputs& inputs, KvStore& kv, StepOutputs& outputs);

 private:
  Result<std::shared_ptr<const Program>> program(StepShape shape);

  Device& device_;
  Build build_;
  std::list<std::shared_ptr<const Program>> recent_;  // most recent first
};

}  // namespace llada
