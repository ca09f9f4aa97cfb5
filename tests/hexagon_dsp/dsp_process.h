// One emulated DSP process and the buffers that it shares with a test: what a phone's FastRPC library does, as little
// of it as the tests of the DSP side need. Invokes go through lab/hexagon/standin/ring.h.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "devices/hexagon/dsp/hmx_model.h"
#include "devices/hexagon/wire.h"
#include "lab/hexagon/standin/ring.h"

namespace llada::hexagon {

// Memory shared by file descriptor.
class SharedBuffer {
 public:
  explicit SharedBuffer(int64_t bytes);  // rounded up to 64 KiB
  SharedBuffer(const SharedBuffer&) = delete;
  ~SharedBuffer();
  int fd() const { return fd_; }
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  int fd_ = -1;
  int64_t bytes_ = 0;
  std::byte* data_ = nullptr;
};

class DspProcess {
 public:
  // window: qemu's -R, the guest's address space in bytes; 0: all of it. vtcm: bytes of a modelled matrix unit's memory;
  // 0: no unit. open() says whether it came up.
  explicit DspProcess(uint64_t window = 0, uint32_t vtcm = 0);
  DspProcess(const DspProcess&) = delete;
  ~DspProcess();

  // Why tests cannot run here, or empty.
  static std::string missing();

  bool open() const { return session_ != 0; }
  // Raw: the skel's return value. One thread per channel may be in here at a time.
  int invoke(uint64_t handle, uint32_t scalars, const std::vector<std::pair<void*, uint32_t>>& arguments,
             uint64_t* handle_out = nullptr, uint32_t channel = 0);
  // The first argument's bytes of the call that runs on a channel, where the DSP has them.
  std::byte* message(uint32_t channel = 0) { return control_.data() + RING_CHANNEL_AT(channel) + RING_DATA; }

  // What the system lacks from now on (RingLacks).
  void lack(uint32_t lacks) { ring().lacks = lacks; }
  void err(uint32_t fault, uint32_t period = 0) { ring().unit_fault = fault, ring().unit_period = period; }
  void refuse_unit(int32_t status) { ring().unit_status = status; }

  WireInfo query();
  WireReply map(uint32_t buffer, const SharedBuffer& memory, uint32_t bytes = 0, uint32_t flags = 0);
  WireReply unmap(uint32_t buffer);
  WireReply vote(uint32_t flags);  // WireMapFlags
  WireReply run(const void* batch, uint32_t bytes, uint32_t channel = 0);

 private:
  WireReply call(uint32_t method, const void* in, uint32_t bytes, uint32_t channel = 0);
  Ring& ring(uint32_t channel = 0) { return *reinterpret_cast<Ring*>(control_.data() + RING_CHANNEL_AT(channel)); }

  SharedBuffer control_;
  std::atomic<pid_t> child_ = -1;
  uint64_t session_ = 0;
};

}  // namespace llada::hexagon
