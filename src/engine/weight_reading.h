// The reading of a model's weights while they are packed: its progress, and pages read ahead of the packing, in its
// order, by a thread of their own. Packing touches a mapped file page by page on all threads, which by itself makes a
// disk seek. Read ahead, a cold file is read at the disk's pace while the processor packs.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/model.h"
#include "formats/model_file.h"

namespace llada {

// Bytes of weights that have been read, of all that are read before the model can run.
using LoadProgress = std::function<void(int64_t done, int64_t total)>;

class WeightReading {
 public:
  // The file outlives it. Nothing happens before planned().
  WeightReading(const ModelFile& file, LoadProgress progress);
  ~WeightReading();
  WeightReading(const WeightReading&) = delete;
  WeightReading& operator=(const WeightReading&) = delete;

  // These will be read, in this order; called again where more follow.
  void planned(std::vector<TensorView> order);
  // This one is about to be read, of these or another.
  void wanted(const TensorView& view);

 private:
  void read_ahead();
  const ModelFile& file_;
  const LoadProgress progress_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<TensorView> order_;
  std::vector<int64_t> begins_;  // bytes before each
  size_t at_ = 0;                // of order_, which is being read
  int64_t total_ = 0;
  bool over_ = false;
  std::thread thread_;
};

// Reports to the reading, as long as it lives, and drops the pages of packed weights. Weights that are read again (by a
// fallback that packs when it is needed) come from the file again. The file outlives the hooks.
MemoryHooks reading_hooks(const ModelFile& file, const std::shared_ptr<WeightReading>& reading);

}  // namespace llada
