// libcdsprpc, found and loaded at run time: the vendor's on a phone, the stand-in on a PC. Also the modules that it can
// load into a DSP, and the buffers that it allocates. Words: buffer = memory that host and DSP see, named by a file
// descriptor, under 2 GiB. session = a process on the DSP with an address space of its own. module = our code for the
// DSP, a file per architecture and variant (cmake/hexagon.cmake).
#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/pages.h"
#include "base/system.h"
#include "devices/hexagon/cdsprpc_abi.h"

namespace llada::hexagon {

inline constexpr int64_t kBufferLimit = int64_t{1} << 31;  // buffers have fewer bytes, as the DSP's mapping call asks
inline constexpr int64_t kPageBytes = 64 * 1024;           // buffers are whole pages of the emulated process

// "out of memory (2)", "unsupported (0x80000414)"; the number alone where it has no name here.
std::string aee_name(int code);
// The most likely cause of this status of a module that was not opened, and the next step: "CAUSE: STEP".
std::string advice(int code);

class Buffer;

// Runs a library call that may never return on a thread of its own. Where it does not return in time, the thread and
// `function` are abandoned.
class TimedCall {
 public:
  explicit TimedCall(std::function<int()> function);
  // The function's value; nothing where it has not returned within `seconds`.
  std::optional<int> wait(double seconds) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

class Library {
 public:
  // path empty: the system's libcdsprpc.so, that of Linux laptops, else the stand-in in hexagon/ beside the program.
  // One object per file and process, because the sessions of a process are numbered by the library.
  static Result<std::shared_ptr<Library>> open(const std::string& path);
  ~Library();

  const std::string& path() const { return path_; }
  bool stand_in() const { return standin_error_ != nullptr; }
  // ": REASON" where the library gives more than a code, else empty.
  std::string reason() const;
  // Bytes of address space of the sessions opened from now on. A phone's cannot be chosen.
  void choose_space(int64_t bytes) const;

  // 67, 73, ...; nothing where the library does not tell.
  std::optional<uint32_t> architecture() const { return architecture_; }
  // The modules to try, best first: all variants for the DSP's architecture, or for the newest older one with a file.
  // Once a session of this process has opened a module, only that one.
  std::vector<std::string> modules() const;
  void opened(const std::string& module);  // notes it
  // Where modules are looked for, here and by a phone's library: ADSP_LIBRARY_PATH, which a program sets before its
  // threads start.
  static std::string search_path();

  // Bytes of address space that a session has turned out to give; absent: not known.
  std::optional<int64_t> known_space() const;
  void learn_space(int64_t bytes);

  struct Place {
    int domain = 0;
    uint32_t number = 0;      // of a session beside the first
    int unsigned_status = 0;  // the library's answer to the request for unsigned modules
  };
  // Reserves a session. deadline_s: of each driver call that this takes.
  Result<Place> take_session(double deadline_s);
  void give_back(const Place& place);
  // The address of a module in that session.
  Result<std::string> address(const Place& place, const std::string& module, double deadline_s) const;

  void sync(int fd, CacheSync direction) const;  // of a buffer

  // The buffer that begins at `data`, whichever device allocated it; null: none.
  std::shared_ptr<Buffer> find(const std::byte* data) const;

  rpcmem_alloc_fn* rpcmem_alloc = nullptr;
  rpcmem_free_fn* rpcmem_free = nullptr;
  rpcmem_to_fd_fn* rpcmem_to_fd = nullptr;
  fastrpc_mmap_fn* fastrpc_mmap = nullptr;
  fastrpc_munmap_fn* fastrpc_munmap = nullptr;
  remote_handle64_open_fn* open_handle = nullptr;
  remote_handle64_invoke_fn* invoke = nullptr;
  remote_handle64_close_fn* close_handle = nullptr;
  remote_session_control_fn* session_control = nullptr;
  remote_handle64_control_fn* handle_control = nullptr;  // null: an old library

 private:
  Library() = default;
  Status load(const std::string& path);
  std::optional<uint32_t> ask_architecture() const;
  // session_control() in bounded time.
  Result<int> control(uint32_t request, std::shared_ptr<void> data, uint32_t bytes, double deadline_s) const;

  std::string path_;
  void* handle_ = nullptr;
  const char* (*standin_error_)() = nullptr;
  int (*standin_space_)(uint32_t) = nullptr;
  int (*standin_sync_)(int, int) = nullptr;
  friend class Buffer;
  std::optional<uint32_t> architecture_;
  remote_handle_control_fn* ask_dsp_ = nullptr;  // null: an old library
  mutable std::mutex mutex_;                     // guards the members below
  std::string opened_;                           // the module of the sessions so far
  std::optional<int64_t> known_space_;
  std::map<const std::byte*, std::weak_ptr<Buffer>> buffers_;
  std::mutex sessions_mutex_;  // guards the members below; held during the driver's calls
  std::vector<Place> free_;
  bool default_taken_ = false;
};

class Session;

class Buffer {
 public:
  // Zeroed, whole pages. Null when there is no such memory or it would be too large. library null: memory that the host
  // alone sees.
  static std::shared_ptr<Buffer> allocate(std::shared_ptr<Library> library, int64_t bytes, double deadline_s = 10);
  ~Buffer();  // also takes it out of the sessions that have it mapped
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Memory that the host alone sees.
  static std::shared_ptr<Buffer> over(SharedBytes memory, int64_t bytes);

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  int fd() const { return fd_; }

  // Maintain the host's caches where they are not coherent with the DSP. give() calls `write` and flushes all that the
  // host has written; take() invalidates, so that the host reads from memory, and loses writes since the last give().
  void give(const std::function<void()>& write = {}) const;
  void take() const;
  // A session that has it mapped, a live one if possible; null: none.
  std::shared_ptr<Session> session();

 private:
  friend class Session;
  Buffer() = default;
  void remember(std::weak_ptr<Session> session);
  void forget(const Session* session);
  std::shared_ptr<Library> library_;
  SharedBytes own_;  // without a library
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int fd_ = -1;
  mutable std::mutex sync_mutex_;
  std::mutex mutex_;  // guards the members below: several sessions may map it at a time
  std::vector<std::weak_ptr<Session>> mapped_in_;
};

}  // namespace llada::hexagon
