#include "devices/hexagon/dsp/attention.h"

namespace dsp {
namespace {

bool vectors_suit(uint32_t head_dim, bool half) {
  return half && (head_dim == 32 || head_dim == 64 || head_dim == 128);
}

}  // namespace

uint32_t attention_bytes(uint32_t head_dim, uint32_t heads, bool half) {
  const uint32_t plain = plain_attention_bytes(head_dim);
  const uint32_t vectors = vectors_suit(head_dim, half) ? vector_attention_bytes(head_dim, heads) : 0;
  return ((plain > vectors ? plain : vectors) + 127) & ~127u;
}

void attend(const AttentionJob& job) {
  if (vectors_suit(job.head_dim, job.half) && attend_vectors(job)) return;
  for (uint32_t head = 0; head < job.heads; ++head) attend_plainly(job, head);
}

}  // namespace dsp
