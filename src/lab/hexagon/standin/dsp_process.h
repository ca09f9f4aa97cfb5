// One DSP process of the stand-in: qemu-hexagon running a module's program, and the ring shared with it (ring.h). A
// thread waits for the program's end, so that no caller waits for an answer of a dead process.
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "devices/hexagon/cdsprpc_abi.h"
#include "lab/hexagon/standin/ring.h"

namespace llada::standin {

struct ProcessPaths {
  std::string emulator, program, log;  // log: where its standard error goes; empty: nowhere
  uint32_t lacks = 0;                  // RingLacks
  int vote_status = 0;                 // the answer of its HAP_power_set
  uint32_t hardware = 0, scatter = 0;  // as in Ring, and so are those that follow
  uint32_t vtcm = 0;
  int unit_status = 0;
  uint32_t unit_fault = 0, unit_period = 0;
};

class DspProcess {
 public:
  // space: the size of the process's address space in bytes. Null with `why` set when it cannot be started.
  static std::unique_ptr<DspProcess> start(const ProcessPaths& paths, uint32_t space, std::string& why);
  ~DspProcess();  // ends the process and waits for it

  // Returns the value of the module's entry, or an AEE code; AEE_ECONNRESET once the process has ended. `after` runs
  // between the posting of the request and the wait for its answer. As many threads at a time as the program serves
  // channels (ring.h), others wait.
  int invoke(uint64_t handle, uint32_t scalars, remote_arg* arguments, const std::function<void()>& after = {});

  // A buffer with copies of its own, before it is mapped; nothing where there is none such. When the process ends, its
  // writes to the buffers that it still has are written back.
  void add_buffer(const RingBuffer& buffer);
  void forget_buffer(int fd);

  // Any thread, at any time.
  void kill();    // returns at once
  void freeze();  // stops without an end, which looks like a hang from outside; returns once it is stopped
  bool alive() const { return !ended_.load(); }

 private:
  DspProcess() = default;

  void signal(int number);
  RingBuffer* table() const { return reinterpret_cast<RingBuffer*>(file_ + RING_TABLE_AT); }
  Ring& ring(uint32_t channel) const { return *reinterpret_cast<Ring*>(file_ + RING_CHANNEL_AT(channel)); }
  bool take_channel(uint64_t bytes, uint32_t& channel);  // waits for one; false where none is large enough
  void give_back(uint32_t channel);

  std::mutex mutex_;
  std::condition_variable freed_;
  std::array<bool, RING_CHANNELS> busy_{};
  uint8_t* file_ = nullptr;
  int ring_fd_ = -1;
  std::atomic<int> pid_ = 0;
  std::atomic<bool> ended_ = false;
  std::thread keeper_;
};

}  // namespace llada::standin
