/* An emulated DSP program that does next to nothing, to test the stand-in without the real one: speaks the ring
   (ring.h), answers open, close, echo, map and unmap by descriptor, and a sum over a mapped buffer; hangs and crashes
   when asked. */
#include "lab/hexagon/standin/ring.h"

typedef unsigned int u32;

enum { NR_openat = 56, NR_close = 57, NR_exit_group = 94, NR_futex = 98, NR_munmap = 215, NR_mmap2 = 222 };

static long call(long n, long a, long b, long c, long d, long e, long f) {
  register long r6 __asm__("r6") = n;
  register long r0 __asm__("r0") = a;
  register long r1 __asm__("r1") = b;
  register long r2 __asm__("r2") = c;
  register long r3 __asm__("r3") = d;
  register long r4 __asm__("r4") = e;
  register long r5 __asm__("r5") = f;
  __asm__ volatile("trap0(#1)" : "+r"(r0) : "r"(r6), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5) : "memory");
  return r0;
}
__asm__(".globl _start\n_start:\n{ r0 = r29 ; r29 = and(r29, #-16) }\n{ r30 = #0 ; r31 = #0 }\ncall start_c\n");

static int failed(long r) { return (unsigned long)r >= (unsigned long)-4095; }

static char* append(char* to, const char* text) {
  while (*text != 0) *to++ = *text++;
  *to = 0;
  return to;
}

static long map(const char* pid, const char* fd, u32 bytes) {
  char path[64];
  append(append(append(append(path, "/proc/"), pid), "/fd/"), fd);
  const long file = call(NR_openat, -100, (long)path, 2, 0, 0, 0);
  if (failed(file)) return file;
  const long at = call(NR_mmap2, 0, (long)bytes, 3, 1 /* shared */, file, 0);
  call(NR_close, file, 0, 0, 0, 0, 0);
  return at;
}

static Ring* ring;
static const char* host;

static int serve(void) {
  unsigned char* data = (unsigned char*)ring + RING_DATA;
  const u32* in = (const u32*)data;
  u32* out = (u32*)(data + (ring->bytes[0] + 127) / 128 * 128);
  const u32 sc = ring->scalars;
  switch ((sc >> 24) & 31) {
    case 0: /* open: name length, name -> handle */
      if (sc != 0x00020001u || in[0] != ring->bytes[1]) return 14;
      ring->handle = 0x1234567800000001ull;
      return 0;
    case 1:
      return ring->handle == 0x1234567800000001ull ? 0 : 44;
    case 2: { /* (address, bytes) -> the sum of its words, to each of which 1 is added */
      u32 sum = 0;
      for (u32 i = 0; i < in[1] / 4; ++i) sum += ((u32*)in[0])[i]++;
      out[0] = sum;
      return ring->handle == 0x1234567800000001ull ? 0 : 44;
    }
    case 3: /* echo */
      for (u32 i = 0; i < ring->bytes[0] / 4; ++i) out[i] = in[i];
      return 0;
    case 4: /* takes very long */
      for (volatile u32 i = 0;; ++i) {
      }
    case 5: /* crashes */
      *(volatile u32*)4 = 1;
      return 0;
    case 6: { /* (bytes, descriptor in decimal digits) -> address */
      const long at = map(host, (const char*)(in + 1), in[0]);
      out[0] = (u32)at;
      return failed(at) ? 2 : 0;
    }
    case 7:
      return failed(call(NR_munmap, (long)in[0], (long)in[1], 0, 0, 0, 0)) ? 1 : 0;
  }
  return 20;
}

void start_c(u32* stack) {
  if (stack[0] != 3) call(NR_exit_group, 2, 0, 0, 0, 0, 0);
  host = (const char*)stack[2];
  const long at = map(host, (const char*)stack[3], RING_BYTES);
  if (failed(at)) call(NR_exit_group, 3, 0, 0, 0, 0, 0);
  ring = (Ring*)at;
  if (ring->magic != RING_MAGIC || ring->version != RING_VERSION) call(NR_exit_group, 4, 0, 0, 0, 0, 0);
  __atomic_store_n(&ring->ready, 1, __ATOMIC_RELEASE);
  call(NR_futex, (long)&ring->ready, 1, 1, 0, 0, 0);
  for (u32 served = 0;;) {
    while (__atomic_load_n(&ring->request, __ATOMIC_ACQUIRE) == served)
      call(NR_futex, (long)&ring->request, 0, (long)served, 0, 0, 0);
    ++served;
    ring->result = serve();
    __atomic_store_n(&ring->reply, served, __ATOMIC_RELEASE);
    call(NR_futex, (long)&ring->reply, 1, 1, 0, 0, 0);
  }
}
