#include "hexagon_dsp/dsp_process.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

extern char** environ;

namespace llada::hexagon {
namespace {

constexpr int64_t kGuestPage = 64 << 10;
constexpr uint32_t kNobodyAnswered = 0xdead;

void wake(uint32_t* word) { syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0); }
void wait(uint32_t* word, uint32_t seen) {
  const timespec patience{0, 50'000'000};
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &patience, nullptr, 0);
}

std::string qemu() {
  const char* other = std::getenv("LLADA_HEXAGON_QEMU");
  return other != nullptr ? other : LLADA_QEMU_HEXAGON;
}

uint32_t scalars(uint32_t method, uint32_t in, uint32_t out, uint32_t in_handles, uint32_t out_handles) {
  return method << 24 | in << 16 | out << 8 | in_handles << 4 | out_handles;
}

}  // namespace

SharedBuffer::SharedBuffer(int64_t bytes) : bytes_((bytes + kGuestPage - 1) / kGuestPage * kGuestPage) {
  fd_ = memfd_create("hexagon-test", MFD_CLOEXEC);
  void* data = MAP_FAILED;
  if (fd_ >= 0 && ftruncate(fd_, bytes_) == 0)
    data = mmap(nullptr, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (data == MAP_FAILED) throw std::runtime_error("no shared memory");
  data_ = static_cast<std::byte*>(data);
}

SharedBuffer::~SharedBuffer() {
  munmap(data_, static_cast<size_t>(bytes_));
  close(fd_);
}

std::string DspProcess::missing() {
  if (std::string(LLADA_DSP_PROGRAM).empty()) return "the DSP program was not built: clang 19 or lld 19 is missing";
  const std::string emulator = qemu();
  if (emulator.empty()) return "qemu-hexagon is not installed";
  return ::access(emulator.c_str(), X_OK) == 0 ? "" : emulator + " is not installed";
}

DspProcess::DspProcess(uint64_t window, uint32_t vtcm) : control_(RING_BYTES) {
  ring().magic = RING_MAGIC;
  ring().version = RING_VERSION;
  ring().vtcm = vtcm;
  std::vector<std::string> words = {qemu()};
  if (window != 0) words.insert(words.end(), {"-R", std::to_string(window)});
  // Another build of the program, e.g. of another architecture (docs/lab/hexagon-dsp.md).
  const char* other = std::getenv("LLADA_DSP_PROGRAM");
  words.insert(words.end(),
               {other != nullptr ? other : LLADA_DSP_PROGRAM, std::to_string(getpid()), std::to_string(control_.fd())});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = -1;
  if (posix_spawn(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0) return;
  child_ = child;
  for (int i = 0; i < 200 && __atomic_load_n(&ring().ready, __ATOMIC_SEQ_CST) == 0; ++i) {
    wait(&ring().ready, 0);
    if (waitpid(child_, nullptr, WNOHANG) != 0) {
      child_ = -1;
      return;
    }
  }
  char uri[] = "test";
  uint32_t length = sizeof uri;
  uint64_t handle = 0;
  if (invoke(0, scalars(WIRE_OPEN, 2, 0, 0, 1), {{&length, 4}, {uri, length}}, &handle) == 0) session_ = handle;
}

DspProcess::~DspProcess() {
  if (child_ <= 0) return;
  ring().scalars = RING_LEAVE;
  __atomic_add_fetch(&ring().request, 1u, __ATOMIC_SEQ_CST);
  wake(&ring().request);
  for (int i = 0; i < 400; ++i) {
    if (waitpid(child_, nullptr, WNOHANG) != 0) return;
    usleep(5000);
  }
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
}

int DspProcess::invoke(uint64_t handle, uint32_t sc, const std::vector<std::pair<void*, uint32_t>>& arguments,
                       uint64_t* handle_out, uint32_t channel) {
  if (child_ <= 0) return static_cast<int>(kNobodyAnswered);
  Ring& r = ring(channel);
  r.scalars = sc;
  r.handle = handle;
  const size_t in = sc >> 16 & 0xff;
  const auto each = [&](auto body) {
    int64_t at = RING_DATA;
    for (size_t i = 0; i < arguments.size(); ++i) {
      body(i, control_.data() + RING_CHANNEL_AT(channel) + at);
      at += (int64_t{arguments[i].second} + 127) / 128 * 128;
    }
  };
  each([&](size_t i, std::byte* at) {
    r.bytes[i] = arguments[i].second;
    if (i < in) std::memcpy(at, arguments[i].first, arguments[i].second);
  });
  const uint32_t request = __atomic_add_fetch(&r.request, 1u, __ATOMIC_SEQ_CST);
  wake(&r.request);
  for (;;) {
    const uint32_t reply = __atomic_load_n(&r.reply, __ATOMIC_SEQ_CST);
    if (reply == request) break;
    wait(&r.reply, reply);
    if (waitpid(child_, nullptr, WNOHANG) != 0) {
      child_ = -1;
      return static_cast<int>(kNobodyAnswered);
    }
  }
  each([&](size_t i, std::byte* at) {
    if (i >= in) std::memcpy(arguments[i].first, at, arguments[i].second);
  });
  if (handle_out != nullptr) *handle_out = r.handle;
  return r.result;
}

WireInfo DspProcess::query() {
  WireInfo info{};
  if (invoke(session_, scalars(WIRE_QUERY, 0, 1, 0, 0), {{&info, sizeof info}}) != 0) info = {};
  return info;
}

WireReply DspProcess::call(uint32_t method, const void* in, uint32_t bytes, uint32_t channel) {
  WireReply reply{};
  const int result =
      invoke(session_, scalars(method, 1, 1, 0, 0),
             {{const_cast<void*>(in), bytes}, {&reply, static_cast<uint32_t>(sizeof reply)}}, nullptr, channel);
  if (result != 0 || reply.magic != WIRE_MAGIC) {
    reply.status = kNobodyAnswered;
    reply.detail = static_cast<uint32_t>(result);
  }
  return reply;
}

WireReply DspProcess::map(uint32_t buffer, const SharedBuffer& memory, uint32_t bytes, uint32_t flags) {
  const WireMap request = {
      WIRE_MAGIC, WIRE_VERSION, buffer, memory.fd(), bytes != 0 ? bytes : static_cast<uint32_t>(memory.bytes()), flags};
  return call(WIRE_MAP, &request, sizeof request);
}

WireReply DspProcess::unmap(uint32_t buffer) {
  const WireMap request = {WIRE_MAGIC, WIRE_VERSION, buffer, 0, 0, 0};
  return call(WIRE_UNMAP, &request, sizeof request);
}

WireReply DspProcess::vote(uint32_t flags) {
  const WireMap request = {WIRE_MAGIC, WIRE_VERSION, 0, -1, 0, flags};
  return call(WIRE_VOTE, &request, sizeof request);
}

WireReply DspProcess::run(const void* batch, uint32_t bytes, uint32_t channel) {
  return call(WIRE_RUN, batch, bytes, channel);
}

}  // namespace llada::hexagon
