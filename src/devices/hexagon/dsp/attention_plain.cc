// Attention in scalar floats: any head size, F32 stores, and numbers that are not finite. Keys come in tiles, widened
// to float once for all rows; the softmax is online, rescaled by tile.
#include "devices/hexagon/dsp/attention.h"
#include "devices/hexagon/dsp/float_math.h"
#include "devices/hexagon/dsp/rows.h"

namespace dsp {
namespace {

float dot(const float* a, const float* b, uint32_t n) {
  float sum[4] = {};
  for (uint32_t i = 0; i < n; ++i) sum[i % 4] = fma(a[i], b[i], sum[i % 4]);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

const float* widen(const void* from, bool half, uint32_t first, uint32_t count, uint32_t head_dim, float* to) {
  if (!half) return static_cast<const float*>(from) + static_cast<uint64_t>(first) * head_dim;
  load_half(static_cast<const uint16_t*>(from) + static_cast<uint64_t>(first) * head_dim, count * head_dim, to);
  return to;
}

}  // namespace

uint32_t plain_attention_bytes(uint32_t head_dim) {
  return 4 * (2 * kKeyTile * head_dim + kAttentionRows * head_dim + 2 * kAttentionRows);
}

void attend_plainly(const AttentionJob& job, uint32_t head) {
  const uint32_t d = job.head_dim;
  auto* key_tile = reinterpret_cast<float*>(job.scratch);
  float* value_tile = key_tile + kKeyTile * d;
  float* mixes = value_tile + kKeyTile * d;  // rows x d
  float* largest = mixes + kAttentionRows * d;
  float* sums = largest + kAttentionRows;
  for (uint32_t r = 0; r < job.rows; ++r) largest[r] = -kInfinity, sums[r] = 0;
  for (uint32_t i = 0; i < job.rows * d; ++i) mixes[i] = 0;
  const float scale = job.scale;

  for (uint32_t first = 0; first < job.count; first += kKeyTile) {
    const uint32_t present = job.count - first < kKeyTile ? job.count - first : kKeyTile;
    const float* keys = widen(job.keys, job.half, first, present, d, key_tile);
    const float* values = widen(job.values, job.half, first, present, d, value_tile);
    for (uint32_t r = 0; r < job.rows; ++r) {
      const float* q = job.q + static_cast<uint64_t>(r) * job.stride + head * d;
      float* mix = mixes + r * d;
      float score[kKeyTile];
      float top = largest[r];
      for (uint32_t k = 0; k < present; ++k) {
        score[k] = dot(q, keys + k * d, d) * scale;
        // Only from a key or query that is not finite: it would vanish among the weights, and must not.
        if (score[k] == -kInfinity) score[k] = kInfinity;
        top = score[k] > top ? score[k] : top;
      }
      if (top > largest[r]) {
        const float shrink = exponential(largest[r] - top);
        sums[r] *= shrink;
        for (uint32_t i = 0; i < d; ++i) mix[i] *= shrink;
        largest[r] = top;
      }
      for (uint32_t k = 0; k < present; ++k) {
        const float weight = exponential(score[k] - top);
        sums[r] += weight;
        const float* value = values + k * d;
        for (uint32_t i = 0; i < d; ++i) mix[i] = fma(weight, value[i], mix[i]);
      }
    }
  }
  for (uint32_t r = 0; r < job.rows; ++r) {
    const float inverse = 1.0f / sums[r];
    float* out = job.out + static_cast<uint64_t>(r) * job.stride + head * d;
    for (uint32_t i = 0; i < d; ++i) out[i] = mixes[r * d + i] * inverse;
  }
}

}  // namespace dsp
