// The frame of the kernels, for nvcc. A kernel is a plain struct of its arguments with a call operator that runs once
// per block of threads. It computes in phases: each(f) calls f(thread) for every thread of the block and ends with a
// barrier. A value that a thread keeps from phase to phase is a PerThread. Written so, the same source is also plain
// C++, which tests/cuda_emulator runs with loops in place of threads (its file of this name stands in for this one).
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
LLADA_DEVICE uint32_t float_to_bits(float value) { return __float_as_uint(value); }
// Byte i of the result is byte (selector >> 4 * i & 7) of b:a, a's being 0 to 3.
LLADA_DEVICE uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t selector) { return __byte_perm(a, b, selector); }
// Two halves each, the first in the low bits.
LLADA_DEVICE uint32_t halves_minus(uint32_t a, uint32_t b) {
  const __half2 difference = __hsub2(reinterpret_cast<const __half2&>(a), reinterpret_cast<const __half2&>(b));
  return reinterpret_cast<const uint32_t&>(difference);
}

template <class T, int Threads>
struct PerThread {
  T value;
  LLADA_DEVICE T& operator[](int) { return value; }
};

// One thread's copies from global to shared memory that run beside its work, 16 aligned bytes each. They are there
// after wait(), and for other threads after the barrier behind it.
class Copies {
 public:
  LLADA_DEVICE void copy16(uint8_t* shared, const uint8_t* from) {
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
        "l"(from)
        : "memory");
  }
  LLADA_DEVICE void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  // For all groups but the Newest that were committed last.
  template <int Newest>
  LLADA_DEVICE void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Newest) : "memory");
  }
};

// A lane's part of c (16 x 8 floats) += a (16 x 16 halves) times b (16 x 8 halves), lane = 4 * g + t, as PTX's
// mma.m16n8k16 has it. c: rows g, g, g + 8, g + 8, columns 2t, 2t + 1, 2t, 2t + 1. a, two neighbours of a row each: row
// g from 2t, row g + 8 from 2t, row g from 2t + 8, row g + 8 from 2t + 8. b, two neighbours of column g each: from 2t,
// from 2t + 8.
struct Mma {
  float* c;
  uint32_t a[4], b[2];
};

struct Block {
  int x, y, z;  // of the grid

  template <class F>
  LLADA_DEVICE void each(F f) const {
    f(static_cast<int>(threadIdx.x));
    __syncthreads();
  }
  // The same without a barrier: f reads shared memory that a barrier has made visible and writes none.
  template <class F>
  LLADA_DEVICE void each_alone(F f) const {
    f(static_cast<int>(threadIdx.x));
  }
  // Every warp's product, get(value) being each lane's part.
  template <class T, int Threads, class Get>
  LLADA_DEVICE void mma(PerThread<T, Threads>& values, Get get) const {
    const Mma m = get(values.value);
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(m.c[0]), "+f"(m.c[1]), "+f"(m.c[2]), "+f"(m.c[3])
        : "r"(m.a[0]), "r"(m.a[1]), "r"(m.a[2]), "r"(m.a[3]), "r"(m.b[0]), "r"(m.b[1]));
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
