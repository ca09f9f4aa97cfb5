// The module's vector code beside matrix products and attention, by its definitions in plain C++. Lane by lane
// (hvx_host.h) it would be the same bits, later.
#include "devices/hexagon/dsp/rows.h"

#include <string.h>

#include "devices/hexagon/dsp/activations.h"
#include "devices/hexagon/dsp/float_math.h"
#include "devices/hexagon/dsp/head.h"
#include "devices/hexagon/dsp/rows_plain.h"
#include "devices/hexagon/dsp/unit_tiles.h"

namespace dsp {

void rms_norm(const float* x, const float* weight, float epsilon, uint32_t n, float* y) {
  plain::rms_norm(x, weight, epsilon, n, y);
}
void rope(float* x, const float* table, uint32_t heads, uint32_t head_dim, uint32_t rotary, bool adjacent) {
  plain::rope(x, table, heads, head_dim, rotary, adjacent);
}
void swiglu(const float* gate, const float* up, uint32_t n, float* y) { plain::swiglu(gate, up, n, y); }
void add(const float* x, uint32_t n, float* y) { plain::add(x, n, y); }
void guide(const float* conditional, const float* unconditional, float scale, uint32_t n, float* y) {
  plain::guide(conditional, unconditional, scale, n, y);
}
void scale(const float* x, float factor, uint32_t n, float* y) { plain::scale(x, factor, n, y); }
void copy(const float* x, uint32_t n, float* y) { memcpy(y, x, n * sizeof(float)); }

void store_half(const float* x, uint32_t n, uint16_t* y) { plain::store_half(x, n, y); }
void load_half(const uint16_t* x, uint32_t n, float* y) {
  for (uint32_t i = 0; i < n; ++i) y[i] = half_to_float(x[i]);
}

void quantize_group(Format format, const float* x, uint32_t stride, uint32_t rows, uint32_t inputs, uint32_t first,
                    uint32_t* work, uint8_t* group) {
  const uint32_t capacity = group_rows(format, rows, first);
  auto& head = *reinterpret_cast<RowGroup*>(group);
  for (uint32_t r = 0; r < capacity; ++r) {
    if (first + r < rows)
      plain::quantize_row(format, x + uint64_t{first + r} * stride, inputs, r, capacity, work, group);
    else
      head.bias[r] = 0, head.exponent[r] = 0;  // its products are made of the present keys, and not stored
  }
}

void unit_rows(const float* even, const float* odd, uint32_t blocks, uint8_t* to, int32_t exponents[2]) {
  plain::unit_rows(even, odd, blocks, to, exponents);
}
void unit_weights(Format format, const uint8_t* tile, uint32_t first, uint32_t last, uint8_t* to) {
  plain::unit_weights(format, tile, first, last, to);
}

const ChunkKernels kVectorChunk = {
    [](const float* numbers, uint32_t n) { return kPlainChunk.two_largest(numbers, n); },
    [](const float* numbers, uint32_t n, uint32_t top) { return kPlainChunk.softmax_terms(numbers, n, top); }};

}  // namespace dsp
