// The reading of a model's weights while they are packed: its progress, and pages read ahead of the packing, in its
// order, by a thread of their own. Packing touches a mapped file page by page on all threads, which by itself makes a
// disk seek. Read ahead, a cold file is read at the disk's pace while the processor packs.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/threads.h"
#include "engine/model.h"
#include "formats/model_file.h"

namespace llada {

// Bytes of weights that have been read, of all that are read before the model can run.
using LoadProgress = std::function<void(int64_t done, int64_t total)>;

class WeightReading {
 public:
  // The file outlives it. Nothing happens before planned().
  // threads: of the making of weights that the file has in another form (ModelFile::make).
  WeightReading(const ModelFile& file, LoadProgress progress, int threads = 0);
  ~WeightReading();
  WeightReading(const WeightReading&) = delete;
  WeightReading& operator=(const WeightReading&) = delete;

  // These will be read, in this order; called again where more follow.
  void planned(std::vector<TensorView> order);
  // This one is about to be read, of these or another; it is made where the file has it in another form.
  void wanted(const TensorView& view);
  // Why a weight could not be made. On the loading thread, as the calls above.
  const Status& made() const { return made_; }

 private:
  void read_ahead();
  const ModelFile& file_;
  const LoadProgress progress_;
  std::optional<ThreadPool> pool_;  // where weights are made
  Status made_;
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
