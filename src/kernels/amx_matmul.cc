// Products by the processor's tiles: amx_matmul-inl.h with the tile instructions.
#include <cstdint>

#include "kernels/amx.h"

#define LLADA_AMX_NAMESPACE amx

namespace llada::kernels::amx {
namespace {

// Tiles 0 to 3 hold sums, 4 and 5 activations, 6 and 7 weights; all have 16 rows of 64 bytes. As assembly, since GCC
// 12's intrinsics take no template arguments and do not say what they read and write.
struct Unit {
  template <class Config>
  static bool configure(const Config& config) {
    if (!allowed()) return false;
    asm volatile("ldtilecfg %0" : : "m"(config));
    return true;
  }
  static void release() { asm volatile("tilerelease"); }
  template <int T>
  static __attribute__((always_inline)) void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(T));
  }
  template <int T>
  static __attribute__((always_inline)) void load(const uint8_t* p) {
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0"
                 :
                 : "i"(T), "r"(p), "r"(int64_t{64}), "m"(*reinterpret_cast<const uint8_t(*)[1024]>(p)));
  }
  template <int T>  // one row for all
  static __attribute__((always_inline)) void load_same(const int32_t* row) {
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0"
                 :
                 : "i"(T), "r"(row), "r"(int64_t{0}), "m"(*reinterpret_cast<const int32_t(*)[16]>(row)));
  }
  template <int T>
  static __attribute__((always_inline)) void store(int32_t* p) {
    asm volatile("tilestored %%tmm%c3, (%1,%2,1)"
                 : "=m"(*reinterpret_cast<int32_t(*)[256]>(p))
                 : "r"(p), "r"(int64_t{64}), "i"(T));
  }
  template <int Sum, int A, int B>  // signed bytes
  static __attribute__((always_inline)) void multiply() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sum), "i"(A), "i"(B));
  }
};

}  // namespace
}  // namespace llada::kernels::amx

#include "kernels/amx_matmul-inl.h"
