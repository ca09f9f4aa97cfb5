// Attention over digests. Only declarations: this header is also read by files compiled for any processor.
#pragma once
#include "kernels/kernels.h"

namespace llada::kernels::avx512vnni {

int64_t digest_bytes(DType kv_type, int64_t positions, int64_t head_dim);
void digest(const DigestArgs& args);
// As the table's attention, from args.digest alone.
void digest_attention(const AttentionArgs& args);

}  // namespace llada::kernels::avx512vnni
