// Stands in for src/devices/cuda/nvcc/cuda_block.h: the same kernels as plain C++. A phase is a loop over the threads
// of a block, in ascending order in one block and descending in the next, so that a kernel whose threads need more
// order than its barriers give comes out wrong; blocks run in a shuffled order; shared memory starts as no number.
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "tensor/half.h"

#define LLADA_DEVICE inline
#define LLADA_UNROLL

namespace llada::cuda {

struct Grid {
  int64_t x = 1, y = 1, z = 1;
};

inline float half_to_float(uint16_t bits) { return f16_to_float(bits); }
inline uint16_t float_to_half(float value) { return float_to_f16(value); }
inline float bits_to_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline float mad(float a, float b, float c) { return a * b + c; }
inline uint32_t float_to_bits(float value) { return std::bit_cast<uint32_t>(value); }
inline uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t both = uint64_t{b} << 32 | a;
  uint32_t picked = 0;
  for (int i = 0; i < 4; ++i) picked |= static_cast<uint32_t>(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return picked;
}
inline uint32_t halves_minus(uint32_t a, uint32_t b) {
  const auto minus = [&](int shift) {
    const float difference =
        f16_to_float(static_cast<uint16_t>(a >> shift)) - f16_to_float(static_cast<uint16_t>(b >> shift));
    return static_cast<uint32_t>(float_to_f16(difference)) << shift;
  };
  return minus(0) | minus(16);
}

template <class T, int Threads>
struct PerThread {
  std::array<T, Threads> values;
  T& operator[](int t) { return values[static_cast<size_t>(t)]; }
};

// A copy happens when its thread waits for it and not before.
class Copies {
 public:
  void copy16(uint8_t* shared, const uint8_t* from) {
    if (reinterpret_cast<uintptr_t>(shared) % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0) std::abort();
    open_.emplace_back(shared, from);
  }
  void commit() { groups_.push_back(std::exchange(open_, {})); }
  template <size_t Newest>
  void wait() {
    for (; groups_.size() > Newest; groups_.pop_front())
      for (const auto& [to, from] : groups_.front()) std::memcpy(to, from, 16);
  }

 private:
  std::vector<std::pair<uint8_t*, const uint8_t*>> open_;
  std::deque<std::vector<std::pair<uint8_t*, const uint8_t*>>> groups_;
};

struct Mma {
  float* c;
  uint32_t a[4], b[2];
};
// One warp's, its lanes' parts in order: d = a b + c as PTX's reference lays mma.m16n8k16 out.
void multiply_warp(const std::array<Mma, 32>& lanes);

struct Block {
  int x, y, z;
  uint8_t* memory;
  int threads;
  bool descending;

  template <class F>
  void each(F f) const {
    if (descending)
      for (int t = threads - 1; t >= 0; --t) f(t);
    else
      for (int t = 0; t < threads; ++t) f(t);
  }
  template <class F>
  void each_alone(F f) const {
    each(f);
  }
  template <class T, int Threads, class Get>
  void mma(PerThread<T, Threads>& values, Get get) const {
    for (int warp = 0; warp < Threads; warp += 32) {
      std::array<Mma, 32> lanes;
      for (int lane = 0; lane < 32; ++lane) lanes[static_cast<size_t>(lane)] = get(values[warp + lane]);
      multiply_warp(lanes);
    }
  }
  uint8_t* shared() const { return memory; }
  template <class T, int Threads, class Get>
  void warp_sum(PerThread<T, Threads>& values, Get get) const {
    for (int warp = 0; warp < Threads; warp += 32)
      for (int other = 16; other > 0; other /= 2) {
        std::array<float, 32> before;
        for (int lane = 0; lane < 32; ++lane) before[static_cast<size_t>(lane)] = get(values[warp + lane]);
        for (int lane = 0; lane < 32; ++lane)
          get(values[warp + lane]) = before[static_cast<size_t>(lane)] + before[static_cast<size_t>(lane ^ other)];
      }
  }
};

}  // namespace llada::cuda

namespace llada::cuda_emulator {
// Queues work on a stream; it runs when somebody waits for it.
void enqueue(cudaStream_t stream, std::function<void()> work);
// An error of a launch, which cudaGetLastError() then says.
void refuse_launch();
// A permutation of n blocks: i-th of launch number `launch`.
int64_t shuffled(int64_t i, int64_t n, uint64_t launch);
uint64_t next_launch();
}  // namespace llada::cuda_emulator

namespace llada::cuda {

template <class Kernel>
void launch(cudaStream_t stream, Grid grid, int64_t shared_bytes, const Kernel& kernel) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  constexpr int64_t kMostShared = 48 << 10;  // what a launch gets without asking
  if (shared_bytes > kMostShared || grid.x > INT32_MAX || grid.y > 65535 || grid.z > 65535)
    return cuda_emulator::refuse_launch();
  cuda_emulator::enqueue(stream, [=] {
    std::vector<double> memory(static_cast<size_t>(shared_bytes / 8 + 1));
    const int64_t blocks = grid.x * grid.y * grid.z;
    const uint64_t number = cuda_emulator::next_launch();
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t at = cuda_emulator::shuffled(i, blocks, number);
      std::memset(memory.data(), 0xff, memory.size() * 8);
      kernel(Block{static_cast<int>(at % grid.x), static_cast<int>(at / grid.x % grid.y),
                   static_cast<int>(at / grid.x / grid.y), reinterpret_cast<uint8_t*>(memory.data()), Kernel::kThreads,
                   i % 2 == 1});
    }
  });
}

}  // namespace llada::cuda
