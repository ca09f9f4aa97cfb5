/* The DSP side of the stand-in: a freestanding Hexagon program for qemu-hexagon that does what the process shell of a
   real DSP does for an unsigned module: loads a shared object, resolves its imports, maps buffers by file descriptor,
   and calls the module's entry for every invoke that comes over the ring.

   Imports given to the module: see kImports. Anything else it asks for is an error that names the symbol.
   Deliberately absent: a C library, dlopen by the module, more than one module per process. */
#include "devices/hexagon/standin/ring.h"

typedef unsigned int u32;
typedef unsigned long long u64;
#define NULL ((void*)0)

/* ---- System calls (the generic Linux table, trap0 #1, number in r6) */
enum {
  NR_openat = 56, NR_close = 57, NR_read = 63, NR_lseek = 62, NR_write = 64, NR_exit_group = 94, NR_futex = 98,
  NR_clock_gettime = 113, NR_getppid = 173, NR_munmap = 215, NR_mmap2 = 222,
};

static long sys6(long n, long a, long b, long c, long d, long e, long f) {
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
static long sys3(long n, long a, long b, long c) { return sys6(n, a, b, c, 0, 0, 0); }

static int is_error(long r) { return (unsigned long)r >= (unsigned long)-4095; }

__asm__(".globl _start\n_start:\n{ r0 = r29 ; r29 = and(r29, #-16) }\n{ r30 = #0 ; r31 = #0 }\ncall start_c\n");

/* ---- What the compiler expects of a freestanding environment */
void* memcpy(void* to, const void* from, unsigned long n) {
  char* t = to;
  const char* f = from;
  if (((u32)t | (u32)f) % 8 == 0)
    for (; n >= 8; n -= 8, t += 8, f += 8) *(u64*)t = *(const u64*)f;
  while (n-- > 0) *t++ = *f++;
  return to;
}
void* memmove(void* to, const void* from, unsigned long n) {
  char* t = to;
  const char* f = from;
  if (t <= f) return memcpy(to, from, n);
  while (n-- > 0) t[n] = f[n];
  return to;
}
void* memset(void* to, int c, unsigned long n) {
  char* t = to;
  while (n-- > 0) *t++ = (char)c;
  return to;
}
static int equal(const char* a, const char* b) {
  while (*a != 0 && *a == *b) ++a, ++b;
  return *a == *b;
}

static struct ring* ring;

static void complain(const char* what, const char* name) {
  u32 n = 0;
  while (*what != 0 && n < sizeof ring->path - 1) ring->path[n++] = *what++;
  while (*name != 0 && n < sizeof ring->path - 1) ring->path[n++] = *name++;
  ring->path[n] = 0;
}

/* ---- Buffers by file descriptor */
#define MOST_MAPS 4096
static struct {
  int fd;
  u32 address, length, references;
} maps[MOST_MAPS];

static void fd_path(char* path, u32 pid, int fd) {
  const char* head = "/proc/";
  char digits[12];
  u32 at = 0, n, value;
  while (*head != 0) path[at++] = *head++;
  for (int part = 0; part < 2; ++part) {
    for (n = 0, value = part == 0 ? pid : (u32)fd; n == 0 || value > 0; value /= 10) digits[n++] = (char)('0' + value % 10);
    while (n > 0) path[at++] = digits[--n];
    if (part == 1) break;
    for (const char* middle = "/fd/"; *middle != 0;) path[at++] = *middle++;
  }
  path[at] = 0;
}

static int map_fd(int fd, u64 length, u32* address) {
  char path[64];
  int slot = -1;
  for (int i = 0; i < MOST_MAPS; ++i) {
    if (maps[i].address != 0 && maps[i].fd == fd) return 0x87; /* AEE_EMAPALREADYPRESENT */
    if (maps[i].address == 0 && slot < 0) slot = i;
  }
  if (slot < 0 || length == 0 || length >= 0x80000000u) return 14; /* AEE_EBADPARM: a buffer has under 2 GiB */
  fd_path(path, ring->host_pid, fd);
  const long file = sys6(NR_openat, -100, (long)path, 2, 0, 0, 0);
  if (is_error(file)) return 0x4f; /* AEE_EBADFD */
  const long at = sys6(NR_mmap2, 0, (long)length, 3, 1 /* shared */, file, 0);
  sys3(NR_close, file, 0, 0);
  if (is_error(at)) return 2; /* AEE_ENOMEMORY: no such stretch of the address space is free */
  maps[slot].fd = fd;
  maps[slot].address = *address = (u32)at;
  maps[slot].length = (u32)length;
  maps[slot].references = 0;
  return 0;
}

static int unmap_fd(int fd) {
  for (int i = 0; i < MOST_MAPS; ++i) {
    if (maps[i].address == 0 || maps[i].fd != fd) continue;
    if (maps[i].references > 0) return 0x85; /* AEE_EBADMAPREFCNT */
    sys3(NR_munmap, (long)maps[i].address, (long)maps[i].length, 0);
    maps[i].address = 0;
    return 0;
  }
  return 72; /* AEE_ENOSUCHMAP */
}

/* ---- Functions of the DSP's system that a module may import */
int HAP_mmap_get(int fd, void** address, u64* physical) {
  for (int i = 0; i < MOST_MAPS; ++i) {
    if (maps[i].address == 0 || maps[i].fd != fd) continue;
    ++maps[i].references;
    if (address != NULL) *address = (void*)maps[i].address;
    if (physical != NULL) *physical = maps[i].address;
    return 0;
  }
  return 72;
}
int HAP_mmap_put(int fd) {
  for (int i = 0; i < MOST_MAPS; ++i) {
    if (maps[i].address == 0 || maps[i].fd != fd) continue;
    if (maps[i].references == 0) return 0x85;
    --maps[i].references;
    return 0;
  }
  return 72;
}
u64 HAP_perf_get_time_us(void) {
  struct {
    int seconds, nanoseconds;
  } now = {0, 0};
  sys3(NR_clock_gettime, 1, (long)&now, 0);
  return (u64)(u32)now.seconds * 1000000u + (u32)now.nanoseconds / 1000u;
}

static const struct {
  const char* name;
  void* address;
} kImports[] = {
    {"memcpy", memcpy}, {"memmove", memmove}, {"memset", memset}, {"HAP_mmap_get", HAP_mmap_get},
    {"HAP_mmap_put", HAP_mmap_put}, {"HAP_perf_get_time_us", HAP_perf_get_time_us},
};

/* ---- The module: ELF32, PT_LOAD segments, RELA relocations (RELATIVE, GLOB_DAT, JMP_SLOT, 32) */
struct elf_header {
  unsigned char ident[16];
  unsigned short type, machine;
  u32 version, entry, phoff, shoff, flags;
  unsigned short ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
};
struct segment {
  u32 type, offset, vaddr, paddr, filesz, memsz, flags, align;
};
struct symbol {
  u32 name, value, size;
  unsigned char info, other;
  unsigned short section;
};
struct rela {
  u32 offset, info;
  int addend;
};

typedef int entry_fn(u64 handle, u32 scalars, void* arguments);
static entry_fn* entry;
static u32 module_base;
static const struct symbol* symbols;
static const char* strings;
static u32 symbol_count;

static void* find(const char* name) {
  for (u32 i = 1; i < symbol_count; ++i)
    if (symbols[i].section != 0 && equal(strings + symbols[i].name, name)) return (void*)(module_base + symbols[i].value);
  for (u32 i = 0; i < sizeof kImports / sizeof kImports[0]; ++i)
    if (equal(kImports[i].name, name)) return kImports[i].address;
  return NULL;
}

static int relocate(const struct rela* list, u32 bytes) {
  for (u32 i = 0; i < bytes / sizeof(struct rela); ++i) {
    u32* where = (u32*)(module_base + list[i].offset);
    const u32 kind = list[i].info & 0xff, index = list[i].info >> 8;
    if (kind == 35) { /* R_HEX_RELATIVE */
      *where = module_base + (u32)list[i].addend;
      continue;
    }
    if (kind != 33 && kind != 34 && kind != 6) return 0x52; /* AEE_EBADELF */
    const struct symbol* s = &symbols[index];
    void* value = s->section != 0 ? (void*)(module_base + s->value) : find(strings + s->name);
    if (value == NULL && s->info >> 4 != 2 /* weak */) {
      complain("the module imports what the stand-in does not have: ", strings + s->name);
      return 66; /* AEE_ENOSUCHSYMBOL */
    }
    *where = (u32)value + (u32)list[i].addend;
  }
  return 0;
}

static int read_all(long file, u32 offset, void* to, u32 bytes) {
  if (is_error(sys3(NR_lseek, file, (long)offset, 0))) return 0;
  for (char* t = to; bytes > 0;) {
    const long n = sys3(NR_read, file, (long)t, (long)bytes);
    if (is_error(n) || n == 0) return 0;
    t += n, bytes -= (u32)n;
  }
  return 1;
}

static int load(const char* path, const char* symbol) {
  struct elf_header head;
  struct segment segments[16];
  if (entry != NULL) return 5; /* AEE_EALREADYLOADED */
  const long file = sys6(NR_openat, -100, (long)path, 0, 0, 0, 0);
  if (is_error(file)) return 62; /* AEE_ENOSUCHMOD */
  if (!read_all(file, 0, &head, sizeof head) || head.ident[0] != 0x7f || head.type != 3 || head.machine != 164 ||
      head.phnum > 16 || !read_all(file, head.phoff, segments, head.phnum * sizeof segments[0])) {
    complain("the module is not a Hexagon shared object", "");
    return 0x52;
  }
  u32 span = 0, dynamic = 0;
  for (u32 i = 0; i < head.phnum; ++i) {
    if (segments[i].type == 1 && segments[i].vaddr + segments[i].memsz > span) span = segments[i].vaddr + segments[i].memsz;
    if (segments[i].type == 2) dynamic = segments[i].vaddr;
  }
  const long base = sys6(NR_mmap2, 0, (long)((span + 0xffff) & ~0xffffu), 7, 0x22 /* private, anonymous */, -1, 0);
  if (is_error(base)) return 2;
  module_base = (u32)base;
  for (u32 i = 0; i < head.phnum; ++i)
    if (segments[i].type == 1 &&
        !read_all(file, segments[i].offset, (void*)(module_base + segments[i].vaddr), segments[i].filesz))
      return 0x52;
  sys3(NR_close, file, 0, 0);
  const struct rela *relocations = NULL, *plt = NULL;
  u32 relocation_bytes = 0, plt_bytes = 0;
  for (const u32* d = (const u32*)(module_base + dynamic); d[0] != 0; d += 2) {
    if (d[0] == 4) symbol_count = ((const u32*)(module_base + d[1]))[1]; /* DT_HASH: nchain */
    if (d[0] == 5) strings = (const char*)(module_base + d[1]);
    if (d[0] == 6) symbols = (const struct symbol*)(module_base + d[1]);
    if (d[0] == 7) relocations = (const struct rela*)(module_base + d[1]);
    if (d[0] == 8) relocation_bytes = d[1];
    if (d[0] == 23) plt = (const struct rela*)(module_base + d[1]);
    if (d[0] == 2) plt_bytes = d[1];
  }
  int status = relocate(relocations, relocation_bytes);
  if (status == 0) status = relocate(plt, plt_bytes);
  if (status != 0) return status;
  entry = (entry_fn*)find(symbol);
  if (entry == NULL) {
    complain("the module has no symbol ", symbol);
    return 66;
  }
  return 0;
}

/* ---- Serving */
union argument {
  struct {
    void* pv;
    u32 length;
  } buffer;
  u64 handle;
};

static int invoke(void) {
  union argument arguments[RING_ARGUMENTS];
  const u32 sc = ring->scalars, buffers = ((sc >> 16) & 0xff) + ((sc >> 8) & 0xff),
            handles = ((sc >> 4) & 15) + (sc & 15);
  if (entry == NULL) return 6;
  if (buffers + handles > RING_ARGUMENTS) return 14;
  for (u32 i = 0; i < buffers; ++i) {
    arguments[i].buffer.pv = ring->payload + ring->argument[i].offset;
    arguments[i].buffer.length = ring->argument[i].length;
  }
  for (u32 i = buffers; i < buffers + handles; ++i) memcpy(&arguments[i].handle, ring->payload + ring->argument[i].offset, 8);
  while (ring->hang) sys3(NR_getppid, 0, 0, 0);
  const int status = entry(ring->handle, sc, arguments);
  for (u32 i = buffers; i < buffers + handles; ++i) memcpy(ring->payload + ring->argument[i].offset, &arguments[i].handle, 8);
  return status;
}

void start_c(u32* stack) {
  if (stack[0] != 2) sys3(NR_exit_group, 2, 0, 0);
  const long file = sys6(NR_openat, -100, (long)stack[2], 2, 0, 0, 0);
  const long at = is_error(file) ? file : sys6(NR_mmap2, 0, RING_BYTES, 3, 1, file, 0);
  if (is_error(at)) sys3(NR_exit_group, 3, 0, 0);
  sys3(NR_close, file, 0, 0);
  ring = (struct ring*)at;
  if (ring->magic != RING_MAGIC) sys3(NR_exit_group, 4, 0, 0);
  const long parent = sys3(NR_getppid, 0, 0, 0);
  __atomic_store_n(&ring->ready, 1, __ATOMIC_RELEASE);
  sys6(NR_futex, (long)&ring->ready, 1, 1, 0, 0, 0);
  for (u32 served = 0;;) {
    const struct {
      int seconds, nanoseconds;
    } second = {1, 0};
    while (__atomic_load_n(&ring->request, __ATOMIC_ACQUIRE) == served) {
      sys6(NR_futex, (long)&ring->request, 0, (long)served, (long)&second, 0, 0);
      if (sys3(NR_getppid, 0, 0, 0) != parent) sys3(NR_exit_group, 5, 0, 0); /* nobody is left to serve */
    }
    ++served;
    int status = 14;
    switch (ring->kind) {
      case RING_LOAD: status = load(ring->path, ring->symbol); break;
      case RING_INVOKE: status = invoke(); break;
      case RING_MAP: status = map_fd(ring->fd, ring->length, &ring->address); break;
      case RING_UNMAP: status = unmap_fd(ring->fd); break;
      case RING_EXIT: sys3(NR_exit_group, 0, 0, 0); break;
    }
    ring->status = status;
    __atomic_store_n(&ring->response, served, __ATOMIC_RELEASE);
    sys6(NR_futex, (long)&ring->response, 1, 1, 0, 0, 0);
  }
}
