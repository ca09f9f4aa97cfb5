// What the kernels are written in, for nvcc. A kernel is a plain struct of its arguments with a call operator that
// runs once per block of threads; it computes in phases: each(f) calls f(thread) for every thread of the block and ends
// with a barrier. What a thread keeps from phase to phase is a PerThread. Written so, the same source is also plain C++,
// which tests/cuda_emulator runs with loops in place of threads (its file of this name stands in for this one).
#pragma once
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#define LLADA_DEVICE __device__ __forceinline__
#define LLADA_UNROLL _Pragma("unroll")  // a loop whose indices name registers

namespace llada::cuda {

struct Grid {
  int64_t x = 1, y = 1, z = 1;
};

LLADA_DEVICE float half_to_float(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
LLADA_DEVICE uint16_t float_to_half(float value) { return __half_as_ushort(__float2half_rn(value)); }
LLADA_DEVICE float bits_to_float(uint32_t bits) { return __uint_as_float(bits); }
LLADA_DEVICE float mad(float a, float b, float c) { return __fmaf_rn(a, b, c); }

template <class T, int Threads>
struct PerThread {
  T value;
  LLADA_DEVICE T& operator[](int) { return value; }
};

struct Block {
  int x, y, z;  // of the grid

  template <class F>
  LLADA_DEVICE void each(F f) const {
    f(static_cast<int>(threadIdx.x));
    __syncthreads();
  }
  // The bytes that the launch asked for, aligned to 16; undefined at first.
  LLADA_DEVICE uint8_t* shared() const {
    extern __shared__ float4 memory[];
    return reinterpret_cast<uint8_t*>(memory);
  }
  // Every thread's get(value) becomes the sum over its warp, always added in the same order.
  template <class T, int Threads, class Get>
  LLADA_DEVICE void warp_sum(PerThread<T, Threads>& values, Get get) const {
    float& x = get(values.value);
    for (int other = 16; other > 0; other /= 2) x += __shfl_xor_sync(0xffffffffu, x, other);
  }
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads) enter(const Kernel kernel) {
  kernel(Block{static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z)});
}

// An error of the launch is left for cudaGetLastError().
template <class Kernel>
void launch(cudaStream_t stream, Grid grid, int64_t shared_bytes, const Kernel& kernel) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const dim3 blocks(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z));
  enter<<<blocks, Kernel::kThreads, static_cast<size_t>(shared_bytes), stream>>>(kernel);
}

}  // namespace llada::cuda
