// Buffers of the stand-in: memory of this process behind a descriptor; and of machines whose caches nobody else looks
// into, the copies that each side has of it. Words: line = RING_CACHE_LINE bytes; host's, DSP's copy = the bytes that a
// side reads and writes. Only data that a side asks for moves between the copies. The host asks by sync(), as Linux's
// DMA_BUF_IOCTL_SYNC does it, the DSP by cleaning lines (os_emulator.cc).
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "lab/hexagon/standin/ring.h"

namespace llada::standin {

enum Coherent : int { kNeither = 0, kHostIsSeen = 1, kBoth = 2 };  // kHostIsSeen: the DSP's cache alone is apart

// Moves the lines of `from` that differ from `shadow`, the former state of both, to `to`.
void move_written(uint8_t* from, uint8_t* shadow, uint8_t* to, size_t bytes);
// The same for lines that a DSP has written to a buffer: its system does it when the process ends.
void write_back(const RingBuffer& buffer);

class Buffers {
 public:
  void* allocate(size_t bytes, Coherent coherent, int poison);  // null: not to be had
  int free(void* data);                                         // its descriptor; -1: none of these
  int descriptor(void* data) const;
  std::optional<RingBuffer> cached(int fd) const;  // nothing: both sides see the same
  int sync(int fd, bool take);                     // take: from memory; else to it

 private:
  struct Buffer {
    uint8_t* data;
    size_t bytes;
    RingBuffer files;
    std::vector<uint8_t> shadow;  // for kNeither: the last common state of the host's copy and memory
  };
  const Buffer* find(int fd) const;
  mutable std::mutex mutex_;
  std::map<void*, Buffer> all_;
};

}  // namespace llada::standin
