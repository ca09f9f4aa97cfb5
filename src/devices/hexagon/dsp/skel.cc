// The methods of wire.h behind FastRPC's calling convention. One session per process: a phone gives every session a
// process of its own. Several threads may be in here at a time: FastRPC has one for every thread of the host that
// calls.
#include "devices/hexagon/dsp/skel.h"

#include <stddef.h>

#include "devices/hexagon/dsp/batch.h"
#include "devices/hexagon/dsp/machine.h"
#include "devices/hexagon/wire.h"

extern "C" void* memcpy(void* to, const void* from, size_t bytes);

namespace dsp {
namespace {

struct Session {
  Lock lock;  // for the two that follow
  bool open = false;
  uint32_t calls = 0;  // methods that are under way: a session is not closed beneath them
  Buffers buffers;
  Lock running;  // one batch at a time
  Pool pool;
  bool voted = false, voted_matrix = false;  // which votes have not been given back
};
constinit Session session;       // nobody runs constructors here
constinit BatchCopy batch_copy;  // of the batch that runs
constexpr uint64_t kHandle = 0x4c4c;

struct Shape {  // of a call's arguments: buffers in and out, handles in and out
  uint32_t in, out, in_handles, out_handles;
};
bool is(uint32_t scalars, Shape shape) {
  return (scalars >> 16 & 0xff) == shape.in && (scalars >> 8 & 0xff) == shape.out &&
         (scalars >> 4 & 0xf) == shape.in_handles && (scalars & 0xf) == shape.out_handles;
}

// A batch may wait for the buffer, or for the news that it will not come.
void tell(bool served) {
  if (served) __atomic_add_fetch(&session.buffers.served, 1u, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&session.buffers.asked, 1u, __ATOMIC_SEQ_CST);
  os_wake(&session.buffers.asked);
}

bool names_buffer(const WireMap& request) {
  return request.magic == WIRE_MAGIC && request.version == WIRE_VERSION && request.buffer < WIRE_BUFFERS;
}

// The system's call may take long, so it is made without the lock; until then the number is only taken.
void map(const WireMap& request, WireReply& reply) {
  if (!names_buffer(request) || request.bytes == 0 || request.bytes > 0x7fffffffu) {
    reply.status = WIRE_BAD_BATCH;
    return;
  }
  Buffer& buffer = session.buffers.list[request.buffer];
  {
    const LockGuard held(session.buffers.lock);
    if (buffer.taken) {
      reply.status = WIRE_BUSY_BUFFER;
      return;
    }
    buffer.taken = true;
  }
  void* address = os_map(request.fd, request.bytes, (request.flags & WIRE_MAP_READ_ONLY) != 0, &reply.detail);
  const LockGuard held(session.buffers.lock);
  if (address == nullptr) {
    buffer = {};
    reply.status = WIRE_MAP_REFUSED;
    return;
  }
  buffer.address = static_cast<uint8_t*>(address);
  buffer.bytes = request.bytes, buffer.fd = request.fd;
  buffer.read_only = (request.flags & WIRE_MAP_READ_ONLY) != 0;
  tell(true);
}

void unmap(const WireMap& request, WireReply& reply) {
  if (!names_buffer(request)) {
    reply.status = WIRE_BAD_BATCH;
    return;
  }
  Buffer& buffer = session.buffers.list[request.buffer];
  Buffer going;
  {
    const LockGuard held(session.buffers.lock);
    if (buffer.address == nullptr || buffer.used) {
      reply.status = buffer.used ? WIRE_BUSY_BUFFER : WIRE_BAD_REF, reply.detail = request.buffer;
      tell(false);
      return;
    }
    going = buffer;
    buffer.address = nullptr;
  }
  os_unmap(going.address, going.bytes, going.fd);
  const LockGuard held(session.buffers.lock);
  buffer = {};
  tell(true);
}

void run(const RemoteBuffer& in, WireReply& reply) {
  const LockGuard alone(session.running);
  const uint64_t begin = clock_cycles();
  Batch(session.buffers, session.pool, batch_copy).run(in.data, in.bytes, reply);
  reply.cycles = clock_cycles() - begin;
  const LockGuard held(session.buffers.lock);
  for (Buffer& buffer : session.buffers.list) buffer.used = false;
}

void vote(const WireMap& request, WireReply& reply) {
  const LockGuard alone(session.running);
  const bool up = (request.flags & WIRE_MAP_UP) != 0;
  const bool matrix = (request.flags & WIRE_MAP_MATRIX) != 0;
  int32_t status = 0;
  reply.op = matrix ? os_vote_matrix(up, &status) : os_vote(up, &status);
  reply.detail = static_cast<uint32_t>(status), reply.lines = os_matrix().bytes;
  (matrix ? session.voted_matrix : session.voted) = up;
}

int32_t query(const RemoteBuffer& out) {
  if (out.bytes != sizeof(WireInfo)) return kBadParameter;
  auto& info = *static_cast<WireInfo*>(out.data);
  info = {};
  info.version = WIRE_VERSION;
  info.arch = kArchitecture;
  info.emulated = os_emulated();
  info.threads = os_threads() < kMaxWorkers ? os_threads() : kMaxWorkers;
  info.vector_bytes = 128;
  info.kinds = supported_kinds();
  info.matrix_layouts = supported_matrix_layouts();
  info.map_call = os_map_call();
  info.units = supported_units();
  info.magic = WIRE_MAGIC;
  return 0;
}

int32_t call(uint32_t method, const RemoteBuffer& in, const RemoteBuffer& out) {
  if (out.bytes != sizeof(WireReply) || (method != WIRE_RUN && in.bytes != sizeof(WireMap))) return kBadParameter;
  WireReply reply = {};
  WireMap request = {};  // a copy: the checked bytes are the used ones
  if (method != WIRE_RUN) memcpy(&request, in.data, sizeof request);
  if (method == WIRE_MAP)
    map(request, reply);
  else if (method == WIRE_UNMAP)
    unmap(request, reply);
  else if (method == WIRE_VOTE)
    vote(request, reply);
  else
    run(in, reply);
  reply.magic = WIRE_MAGIC;
  *static_cast<WireReply*>(out.data) = reply;
  return 0;
}

int32_t open(uint64_t& handle) {
  const LockGuard held(session.lock);
  if (session.open) return kNoMemory;
  session.open = true;
  handle = kHandle;
  return 0;
}

// Refused while another thread is inside a method, since its buffers would go.
int32_t close(uint64_t handle) {
  const LockGuard held(session.lock);
  if (!session.open || handle != kHandle) return kBadParameter;
  if (session.calls > 0) return kBadState;
  const LockGuard buffers(session.buffers.lock);
  for (Buffer& buffer : session.buffers.list) {
    if (buffer.address != nullptr) os_unmap(buffer.address, buffer.bytes, buffer.fd);
    buffer = {};
  }
  session.pool.stop();
  int32_t status = 0;
  if (session.voted_matrix) os_vote_matrix(false, &status);
  if (session.voted) os_vote(false, &status);
  session.voted = session.voted_matrix = false;
  session.open = false;
  return 0;
}

// Counts a method as under way as long as it lives.
class Inside {
 public:
  explicit Inside(uint64_t handle) {
    const LockGuard held(session.lock);
    allowed_ = session.open && handle == kHandle;
    if (allowed_) ++session.calls;
  }
  ~Inside() {
    if (!allowed_) return;
    const LockGuard held(session.lock);
    --session.calls;
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  bool allowed() const { return allowed_; }

 private:
  bool allowed_ = false;
};

}  // namespace

int32_t llada_hexagon_skel_handle_invoke(uint64_t handle, uint32_t scalars, RemoteArgument* arguments) {
  const uint32_t method = scalars >> 24 & 0x1f;
  switch (method) {
    case WIRE_OPEN:
      return is(scalars, {2, 0, 0, 1}) ? open(arguments[2].handle) : kBadParameter;
    case WIRE_CLOSE:
      return is(scalars, {0, 0, 1, 0}) ? close(arguments[0].handle) : kBadParameter;
    default:
      break;
  }
  const Inside inside(handle);
  if (!inside.allowed()) return kBadParameter;
  switch (method) {
    case WIRE_QUERY:
      return is(scalars, {0, 1, 0, 0}) ? query(arguments[0].buffer) : kBadParameter;
    case WIRE_MAP:
    case WIRE_UNMAP:
    case WIRE_RUN:
    case WIRE_VOTE:
      return is(scalars, {1, 1, 0, 0}) ? call(method, arguments[0].buffer, arguments[1].buffer) : kBadParameter;
    default:
      return kNoSuchMethod;
  }
}

}  // namespace dsp
