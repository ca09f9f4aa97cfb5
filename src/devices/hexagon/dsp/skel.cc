// The methods of wire.h behind FastRPC's calling convention. One session per process: a phone gives every session a
// process of its own.
#include "devices/hexagon/dsp/skel.h"

#include "devices/hexagon/dsp/batch.h"
#include "devices/hexagon/wire.h"

namespace dsp {
namespace {

struct Session {
  bool open = false;
  Buffer buffers[WIRE_BUFFERS];
  Pool pool;
};
constinit Session session;  // nobody runs constructors here
constexpr uint64_t kHandle = 0x4c4c;

struct Shape {  // of a call's arguments: buffers in and out, handles in and out
  uint32_t in, out, in_handles, out_handles;
};
bool is(uint32_t scalars, Shape shape) {
  return (scalars >> 16 & 0xff) == shape.in && (scalars >> 8 & 0xff) == shape.out &&
         (scalars >> 4 & 0xf) == shape.in_handles && (scalars & 0xf) == shape.out_handles;
}

void unmap(Buffer& buffer) {
  os_unmap(buffer.address, buffer.bytes, buffer.fd);
  buffer = {};
}

void map(const WireMap& request, WireReply& reply) {
  if (request.magic != WIRE_MAGIC || request.version != WIRE_VERSION || request.buffer >= WIRE_BUFFERS ||
      request.bytes == 0 || request.bytes > 0x7fffffffu) {
    reply.status = WIRE_BAD_BATCH;
    return;
  }
  Buffer& buffer = session.buffers[request.buffer];
  if (buffer.address != nullptr) {
    reply.status = WIRE_BUSY_BUFFER;
    return;
  }
  void* address = os_map(request.fd, request.bytes, (request.flags & WIRE_MAP_READ_ONLY) != 0, &reply.detail);
  if (address == nullptr) {
    reply.status = WIRE_MAP_REFUSED;
    return;
  }
  buffer.address = static_cast<uint8_t*>(address);
  buffer.bytes = request.bytes, buffer.fd = request.fd;
}

void unmap(const WireMap& request, WireReply& reply) {
  if (request.magic != WIRE_MAGIC || request.version != WIRE_VERSION || request.buffer >= WIRE_BUFFERS)
    reply.status = WIRE_BAD_BATCH;
  else if (session.buffers[request.buffer].address == nullptr)
    reply.status = WIRE_BAD_REF, reply.detail = request.buffer;
  else
    unmap(session.buffers[request.buffer]);
}

uint32_t arch() { return __HEXAGON_ARCH__; }

int32_t query(const RemoteBuffer& out) {
  if (out.bytes != sizeof(WireInfo)) return kBadParameter;
  auto& info = *static_cast<WireInfo*>(out.data);
  info = {};
  info.version = WIRE_VERSION;
  info.arch = arch();
  info.emulated = os_emulated();
  info.threads = os_threads() < kMaxWorkers ? os_threads() : kMaxWorkers;
  info.vector_bytes = 128;
  info.kinds = supported_kinds();
  info.matrix_layouts = supported_matrix_layouts();
  info.magic = WIRE_MAGIC;
  return 0;
}

int32_t call(uint32_t method, const RemoteBuffer& in, const RemoteBuffer& out) {
  if (out.bytes != sizeof(WireReply) || (method != WIRE_RUN && in.bytes != sizeof(WireMap))) return kBadParameter;
  WireReply reply = {};
  const auto& request = *static_cast<const WireMap*>(in.data);
  if (method == WIRE_MAP)
    map(request, reply);
  else if (method == WIRE_UNMAP)
    unmap(request, reply);
  else
    Batch(session.buffers, session.pool).run(in.data, in.bytes, reply);
  reply.magic = WIRE_MAGIC;
  *static_cast<WireReply*>(out.data) = reply;
  return 0;
}

}  // namespace

int32_t llada_hexagon_skel_handle_invoke(uint64_t handle, uint32_t scalars, RemoteArgument* arguments) {
  const uint32_t method = scalars >> 24 & 0x1f;
  switch (method) {
    case WIRE_OPEN:
      if (!is(scalars, {2, 0, 0, 1})) return kBadParameter;
      if (session.open) return kNoMemory;
      session.open = true;
      arguments[2].handle = kHandle;
      return 0;
    case WIRE_CLOSE:
      if (!is(scalars, {0, 0, 1, 0})) return kBadParameter;
      if (!session.open || arguments[0].handle != kHandle) return kBadParameter;
      for (Buffer& buffer : session.buffers)
        if (buffer.address != nullptr) unmap(buffer);
      session.pool.stop();
      session.open = false;
      return 0;
    default: break;
  }
  if (!session.open || handle != kHandle) return kBadParameter;
  switch (method) {
    case WIRE_QUERY: return is(scalars, {0, 1, 0, 0}) ? query(arguments[0].buffer) : kBadParameter;
    case WIRE_MAP:
    case WIRE_UNMAP:
    case WIRE_RUN:
      return is(scalars, {1, 1, 0, 0}) ? call(method, arguments[0].buffer, arguments[1].buffer) : kBadParameter;
    default: return kNoSuchMethod;
  }
}

}  // namespace dsp
