// The stand-in for a phone's libcdsprpc.so: the same functions over qemu-hexagon processes of this machine. A buffer is
// a memfd, a session an emulated process whose whole address space is as large as asked for, an invoke a message over
// a shared ring. In place of a module libNAME.so the program libNAME.emulated beside it is run: the same code linked
// with its emulator shim.
//
// Beside the phone's functions it exports
//   llada_standin_error()   what went wrong last, one line (a phone's library writes its log instead)
//   llada_standin_space(b)  bytes of address space of the sessions opened from now on (3.5 GiB, what phones are said
//                           to give)
//   llada_standin_fault(t)  a failure on purpose: "kill:N[:MICROSECONDS]" ends the process while it works on the N-th
//                           invoke from now on, "die:N" before it sees that invoke, "error:N" answers it with a code,
//                           "garbage:N" with random bytes, "hang:N" never; "spoil:N" hands it over without the mark of
//                           a batch, so that the DSP refuses it; "map:N" refuses the N-th mapping and all later ones;
//                           "" none. "hang-map:N", "hang-unmap:N", "hang-control:N" and "hang-alloc:N" let
//                           the N-th fastrpc_mmap(), fastrpc_munmap(), remote_session_control() or rpcmem_alloc() and
//                           all later ones hang, whatever is killed, until another failure or none is chosen;
//                           "hang-all:N" the first three, and the process from the N-th invoke on
//   llada_standin_poison(b) what new buffers are filled with: a phone promises no zeros
//   llada_standin_phone(t)  refusals of phones, "KEY=NUMBER,...": unsigned, open, reserve, uri, latency are the
//                           statuses that these requests get, votes the one of HAP_power_set on the DSP; arch=0x73 is
//                           what the DSP is said to be, 0: the library does not tell; mmap2=0: the DSP has no
//                           HAP_mmap2, votes=-1: no HAP_power_set; space=BYTES: more are not mapped in a session;
//                           alloc=BYTES: larger buffers are not to be had. Caches of buffers made from now on:
//                           coherent=1: nobody looks into the DSP's, 0: nor into the host's; lost=N: the N-th range of
//                           every batch is not maintained, sync=0: what llada_standin_sync() is asked for is not done.
//                           Sessions opened from now on: hardware=N: threads that run at a time, scatter=SEED: buffers
//                           are mapped anywhere; vtcm=BYTES: there is a modelled matrix unit with so much memory,
//                           grants=N: sessions beyond the N-th that lives have none; unit=STATUS is what a vote for
//                           its power gets, locks=0: no thread gets it, lies=N, swaps=1, drifts=N, hangs=N: how it
//                           errs (dsp/hmx_model.h). slow=N: every answer takes N times as
//                           long; batch_us, map_us, map_us_mb: a batch, a mapping, a MB of it take that much longer, as
//                           a profile of `llada doctor` says. "" none
//   llada_standin_sync(d, f) what DMA_BUF_IOCTL_SYNC is to Linux's buffers
// and reads LLADA_HEXAGON_QEMU (the emulator, qemu-hexagon), LLADA_HEXAGON_LOG (a file for what it prints),
// LLADA_HEXAGON_FILES (a folder: buffers are unnamed files there instead of memory), LLADA_CDSPRPC_FAULT and
// LLADA_CDSPRPC_PHONE (as above) and, like the real one, ADSP_LIBRARY_PATH (where modules are, beside the library's own
// folder).
//
// A library of C functions has state of the process; that is the interface it imitates.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "devices/hexagon/cdsprpc_abi.h"
#include "devices/hexagon/dsp/hmx_model.h"
#include "devices/hexagon/wire.h"
#include "lab/hexagon/standin/buffers.h"
#include "lab/hexagon/standin/dsp_process.h"
#include "lab/hexagon/standin/paths.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace llada::standin {
namespace {

constexpr size_t kGuestPage = 64 * 1024;  // qemu-hexagon's
constexpr int kMostSessions = 8;          // phones are said to allow 2 to 4

struct Fault {
  std::string kind;
  int64_t at = -1;
  int64_t delay_us = 0;
};

struct Session {
  std::shared_ptr<DspProcess> process;
  uint64_t module = 0;           // handle that the skel's open method gave
  std::map<int, size_t> mapped;  // bytes by descriptor
};

struct State {
  std::mutex mutex;
  Buffers buffers;
  std::map<int, Session> sessions;  // by domain
  int reserved = 0;                 // sessions beside the default one
  uint32_t space = 0xe0000000u;
  std::string error;
  Fault fault;
  int64_t invokes = 0, maps = 0;
  std::map<std::string, int64_t> calls;  // of each that can hang
  uint64_t choices = 0;                  // of failures so far
  std::condition_variable chosen;
  int poison = 0;
  std::map<std::string, int64_t> phone, always;  // its refusals; those of the environment

  int status(const char* key) const { return static_cast<int>(value(key, AEE_SUCCESS)); }
  int64_t value(const char* key, int64_t otherwise) const {
    const auto found = phone.find(key);
    return found == phone.end() ? otherwise : found->second;
  }
};

void set_phone(State& s, const char* text) {
  s.phone = s.always;
  if (s.sessions.empty()) s.reserved = 0;
  for (std::string rest = text; !rest.empty();) {
    const std::string entry = rest.substr(0, rest.find(','));
    rest.erase(0, entry.size() + 1);
    const size_t equals = std::min(entry.find('='), entry.size());
    s.phone[entry.substr(0, equals)] = std::strtoll(entry.c_str() + std::min(equals + 1, entry.size()), nullptr, 0);
  }
}

void set_fault(State& s, const char* text) {
  s.fault = {};
  s.invokes = s.maps = 0;
  s.calls.clear();
  ++s.choices;
  s.chosen.notify_all();
  const char* colon = std::strchr(text, ':');
  if (colon == nullptr) return;
  s.fault.kind.assign(text, colon);
  char* end = nullptr;
  s.fault.at = std::strtoll(colon + 1, &end, 10);
  s.fault.delay_us = end != nullptr && *end == ':' ? std::strtoll(end + 1, nullptr, 10) : 300;
}

// Whether a call of this name hung; it did until another failure was chosen.
bool hang(State& s, std::unique_lock<std::mutex>& lock, const std::string& name) {
  const bool all = s.fault.kind == "hang-all" && s.invokes > s.fault.at;
  if (!all && (s.fault.kind != "hang-" + name || s.calls[name]++ < s.fault.at)) return false;
  const uint64_t choice = s.choices;
  s.chosen.wait(lock, [&] { return s.choices != choice; });
  return true;
}

State& state() {
  static State* s = [] {
    auto* fresh = new State;
    if (const char* fault = std::getenv("LLADA_CDSPRPC_FAULT")) set_fault(*fresh, fault);
    if (const char* phone = std::getenv("LLADA_CDSPRPC_PHONE")) set_phone(*fresh, phone);
    fresh->always = fresh->phone;
    return fresh;
  }();
  return *s;
}

// Sessions beside the default one have domains of their own, above the numbers of real DSPs.
int domain_of(int session) { return session == 0 ? CDSP_DOMAIN_ID : 100 + session; }

std::shared_ptr<DspProcess> process_of(int domain) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.sessions.find(domain);
  return found == s.sessions.end() ? nullptr : found->second.process;
}

int fail(int code, std::string why) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.error = std::move(why);
  return code;
}

// The message is the host's own copy.
void lose_range(const remote_buf& batch, int64_t index) {
  WireBatch head;
  if (batch.nLen < sizeof head) return;
  std::memcpy(&head, batch.pv, sizeof head);
  if (index < head.range_count)
    reinterpret_cast<WireRange*>(static_cast<uint8_t*>(batch.pv) + sizeof head + head.op_count * sizeof(WireOp))[index]
        .use = 0;
}

// A handle of ours is the domain with a mark; one module per session.
constexpr remote_handle64 kHandleMark = 0x4c4c000000000000ull;

int open_session(const char* uri, remote_handle64* handle) {
  std::string module, symbol, why;
  int session = 0;
  if (uri == nullptr || handle == nullptr || !split_uri(uri, module, symbol, session))
    return fail(AEE_EBADPARM, std::string("bad module address ") + (uri != nullptr ? uri : "(null)"));
  State& s = state();
  const int domain = domain_of(session);
  uint32_t space = 0;
  ProcessPaths paths{find_emulator(), "",
                     std::getenv("LLADA_HEXAGON_LOG") != nullptr ? std::getenv("LLADA_HEXAGON_LOG") : ""};
  {
    const std::lock_guard lock(s.mutex);
    if (session < 0 || session > s.reserved) {
      s.error = "session " + std::to_string(session) + " was never reserved";
      return AEE_EBADPARM;
    }
    space = s.space;
    if (const int refused = s.status("open"); refused != AEE_SUCCESS) {
      s.error = "refused on purpose";
      return refused;
    }
    paths.vote_status = s.status("votes");
    paths.hardware = static_cast<uint32_t>(s.value("hardware", 0));
    paths.scatter = static_cast<uint32_t>(s.value("scatter", 0));
    paths.vtcm = static_cast<uint32_t>(s.value("vtcm", 0));
    const auto lives =
        std::ranges::count_if(s.sessions, [](const auto& other) { return other.second.process->alive(); });
    if (lives >= s.value("grants", 1000)) paths.vtcm = 0;
    paths.unit_status = s.status("unit");
    for (const auto& [key, fault] :
         {std::pair{"lies", HMX_LIES}, {"swaps", HMX_SWAPS}, {"drifts", HMX_DRIFTS}, {"hangs", HMX_HANGS}})
      if (s.phone.contains(key)) paths.unit_fault = fault, paths.unit_period = static_cast<uint32_t>(s.value(key, 1));
    paths.lacks = (s.value("mmap2", 1) == 0 ? 1u * RING_LACKS_MMAP2 : 0u) |
                  (paths.vote_status == -1 ? 1u * RING_LACKS_VOTES : 0u) |
                  (s.value("locks", 1) == 0 ? 1u * RING_LACKS_UNIT : 0u);
    const auto found = s.sessions.find(domain);
    if (found != s.sessions.end() && found->second.process->alive()) {
      s.error = "the stand-in takes one module per session";
      return AEE_EUNSUPPORTED;
    }
  }
  if (paths.emulator.empty()) return fail(AEE_EUNABLETOLOAD, "qemu-hexagon is not installed");
  const std::string program = module.substr(0, module.rfind(".so")) + ".emulated";
  paths.program = find_module(program);
  if (paths.program.empty())
    return fail(AEE_ENOSUCHMOD, program + " is neither in ADSP_LIBRARY_PATH nor beside the stand-in");
  std::shared_ptr<DspProcess> process = DspProcess::start(paths, space, why);
  if (process == nullptr) return fail(AEE_ECONNRESET, why);
  // As the shell of a real DSP: the interface's own open method, number 0: name length, name -> handle.
  uint32_t length = static_cast<uint32_t>(module.size()) + 1;
  remote_arg arguments[3] = {};
  arguments[0].buf = {&length, sizeof length};
  arguments[1].buf = {module.data(), length};
  const int opened = process->invoke(0, REMOTE_SCALARS_MAKEX(0, 0, 2, 0, 0, 1), arguments);
  if (opened != AEE_SUCCESS) return fail(opened, module + ": its open method failed");
  const std::lock_guard lock(s.mutex);
  s.sessions[domain] = {std::move(process), arguments[2].h64, {}};
  *handle = kHandleMark | static_cast<uint64_t>(domain);
  return AEE_SUCCESS;
}

}  // namespace
}  // namespace llada::standin

using namespace llada::standin;

EXPORT const char* llada_standin_error() {
  static thread_local std::string copy;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  copy = s.error;
  return copy.c_str();
}

EXPORT int llada_standin_space(uint32_t bytes) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.space = bytes / kGuestPage * kGuestPage;
  return AEE_SUCCESS;
}

EXPORT int llada_standin_fault(const char* text) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  set_fault(s, text);
  return AEE_SUCCESS;
}

EXPORT int llada_standin_phone(const char* text) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  set_phone(s, text);
  return AEE_SUCCESS;
}

EXPORT int llada_standin_poison(int byte) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.poison = byte;
  return AEE_SUCCESS;
}

EXPORT void* rpcmem_alloc(int, uint32_t, int size) {
  if (size <= 0) return nullptr;
  State& s = state();
  std::unique_lock lock(s.mutex);
  if (s.fault.kind == "hang-alloc") hang(s, lock, "alloc");
  if (size > s.value("alloc", size)) return nullptr;
  const auto coherent = static_cast<Coherent>(s.value("coherent", kBoth));
  return s.buffers.allocate((static_cast<size_t>(size) + kGuestPage - 1) / kGuestPage * kGuestPage, coherent, s.poison);
}

EXPORT void rpcmem_free(void* data) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (const auto& [domain, session] : s.sessions) session.process->forget_buffer(s.buffers.descriptor(data));
  s.buffers.free(data);
}

EXPORT int rpcmem_to_fd(void* data) { return state().buffers.descriptor(data); }

// As Linux's DMA_BUF_IOCTL_SYNC for its buffers: 0 at the end of writing, 1 at the beginning of reading.
EXPORT int llada_standin_sync(int fd, int take) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.value("sync", 1) != 0 ? s.buffers.sync(fd, take != 0) : 0;
}

// The driver's share of a delayed mapping: from now on the DSP may map this descriptor; addresses are given when it
// does.
EXPORT int fastrpc_mmap(int domain, int fd, void*, int offset, size_t length, int flags) {
  if (offset != 0 || flags != FASTRPC_MAP_FD_DELAYED) return AEE_EUNSUPPORTED;
  State& s = state();
  std::unique_lock lock(s.mutex);
  if (hang(s, lock, "map")) return AEE_EFAILED;
  const auto found = s.sessions.find(domain);
  if (found == s.sessions.end()) return AEE_ENOSUCH;
  if (!found->second.process->alive()) return AEE_ECONNRESET;
  if (s.fault.kind == "map" && s.maps++ >= s.fault.at) {
    s.error = "a mapping was refused on purpose";
    return AEE_ENOMEMORY;
  }
  size_t mapped = length;
  for (const auto& [other, bytes] : found->second.mapped) mapped += bytes;
  if (static_cast<int64_t>(mapped) > s.value("space", INT64_MAX)) return AEE_ENOMEMORY;
  if (!found->second.mapped.emplace(fd, length).second) return AEE_EMAPALREADYPRESENT;
  if (const auto buffer = s.buffers.cached(fd)) found->second.process->add_buffer(*buffer);
  const int64_t us = s.value("map_us", 0) + s.value("map_us_mb", 0) * static_cast<int64_t>(length) / 1000000;
  lock.unlock();
  if (us > 0) ::usleep(static_cast<useconds_t>(us));
  return AEE_SUCCESS;
}

EXPORT int fastrpc_munmap(int domain, int fd, void*, size_t length) {
  State& s = state();
  std::unique_lock lock(s.mutex);
  if (hang(s, lock, "unmap")) return AEE_EFAILED;
  const auto found = s.sessions.find(domain);
  if (found == s.sessions.end()) return AEE_ENOSUCH;
  const auto entry = found->second.mapped.find(fd);
  if (entry == found->second.mapped.end() || entry->second != length) return AEE_ENOSUCHMAP;
  found->second.mapped.erase(entry);
  found->second.process->forget_buffer(fd);
  return AEE_SUCCESS;
}

EXPORT int remote_handle64_open(const char* uri, remote_handle64* handle) { return open_session(uri, handle); }

EXPORT int remote_handle64_invoke(remote_handle64 handle, uint32_t scalars, remote_arg* arguments) {
  if ((handle & kHandleMark) != kHandleMark) return AEE_EINVHANDLE;
  State& s = state();
  std::shared_ptr<DspProcess> process;
  uint64_t module = 0;
  Fault fault;
  const bool is_run = REMOTE_SCALARS_METHOD(scalars) == WIRE_RUN && REMOTE_SCALARS_INBUFS(scalars) == 1;
  int64_t us = 0, lost = -1, slow = 1;
  {
    const std::lock_guard lock(s.mutex);
    const auto found = s.sessions.find(static_cast<int>(handle & ~kHandleMark));
    if (found == s.sessions.end()) return AEE_EINVHANDLE;
    process = found->second.process;
    module = found->second.module;
    if (s.fault.at >= 0 && s.fault.kind != "map" && s.invokes++ == s.fault.at) fault = s.fault;
    if (fault.kind == "hang-all") fault.kind = "hang";
    if (is_run) us = s.value("batch_us", 0), lost = s.value("lost", -1);
    slow = s.value("slow", 1);
  }
  if (fault.kind == "error") return AEE_EFAILED;
  std::function<void()> after;
  if (fault.kind == "kill")
    after = [&] {
      ::usleep(static_cast<useconds_t>(fault.delay_us));
      process->kill();
    };
  if (fault.kind == "die") {
    process->kill();
    while (process->alive()) ::usleep(100);
  }
  if (fault.kind == "hang") process->freeze();
  if (lost >= 0) lose_range(arguments[0].buf, lost);
  if (fault.kind == "spoil" && is_run) static_cast<WireBatch*>(arguments[0].buf.pv)->magic = 0;
  if (us > 0) ::usleep(static_cast<useconds_t>(us));  // until the DSP hears of it
  const auto begin = std::chrono::steady_clock::now();
  const int status = process->invoke(module, scalars, arguments, after);
  us = (slow - 1) * std::chrono::ceil<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count();
  if (us > 0) ::usleep(static_cast<useconds_t>(us));
  if (fault.kind == "garbage" && status == AEE_SUCCESS) {
    const uint32_t in = REMOTE_SCALARS_INBUFS(scalars), out = REMOTE_SCALARS_OUTBUFS(scalars);
    uint32_t noise = 0x9e3779b9u;
    for (uint32_t i = in; i < in + out; ++i)
      for (size_t b = 0; b < arguments[i].buf.nLen; ++b) {
        noise ^= noise << 13, noise ^= noise >> 17, noise ^= noise << 5;
        static_cast<uint8_t*>(arguments[i].buf.pv)[b] = static_cast<uint8_t>(noise);
      }
  }
  return status;
}

EXPORT int remote_handle64_close(remote_handle64 handle) {
  if ((handle & kHandleMark) != kHandleMark) return AEE_EINVHANDLE;
  State& s = state();
  Session session;
  {
    const std::lock_guard lock(s.mutex);
    const auto found = s.sessions.find(static_cast<int>(handle & ~kHandleMark));
    if (found == s.sessions.end()) return AEE_EINVHANDLE;
    session = std::move(found->second);
    s.sessions.erase(found);
  }
  // Method 1: close. A dead process has nothing to close.
  remote_arg argument{};
  argument.h64 = session.module;
  return session.process->alive()
             ? session.process->invoke(session.module, REMOTE_SCALARS_MAKEX(0, 1, 0, 0, 1, 0), &argument)
             : AEE_SUCCESS;
}

#ifndef LLADA_STANDIN_OLD  // libraries of old phones have neither
EXPORT int remote_handle64_control(remote_handle64 handle, uint32_t request, void*, uint32_t length) {
  if ((handle & kHandleMark) != kHandleMark) return AEE_EINVHANDLE;
  if (request != DSPRPC_CONTROL_LATENCY || length != sizeof(remote_rpc_control_latency)) return AEE_EUNSUPPORTED;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.status("latency");
}

EXPORT int remote_handle_control(uint32_t request, void* data, uint32_t length) {
  if (request != DSPRPC_GET_DSP_INFO || length < sizeof(remote_dsp_capability)) return AEE_EUNSUPPORTED;
  auto* asked = static_cast<remote_dsp_capability*>(data);
  switch (asked->attribute_ID) {
    case DSP_UNSIGNED_PD_SUPPORT:
      asked->capability = 1;
      return AEE_SUCCESS;
    case DSP_ARCH_VER: {
      State& s = state();
      const std::lock_guard lock(s.mutex);
      asked->capability = static_cast<uint32_t>(s.value("arch", 0x67));
      return asked->capability != 0 ? AEE_SUCCESS : AEE_EUNSUPPORTED;
    }
    default:
      return AEE_EUNSUPPORTED;
  }
}
#endif

EXPORT int remote_session_control(uint32_t request, void* data, uint32_t) {
  State& s = state();
  if (std::unique_lock lock(s.mutex); hang(s, lock, "control") && request != FASTRPC_REMOTE_PROCESS_KILL)
    return AEE_EFAILED;
  switch (request) {
    case FASTRPC_THREAD_PARAMS:
      return AEE_SUCCESS;
    case DSPRPC_CONTROL_UNSIGNED_MODULE: {
      const std::lock_guard lock(s.mutex);
      return s.status("unsigned");
    }
    case FASTRPC_REMOTE_PROCESS_KILL: {
      const auto process = process_of(static_cast<remote_rpc_process_clean_params*>(data)->domain);
      if (process == nullptr) return AEE_ENOSUCH;
      process->kill();
      for (int i = 0; i < 20000 && process->alive(); ++i) ::usleep(100);
      return AEE_SUCCESS;
    }
    case FASTRPC_RESERVE_NEW_SESSION: {
      auto* asked = static_cast<remote_rpc_reserve_new_session*>(data);
      const std::lock_guard lock(s.mutex);
      if (const int refused = s.status("reserve"); refused != AEE_SUCCESS) return refused;
      if (s.reserved + 1 >= kMostSessions) return AEE_ENOMEMORY;
      asked->session_id = static_cast<uint32_t>(++s.reserved);
      asked->effective_domain_id = static_cast<uint32_t>(domain_of(s.reserved));
      return AEE_SUCCESS;
    }
    case FASTRPC_GET_URI: {
      auto* asked = static_cast<remote_rpc_get_uri*>(data);
      {
        const std::lock_guard lock(s.mutex);
        if (const int refused = s.status("uri"); refused != AEE_SUCCESS) return refused;
      }
      const std::string uri = std::string(asked->module_uri, asked->module_uri_len) + "&_dom=cdsp" +
                              "&_session=" + std::to_string(asked->session_id);
      if (uri.size() + 1 > asked->uri_len) return AEE_EBADPARM;
      std::memcpy(asked->uri, uri.c_str(), uri.size() + 1);
      return AEE_SUCCESS;
    }
    default:
      return AEE_EUNSUPPORTED;
  }
}
