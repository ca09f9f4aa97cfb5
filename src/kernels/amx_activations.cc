// The area of activations that tiles read (amx.h), made of the quants in the main area.
#include <immintrin.h>

#include "kernels/amx.h"

namespace llada::kernels::amx {
namespace {

using avx512vnni::ActivationLayout, avx512vnni::chunks_of, avx512vnni::kRowTile;

constexpr int64_t tiles_of(int64_t rows) { return rows < kLeastRows ? 0 : (rows + kRowTile - 1) / kRowTile; }

void fill_row(std::byte* activations, int64_t rows, int64_t k, int64_t row) {
  const int64_t first = row / kRowTile * kRowTile, in_tile = row - first, chunks = chunks_of(k);
  const int64_t height = rows - first < kRowTile ? rows - first : kRowTile;
  const std::byte* from = activations + first * chunks * ActivationLayout::kMain + in_tile * 8;
  std::byte* to = activations + ActivationLayout(rows, k).bytes + row / kRowTile * chunks * kTileBytes + in_tile * 64;
  const __m512i order = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  for (int64_t c = 0; c < chunks; ++c, from += height * ActivationLayout::kMain, to += kTileBytes) {
    alignas(64) uint64_t steps[8];  // each four quants of A, four of B
    for (int64_t q = 0; q < 8; ++q) __builtin_memcpy(&steps[q], from + q * height * 8, 8);
    const __m512i all = _mm512_load_si512(steps);
    _mm512_store_si512(to, _mm512_maskz_permutexvar_epi32(0x00ff, order, all));
    _mm512_store_si512(to + kTileBytes / 2, _mm512_maskz_permutexvar_epi32(0xff00, order, all));
  }
}

}  // namespace

int64_t activation_bytes(int64_t rows, int64_t k) {
  return ActivationLayout(rows, k).bytes + tiles_of(rows) * chunks_of(k) * kTileBytes;
}

void quantize_rows(const float* x, int64_t rows, int64_t k, int64_t r0, int64_t r1, TypeSet readers,
                   std::byte* activations) {
  avx512vnni::quantize_rows(x, rows, k, r0, r1, readers, activations);
  for (int64_t r = r0; tiles_of(rows) > 0 && r < r1; ++r) fill_row(activations, rows, k, r);
}

void pick_rows(const PickArgs& args) {
  avx512vnni::pick_rows(args);
  for (int64_t r = 0; tiles_of(args.count) > 0 && r < args.count; ++r) fill_row(args.out, args.count, args.k, r);
}

}  // namespace llada::kernels::amx
