// The LM head fused with its reduction. Logits exist only chunk by chunk in scratch memory (126,464 columns x 32 rows
// are never stored). Each chunk is reduced to softmax statistics and best tokens, and chunks are merged in a fixed
// order. Where a stream reads classes of tokens, the logits of its rows stay until a stretch of columns is complete
// (tensor/class_scores.h), and each row's stretches are read in order. Logits of a stream with a temperature are
// divided by it before they are reduced.
#pragma once
#include <vector>

#include "devices/cpu/cpu_tempering.h"
#include "devices/cpu/cpu_weights.h"
#include "devices/cpu/scratch.h"
#include "devices/value_plan.h"

namespace llada {

class CpuHead {
 public:
  struct Job {
    const kernels::KernelTable* kernels;
    ThreadPool* pool;
    const CpuWeight* weight;
    const float* x;                // rows x inputs
    const std::byte* activations;  // the same rows quantized, where the weight's type wants it
    int64_t rows;
    float cap;  // soft cap of the logits; 0: none
    const StepInputs* inputs;
    const RowSets* sets;  // each row's stream and position, on which sampling depends
  };
  Status run(const Job& job, StepOutputs& outputs);
  int64_t memory_bytes() const {
    return scratch_.bytes() + stretch_.bytes() + static_cast<int64_t>(partial_.size() * sizeof(Partial));
  }

 private:
  struct Partial {
    kernels::SoftmaxStats stats;
    kernels::Top2 top;  // clean logits among the tokens that may be sampled
    double score;       // of `sampled`: its noised logit, or its logit at temperature 0
    int32_t sampled;
    float sampled_logit;
  };
  // The two largest logits of a row in the chunks that one thread has reduced so far.
  struct Seen {
    float best, second;
  };
  Partial reduce(const Job& job, int64_t row, float* logits, int64_t begin, int64_t n, Seen& seen) const;
  Prediction merge(const Job& job, int64_t row, int64_t chunks) const;
  void temper(const Job& job, int64_t chunks, int64_t columns, StepOutputs& outputs) const;

  Scratch scratch_;               // threads x rows x columns of a chunk: logits
  Scratch stretch_;               // rows that are read x columns of a stretch: logits
  std::vector<Partial> partial_;  // rows x chunks
  std::vector<Seen> seen_;        // threads x rows
};

}  // namespace llada
