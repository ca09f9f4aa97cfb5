// A batch in memory that only this module sees. Writers of shared memory (the host at any time, an op of the very
// batch) cannot change a batch that was checked. Words: list = indices or spans that ops read beside their values;
// place = bytes of a mapped file, the same however many numbers it is mapped under.
//
// Lists are copied once per batch, however many ops share them, with their largest word: so a limit is checked without
// reading the list again. Sizes are fixed because the module has no heap; a batch that does not fit is refused.
#pragma once
#include <stdint.h>

#include "devices/hexagon/wire.h"

namespace dsp {

struct Place {
  int32_t fd = 0;
  uint32_t begin = 0, end = 0;  // bytes of the file; none overlaps nothing
  bool overlaps(const Place& other) const { return fd == other.fd && begin < other.end && other.begin < end; }
  bool equals(const Place& other) const { return fd == other.fd && begin == other.begin && end == other.end; }
};

struct CopiedList {
  WireRef ref = {};
  uint32_t bytes = 0;
  uint32_t largest = 0;  // of its words
  Place place;
  const uint32_t* words = nullptr;
};

// All of it begins as zero, so that an object of static storage takes no room in the module's file.
class BatchCopy {
 public:
  // False where `bytes` bytes at `data` are no batch. The previous copy is gone either way.
  bool take(const void* data, uint32_t bytes);

  const WireBatch& head() const { return head_; }
  const WireOp& op(uint32_t i) const { return ops_[i]; }
  const WireRange* ranges() const { return ranges_; }
  // Null: the buffer is mapped during the whole batch.
  const WirePassing* passing(uint32_t buffer) const {
    const uint32_t place = buffer < WIRE_BUFFERS ? place_of_[buffer] : 0;
    return place > 0 ? &passing_[place - 1] : nullptr;
  }
  const WirePassing* all_passing() const { return passing_; }
  bool releases(uint32_t op) const { return releases_[op]; }  // a buffer may go behind it

  // Null: not copied yet.
  const CopiedList* find(WireRef ref, uint32_t bytes) const;
  // Null: no room. bytes: a multiple of 4.
  const CopiedList* add(WireRef ref, const Place& place, const void* from, uint32_t bytes);
  const CopiedList* lists() const { return lists_; }
  uint32_t list_count() const { return list_count_; }

  // The places that the ops write, in their order.
  struct Write {
    Place place;
    uint32_t op;
  };
  static constexpr uint32_t kWrites = 4;  // of an op at most
  void note_write(const Place& place, uint32_t op) { writes_[write_count_++] = {place, op}; }
  const Write* writes() const { return writes_; }
  uint32_t write_count() const { return write_count_; }

 private:
  WireBatch head_ = {};
  WireOp ops_[WIRE_MAX_OPS] = {};
  WireRange ranges_[WIRE_MAX_RANGES] = {};
  WirePassing passing_[WIRE_MAX_PASSING] = {};
  uint32_t passing_count_ = 0;           // that the two behind it tell of
  uint8_t place_of_[WIRE_BUFFERS] = {};  // in passing_, from 1
  bool releases_[WIRE_MAX_OPS] = {};
  CopiedList lists_[WIRE_MAX_LISTS] = {};
  uint32_t list_count_ = 0, list_bytes_ = 0;
  Write writes_[kWrites * WIRE_MAX_OPS + 1] = {};  // and the flags
  uint32_t write_count_ = 0;
  uint32_t words_[WIRE_MAX_LIST_BYTES / 4] = {};
};

}  // namespace dsp
