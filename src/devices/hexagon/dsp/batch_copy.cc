#include "devices/hexagon/dsp/batch_copy.h"

#include <stddef.h>

extern "C" void* memcpy(void* to, const void* from, size_t bytes);

namespace dsp {
namespace {

// Behind it the compiler may not read `from` again in place of the copy.
void copy(void* to, const void* from, uint32_t bytes) {
  memcpy(to, from, bytes);
  asm volatile("" : : "r"(to) : "memory");
}

}  // namespace

bool BatchCopy::take(const void* data, uint32_t bytes) {
  list_count_ = list_bytes_ = write_count_ = 0;
  for (; passing_count_ > 0; --passing_count_) {
    const WirePassing& passing = passing_[passing_count_ - 1];
    place_of_[passing.buffer] = 0;
    if (passing.last < WIRE_MAX_OPS) releases_[passing.last] = false;
  }
  head_ = {};
  if (bytes < sizeof(WireBatch)) return false;
  copy(&head_, data, sizeof head_);
  if (head_.magic != WIRE_MAGIC || head_.version != WIRE_VERSION || head_.op_count > WIRE_MAX_OPS ||
      head_.range_count > WIRE_MAX_RANGES || head_.passing_count > WIRE_MAX_PASSING ||
      bytes != sizeof(WireBatch) + head_.op_count * sizeof(WireOp) + head_.range_count * sizeof(WireRange) +
                   head_.passing_count * sizeof(WirePassing))
    return false;
  const auto* ops = static_cast<const uint8_t*>(data) + sizeof(WireBatch);
  copy(ops_, ops, head_.op_count * static_cast<uint32_t>(sizeof(WireOp)));
  const uint8_t* ranges = ops + head_.op_count * sizeof(WireOp);
  copy(ranges_, ranges, head_.range_count * static_cast<uint32_t>(sizeof(WireRange)));
  copy(passing_, ranges + head_.range_count * sizeof(WireRange),
       head_.passing_count * static_cast<uint32_t>(sizeof(WirePassing)));
  for (uint32_t i = 0; i < head_.passing_count; ++i) {
    if (passing_[i].buffer >= WIRE_BUFFERS || place_of_[passing_[i].buffer] != 0) return false;
    passing_count_ = i + 1;
    place_of_[passing_[i].buffer] = static_cast<uint8_t>(passing_count_);
    if (passing_[i].last < head_.op_count) releases_[passing_[i].last] = true;
  }
  return true;
}

const CopiedList* BatchCopy::find(WireRef ref, uint32_t bytes) const {
  for (uint32_t i = 0; i < list_count_; ++i)
    if (lists_[i].ref.buffer == ref.buffer && lists_[i].ref.offset == ref.offset && lists_[i].bytes == bytes)
      return &lists_[i];
  return nullptr;
}

const CopiedList* BatchCopy::add(WireRef ref, const Place& place, const void* from, uint32_t bytes) {
  if (list_count_ == WIRE_MAX_LISTS || bytes > WIRE_MAX_LIST_BYTES - list_bytes_) return nullptr;
  uint32_t* words = words_ + list_bytes_ / 4;
  copy(words, from, bytes);
  uint32_t largest = 0;
  for (uint32_t i = 0; i < bytes / 4; ++i) largest = words[i] > largest ? words[i] : largest;
  list_bytes_ += bytes;
  lists_[list_count_] = {ref, bytes, largest, place, words};
  return &lists_[list_count_++];
}

}  // namespace dsp
