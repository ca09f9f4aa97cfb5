// How much memory this process uses, as the system counts it.
#pragma once
#include <cstdint>

namespace llada {

// The largest resident size so far, in bytes: private memory and the touched pages of mapped files. 0 where
// the system does not tell.
int64_t peak_memory_bytes();

// For a long-lived process whose load changes. From here on all threads allocate from one heap, and freed blocks of 1
// MiB and more go back to the system at once. So memory follows use. By glibc's defaults (eight heaps per processor, a
// threshold that grows up to 32 MiB) the memory of a server under load goes on growing. A threshold below 1 MiB would
// return the buffers of every step and fault their pages in again. To be called before other threads start; nothing
// where there is no glibc.
void return_freed_memory();

// Gives back the free pages between blocks that are in use, which requests of mixed sizes and lives leave behind. Takes
// milliseconds, in which other threads wait where they allocate; nothing where there is no glibc.
void return_free_pages();

}  // namespace llada
