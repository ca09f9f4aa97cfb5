// The entry that FastRPC calls (wire.h lists its methods) and the argument type of its calling convention, as in the
// public remote.h. On a 32-bit DSP an argument is a union of 8 bytes.
#pragma once
#include <stdint.h>

namespace dsp {

struct RemoteBuffer {
  void* data;
  uint32_t bytes;
};
union RemoteArgument {
  RemoteBuffer buffer;
  uint64_t handle;
};
static_assert(sizeof(RemoteArgument) == 2 * sizeof(void*));

constexpr int32_t kBadState = 13, kBadParameter = 14, kNoSuchMethod = 20, kNoMemory = 2;  // FastRPC's error numbers

extern "C" __attribute__((visibility("default"))) int32_t llada_hexagon_skel_handle_invoke(uint64_t handle,
                                                                                           uint32_t scalars,
                                                                                           RemoteArgument* arguments);

}  // namespace dsp
