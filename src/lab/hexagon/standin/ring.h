// The emulator only, never on a phone: data that a stand-in for FastRPC's library and the emulated DSP process share.
// The stand-in starts `qemu-hexagon [-R window] llada_dsp HOST_PID CONTROL_FD`; the program maps CONTROL_FD of that
// process (through /proc) and serves invokes until told to leave. Buffers that wire.h's map method names by fd are
// opened the same way. Plain C; both sides include it. Words: request and reply count invokes; both are futex words
// (shared futexes): each side sleeps on the other's; channel = a ring with a thread of the program that serves it.
// There are RING_CHANNELS of them in the control file, so that a second thread of the host is served while the first
// one's invoke runs, as FastRPC does it. A program may serve the first channel only.
//
// One invoke on one channel: the stand-in fills scalars, handle and bytes[], and copies the in buffers to their places
// in data[]. Argument i starts at the sum of the sizes before it, each rounded up to 128. Then it adds 1 to request and
// wakes it. The program runs the skel's entry over those arguments, stores result, sets reply = request and wakes it;
// then the stand-in copies the out buffers back. The out handle of open and the in handle of close travel in `handle`.
// The caches of a DSP that nobody else looks into are played with files. In place of `fd` of a buffer that RingTable
// names the program maps `cache`. Cleaning a line moves its bytes between that file and `memory`; `shadow` is their
// last common state. RING_LEAVE as scalars of the first channel ends the process with status 0. The program also leaves
// when HOST_PID is gone.
#ifndef LLADA_DEVICES_HEXAGON_RING_H_
#define LLADA_DEVICES_HEXAGON_RING_H_
#include <stdint.h>

#define RING_MAGIC 0x4c4c5247u
#define RING_VERSION 6u
#define RING_BYTES (4u << 20) /* of the control file; a multiple of the guest's 64 KiB pages */
#define RING_CHANNELS 2u
#define RING_SHORT_BYTES (64u << 10) /* of every channel but the first, at the end of the file */
#define RING_ARGUMENTS 16
#define RING_LEAVE 0xffffffffu

typedef struct Ring {
  uint32_t magic, version; /* by the stand-in, before it starts the program */
  uint32_t request;        /* by the stand-in */
  uint32_t reply;          /* by the program */
  uint32_t ready;          /* by the program: 1 once it serves; a futex word */
  uint32_t scalars;
  uint64_t handle;
  int32_t result;                 /* what the skel's entry returned */
  uint32_t bytes[RING_ARGUMENTS]; /* in buffers first, then out buffers */
  uint32_t channels;   /* by the program before it is ready, in the first channel: how many it serves; 0 counts as 1 */
  uint32_t lacks;      /* by the stand-in, in the first channel: RingLacks, what a phone's system would not have */
  int32_t vote_status; /* by the stand-in, in the first channel: what HAP_power_set answers */
  uint32_t hardware;   /* by the stand-in, in the first channel: threads that run at a time; 0: any number */
  uint32_t scatter; /* by the stand-in, in the first channel: buffers are mapped anywhere, by this seed; 0: in order */
  uint32_t vtcm;    /* by the stand-in, in the first channel: bytes of a modelled matrix unit's memory; 0: no unit */
  int32_t unit_status; /* by the stand-in, in the first channel: the answer to votes for the unit's power */
  uint32_t unit_fault, unit_period; /* by the stand-in, in the first channel: how it errs (dsp/hmx_model.h) */
} Ring;                             /* the arguments' bytes follow at RING_DATA */

/* UNIT: the matrix unit's memory is there, and no thread is given the unit. */
enum RingLacks { RING_LACKS_MMAP2 = 1, RING_LACKS_VOTES = 2, RING_LACKS_UNIT = 4 };

#define RING_DATA 256u
#define RING_CHANNEL_AT(channel) ((channel) == 0 ? 0 : RING_BYTES - (RING_CHANNELS - (channel)) * RING_SHORT_BYTES)
#define RING_CHANNEL_BYTES(channel) ((channel) == 0 ? RING_TABLE_AT : RING_SHORT_BYTES)

/* Behind the first channel, by the stand-in before a buffer is mapped: descriptors of the host. fd 0: no entry. */
typedef struct RingBuffer {
  int32_t fd, memory, cache, shadow;
} RingBuffer;
#define RING_TABLE 1024u /* entries */
#define RING_TABLE_AT (RING_BYTES - (RING_CHANNELS - 1) * RING_SHORT_BYTES - RING_TABLE * 16u)
#define RING_CACHE_LINE 64u /* of what is moved */

#endif
