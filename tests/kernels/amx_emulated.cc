// Compiled with the flags of amx_matmul.cc (CMakeLists.txt): no header with code that others share.
#include "amx_emulated.h"

#ifdef __x86_64__
#define LLADA_AMX_NAMESPACE amx_emulated

namespace llada::kernels::amx_emulated {
namespace {

const char* wrong = nullptr;
bool configured = false;
unsigned char tiles[8][16][64];

// Intel's definitions for tiles that are all 16 rows of 64 bytes, which is what configure() insists on.
struct Unit {
  template <class Config>
  static bool configure(const Config& config) {
    bool whole = config.palette == 1 && config.start_row == 0;
    for (int i = 0; i < 16; ++i)
      whole = whole && config.rows[i] == (i < 8 ? 16 : 0) && config.row_bytes[i] == (i < 8 ? 64 : 0);
    for (const unsigned char byte : config.reserved) whole = whole && byte == 0;
    if (!whole || sizeof config != 64) wrong = "a configuration that is not eight whole tiles";
    if (configured) wrong = "configured twice";
    configured = true;
    __builtin_memset(tiles, 0, sizeof tiles);
    return true;
  }
  static void release() {
    used();
    configured = false;
  }
  template <int T>
  static void zero() {
    used();
    __builtin_memset(tiles[T], 0, sizeof tiles[T]);
  }
  template <int T>
  static void load(const uint8_t* p) {
    used();
    __builtin_memcpy(tiles[T], p, sizeof tiles[T]);
  }
  template <int T>
  static void load_same(const int32_t* row) {
    used();
    for (auto& to : tiles[T]) __builtin_memcpy(to, row, sizeof to);
  }
  template <int T>
  static void store(int32_t* p) {
    used();
    __builtin_memcpy(p, tiles[T], sizeof tiles[T]);
  }
  template <int Sum, int A, int B>
  static void multiply() {  // TDPBSSD: sum[m][n] += a[m][4k..] . b[k][4n..]
    static_assert(Sum != A && Sum != B && A != B);
    used();
    for (int m = 0; m < 16; ++m)
      for (int n = 0; n < 16; ++n) {
        int32_t sum;
        __builtin_memcpy(&sum, tiles[Sum][m] + 4 * n, 4);
        for (int k = 0; k < 64; ++k)
          sum += static_cast<int8_t>(tiles[A][m][k]) * static_cast<int8_t>(tiles[B][k / 4][4 * n + k % 4]);
        __builtin_memcpy(tiles[Sum][m] + 4 * n, &sum, 4);
      }
  }

 private:
  static void used() {
    if (!configured) wrong = "used without a configuration";
  }
};

}  // namespace

const char* misuse() { return configured ? "not released" : wrong; }

}  // namespace llada::kernels::amx_emulated

#include "kernels/amx_matmul-inl.h"
#endif
