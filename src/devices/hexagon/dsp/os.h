// The functions that the DSP side needs of the system below it, and nothing else. os_emulator.cc (Linux calls under
// qemu-hexagon) and os_phone.cc (FastRPC's user process) are the two back ends. os_hap.cc has mapping and votes, over
// the calls that either of them has. Deliberately absent: a heap. Scratch memory comes from the host with each batch.
#pragma once
#include <stdint.h>

namespace dsp {

// The address at which the buffer is mapped, or null with the system's error number.
void* os_map(int32_t fd, uint32_t bytes, bool read_only, uint32_t* error);
uint32_t os_unmap(void* address, uint32_t bytes, int32_t fd);  // 0 or the error number
uint32_t os_map_call();                                        // WireInfo::map_call

// Writes the cache lines of these bytes to memory and forgets them.
void os_clean(const uint8_t* bytes, uint32_t count);

// Asks for clock and vector units, or gives both back. The bits (WireVote) that were refused, with the first status.
uint32_t os_vote(bool up, int32_t* status);

// Asks for the matrix unit's power and, only once that was given, for its memory and itself; or gives all back. The
// bits (WireVote) that were refused, with the first status.
uint32_t os_vote_matrix(bool up, int32_t* status);
// The memory of the matrix unit (VTCM), a multiple of 64 KiB in address; empty unless os_vote_matrix() has got it.
struct Matrix {
  uint8_t* memory = nullptr;
  uint32_t bytes = 0;
};
Matrix os_matrix();
// The thread that multiplies has the unit from one to the other; false: it is not given.
bool os_lock_matrix(const Matrix& unit);
void os_unlock_matrix();

uint64_t os_microseconds();
uint64_t os_packets();  // instruction packets that this thread has executed; 0 where they cannot be counted
void os_log(const char* text);

uint32_t os_threads();   // hardware threads with a vector unit that may be used, at least 1
uint32_t os_emulated();  // 1 under the emulator
// Starts worker `index` (from 1); false where the system refuses. os_join_worker() returns when the worker's entry has
// returned; only then may it be started again.
bool os_start_worker(uint32_t index, void (*entry)(void*), void* argument);
void os_join_worker(uint32_t index);
// Sleeps until *word != seen; may return earlier. os_wake() ends the sleep of all.
void os_wait(uint32_t* word, uint32_t seen);
void os_wake(uint32_t* word);
// For polling a word that another thread will change: a pause between two looks, and how many looks precede a sleep.
void os_pause();
uint32_t os_polls();

constexpr uint32_t kMaxWorkers = 8;

}  // namespace dsp
