// Attention of some rows of one head over keys and values in F16 or F32, with online softmax: keys come in tiles of
// kKeyTile, widened to float once for all rows; a row keeps its largest score, the sum of weights and the weighted
// values, and rescales the latter two when the largest score grows. All in float; a row's order of operations
// depends on the number of its keys alone, so a row gets the same bits in any batch.
#pragma once
#include <stdint.h>

namespace dsp {

constexpr uint32_t kKeyTile = 32;
constexpr uint32_t kAttentionRows = 16;  // rows of a job at most

struct AttentionJob {
  const float* q;  // row r at q + r * stride
  float* out;
  uint32_t stride, rows;
  const void* keys;    // contiguous, head_dim elements per position
  const void* values;
  bool half;
  uint32_t head_dim;
  const uint32_t* row_keys;  // keys that each row sees, at least 1
  float* scratch;            // attention_floats(head_dim)
};

uint32_t attention_floats(uint32_t head_dim);
void attend(const AttentionJob& job);

}  // namespace dsp
