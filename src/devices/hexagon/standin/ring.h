/* The page that the stand-in and the DSP process share: one request at a time, host to DSP and back. Read by a C++
   compiler for the host and by clang for Hexagon: fixed-size fields, the same layout on both sides.

   The host fills the request, adds 1 to `request` and wakes it; the DSP process answers, sets `response` to the same
   number and wakes that. Arguments of an invoke are copied through the payload in their order, 8-byte aligned. */
#ifndef LLADA_STANDIN_RING_H
#define LLADA_STANDIN_RING_H
#include <stdint.h>

#define RING_MAGIC 0x4c4c5247u /* "LLRG" */
#define RING_ARGUMENTS 16
#define RING_PAYLOAD_BYTES (960u * 1024u)
#define RING_BYTES (1024u * 1024u) /* a multiple of the emulated page, 64 KiB */

enum { RING_LOAD = 1, RING_INVOKE = 2, RING_MAP = 3, RING_UNMAP = 4, RING_EXIT = 5 };

struct ring {
  uint32_t magic;
  uint32_t request;   /* futex */
  uint32_t response;  /* futex */
  uint32_t ready;     /* futex: 1 once the DSP process serves */
  uint32_t kind;      /* of the request */
  int32_t status;     /* of the answer: an AEE code */
  uint32_t host_pid;  /* whose file descriptors fd counts */
  uint32_t hang;      /* asked to never answer this request */
  uint64_t handle;    /* RING_INVOKE: what the skel's open method gave */
  uint32_t scalars;   /* RING_INVOKE */
  int32_t fd;         /* RING_MAP, RING_UNMAP */
  uint64_t length;    /* RING_MAP: bytes */
  uint32_t address;   /* answer to RING_MAP: where the DSP sees the buffer */
  uint32_t reserved;
  struct {
    uint32_t offset, length; /* into the payload, bytes */
  } argument[RING_ARGUMENTS];
  char path[1024];   /* RING_LOAD: the skel's file; answer on failure: what is wrong, one line */
  char symbol[128];  /* RING_LOAD: its entry */
  uint8_t payload[RING_PAYLOAD_BYTES];
};

#endif
