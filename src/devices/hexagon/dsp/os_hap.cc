// Mapping and votes over the calls of a phone's system (os_hap.h).
//
// The layout of a power request is no part of any header that may be used here. It is taken from public sources that
// declare it by hand and agree: a freely licensed copy of the declarations with asserted offsets and sizes (DCVS v3),
// and a compiler's run time that calls HAP_power_set from a module of its own (DCVS v2). Uncertain until a phone has
// answered: a wrong layout shows as a refused vote or as a clock that does not rise, which `llada doctor` measures.
#include "devices/hexagon/dsp/os_hap.h"

#include "devices/hexagon/dsp/os.h"
#include "devices/hexagon/wire.h"

namespace dsp {
namespace {

constexpr uint32_t kNoStatus = 1, kMinusOne = 0xffffffffu;

enum RequestType : uint32_t { kHvx = 2, kAppType = 3, kDcvs2 = 7, kDcvs3 = 12, kHmx = 13, kHmxClock = 14 };
constexpr uint8_t kComputes = 4, kPerformance = 0x10, kCornerMost = 255, kCornerTurbo = 6;

// Enumerations of the DSP's compilers have as many bytes as they need: one here.
struct Corners {
  uint8_t target, least, most, padding;
  uint32_t reserved[3];
};
struct Dcvs2 {
  uint8_t enable, option, set_latency, padding;
  uint32_t latency;
  uint8_t set_corners, padding2[3];
  Corners corners;
};
struct Dcvs3 {
  uint8_t set_enable, enable, option, set_latency;
  uint32_t latency;
  uint8_t set_core, padding[3];
  Corners core;
  uint8_t set_bus, padding2[3];
  Corners bus;
  uint8_t set_parameters, padding3[3];
  uint32_t parameters[6];
  uint8_t set_sleep, no_sleep, padding4[2];
};
struct HmxClock {
  uint8_t set_power, on, set_clock, system_chooses;
  uint16_t target, least, most;  // corners of two bytes
  uint8_t mode, padding;
  uint32_t megahertz, least_megahertz, reserved[3];
};
struct Request {
  uint32_t type, padding;
  union {
    uint8_t application, hvx_on, hmx_on;
    HmxClock hmx_clock;
    Dcvs2 dcvs2;
    Dcvs3 dcvs3;
    uint8_t space[112];
  };
};
static_assert(sizeof(Corners) == 16 && sizeof(Dcvs2) == 28 && sizeof(Dcvs3) == 80 && sizeof(HmxClock) == 32 &&
              sizeof(Request) == 120);

constinit Request request = {};
constinit uint8_t client = 0;  // its address stands for this module

int32_t ask(RequestType type) {
  request.type = type;
  return hap().power_set(&client, &request);
}

void clear() {
  for (uint8_t& byte : request.space) byte = 0;
}

int32_t vote_class() {
  clear();
  request.application = kComputes;
  return ask(kAppType);
}

int32_t vote_clock(bool up) {
  clear();
  Dcvs3& third = request.dcvs3;
  third.set_enable = third.enable = 1;
  third.set_core = third.set_bus = third.set_sleep = 1;
  third.no_sleep = up;
  if (up) {
    third.option = kPerformance;
    third.core = third.bus = {kCornerMost, kCornerMost, kCornerMost, 0, {}};
  }
  const int32_t status = ask(kDcvs3);
  if (status == 0) return status;
  clear();
  Dcvs2& second = request.dcvs2;
  second.enable = !up;
  second.set_corners = 1;
  if (up) second.corners.target = kCornerTurbo, second.set_latency = 1, second.latency = 100;
  return ask(kDcvs2);
}

int32_t vote_hvx(bool up) {
  clear();
  request.hvx_on = up;
  return ask(kHvx);
}

int32_t vote_hmx(bool up) {
  clear();
  request.hmx_on = up;
  return ask(kHmx);
}

int32_t vote_hmx_clock() {
  clear();
  constexpr uint16_t kMost = 0xffff;
  request.hmx_clock = {1, 1, 1, 0, kMost, kMost, kMost, 0, 0, 0, 0, {}};
  return ask(kHmxClock);
}

// The matrix unit as it was acquired.
constinit unsigned context = 0;
constinit Matrix unit = {};

bool acquire_unit() {
  const Hap calls = hap();
  if (calls.resource_init == nullptr || calls.resource_vtcm == nullptr || calls.resource_hmx == nullptr ||
      calls.resource_acquire == nullptr || calls.resource_memory == nullptr || calls.resource_release == nullptr ||
      calls.hmx_lock == nullptr || calls.hmx_unlock == nullptr)
    return false;
  constexpr uint32_t kMost = 8 << 20, kAligned = 64 << 10, kLeast = 4 * kAligned, kPatience = 100'000;
  alignas(8) uint8_t attributes[256] = {};  // more than any system's
  if (calls.resource_init(attributes) != 0 || calls.resource_vtcm(attributes, kMost, 0, kLeast) != 0 ||
      calls.resource_hmx(attributes, 1) != 0)
    return false;
  context = calls.resource_acquire(attributes, kPatience);
  if (context == 0) return false;
  void* memory = nullptr;
  unsigned bytes = 0;
  if (calls.resource_memory(attributes, &memory, &bytes) != 0 || memory == nullptr) return false;
  const auto first = reinterpret_cast<uintptr_t>(memory), aligned = (first + kAligned - 1) / kAligned * kAligned;
  if (bytes <= aligned - first) return false;
  unit = {reinterpret_cast<uint8_t*>(aligned), bytes - static_cast<uint32_t>(aligned - first)};
  return true;
}

void release_unit() {
  if (context != 0) hap().resource_release(context);
  context = 0, unit = {};
}

}  // namespace

void* os_map(int32_t fd, uint32_t bytes, bool read_only, uint32_t* error) {
  const Hap calls = hap();
  const int protection = read_only ? kHapRead : kHapReadWrite;
  void* address = nullptr;
  if (calls.mmap2 != nullptr)
    address = calls.mmap2(nullptr, bytes, protection, 0, fd, 0);
  else if (calls.mmap != nullptr && bytes <= 0x7fffffffu)
    address = calls.mmap(nullptr, static_cast<int>(bytes), protection, 0, fd, 0);
  const bool minus_one = reinterpret_cast<uintptr_t>(address) == ~uintptr_t{0};
  if (address != nullptr && !minus_one) return address;
  *error = calls.error != nullptr ? calls.error() : minus_one ? kMinusOne : kNoStatus;
  return nullptr;
}

uint32_t os_unmap(void* address, uint32_t bytes, int32_t) {
  const Hap calls = hap();
  if (calls.munmap2 != nullptr) return static_cast<uint32_t>(calls.munmap2(address, bytes));
  return calls.munmap != nullptr ? static_cast<uint32_t>(calls.munmap(address, static_cast<int>(bytes))) : kNoStatus;
}

uint32_t os_map_call() { return hap().mmap2 != nullptr ? 2 : hap().mmap != nullptr ? 1 : 0; }

uint32_t os_vote(bool up, int32_t* status) {
  *status = 0;
  if (hap().power_set == nullptr) return WIRE_VOTE_ABSENT;
  uint32_t refused = 0;
  const auto note = [&](uint32_t vote, int32_t answer) {
    if (answer == 0) return;
    if (refused == 0) *status = answer;
    refused |= vote;
  };
  if (up) note(WIRE_VOTE_CLASS, vote_class());
  note(WIRE_VOTE_CLOCK, vote_clock(up));
  note(WIRE_VOTE_HVX, vote_hvx(up));
  if (refused != 0) os_log("llada: the system refused a vote for clock or vector units\n");
  return refused;
}

uint32_t os_vote_matrix(bool up, int32_t* status) {
  *status = 0;
  if (hap().power_set == nullptr) return WIRE_VOTE_ABSENT;
  if (!up) {
    release_unit();
    *status = vote_hmx(false);
    return *status != 0 ? WIRE_VOTE_MATRIX : 0;
  }
  if (unit.bytes > 0) return 0;
  *status = vote_hmx(true);
  if (*status != 0) return WIRE_VOTE_MATRIX;
  const int32_t clock = vote_hmx_clock();
  if (!acquire_unit()) {
    release_unit();
    vote_hmx(false);
    return WIRE_VOTE_MEMORY;
  }
  *status = clock;
  return clock != 0 ? WIRE_VOTE_MATRIX_CLOCK : 0;
}

Matrix os_matrix() { return unit; }
bool os_lock_matrix(const Matrix&) { return hap().hmx_lock(context) == 0; }
void os_unlock_matrix() { hap().hmx_unlock(context); }

}  // namespace dsp
