// Attention of some rows over a range of keys of a store, for all query heads that share a K/V head. Two ways with the
// same meaning: attend_vectors() in integers on the vector unit for F16 stores with heads of 32, 64 or 128,
// attend_plainly() in scalar floats for everything else. Which one runs depends on the store and on the keys that the
// rows see alone, so a row gets the same bits in any batch. All rows of a job see the same keys.
#pragma once
#include <stdint.h>

namespace dsp {

constexpr uint32_t kKeyTile = 32;
constexpr uint32_t kAttentionRows = 32;  // rows of a job at most

struct AttentionJob {
  const float* q;  // row r, head h of the group at q + r * stride + h * head_dim
  float* out;      // the same
  uint32_t stride, rows, heads;
  const void* keys;  // contiguous, head_dim elements per position
  const void* values;
  uint32_t count;  // keys, at least 1
  bool half;
  uint32_t head_dim;
  float scale;       // of the scores
  uint8_t* scratch;  // attention_bytes(), aligned to 128
};

uint32_t attention_bytes(uint32_t head_dim, uint32_t heads, bool half);
void attend(const AttentionJob& job);

uint32_t plain_attention_bytes(uint32_t head_dim);
void attend_plainly(const AttentionJob& job, uint32_t head);

// In chunks of kChunkKeys keys, whose softmaxes are joined as they come. Errors: attention_vectors.cc. False, with
// nothing written, when a key or value is not finite.
constexpr uint32_t kChunkKeys = 512;
uint32_t vector_attention_bytes(uint32_t head_dim, uint32_t heads);
bool attend_vectors(const AttentionJob& job);

struct Softmax {
  float largest, sum;  // the sum relative to the largest
};
// One chunk's softmax joined to those before, state = {largest, sum}; chunk_mix is lost.
void join(const Softmax& chunk, float* chunk_mix, float scale, uint32_t d, bool first, float* state, float* mix);

}  // namespace dsp
