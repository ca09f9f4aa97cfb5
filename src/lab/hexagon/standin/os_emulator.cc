// The system back end under qemu-hexagon's user mode, and the program around the skel: `llada_dsp HOST_PID FD` maps the
// ring (lab/hexagon/standin/ring.h) and serves invokes. Linux calls go through trap0(#1): number in r6, arguments in
// r0 to r5. A guest page is 64 KiB, so sizes of buffers are multiples of that.
#include "devices/hexagon/dsp/hmx_model.h"
#include "devices/hexagon/dsp/lock.h"
#include "devices/hexagon/dsp/machine.h"
#include "devices/hexagon/dsp/os.h"
#include "devices/hexagon/dsp/os_hap.h"
#include "devices/hexagon/dsp/skel.h"
#include "devices/hexagon/wire.h"
#include "lab/hexagon/standin/ring.h"

namespace dsp {
namespace {

enum Call {
  kOpenAt = 56,
  kClose = 57,
  kWrite = 64,
  kReadAt = 67,
  kWriteAt = 68,
  kExit = 93,
  kExitGroup = 94,
  kFutex = 98,
  kClockGetTime = 113,
  kAffinity = 123,
  kYield = 124,
  kKill = 129,
  kUnmap = 215,
  kClone = 220,
  kMap2 = 222,
};

int32_t call(int32_t number, int32_t a = 0, int32_t b = 0, int32_t c = 0, int32_t d = 0, int32_t e = 0, int32_t f = 0) {
  register int32_t r0 asm("r0") = a;
  register int32_t r1 asm("r1") = b;
  register int32_t r2 asm("r2") = c;
  register int32_t r3 asm("r3") = d;
  register int32_t r4 asm("r4") = e;
  register int32_t r5 asm("r5") = f;
  register int32_t r6 asm("r6") = number;
  asm volatile("trap0(#1)" : "+r"(r0) : "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5), "r"(r6) : "memory");
  return r0;
}
int32_t word(const void* pointer) { return static_cast<int32_t>(reinterpret_cast<uintptr_t>(pointer)); }

struct Time {
  int32_t seconds, nanoseconds;
};

constexpr int32_t kFutexWait = 0, kFutexWake = 1;
constexpr Time kShort = {0, 1'000'000};
constexpr Time kPatience = {0, 200'000'000};  // then a waiter looks again whether the host is still there

uint32_t host_process = 0;

// "/proc/PID/fd/N"
struct FdPath {
  char text[48];
  FdPath(uint32_t process, uint32_t fd) {
    char* at = text;
    const auto put = [&](const char* s) {
      while (*s != 0) *at++ = *s++;
    };
    const auto number = [&](uint32_t n) {
      char digits[10];
      int count = 0;
      do digits[count++] = static_cast<char>('0' + n % 10);
      while ((n /= 10) != 0);
      while (count > 0) *at++ = digits[--count];
    };
    put("/proc/"), number(process), put("/fd/"), number(fd);
    *at = 0;
  }
};

constexpr uint32_t kStackBytes = 64 << 10;
alignas(128) uint8_t stacks[kMaxWorkers][kStackBytes];
uint32_t alive[kMaxWorkers];  // the system clears a worker's word, and wakes who waits on it, when the thread has ended

uint32_t parse(const char* text) {
  uint32_t n = 0;
  for (; *text >= '0' && *text <= '9'; ++text) n = n * 10 + static_cast<uint32_t>(*text - '0');
  return n;
}

// One read of a word that the host may write at any time.
uint32_t once(const uint32_t& shared) { return __atomic_load_n(&shared, __ATOMIC_RELAXED); }

static_assert(sizeof(Ring) <= RING_DATA);
const Ring* control = nullptr;  // the first channel

// There may be fewer hardware threads than threads (ring.h): a running thread has one until it sleeps or waits for
// another. The thread that maps goes first: on a DSP it would push a worker out, here it takes the next that is free.
uint32_t hardware() { return control != nullptr ? once(control->hardware) : 0; }
uint32_t running = 0;  // futex word
uint32_t mapper_waits = 0;

bool is_mapper() {
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  const auto stack = reinterpret_cast<uintptr_t>(stacks[kMaxWorkers - 1]);
  return here >= stack && here < stack + kStackBytes;
}

void enter() {
  if (hardware() == 0) return;
  const bool first = is_mapper();
  if (first) __atomic_store_n(&mapper_waits, 1u, __ATOMIC_SEQ_CST);
  for (;;) {
    uint32_t now = __atomic_load_n(&running, __ATOMIC_SEQ_CST);
    const bool mine = now < hardware() && (first || __atomic_load_n(&mapper_waits, __ATOMIC_SEQ_CST) == 0);
    if (mine && __atomic_compare_exchange_n(&running, &now, now + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) break;
    if (!mine) call(kFutex, word(&running), kFutexWait, static_cast<int32_t>(now), word(&kShort));
  }
  if (first) __atomic_store_n(&mapper_waits, 0u, __ATOMIC_SEQ_CST);
}

void leave() {
  if (hardware() == 0) return;
  __atomic_sub_fetch(&running, 1u, __ATOMIC_SEQ_CST);
  call(kFutex, word(&running), kFutexWake, 0x7fffffff);
}

// One invoke out of a ring of `bytes` bytes. Arguments lie behind the ring's head, in order.
int32_t invoke(Ring& ring, uint32_t bytes) {
  RemoteArgument arguments[RING_ARGUMENTS];
  const uint32_t scalars = once(ring.scalars), in = scalars >> 16 & 0xff, out = scalars >> 8 & 0xff;
  const uint32_t handles = (scalars >> 4 & 0xf) + (scalars & 0xf);
  if (in + out + handles > RING_ARGUMENTS) return kBadParameter;
  uint64_t at = RING_DATA;
  for (uint32_t i = 0; i < in + out; ++i) {
    const uint32_t size = once(ring.bytes[i]);
    if (at + size > bytes) return kBadParameter;
    arguments[i].buffer = {reinterpret_cast<uint8_t*>(&ring) + at, size};
    at += (uint64_t{size} + 127) / 128 * 128;
  }
  const uint64_t handle = ring.handle;
  if (handles > 0) arguments[in + out].handle = handle;
  const int32_t result = llada_hexagon_skel_handle_invoke(handle, scalars, arguments);
  if ((scalars & 0xf) > 0) ring.handle = arguments[in + out].handle;
  return result;
}

// Until the host is gone or tells the first channel to leave.
int32_t serve(Ring& ring, uint32_t bytes) {
  for (uint32_t done = 0;;) {
    const uint32_t request = __atomic_load_n(&ring.request, __ATOMIC_SEQ_CST);
    if (request == done) {
      if (call(kKill, static_cast<int32_t>(host_process), 0) != 0) return 1;
      os_wait(&ring.request, done);
      continue;
    }
    if (once(ring.scalars) == RING_LEAVE) return 0;
    ring.result = invoke(ring, bytes);
    done = request;
    __atomic_store_n(&ring.reply, done, __ATOMIC_SEQ_CST);
    os_wake(&ring.reply);
  }
}

uint32_t map_error = 0;  // of the last mapping that failed

int32_t open_of_host(int32_t fd, bool read_only) {
  constexpr int32_t kAtCwd = -100, kReadWrite = 2, kCloseOnExec = 02000000;
  const FdPath path(host_process, static_cast<uint32_t>(fd));
  return call(kOpenAt, kAtCwd, word(path.text), (read_only ? 0 : kReadWrite) | kCloseOnExec);
}

// A buffer whose lines lie in this DSP's cache until they are cleaned (ring.h).
struct Cached {
  uint8_t* address;  // null: free
  uint32_t bytes;
  int32_t memory, shadow;
};
constexpr uint32_t kCached = WIRE_BUFFERS + 1;
Cached cached[kCached];
Lock cached_lock;

// Between a file and memory, all of it or nobody's.
bool move(Call method, int32_t file, void* bytes, uint32_t count, uint32_t at) {
  // The offset is 64 bits, in an even pair of registers: r4 and r5.
  return call(method, file, word(bytes), static_cast<int32_t>(count), 0, static_cast<int32_t>(at), 0) ==
         static_cast<int32_t>(count);
}

// Written lines go to memory, all others come from there.
void clean(const Cached& buffer, uint32_t first, uint32_t last) {
  constexpr uint32_t kPiece = 8 << 10;
  uint8_t memory[kPiece], shadow[kPiece];
  const auto same = [](const uint8_t* a, const uint8_t* b) {
    const auto *x = reinterpret_cast<const uint64_t*>(a), *y = reinterpret_cast<const uint64_t*>(b);
    for (uint32_t i = 0; i < RING_CACHE_LINE / 8; ++i)
      if (x[i] != y[i]) return false;
    return true;
  };
  const auto copy = [](const uint8_t* from, uint8_t* to) {
    for (uint32_t i = 0; i < RING_CACHE_LINE / 8; ++i)
      reinterpret_cast<uint64_t*>(to)[i] = reinterpret_cast<const uint64_t*>(from)[i];
  };
  last = (last + RING_CACHE_LINE - 1) / RING_CACHE_LINE * RING_CACHE_LINE;
  for (uint32_t at = first / RING_CACHE_LINE * RING_CACHE_LINE; at < last;) {
    const uint32_t count = last - at < kPiece ? last - at : kPiece;
    uint8_t* const lines = buffer.address + at;
    if (!move(kReadAt, buffer.memory, memory, count, at) || !move(kReadAt, buffer.shadow, shadow, count, at)) return;
    for (uint32_t i = 0; i < count; i += RING_CACHE_LINE)
      if (same(lines + i, shadow + i))
        copy(memory + i, lines + i);
      else  // this line alone: the host may write to others
        move(kWriteAt, buffer.memory, lines + i, RING_CACHE_LINE, at + i);
    move(kWriteAt, buffer.shadow, lines, count, at);
    at += count;
  }
}

// A free place somewhere, if there is one near: the state after hours of mapping and unmapping.
int32_t scattered() {
  static uint32_t state = 0;
  if (control == nullptr || once(control->scatter) == 0) return 0;
  if (state == 0) state = once(control->scatter);
  state = state * 1664525u + 1013904223u;
  return static_cast<int32_t>(state >> 4 & 0x0fff0000u);
}

// (void*)-1, as a phone's calls answer, where it fails.
void* map_of_host(int32_t fd, uint32_t bytes, bool read_only) {
  constexpr int32_t kShared = 1;
  const RingBuffer* entry = nullptr;
  if (control != nullptr) {
    const auto* table = reinterpret_cast<const RingBuffer*>(reinterpret_cast<const uint8_t*>(control) + RING_TABLE_AT);
    for (uint32_t i = 0; i < RING_TABLE && entry == nullptr; ++i)
      if (table[i].fd == fd) entry = &table[i];
  }
  const int32_t file = open_of_host(entry != nullptr ? entry->cache : fd, read_only && entry == nullptr);
  int32_t address = file;
  if (file >= 0) {
    address =
        call(kMap2, scattered(), static_cast<int32_t>(bytes), read_only && entry == nullptr ? 1 : 3, kShared, file, 0);
    call(kClose, file);
  }
  if (address >= 0 || address <= -4096) {
    auto* const at = reinterpret_cast<uint8_t*>(static_cast<uintptr_t>(address));
    if (entry == nullptr) return at;
    const LockGuard held(cached_lock);
    Cached* free = cached;
    while (free->address != nullptr) ++free;  // there are more than numbers of buffers
    *free = {at, bytes, open_of_host(entry->memory, false), open_of_host(entry->shadow, false)};
    clean(*free, 0, bytes);
    return at;
  }
  map_error = static_cast<uint32_t>(-address);
  return reinterpret_cast<void*>(~uintptr_t{0});
}

// The system writes back cached lines of it.
int unmap(void* address, uint32_t bytes) {
  {
    const LockGuard held(cached_lock);
    for (Cached& buffer : cached) {
      if (buffer.address != address) continue;
      clean(buffer, 0, buffer.bytes);
      call(kClose, buffer.memory), call(kClose, buffer.shadow);
      buffer = {};
    }
  }
  return -call(kUnmap, word(address), static_cast<int32_t>(bytes));
}

// Of the matrix unit, mapped when it is first asked for.
uint8_t* unit_memory() {
  constexpr uint32_t kRegion = 256 << 10;
  static uint8_t* memory = nullptr;
  if (memory == nullptr) {
    constexpr int32_t kPrivate = 2, kAnonymous = 0x20;
    const int32_t at =
        call(kMap2, 0, static_cast<int32_t>(once(control->vtcm) + kRegion), 3, kPrivate | kAnonymous, -1);
    if (at < 0 && at > -4096) return nullptr;
    memory = reinterpret_cast<uint8_t*>((static_cast<uintptr_t>(at) + kRegion - 1) / kRegion * kRegion);
  }
  return memory;
}

int32_t serve(uint32_t control_fd) {
  uint32_t error = 0;
  auto* file = static_cast<uint8_t*>(os_map(static_cast<int32_t>(control_fd), RING_BYTES, false, &error));
  auto* ring = reinterpret_cast<Ring*>(file);
  if (file == nullptr || ring->magic != RING_MAGIC || ring->version != RING_VERSION) {
    os_log("llada_dsp: the control file is not a ring of this version\n");
    return 2;
  }
  control = ring;
  enter();
  static_assert(RING_CHANNELS ==
                2);  // workers of a pool are numbered from 1 to kMaxWorkers - 1: one thread more is free
  const bool second = os_start_worker(
      kMaxWorkers, [](void* channel) { call(kExitGroup, serve(*static_cast<Ring*>(channel), RING_CHANNEL_BYTES(1))); },
      file + RING_CHANNEL_AT(1));
  ring->channels = second ? RING_CHANNELS : 1;
  __atomic_store_n(&ring->ready, 1u, __ATOMIC_SEQ_CST);
  os_wake(&ring->ready);
  return serve(*ring, RING_CHANNEL_BYTES(0));
}

}  // namespace

// The calls of a phone's system over Linux's. Functions that the stand-in calls lacking are lacking.
Hap hap() {
  Hap calls = {};
  calls.mmap = [](void*, int bytes, int protection, int, int fd, long) {
    return map_of_host(fd, static_cast<uint32_t>(bytes), protection == kHapRead);
  };
  calls.munmap = [](void* address, int bytes) { return unmap(address, static_cast<uint32_t>(bytes)); };
  const uint32_t lacks = control != nullptr ? once(control->lacks) : 0;
  if ((lacks & RING_LACKS_MMAP2) == 0) {
    calls.mmap2 = [](void*, uint32_t bytes, int protection, int, int fd, long) {
      return map_of_host(fd, bytes, protection == kHapRead);
    };
    calls.munmap2 = unmap;
  }
  if ((lacks & RING_LACKS_VOTES) == 0)
    calls.power_set = [](void*, void* request) {
      if (control == nullptr) return 0;
      constexpr uint32_t kHmx = 13;  // and the one behind it, for its clock
      return static_cast<int>(*static_cast<uint32_t*>(request) >= kHmx ? control->unit_status : control->vote_status);
    };
  calls.resource_init = [](void* attributes) { return attributes != nullptr ? 0 : 1; };
  calls.resource_vtcm = [](void* attributes, unsigned bytes, unsigned, unsigned least) {
    static_cast<uint32_t*>(attributes)[0] = bytes, static_cast<uint32_t*>(attributes)[1] = least;
    return 0;
  };
  calls.resource_hmx = [](void*, int) { return 0; };
  calls.resource_acquire = [](void* attributes, unsigned) {
    return once(control->vtcm) >= static_cast<uint32_t*>(attributes)[1] ? 1u : 0u;
  };
  calls.resource_memory = [](void* attributes, void** memory, unsigned* bytes) {
    const uint32_t most = static_cast<uint32_t*>(attributes)[0], there = once(control->vtcm);
    *memory = unit_memory(), *bytes = there < most ? there : most;
    return *memory != nullptr ? 0 : 1;
  };
  calls.resource_release = [](unsigned) { return 0; };
  calls.hmx_lock = [](unsigned) {
    if ((once(control->lacks) & RING_LACKS_UNIT) != 0) return 1;
    hmx_model_memory(unit_memory(), once(control->vtcm), once(control->unit_fault), once(control->unit_period));
    return 0;
  };
  calls.hmx_unlock = [](unsigned) {
    hmx_model_memory(nullptr, 0, HMX_RIGHT, 0);
    return 0;
  };
  calls.error = [] { return map_error; };
  return calls;
}

void os_clean(const uint8_t* bytes, uint32_t count) {
  clean_cache(bytes, count);
  const LockGuard held(cached_lock);
  for (const Cached& buffer : cached)
    if (buffer.address != nullptr && bytes >= buffer.address && bytes < buffer.address + buffer.bytes)
      clean(buffer, static_cast<uint32_t>(bytes - buffer.address),
            static_cast<uint32_t>(bytes - buffer.address) + count);
}

uint64_t os_microseconds() {
  Time now = {0, 0};
  call(kClockGetTime, 1, word(&now));
  return static_cast<uint64_t>(static_cast<uint32_t>(now.seconds)) * 1'000'000 +
         static_cast<uint32_t>(now.nanoseconds) / 1000;
}

// qemu keeps the count in control register 20, for which the assembler has no name: this is r0 = c20.
uint64_t os_packets() {
  register uint32_t count asm("r0");
  asm volatile(".word 0x6a14c000" : "=r"(count));
  return count;
}

void os_log(const char* text) {
  uint32_t length = 0;
  while (text[length] != 0) ++length;
  call(kWrite, 2, word(text), static_cast<int32_t>(length));
}

uint32_t os_threads() {
  alignas(8) uint8_t mask[128] = {};
  if (const uint32_t few = hardware(); few > 0) return few < 4 ? few : 4;
  const int32_t bytes = call(kAffinity, 0, sizeof(mask), word(mask));
  uint32_t processors = 0;
  for (int32_t i = 0; i < bytes; ++i) processors += static_cast<uint32_t>(__builtin_popcount(mask[i]));
  return processors < 1 ? 1 : processors > 4 ? 4 : processors;
}

uint32_t os_emulated() { return 1; }

extern "C" int32_t dsp_clone(int32_t flags, void* stack, void (*entry)(void*), void* argument, uint32_t* alive);
asm(R"(
  .globl dsp_clone
  .type dsp_clone, @function
dsp_clone:
  { r10 = r2; r11 = r3 }
  { r2 = #0; r3 = r4 }
  { r6 = #220 }
  { trap0(#1) }
  { p0 = cmp.eq(r0, #0); if (!p0.new) jumpr:nt r31 }
  { r0 = r11; callr r10 }
  { r0 = #0; r6 = #93 }
  { trap0(#1) }
)");

namespace {

struct Start {
  void (*entry)(void*);
  void* argument;
};
Start starts[kMaxWorkers + 1];

void start(void* of) {
  const Start mine = *static_cast<Start*>(of);
  enter();
  mine.entry(mine.argument);
  leave();
}

}  // namespace

bool os_start_worker(uint32_t index, void (*entry)(void*), void* argument) {
  starts[index] = {entry, argument};
  // Memory, files, signal handlers and semaphores shared; one process; clear the word at the end.
  constexpr int32_t kThread = 0x50f00 | 0x200000;
  alive[index - 1] = 1;
  return dsp_clone(kThread, stacks[index - 1] + kStackBytes - 128, start, &starts[index], &alive[index - 1]) > 0;
}

void os_join_worker(uint32_t index) {
  while (__atomic_load_n(&alive[index - 1], __ATOMIC_SEQ_CST) != 0) os_wait(&alive[index - 1], 1);
}

void os_wait(uint32_t* at, uint32_t seen) {
  leave();
  call(kFutex, word(at), kFutexWait, static_cast<int32_t>(seen), word(&kPatience));
  enter();
}
void os_wake(uint32_t* at) { call(kFutex, word(at), kFutexWake, 0x7fffffff); }
// The host's processors have other work than to wait for one another.
void os_pause() {
  leave();
  call(kYield);
  enter();
}
uint32_t os_polls() { return 64; }

extern "C" [[noreturn]] void dsp_main(const uintptr_t* stack) {
  int32_t status = 2;
  if (stack[0] == 3) {
    host_process = parse(reinterpret_cast<const char*>(stack[2]));
    status = serve(parse(reinterpret_cast<const char*>(stack[3])));
  } else {
    os_log("usage: llada_dsp HOST_PID CONTROL_FD\n");
  }
  call(kExitGroup, status);
  __builtin_trap();
}
asm(R"(
  .globl _start
  .type _start, @function
_start:
  { r0 = r29; r29 = and(r29, #-128) }
  { r29 = add(r29, #-128) }
  { call dsp_main }
)");

}  // namespace dsp
