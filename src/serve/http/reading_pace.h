// How long a client may take to read a reply. There is no limit on the whole reply but one for each piece. So a slow
// client gets all of a long answer, and one that hardly reads does not hold it for ever.
#pragma once
#include <chrono>
#include <cstddef>

namespace llada::serve {

class ReadingPace {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kPiece = size_t{16} << 10;  // bytes

  // A reply begins, or goes on after there was nothing to read.
  void begin(Clock::time_point now, Clock::duration for_each) {
    for_each_ = for_each, end_ = now + for_each, taken_ = 0;
  }
  // The client has read so many more bytes.
  void took(size_t bytes, Clock::time_point now) {
    taken_ += bytes;
    if (taken_ < kPiece) return;
    taken_ = 0, end_ = now + for_each_;
  }
  // When the next piece, or the rest, must have been read.
  Clock::time_point end() const { return end_; }

 private:
  Clock::duration for_each_{};
  Clock::time_point end_{};
  size_t taken_ = 0;  // of the piece
};

}  // namespace llada::serve
