// A batch for the DSP, run by the DSP's own sources on the host: nothing that a host sends, and nothing that it or an
// op writes into shared memory while the batch runs, may make them read or write outside the buffers. Whenever the DSP
// looks at the clock, which is between check and ops and between two ops, shared memory and batch are scribbled over.
// Every other input is left alone, so that batches are also run as they are. Seeds: hexagon_seeds.cc.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "devices/hexagon/dsp/hmx_model.h"
#include "devices/hexagon/dsp/matmul.h"
#include "devices/hexagon/dsp/os.h"
#include "devices/hexagon/dsp/skel.h"
#include "devices/hexagon/dsp/unit_tiles.h"
#include "devices/hexagon/wire.h"
#include "hexagon_batches.h"

using namespace llada::fuzz;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

// Exactly as large as the DSP is told, so that the sanitizer sees a byte beyond.
struct Memory {
  uint8_t* data;
  uint32_t bytes;
  explicit Memory(uint32_t size, uint32_t alignment = 128)
      : data(static_cast<uint8_t*>(std::aligned_alloc(alignment, size))), bytes(size) {
    require(data != nullptr);
    std::memset(data, 0xff, bytes);
  }
};
Memory shared(kSharedBytes), read_only(kReadOnlyBytes), scratch(kScratchBytes);
std::vector<uint8_t> message;
std::vector<uint32_t> lists;  // where the batch has indices and spans in the shared memory
bool scribbling = false;
uint32_t noise = 1;

void scribble() {
  const auto next = [] {
    noise ^= noise << 13, noise ^= noise >> 17, noise ^= noise << 5;
    return noise;
  };
  const auto write = [&](uint32_t offset) {
    const uint32_t word = next() % 2 == 0 ? next() : 0xffffffffu >> (next() % 32);
    if (offset <= shared.bytes - 4) std::memcpy(shared.data + offset, &word, 4);
  };
  for (int i = 0; i < 16; ++i) write(next() % (shared.bytes / 4) * 4);
  for (const uint32_t list : lists) write(list + next() % 8 * 4);
  for (size_t i = 0; i + 4 <= message.size(); i += 1 + next() % 64) std::memcpy(message.data() + i, &noise, 4);
}

}  // namespace

namespace dsp {

void* os_map(int32_t fd, uint32_t bytes, bool, uint32_t* error) {
  const Memory* all[] = {&shared, &read_only, &scratch};
  *error = 9;
  return fd >= 0 && fd < 3 && bytes <= all[fd]->bytes ? all[fd]->data : nullptr;
}
uint32_t os_unmap(void*, uint32_t, int32_t) { return 0; }
uint32_t os_map_call() { return 2; }
uint32_t os_vote(bool, int32_t*) { return 0; }
uint32_t os_vote_matrix(bool, int32_t*) { return 0; }
uint64_t os_microseconds() {
  if (scribbling) scribble();
  return 0;
}
Matrix os_matrix() {
  static Memory vtcm(1 << 20, 256 << 10);
  return {vtcm.data, vtcm.bytes};
}
bool os_lock_matrix(const Matrix& unit) {
  hmx_model_memory(unit.memory, unit.bytes, HMX_RIGHT, 0);
  return true;
}
void os_unlock_matrix() { hmx_model_memory(nullptr, 0, HMX_RIGHT, 0); }
uint64_t os_packets() { return 0; }
void os_log(const char*) {}
uint32_t os_threads() { return 1; }
uint32_t os_emulated() { return 1; }
bool os_start_worker(uint32_t, void (*)(void*), void*) { return false; }
void os_join_worker(uint32_t) {}
void os_wait(uint32_t*, uint32_t) {  // there is one thread, so it waits for a buffer: the host stops it
  std::memset(shared.data, 0xff, shared.bytes);
  std::memset(scratch.data, 0xff, scratch.bytes);
}
void os_wake(uint32_t*) {}
void os_pause() { os_wait(nullptr, 0); }  // a batch looks for columns of the host's, which stops it, too
uint32_t os_polls() { return 1; }
void os_clean(const uint8_t*, uint32_t) {}

void multiply(Format format, const TileJob& job) { multiply_by_vectors(format, job); }
void unit_rows(const float* even, const float* odd, uint32_t blocks, uint8_t* to, int32_t exponents[2]) {
  plain::unit_rows(even, odd, blocks, to, exponents);
}
void unit_weights(Format format, const uint8_t* tile, uint32_t first, uint32_t last, uint8_t* to) {
  plain::unit_weights(format, tile, first, last, to);
}

}  // namespace dsp

namespace {

using dsp::llada_hexagon_skel_handle_invoke;

WireReply call(uint64_t handle, uint32_t method, void* in, uint32_t bytes) {
  WireReply reply{};
  dsp::RemoteArgument arguments[2] = {{.buffer = {in, bytes}}, {.buffer = {&reply, sizeof reply}}};
  require(llada_hexagon_skel_handle_invoke(handle, method << 24 | 1u << 16 | 1u << 8, arguments) == 0);
  require(reply.magic == WIRE_MAGIC);
  return reply;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint32_t memory = 0;
  if (size < sizeof memory) return 0;
  std::memcpy(&memory, data, sizeof memory);
  data += sizeof memory, size -= sizeof memory;
  scribbling = memory >> 31 != 0;
  memory &= 0x7fffffffu;
  if (memory >= size || memory > shared.bytes) return 0;
  std::memset(shared.data, 0xff, shared.bytes);
  std::memcpy(shared.data, data, memory);
  message.assign(data + memory, data + size);
  noise = static_cast<uint32_t>(size) * 2654435761u | 1;

  lists.clear();
  for (size_t at = sizeof(WireBatch); at + sizeof(WireOp) <= message.size(); at += sizeof(WireOp)) {
    WireOp op;
    std::memcpy(&op, message.data() + at, sizeof op);
    for (const WireRef& ref : {op.index, op.trial_index, op.spans, op.out_of_softmax, op.never_sampled})
      if (ref.buffer == kShared || ref.buffer == kSharedAgain) lists.push_back(ref.offset & ~3u);
  }

  dsp::RemoteArgument opening[3] = {};
  require(llada_hexagon_skel_handle_invoke(0, WIRE_OPEN << 24 | 2u << 16 | 1, opening) == 0);
  const uint64_t handle = opening[2].handle;
  for (const WireMap& map : {WireMap{WIRE_MAGIC, WIRE_VERSION, kShared, 0, shared.bytes, 0},
                             WireMap{WIRE_MAGIC, WIRE_VERSION, kSharedAgain, 0, shared.bytes, 0},
                             WireMap{WIRE_MAGIC, WIRE_VERSION, kReadOnly, 1, read_only.bytes, WIRE_MAP_READ_ONLY},
                             WireMap{WIRE_MAGIC, WIRE_VERSION, kScratch, 2, scratch.bytes, 0}}) {
    WireMap request = map;
    require(call(handle, WIRE_MAP, &request, sizeof request).status == WIRE_OK);
  }
  const auto ops = [&] {
    WireBatch head{};
    std::memcpy(&head, message.data(), std::min(message.size(), sizeof head));
    return head.op_count;
  }();
  const WireReply reply = call(handle, WIRE_RUN, message.data(), static_cast<uint32_t>(message.size()));
  require(reply.status <= WIRE_NO_SCRATCH || reply.status == WIRE_NO_PART);
  require(reply.status == WIRE_BAD_BATCH || reply.op <= ops);
  require(reply.status != WIRE_OK || reply.op == ops);
  for (uint32_t i = 0; i < read_only.bytes; ++i) require(read_only.data[i] == 0xff);
  dsp::RemoteArgument closing{};
  closing.handle = handle;
  require(llada_hexagon_skel_handle_invoke(0, WIRE_CLOSE << 24 | 1u << 4, &closing) == 0);
  return 0;
}
