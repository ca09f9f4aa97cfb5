#include "devices/cuda/runtime.h"

namespace llada::cuda {

Status check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return {};
  return failed("cuda: {}: {}", what, cudaGetErrorString(code));
}

Result<FoundGpu> find_gpu() {
  int count = 0;
  LLADA_TRY_STATUS([&]() -> Status {
    const cudaError_t code = cudaGetDeviceCount(&count);
    if (code == cudaSuccess && count > 0) return {};
    static_cast<void>(cudaGetLastError());
    return invalid("not usable: {}", code == cudaSuccess ? "no GPU was found" : cudaGetErrorString(code));
  }());
  cudaDeviceProp properties{};
  LLADA_TRY_STATUS(check(cudaGetDeviceProperties(&properties, 0), "asking for the GPU's properties"));
  return FoundGpu{fmt::format("{}, compute capability {}.{}, {:.1f} GiB", properties.name, properties.major,
                              properties.minor, static_cast<double>(properties.totalGlobalMem) / 0x1p30),
                  properties.major};
}

DeviceBytes::~DeviceBytes() {
  if (data_ == nullptr) return;
  static_cast<void>(cudaFree(data_));
  const std::lock_guard lock(owner_->mutex_);
  owner_->used_ -= bytes_;
}

Result<DeviceBytes> Memory::allocate(int64_t bytes, const std::string& what) {
  {
    const std::lock_guard lock(mutex_);
    if (budget_ >= 0 && bytes > budget_ - used_)
      return failed("cuda: {} needs {} bytes of device memory, {} of the budget of {} are left", what, bytes,
                    budget_ - used_, budget_);
    used_ += bytes;
  }
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, static_cast<size_t>(std::max<int64_t>(bytes, 1)));
  if (code == cudaSuccess) return DeviceBytes(shared_from_this(), data, bytes);
  static_cast<void>(cudaGetLastError());
  const std::lock_guard lock(mutex_);
  used_ -= bytes;
  return failed("cuda: {} needs {} bytes of device memory beside {} in use: {}", what, bytes, used_,
                cudaGetErrorString(code));
}

int64_t Memory::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

Result<int64_t> Memory::left() const {
  if (budget_ >= 0) return budget_ - used();
  size_t free = 0, total = 0;
  LLADA_TRY_STATUS(check(cudaMemGetInfo(&free, &total), "asking for free memory"));
  return static_cast<int64_t>(free);
}

Status reserve(Memory& memory, DeviceBytes& bytes, int64_t needed, const std::string& what, cudaStream_t stream) {
  if (needed <= bytes.bytes()) return {};
  if (bytes.data() != nullptr) LLADA_TRY_STATUS(check(cudaStreamSynchronize(stream), "waiting for memory to be free"));
  { const DeviceBytes old = std::move(bytes); }
  LLADA_TRY(bytes, memory.allocate(needed, what));
  return {};
}

SharedBytes allocate_pinned(int64_t bytes) {
  void* data = nullptr;
  if (cudaHostAlloc(&data, static_cast<size_t>(std::max<int64_t>(bytes, 1)),
                    cudaHostAllocPortable | cudaHostAllocMapped) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return nullptr;
  }
  forget(static_cast<std::byte*>(data), bytes);
  return SharedBytes(static_cast<std::byte*>(data), [](std::byte* p) { static_cast<void>(cudaFreeHost(p)); });
}

Status PinnedBytes::reserve(int64_t needed, const char* what) {
  if (needed <= bytes) return {};
  memory = allocate_pinned(needed);
  bytes = memory != nullptr ? needed : 0;
  if (memory == nullptr) return failed("cuda: {} bytes of pinned memory for {} could not be allocated", needed, what);
  return {};
}

Result<Queue> make_stream() {
  cudaStream_t stream = nullptr;
  LLADA_TRY_STATUS(check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream"));
  return Queue(stream);
}

Result<Event> make_event(bool timed) {
  cudaEvent_t event = nullptr;
  LLADA_TRY_STATUS(check(cudaEventCreateWithFlags(&event, timed ? 0 : cudaEventDisableTiming), "an event"));
  return Event(event);
}

}  // namespace llada::cuda
