/* A module for the emulated DSP that does next to nothing, to test the stand-in without the real one: open, close,
   a sum over a buffer given by file descriptor, an echo, and a method that never returns. Written by hand to the
   FastRPC calling convention. */
typedef unsigned int u32;
typedef unsigned long long u64;
typedef union {
  struct {
    void* pv;
    u32 length;
  } buffer;
  u64 handle;
} argument;

int HAP_mmap_get(int fd, void** address, u64* physical);
int HAP_mmap_put(int fd);
void* memcpy(void* to, const void* from, unsigned long n);

static u32 opened;         /* a module's data is its process's */
static u32* const where = &opened;  /* needs a relocation */

int echo_skel_handle_invoke(u64 handle, u32 sc, argument* a) {
  switch ((sc >> 24) & 31) {
    case 0: /* open: name length, name -> handle */
      if (sc != 0x00020001u || *(u32*)a[0].buffer.pv != a[1].buffer.length) return 14;
      ++*where;
      a[2].handle = 0x1234567800000000ull + opened;
      return 0;
    case 1: /* close */
      return a[0].handle == handle ? 0 : 14;
    case 2: { /* (fd, bytes) -> sum of the buffer's words, how often opened; adds 1 to each word */
      const u32* in = a[0].buffer.pv;
      u32* out = a[1].buffer.pv;
      void* at;
      u32 sum = 0;
      if (handle != 0x1234567800000001ull) return 44;
      const int status = HAP_mmap_get((int)in[0], &at, (void*)0);
      if (status != 0) return status;
      for (u32 i = 0; i < in[1] / 4; ++i) sum += ((u32*)at)[i]++;
      out[0] = sum;
      out[1] = opened;
      return HAP_mmap_put((int)in[0]);
    }
    case 3: /* echo */
      memcpy(a[1].buffer.pv, a[0].buffer.pv, a[0].buffer.length);
      return 0;
    case 4: /* takes very long */
      for (volatile u32 i = 0;; ++i) {
      }
    case 5: /* crashes */
      *(volatile u32*)4 = 1;
      return 0;
  }
  return 20;
}
