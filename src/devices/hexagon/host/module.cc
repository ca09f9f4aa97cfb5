#include "devices/hexagon/host/module.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "devices/hexagon/dsp/batch.h"
#include "devices/hexagon/dsp/hmx_model.h"
#include "devices/hexagon/dsp/os.h"

namespace llada::hexagon {
namespace {

// State for the module's calls of os.h: whose threads they are about, and whose matrix unit.
struct Workers {
  uint32_t threads = 1;
  std::array<std::thread, dsp::kMaxWorkers> started;
  dsp::Matrix unit;
};
thread_local Workers* current = nullptr;
constexpr std::align_val_t kRegion{256 << 10};  // of a matrix unit's memory

}  // namespace

struct HostModule::State {
  Workers workers;
  struct Free {
    void operator()(uint8_t* memory) const { ::operator delete(memory, kRegion); }
  };
  std::unique_ptr<uint8_t, Free> vtcm;
  dsp::Buffers buffers;
  uint32_t named = 0;
  dsp::Pool pool;
  dsp::BatchCopy copy;
};

HostModule::HostModule(int threads, uint32_t vtcm) : state_(std::make_unique<State>()) {
  state_->workers.threads = static_cast<uint32_t>(std::clamp<int>(threads, 1, dsp::kMaxWorkers));
  if (vtcm == 0) return;
  state_->vtcm.reset(static_cast<uint8_t*>(::operator new(vtcm, kRegion, std::nothrow)));
  if (state_->vtcm != nullptr) state_->workers.unit = {state_->vtcm.get(), vtcm};
}

HostModule::~HostModule() {
  current = &state_->workers;
  state_->pool.stop();
  current = nullptr;
}

void HostModule::begin_batch() {
  std::fill_n(state_->buffers.list, state_->named, dsp::Buffer{});
  state_->named = 0;
}

uint32_t HostModule::number(std::byte* data, int64_t bytes) {
  auto* const address = reinterpret_cast<uint8_t*>(data);
  const auto is = [&](const dsp::Buffer& b) { return b.address == address && b.bytes == bytes; };
  uint32_t i = 0;
  while (i < state_->named && !is(state_->buffers.list[i])) ++i;
  if (i == state_->named && i < WIRE_BUFFERS) {
    dsp::Buffer& buffer = state_->buffers.list[state_->named++];
    buffer.address = address, buffer.bytes = static_cast<uint32_t>(bytes), buffer.fd = static_cast<int32_t>(i),
    buffer.taken = true;
  }
  return i;
}

WireReply HostModule::run(std::span<const std::byte> batch) {
  WireReply reply{};
  current = &state_->workers;
  dsp::Batch(state_->buffers, state_->pool, state_->copy).run(batch.data(), static_cast<uint32_t>(batch.size()), reply);
  current = nullptr;
  reply.magic = WIRE_MAGIC;
  return reply;
}

WireReply run_alone(HostModule& module, const WireOp& op, WireRef scratch, uint32_t scratch_bytes, uint32_t units) {
  WireBatch head{};
  head.magic = WIRE_MAGIC, head.version = WIRE_VERSION, head.op_count = 1, head.units = units;
  head.scratch = scratch, head.scratch_bytes = scratch_bytes, head.flags = {WIRE_NO_BUFFER, 0};
  std::vector<std::byte> bytes(sizeof head + sizeof op);
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, &op, sizeof op);
  return module.run(bytes);
}

}  // namespace llada::hexagon

// The system below the module's sources.
namespace dsp {

using llada::hexagon::current;

uint64_t os_microseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}
uint64_t os_packets() { return 0; }
void os_clean(const uint8_t*, uint32_t) {}  // there is one cache
uint32_t os_threads() { return current->threads; }
Matrix os_matrix() { return current->unit; }
bool os_lock_matrix(const Matrix& unit) {
  hmx_model_memory(unit.memory, unit.bytes, HMX_RIGHT, 0);
  return true;
}
void os_unlock_matrix() { hmx_model_memory(nullptr, 0, HMX_RIGHT, 0); }

bool os_start_worker(uint32_t index, void (*entry)(void*), void* argument) {
  try {
    current->started[index] = std::thread(entry, argument);
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}
void os_join_worker(uint32_t index) { current->started[index].join(); }

void os_wait(uint32_t* word, uint32_t seen) { reinterpret_cast<std::atomic<uint32_t>*>(word)->wait(seen); }
void os_wake(uint32_t* word) { reinterpret_cast<std::atomic<uint32_t>*>(word)->notify_all(); }
void os_pause() { std::this_thread::yield(); }
uint32_t os_polls() { return 64; }

}  // namespace dsp
