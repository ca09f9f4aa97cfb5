// How much memory this process has used, as the system counts it.
#pragma once
#include <cstdint>

namespace llada {

// The largest resident size so far, in bytes: private memory and the touched pages of mapped files. 0 where
// the system does not tell.
int64_t peak_memory_bytes();

}  // namespace llada
