// The CUDA runtime with errors as values and memory that frees itself. Device memory is counted against a budget, which
// may be smaller than the GPU's memory; allocations beyond it are refused.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/pages.h"

namespace llada::cuda {

Status check(cudaError_t code, const char* what);

struct FoundGpu {
  std::string description;
  int compute_capability;  // major
};
// The first GPU that the driver shows; the error says why it is not usable, without naming the device.
Result<FoundGpu> find_gpu();

// The next multiple of 256, on which parts of an allocation begin; no kernel needs a larger alignment.
inline int64_t align(int64_t bytes) { return (bytes + 255) / 256 * 256; }

class Memory;

class DeviceBytes {
 public:
  DeviceBytes() = default;
  DeviceBytes(std::shared_ptr<Memory> owner, void* data, int64_t bytes)
      : owner_(std::move(owner)), data_(static_cast<uint8_t*>(data)), bytes_(bytes) {}
  DeviceBytes(DeviceBytes&& other) noexcept { *this = std::move(other); }
  DeviceBytes& operator=(DeviceBytes&& other) noexcept {
    std::swap(owner_, other.owner_), std::swap(data_, other.data_), std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceBytes();
  uint8_t* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<Memory> owner_;
  uint8_t* data_ = nullptr;
  int64_t bytes_ = 0;
};

class Memory : public std::enable_shared_from_this<Memory> {
 public:
  explicit Memory(int64_t budget) : budget_(budget) {}  // bytes; -1: all that the GPU has
  // `what` it is for, in the error.
  Result<DeviceBytes> allocate(int64_t bytes, const std::string& what);
  int64_t used() const;
  int64_t budget() const { return budget_; }
  Result<int64_t> left() const;  // of the budget; without one, of the GPU

 private:
  friend class DeviceBytes;
  const int64_t budget_;
  mutable std::mutex mutex_;  // guards used_
  int64_t used_ = 0;
};

// Grows, never shrinks; contents are lost on growth, before which the stream that uses it is waited for.
Status reserve(Memory& memory, DeviceBytes& bytes, int64_t needed, const std::string& what, cudaStream_t stream);

// Pinned memory of the host, which the GPU sees too; null when there is none.
SharedBytes allocate_pinned(int64_t bytes);

// Pinned memory that grows; contents are lost on growth. The GPU must have finished with it.
struct PinnedBytes {
  SharedBytes memory;
  int64_t bytes = 0;

  std::byte* data() const { return memory.get(); }
  Status reserve(int64_t needed, const char* what);
};

// cudaStreamDestroy() returns at once while work goes on: memory that the work uses must outlive it.
struct StreamEnd {
  void operator()(cudaStream_t stream) const {
    static_cast<void>(cudaStreamSynchronize(stream));
    static_cast<void>(cudaStreamDestroy(stream));
  }
};
using Queue = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, StreamEnd>;
Result<Queue> make_stream();

struct EventEnd {
  void operator()(cudaEvent_t event) const { static_cast<void>(cudaEventDestroy(event)); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventEnd>;
Result<Event> make_event(bool timed);

}  // namespace llada::cuda
