// How threads share a product of the matrix unit. Stripes of weights are widened into the slots of a ring, one thread
// multiplies them tile by tile, and whoever is free turns a tile's results into floats. There are no stages: each
// thread takes any work that is there, and so does the multiplying one while it waits, so one thread alone does all.
// Words: stripe = the weights that one instruction multiplies. A tile's stripes stay until all rows have met them.
//
// Every handing over is one word, stored with release and read with acquire. The order of the matrix unit itself is the
// caller's (hmx.h, unit_barrier()). Nothing is divided, since a DSP has no instruction for it.
#pragma once
#include <stdint.h>

#include "devices/hexagon/dsp/os.h"

namespace dsp {

constexpr uint32_t kUnitResults = 4;  // tiles whose results wait at a time
constexpr uint32_t kMostUnitSlots = 64;

class UnitRing {
 public:
  // stripes: of a tile, below 256; waiting: tiles that the ring has slots for, a power of two.
  UnitRing(uint32_t tiles, uint32_t stripes, uint32_t waiting) : tiles_(tiles), stripes_(stripes), waiting_(waiting) {}

  // The slot of a tile's stripe, and where its results lie.
  uint32_t slot(uint32_t tile, uint32_t stripe) const { return (tile & (waiting_ - 1)) * stripes_ + stripe; }
  static uint32_t result(uint32_t tile) { return tile % kUnitResults; }

  // One thread: all products. multiply(tile), between others' widen(tile, stripe) and finish(tile).
  template <class Multiply, class Widen, class Finish>
  void multiply(const Multiply& multiply, const Widen& widen, const Finish& finish) {
    const auto await = [&](const uint32_t& word, uint32_t value) {
      while (acquire(word) != value)
        if (!help(widen, finish)) os_pause();
    };
    for (uint32_t tile = 0; tile < tiles_; ++tile) {
      for (uint32_t s = 0; s < stripes_; ++s) await(filled_[slot(tile, s)], tile + 1);
      if (tile >= kUnitResults) await(finished_[result(tile)], tile - kUnitResults + 1);
      multiply(tile);
      release(multiplied_, tile + 1);
    }
    work(widen, finish);
  }
  // All others: returns when nothing is left to take.
  template <class Widen, class Finish>
  void work(const Widen& widen, const Finish& finish) {
    while (acquire(next_finish_) < tiles_ && acquire(given_up_) == 0)
      if (!help(widen, finish)) os_pause();
  }
  void give_up() { release(given_up_, 1); }

 private:
  static uint32_t acquire(const uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }
  static void release(uint32_t& word, uint32_t value) { __atomic_store_n(&word, value, __ATOMIC_RELEASE); }
  // Whether `number` is this thread's alone; `then` is the next.
  static bool take(uint32_t& next, uint32_t number, uint32_t then) {
    return __atomic_compare_exchange_n(&next, &number, then, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  }

  // False: there is nothing to do now.
  template <class Widen, class Finish>
  bool help(const Widen& widen, const Finish& finish) {
    const uint32_t tile = acquire(next_finish_);
    if (tile < acquire(multiplied_)) {
      if (take(next_finish_, tile, tile + 1)) {
        finish(tile);
        release(finished_[result(tile)], tile + 1);
      }
      return true;
    }
    const uint32_t next = acquire(next_stripe_), widened = next >> 8, stripe = next & 255;
    if (widened == tiles_ || widened - acquire(multiplied_) >= waiting_) return false;
    if (take(next_stripe_, next, stripe + 1 < stripes_ ? next + 1 : (widened + 1) << 8)) {
      widen(widened, stripe);
      release(filled_[slot(widened, stripe)], widened + 1);
    }
    return true;
  }

  const uint32_t tiles_, stripes_, waiting_;
  uint32_t next_stripe_ = 0;  // that nobody has taken: its tile times 256, and its number in it
  uint32_t next_finish_ = 0;  // tile whose results nobody has taken
  uint32_t multiplied_ = 0;   // tiles that have results, whose stripes may be overwritten
  uint32_t given_up_ = 0;
  uint32_t filled_[kMostUnitSlots] = {};  // by slot: the number of its tile, from 1
  uint32_t finished_[kUnitResults] = {};  // the number of the tile whose results were taken, from 1
};

}  // namespace dsp
