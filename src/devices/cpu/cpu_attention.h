// Writes keys and values of a step into their stores, and computes attention over them. It uses digests where a row
// reads many keys. A trial's rows are in the store only while its attention runs.
#pragma once
#include <array>

#include "base/threads.h"
#include "devices/cpu/scratch.h"
#include "devices/value_plan.h"
#include "kernels/kernels.h"
#include "memory/kv_store.h"

namespace llada {

class CpuAttention {
 public:
  struct Job {
    const kernels::KernelTable* kernels;
    ThreadPool* pool;
    const Op* op;
    const Attention* attention;  // of the op
    const StepInputs* inputs;
    const RowSets* sets;
    bool exact;                      // no digests
    std::array<const float*, 2> in;  // store: keys and values, rows x (K/V heads x head_dim); attend: queries
    float* out;                      // attend: rows x (heads x head_dim)
  };
  Status store(const Job& job, int64_t rows);
  Status attend(const Job& job);
  int64_t memory_bytes() const { return thread_scratch_.bytes() + trial_kv_.bytes(); }

 private:
  KvStore& store_of(const RowSpan& span) const;
  std::byte* trial_kv(int64_t row, int head) const;
  int64_t digest_bytes(const KvStore& kv) const;
  // Whether digests are used: for rows that read many keys, where the kernels have them. Soft-capped scores have none,
  // so long attention of such a model is several times slower (kernels.h). reach: of the span (RowSets).
  bool by_digest(const KvStore& kv, const KeyRange& reach) const;
  void digest(const Op& op, const RowSpan& span, int head, int64_t p0, int64_t p1) const;
  // Renews the digests of rows that the span reads and that were written since the last time.
  Status renew_digests(const Op& op, const RowSpan& span, const KeyRange& reach);
  // Exchanges the keys and values of a trial with those that the store has at its positions. `span` counts all rows.
  void swap_trial(const Op& op, const RowSpan& span, int head) const;

  const Job* job_ = nullptr;  // of the call under way
  Scratch thread_scratch_, trial_kv_;
};

}  // namespace llada
