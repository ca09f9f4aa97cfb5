// One DSP process of the stand-in: qemu-hexagon running the loader, the ring shared with it, and a thread that
// waits for its end, so that nobody who waits for an answer waits for a dead process.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "devices/hexagon/cdsprpc_abi.h"
#include "devices/hexagon/standin/ring.h"

namespace llada::standin {

struct ProcessPaths {
  std::string emulator, loader, log;  // log: where its standard error goes; empty: nowhere
};

class DspProcess {
 public:
  // space: the size of the process's address space in bytes. Null with `why` set when it cannot be started.
  static std::unique_ptr<DspProcess> start(const ProcessPaths& paths, uint32_t space, std::string& why);
  ~DspProcess();  // ends the process and waits for it

  // All return AEE codes, AEE_ECONNRESET once the process has ended. `after` runs between the posting of the request
  // and the wait for its answer.
  int load(const std::string& file, const std::string& symbol, std::string& why);
  int invoke(uint64_t handle, uint32_t scalars, remote_arg* arguments, bool hang, const std::function<void()>& after);
  int map(int fd, uint64_t length);
  int unmap(int fd);

  void kill();  // any thread, at any time; returns at once
  bool alive() const { return !ended_.load(); }

 private:
  DspProcess() = default;
  int request(uint32_t kind, const std::function<void()>& after = {});

  std::mutex mutex_;  // one request at a time
  ring* ring_ = nullptr;
  int ring_fd_ = -1;
  std::atomic<int> pid_ = 0;
  std::atomic<bool> ended_ = false;
  std::thread keeper_;
};

}  // namespace llada::standin
