// The head: logits in stretches of columns, reduced on the GPU to predictions, which are copied to the host.
#pragma once
#include <optional>
#include <vector>

#include "devices/cuda/product_run.h"
#include "devices/cuda/step_data.h"
#include "devices/device.h"

namespace llada::cuda {

class HeadRun {
 public:
  struct Job {
    const Matrix* matrix;
    Memory* memory;
    const StepData* step;
    const StepInputs* inputs;
    StepOutputs* outputs;  // it, the inputs and the step must live until take()
    int64_t rows;
    float cap;  // soft cap of the logits; 0: none
    cudaStream_t stream;
  };
  static int64_t bytes(int64_t rows, int64_t vocabulary);  // of device memory
  // Queues it; `products` has begun with the head's op.
  Status run(const Job& job, ProductRun& products);
  // Called once the stream is done: writes the predictions of the head that has run, if any, to the outputs.
  Status take();
  void forget() { pending_.reset(); }

 private:
  struct Pending {  // results on their way
    const StepInputs* inputs;
    const RowSets* sets;
    StepOutputs* outputs;
    int64_t rows, vocabulary;
  };
  // Where a row's logits go on the host; null: nowhere.
  float* host_logits(const RowSets& sets, int64_t row, int64_t vocabulary, StepOutputs& outputs);
  // Queues copies of the columns that are there: one for neighbouring rows that go to the host.
  Status keep_logits(const Job& job, int64_t vocab, const HeadArguments& a);

  DeviceBytes logits_, partials_, results_;
  PinnedBytes host_results_;
  std::vector<float> read_;  // rows x vocabulary, of rows that are read for their classes and not kept
  std::optional<Pending> pending_;
};

}  // namespace llada::cuda
