// The emulated GPU: memory with canaries, streams as queues, events as places in them. One lock guards everything; the
// kernels run on the thread that waits.
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "cuda_block.h"

struct CUevent_st {
  CUstream_st* stream = nullptr;  // where it was recorded last
  uint64_t place = 0;             // done when that stream has done so many
  std::chrono::steady_clock::time_point time;
};

struct CUstream_st {
  struct Entry {
    std::function<void()> work;
    bool kernel = false;
    std::thread::id whose = {};
    std::array<std::pair<const std::byte*, size_t>, 2> memory = {};  // of a copy: what it reads and writes
    CUstream_st* wait_stream = nullptr;  // of an entry that waits: nothing happens here before that place there
    uint64_t wait_place = 0;
  };
  std::deque<Entry> queue;
  uint64_t done = 0, added = 0;
};

namespace {

constexpr size_t kCanary = 64;
constexpr size_t kGpuBytes = size_t{1} << 30;

struct Gpu {
  std::recursive_mutex mutex;
  std::map<const std::byte*, size_t> device, host;
  std::set<CUstream_st*> streams;
  size_t used = 0;
  uint64_t launches = 0;
};
Gpu& gpu() {
  static Gpu it;
  return it;
}

[[noreturn]] void broken(const char* what) {
  std::fprintf(stderr, "cuda emulator: %s\n", what);
  std::abort();
}

// Whether [pointer, pointer + bytes) lies in one allocation.
bool inside(const std::map<const std::byte*, size_t>& memory, const void* pointer, size_t bytes) {
  const auto* p = static_cast<const std::byte*>(pointer);
  auto it = memory.upper_bound(p);
  if (it == memory.begin()) return false;
  --it;
  return p + bytes <= it->first + it->second;
}

void run_until(CUstream_st* stream, uint64_t place) {
  while (stream->done < place) {
    CUstream_st::Entry entry = std::move(stream->queue.front());
    stream->queue.pop_front();
    if (entry.wait_stream != nullptr && gpu().streams.contains(entry.wait_stream))
      run_until(entry.wait_stream, entry.wait_place);
    if (entry.work) entry.work();
    ++stream->done;
  }
}

void add(CUstream_st* stream, CUstream_st::Entry entry) {
  if (!gpu().streams.contains(stream)) broken("work for a stream that does not exist");
  stream->queue.push_back(std::move(entry));
  ++stream->added;
}

// Memory that is freed while work is queued that uses it: the runtime's own cudaFree() waits for everything, pools and
// captured graphs do not. Of kernels it is not known what they use, so whoever queued one waits before it frees.
void check_unused(const std::byte* data, size_t bytes) {
  for (const CUstream_st* stream : gpu().streams)
    for (const CUstream_st::Entry& entry : stream->queue) {
      if (entry.kernel && entry.whose == std::this_thread::get_id()) broken("memory is freed while kernels are queued");
      for (const auto& [begin, size] : entry.memory)
        if (begin != nullptr && begin < data + bytes && data < begin + size)
          broken("memory is freed while a copy of it is queued");
    }
}

void check_canary(const std::byte* data, size_t bytes) {
  for (size_t i = 0; i < kCanary; ++i)
    if (data[bytes + i] != std::byte{0xa5}) broken("something was written behind the end of an allocation");
}

cudaError_t allocate(std::map<const std::byte*, size_t>& memory, void** pointer, size_t bytes) {
  const size_t size = (bytes + kCanary + 255) / 256 * 256;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(256, size));
  if (data == nullptr) return cudaErrorMemoryAllocation;
  std::memset(data, 0xff, bytes);  // no number, whatever type it is read as
  std::memset(data + bytes, 0xa5, size - bytes);
  memory[data] = bytes;
  *pointer = data;
  return cudaSuccess;
}

cudaError_t release(std::map<const std::byte*, size_t>& memory, void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  const auto it = memory.find(static_cast<std::byte*>(pointer));
  if (it == memory.end()) broken("memory is freed that was not allocated");
  check_unused(it->first, it->second);
  check_canary(it->first, it->second);
  memory.erase(it);
  std::free(pointer);
  return cudaSuccess;
}

using Lock = std::lock_guard<std::recursive_mutex>;

}  // namespace

namespace llada::cuda_emulator {

void enqueue(cudaStream_t stream, std::function<void()> work) {
  const Lock lock(gpu().mutex);
  add(stream, {.work = std::move(work), .kernel = true, .whose = std::this_thread::get_id()});
}

thread_local cudaError_t last_error = cudaSuccess;
void refuse_launch() { last_error = cudaErrorInvalidConfiguration; }

int64_t shuffled(int64_t i, int64_t n, uint64_t launch) {
  int64_t step = static_cast<int64_t>(launch % 61) * 2 + 1;  // coprime with n: every block once
  while (std::gcd(step, n) != 1) ++step;
  return (i * step + static_cast<int64_t>(launch % 7)) % n;
}

uint64_t next_launch() { return ++gpu().launches; }

}  // namespace llada::cuda_emulator

namespace llada::cuda {

void multiply_warp(const std::array<Mma, 32>& lanes) {
  static const std::vector<float> floats = [] {
    std::vector<float> all(1 << 16);
    for (uint32_t i = 0; i < all.size(); ++i) all[i] = f16_to_float(static_cast<uint16_t>(i));
    return all;
  }();
  float a[16][16], b[16][8];
  const auto put = [](uint32_t pair, float& low, float& high) {
    low = floats[pair & 0xffff];
    high = floats[pair >> 16];
  };
  for (size_t lane = 0; lane < 32; ++lane) {
    const size_t g = lane / 4, t = lane % 4;
    for (size_t i = 0; i < 4; ++i) {
      const size_t row = g + 8 * (i % 2), k = 2 * t + 8 * (i / 2);
      put(lanes[lane].a[i], a[row][k], a[row][k + 1]);
    }
    for (size_t i = 0; i < 2; ++i) put(lanes[lane].b[i], b[2 * t + 8 * i][g], b[2 * t + 8 * i + 1][g]);
  }
  float sums[16][8] = {};
  for (size_t row = 0; row < 16; ++row)
    for (size_t k = 0; k < 16; ++k)
      for (size_t column = 0; column < 8; ++column) sums[row][column] += a[row][k] * b[k][column];
  for (size_t lane = 0; lane < 32; ++lane)
    for (size_t i = 0; i < 4; ++i) lanes[lane].c[i] += sums[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2];
}

}  // namespace llada::cuda

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::snprintf(properties->name, sizeof properties->name, "GPU emulator of the tests (emulated)");
  properties->totalGlobalMem = kGpuBytes;
  properties->major = 8, properties->minor = 0;  // with tensor cores
  properties->multiProcessorCount = 1;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const Lock lock(gpu().mutex);
  *total = kGpuBytes;
  *free = kGpuBytes - gpu().used;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  const Lock lock(gpu().mutex);
  if (bytes > kGpuBytes - gpu().used) return cudaErrorMemoryAllocation;
  gpu().used += bytes;
  return allocate(gpu().device, pointer, bytes);
}
cudaError_t cudaFree(void* pointer) {
  const Lock lock(gpu().mutex);
  if (const auto it = gpu().device.find(static_cast<std::byte*>(pointer)); it != gpu().device.end())
    gpu().used -= it->second;
  return release(gpu().device, pointer);
}
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  const Lock lock(gpu().mutex);
  return allocate(gpu().host, pointer, bytes);
}
cudaError_t cudaFreeHost(void* pointer) {
  const Lock lock(gpu().mutex);
  return release(gpu().host, pointer);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const Lock lock(gpu().mutex);
  attributes->type = inside(gpu().device, pointer, 1) ? cudaMemoryTypeDevice
                     : inside(gpu().host, pointer, 1) ? cudaMemoryTypeHost
                                                      : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  if (width == 0 || height == 0) return cudaSuccess;
  const Lock lock(gpu().mutex);
  const size_t to_bytes = (height - 1) * to_pitch + width, from_bytes = (height - 1) * from_pitch + width;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (inside(gpu().device, to, to_bytes) != to_device || inside(gpu().device, from, from_bytes) != from_device)
    return cudaErrorInvalidValue;
  add(stream,
      {.work =
           [=] {
             for (size_t i = 0; i < height; ++i)
               std::memcpy(static_cast<std::byte*>(to) + i * to_pitch,
                           static_cast<const std::byte*>(from) + i * from_pitch, width);
           },
       .memory = {{{static_cast<const std::byte*>(to), to_bytes}, {static_cast<const std::byte*>(from), from_bytes}}}});
  // Memory that is not pinned is copied before the call returns.
  const void* other = to_device ? from : to;
  if (to_device != from_device && !inside(gpu().host, other, to_device ? from_bytes : to_bytes))
    run_until(stream, stream->added);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const Lock lock(gpu().mutex);
  *stream = new CUstream_st;
  gpu().streams.insert(*stream);
  return cudaSuccess;
}
// The runtime's returns at once while work goes on.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Lock lock(gpu().mutex);
  if (stream->done < stream->added) broken("a stream is destroyed while work is queued");
  gpu().streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Lock lock(gpu().mutex);
  run_until(stream, stream->added);
  for (const auto& [data, bytes] : gpu().device) check_canary(data, bytes);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Lock lock(gpu().mutex);
  if (event->stream != nullptr) add(stream, {.work = {}, .wait_stream = event->stream, .wait_place = event->place});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Lock lock(gpu().mutex);
  if (event->stream != nullptr && gpu().streams.contains(event->stream)) run_until(event->stream, event->place);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(gpu().mutex);
  add(stream, {.work = [event] { event->time = std::chrono::steady_clock::now(); }});
  event->stream = stream;
  event->place = stream->added;
  return cudaSuccess;
}
// Time passes while somebody asks: a question lets the stream take one more step.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(gpu().mutex);
  if (event->stream == nullptr || event->stream->done >= event->place) return cudaSuccess;
  run_until(event->stream, event->stream->done + 1);
  return event->stream->done >= event->place ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Lock lock(gpu().mutex);
  if (event->stream != nullptr) run_until(event->stream, event->place);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t first, cudaEvent_t second) {
  *ms = std::chrono::duration<float, std::milli>(second->time - first->time).count();
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return std::exchange(llada::cuda_emulator::last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorNoDevice:
      return "no device";
    case cudaErrorNotReady:
      return "not ready";
  }
  return "unknown error";
}
