// Products of the DSP's weight tiles (devices/hexagon/wire.h) with its quantized activations (dsp/activations.h) by the
// host's own instructions: the same integers in the same order, so the same bits. Each is held to the DSP's own sources
// on the host ("plain"), which are the oracle.
#pragma once
#include <span>

#include "devices/hexagon/dsp/matmul.h"

namespace llada::hexagon {

struct TileKernels {
  const char* isa;
  void (*multiply)(dsp::Format format, const dsp::TileJob& job);
};

// Those that this processor runs, the best first and "plain" last.
std::span<const TileKernels> tile_kernels();

}  // namespace llada::hexagon

namespace llada::hexagon::tiles {

// The end of a tile, shared by all sets: sums[row][output] to the job's floats.
void finish(const dsp::TileJob& job, const int32_t* sums);

void avx2(dsp::Format format, const dsp::TileJob& job);
void avxvnni(dsp::Format format, const dsp::TileJob& job);
void avx512vnni(dsp::Format format, const dsp::TileJob& job);
void neon_dotprod(dsp::Format format, const dsp::TileJob& job);
void neon_i8mm(dsp::Format format, const dsp::TileJob& job);

}  // namespace llada::hexagon::tiles
