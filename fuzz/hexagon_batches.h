// What the fuzz target over the DSP's batches and its seeds agree on. An input is
//   u32 memory bytes, those bytes (the beginning of the shared buffer), then a batch as wire.h lays it out.
// The buffers of a session: number 3 and 5 the shared memory, 4 some to be read only, 200 the scratch.
#pragma once
#include <stdint.h>

namespace llada::fuzz {

inline constexpr uint32_t kShared = 3, kReadOnly = 4, kSharedAgain = 5, kScratch = 200;
inline constexpr uint32_t kSharedBytes = 64 << 10, kReadOnlyBytes = 8 << 10, kScratchBytes = 4 << 20;

}  // namespace llada::fuzz
