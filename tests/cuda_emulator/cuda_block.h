// Stands in for src/devices/cuda/nvcc/cuda_block.h: the same kernels as plain C++. A phase is a loop over the threads of a
// block, in ascending order in one block and descending in the next, so that a kernel whose threads need more order than
// its barriers give comes out wrong; blocks run in a shuffled order; shared memory starts as no number.
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
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

template <class T, int Threads>
struct PerThread {
  std::array<T, Threads> values;
  T& operator[](int t) { return values[static_cast<size_t>(t)]; }
};

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
// A permutation of n blocks: i-th of launch number `launch`.
int64_t shuffled(int64_t i, int64_t n, uint64_t launch);
uint64_t next_launch();
}  // namespace llada::cuda_emulator

namespace llada::cuda {

template <class Kernel>
void launch(cudaStream_t stream, Grid grid, int64_t shared_bytes, const Kernel& kernel) {
  cuda_emulator::enqueue(stream, [=] {
    constexpr int64_t kMostShared = 48 << 10;  // what a launch gets without asking
    if (shared_bytes > kMostShared || grid.y > 65535 || grid.z > 65535) std::abort();
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
