// What tables with digests (kernels.h) share beside the code of digest-inl.h.
#pragma once
#include "kernels/kernels.h"

namespace llada::kernels {

// A table's attention: stretches of rows that see enough keys go by the digest, the others by floats; a
// matter of each row alone.
template <void (*by_digest)(const AttentionArgs&), void (*by_floats)(const AttentionArgs&)>
void attention_by_keys(const AttentionArgs& args) {
  const auto narrow = [&](int64_t r) {
    const int64_t seen = args.ranges != nullptr ? args.ranges[r].last - args.ranges[r].first : args.keys;
    return args.digest != nullptr && seen >= kDigestKeys;
  };
  AttentionArgs part = args;
  for (part.r0 = args.r0; part.r0 < args.r1; part.r0 = part.r1) {
    const bool digest = narrow(part.r0);
    for (part.r1 = part.r0 + 1; part.r1 < args.r1 && narrow(part.r1) == digest;) ++part.r1;
    (digest ? by_digest : by_floats)(part);
  }
}

}  // namespace llada::kernels
