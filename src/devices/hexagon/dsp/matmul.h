// The matrix kernels: one tile of 32 outputs times one group of quantized rows (activations.h), and a plain one for
// F32 weights. y[r][c] for c below `columns` goes to y + r * stride. Arithmetic and its order: activations.h.
// devices/hexagon/wire.h has the tiles.
#pragma once
#include <stdint.h>

#include "devices/hexagon/dsp/activations.h"
#include "devices/hexagon/dsp/machine.h"

namespace dsp {

struct TileJob {
  const uint8_t* tile;
  const uint8_t* group;
  uint32_t rows;      // present in the group
  uint32_t capacity;  // 8 or 4, group_rows()
  uint32_t inputs;
  float* y;
  uint32_t stride, columns;
};

uint32_t tile_bytes(Format format, uint32_t inputs);
// Prefetches the beginning of a tile into L2 before it is multiplied: as much as the caches of all workers together
// should hold beside the tiles being multiplied.
inline void prefetch_tile(const uint8_t* tile, uint32_t bytes) {
  constexpr uint32_t kMost = 64 << 10, kStretch = 10;
  prefetch(tile, 1 << kStretch, (bytes < kMost ? bytes : kMost) >> kStretch);
}

void multiply_q4(const TileJob& job);
void multiply_q8(const TileJob& job);
void multiply_f16(const TileJob& job);

inline void multiply_by_vectors(Format format, const TileJob& job) {
  switch (format) {
    case Format::q4:
      return multiply_q4(job);
    case Format::q8:
      return multiply_q8(job);
    case Format::f16:
      return multiply_f16(job);
  }
}

#ifdef __hexagon__
inline void multiply(Format format, const TileJob& job) { multiply_by_vectors(format, job); }
#else
// By the processor's own instructions, with the same bits (devices/hexagon/host/tiles.h).
void multiply(Format format, const TileJob& job);
#endif

// Outputs [n0, n1) of stored F32 weights, rows x inputs activations; sums in eight parts, fused.
void multiply_f32(const float* weights, const float* x, uint32_t rows, uint32_t inputs, uint32_t n0, uint32_t n1,
                  float* y, uint32_t stride);

}  // namespace dsp
