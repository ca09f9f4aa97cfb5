#include "lab/hexagon/standin/dsp_process.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>

#include "lab/hexagon/standin/buffers.h"

namespace llada::standin {
namespace {

// Shared between processes, so never the private forms.
void futex_wait(uint32_t* word, uint32_t value, long milliseconds) {
  const timespec timeout{milliseconds / 1000, milliseconds % 1000 * 1000000};
  ::syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, nullptr, 0);
}
void futex_wake(uint32_t* word) { ::syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

uint32_t current(const uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }

// Between fork and exec only calls that are safe in a copy of a process with threads.
[[noreturn]] void become_dsp(const char* const* arguments, const char* log, int parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // the keeper, whose child this is, lives as long as the session
  if (::getppid() != parent) ::_exit(127);
  ::setpgid(0, 0);  // a terminal's interrupt is the host's affair
  ::syscall(SYS_close_range, 3U, ~0U, 0U);
  const int null = ::open("/dev/null", O_RDWR);
  const int errors = *log != '\0' ? ::open(log, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
  ::dup2(null, 0), ::dup2(null, 1), ::dup2(errors >= 0 ? errors : null, 2);
  const char* const environment[] = {nullptr};
  ::execve(arguments[0], const_cast<char**>(arguments), const_cast<char**>(environment));
  ::_exit(127);
}

}  // namespace

std::unique_ptr<DspProcess> DspProcess::start(const ProcessPaths& paths, uint32_t space, std::string& why) {
  std::unique_ptr<DspProcess> p(new DspProcess);
  p->ring_fd_ = ::memfd_create("llada-dsp-ring", MFD_CLOEXEC);
  if (p->ring_fd_ < 0 || ::ftruncate(p->ring_fd_, RING_BYTES) != 0) {
    why = "no memory for the ring";
    return nullptr;
  }
  void* at = ::mmap(nullptr, RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, p->ring_fd_, 0);
  if (at == MAP_FAILED) {
    why = "the ring cannot be mapped";
    return nullptr;
  }
  p->file_ = static_cast<uint8_t*>(at);
  Ring& first = p->ring(0);
  first.version = RING_VERSION;
  first.magic = RING_MAGIC;
  first.lacks = paths.lacks;
  first.vote_status = paths.vote_status;
  first.hardware = paths.hardware;
  first.scatter = paths.scatter;
  first.vtcm = paths.vtcm, first.unit_status = paths.unit_status;
  first.unit_fault = paths.unit_fault, first.unit_period = paths.unit_period;

  DspProcess* self = p.get();
  const std::string host = std::to_string(::getpid()), control = std::to_string(p->ring_fd_);
  const std::string space_text = std::to_string(space);
  const auto keep = [self, paths, host, control, space_text] {
    const char* const arguments[] = {paths.emulator.c_str(), "-cpu",       "v67",           "-R",   space_text.c_str(),
                                     paths.program.c_str(),  host.c_str(), control.c_str(), nullptr};
    const int parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) become_dsp(arguments, paths.log.c_str(), parent);
    if (pid > 0) {
      self->pid_ = pid;
      int status = 0;
      // Its number stays taken until the second wait, so that kill() can never meet somebody else's process.
      siginfo_t info{};
      while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
      }
      self->pid_ = 0;
      ::waitpid(pid, &status, 0);
    }
    {
      const std::lock_guard lock(self->mutex_);
      for (RingBuffer* b = self->table(); b < self->table() + RING_TABLE; ++b)
        if (b->fd > 0) write_back(*b);
    }
    self->ended_ = true;
    futex_wake(&self->ring(0).ready);
    for (uint32_t channel = 0; channel < RING_CHANNELS; ++channel) futex_wake(&self->ring(channel).reply);
  };
  try {
    p->keeper_ = std::thread(keep);
  } catch (const std::system_error&) {
    why = "the system gives no thread to keep it";
    return nullptr;
  }
  while (current(first.ready) == 0 && p->alive()) futex_wait(&first.ready, 0, 100);
  if (!p->alive()) {
    why = "'" + paths.emulator + " -R " + space_text + " " + paths.program + "' ended before it served";
    return nullptr;
  }
  return p;
}

DspProcess::~DspProcess() {
  kill();
  if (keeper_.joinable()) keeper_.join();
  if (file_ != nullptr) ::munmap(file_, RING_BYTES);
  if (ring_fd_ >= 0) ::close(ring_fd_);
}

void DspProcess::add_buffer(const RingBuffer& buffer) {
  const std::lock_guard lock(mutex_);
  RingBuffer* entry = table();
  while (entry->fd != 0 && entry < table() + RING_TABLE - 1) ++entry;
  *entry = buffer;
}
void DspProcess::forget_buffer(int fd) {
  const std::lock_guard lock(mutex_);
  for (RingBuffer* b = table(); b < table() + RING_TABLE; ++b)
    if (b->fd == fd) *b = {};
}

// The keeper clears pid_ before it lets go of the number.
void DspProcess::signal(int number) {
  const int pid = pid_.load();
  if (pid > 0) ::kill(pid, number);
}
void DspProcess::kill() { signal(SIGKILL); }

// The signal goes to one thread, and the others run on until that one has taken it, which on a busy machine is long
// enough to answer an invoke. So it waits until all are stopped, or the process has ended.
void DspProcess::freeze() {
  const int pid = pid_.load();
  signal(SIGSTOP);
  siginfo_t info{};
  while (pid > 0 && ::waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WNOWAIT) != 0 && errno == EINTR) {
  }
}

// Short channels first: a large request must not wait for a small one.
bool DspProcess::take_channel(uint64_t bytes, uint32_t& channel) {
  const uint32_t served = std::clamp(ring(0).channels, 1u, RING_CHANNELS);
  const auto holds = [&](uint32_t l) { return RING_DATA + bytes <= RING_CHANNEL_BYTES(l); };
  if (!holds(0)) return false;
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [&] {
    for (channel = served; channel-- > 0;)
      if (!busy_[channel] && holds(channel)) return true;
    return false;
  });
  busy_[channel] = true;
  return true;
}

void DspProcess::give_back(uint32_t channel) {
  const std::lock_guard lock(mutex_);
  busy_[channel] = false;
  freed_.notify_all();
}

int DspProcess::invoke(uint64_t handle, uint32_t scalars, remote_arg* arguments, const std::function<void()>& after) {
  const uint32_t in = REMOTE_SCALARS_INBUFS(scalars), buffers = in + REMOTE_SCALARS_OUTBUFS(scalars),
                 in_handles = (scalars >> 4) & 15, out_handles = scalars & 15;
  if (buffers > RING_ARGUMENTS || in_handles + out_handles > 1) return AEE_EBADPARM;
  std::array<uint64_t, RING_ARGUMENTS> place{};
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < buffers; ++i) {
    if (arguments[i].buf.nLen > RING_BYTES) return AEE_ENOMEMORY;
    place[i] = bytes;
    bytes += (arguments[i].buf.nLen + 127) / 128 * 128;
  }
  uint32_t channel = 0;
  if (!take_channel(bytes, channel)) return AEE_ENOMEMORY;
  Ring& ring = this->ring(channel);
  auto* data = reinterpret_cast<uint8_t*>(&ring) + RING_DATA;
  const auto answered = [&]() -> int {
    if (!alive()) return AEE_ECONNRESET;
    for (uint32_t i = 0; i < buffers; ++i) {
      if (i < in && arguments[i].buf.nLen > 0) std::memcpy(data + place[i], arguments[i].buf.pv, arguments[i].buf.nLen);
      ring.bytes[i] = static_cast<uint32_t>(arguments[i].buf.nLen);
    }
    ring.handle = in_handles == 1 ? arguments[buffers].h64 : handle;
    ring.scalars = scalars;
    const uint32_t number = ring.request + 1;
    __atomic_store_n(&ring.request, number, __ATOMIC_RELEASE);
    futex_wake(&ring.request);
    if (after) after();
    for (uint32_t seen; (seen = current(ring.reply)) != number;) {
      if (!alive()) return AEE_ECONNRESET;
      futex_wait(&ring.reply, seen, 100);  // the keeper's wake may fall between the check and the wait
    }
    const int status = ring.result;
    if (status != AEE_SUCCESS) return status;
    for (uint32_t i = in; i < buffers; ++i)
      if (arguments[i].buf.nLen > 0) std::memcpy(arguments[i].buf.pv, data + place[i], arguments[i].buf.nLen);
    if (out_handles == 1) arguments[buffers].h64 = ring.handle;
    return status;
  };
  const int status = answered();
  give_back(channel);
  return status;
}

}  // namespace llada::standin
