#include "engine/weight_reading.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace llada {
namespace {

// Asked for ahead of the packing: much for a disk's queue, little of memory. In pieces, so that an end is soon seen.
constexpr int64_t kAheadBytes = int64_t{256} << 20, kPieceBytes = int64_t{8} << 20;

}  // namespace

WeightReading::WeightReading(const ModelFile& file, LoadProgress progress, int threads)
    : file_(file), progress_(std::move(progress)) {
  if (file.makes()) pool_.emplace(threads);
}

WeightReading::~WeightReading() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void WeightReading::planned(std::vector<TensorView> order) {
  {
    const std::lock_guard lock(mutex_);
    for (TensorView& view : order) {
      begins_.push_back(total_);
      total_ += view.bytes();
      order_.push_back(std::move(view));
    }
  }
  if (!thread_.joinable() && !order_.empty()) try {
      thread_ = std::thread([this] { read_ahead(); });
    } catch (const std::system_error&) {  // then the packing waits for the disk
    }
  changed_.notify_all();
}

void WeightReading::wanted(const TensorView& view) {
  if (Status made = file_.make(view, pool_ ? &*pool_ : nullptr); !made && made_) made_ = std::move(made);
  int64_t done = 0, total = 0;
  {
    const std::lock_guard lock(mutex_);
    if (at_ >= order_.size() || order_[at_].data != view.data) return;
    done = begins_[at_];
    total = total_;
    ++at_;
  }
  changed_.notify_all();
  if (progress_) progress_(done, total);
}

void WeightReading::read_ahead() {
  std::unique_lock lock(mutex_);
  int64_t offset = 0;  // within order_[next]
  for (size_t next = 0;;) {
    changed_.wait(lock, [&] {
      if (over_) return true;
      const int64_t reached = at_ == 0 ? 0 : begins_[at_ - 1];
      return next < order_.size() && begins_[next] + offset < reached + kAheadBytes;
    });
    if (over_) return;
    // The pages that the packing has passed are in memory.
    if (at_ > next + 1) {
      next = at_ - 1;
      offset = 0;
      continue;
    }
    const TensorView view = order_[next];
    const int64_t bytes = std::min(kPieceBytes, view.bytes() - offset);
    lock.unlock();
    file_.will_read(view, offset, bytes);
    lock.lock();
    offset += bytes;
    if (offset >= view.bytes()) {
      ++next;
      offset = 0;
    }
  }
}

MemoryHooks reading_hooks(const ModelFile& file, const std::shared_ptr<WeightReading>& reading) {
  const std::weak_ptr weak = reading;
  return {.wanted =
              [weak, &file](std::string_view, const TensorView& view) {
                // A weight that cannot be made later, for a fallback, has values that are not finite.
                if (const auto now = weak.lock())
                  now->wanted(view);
                else
                  (void)file.make(view);
              },
          .packed = [&file](std::string_view, const TensorView& view) { file.drop_pages(view); },
          .planned =
              [weak](std::vector<TensorView> order) {
                if (const auto now = weak.lock()) now->planned(std::move(order));
              }};
}

}  // namespace llada
