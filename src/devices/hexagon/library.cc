#include "devices/hexagon/library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <system_error>
#include <thread>

#include "base/pages.h"
#include "devices/hexagon/session.h"
#include "devices/hexagon/wire.h"

namespace llada::hexagon {
namespace {

constexpr std::string_view kModule = "file:///lib" WIRE_SKEL "_skel.so?" WIRE_SKEL "_skel_handle_invoke&_modver=1.0";

std::string beside_program() {
  char path[4096];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  const std::string program(path, n > 0 ? static_cast<size_t>(n) : 0);
  return program.substr(0, program.rfind('/') + 1) + "hexagon/libcdsprpc.so";
}

// Sessions belong to the process, so all devices of it must ask the same object.
struct Loaded {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Library>> list;
};
Loaded& loaded() {
  static Loaded list;
  return list;
}

}  // namespace

struct Guarded::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<int> result;
};

Guarded::Guarded(std::function<int()> function) : state_(std::make_shared<State>()) {
  try {
    std::thread([state = state_, function = std::move(function)] {
      const int result = function();
      const std::lock_guard lock(state->mutex);
      state->result = result;
      state->changed.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    state_->result = AEE_ENOMEMORY;  // no thread, so no call
  }
}

std::optional<int> Guarded::wait(double seconds) const {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return state_->result.has_value(); });
  return state_->result;
}

std::string aee_name(int code) {
  // Codes that come from the DSP itself are offset.
  constexpr unsigned kOffset = 0x80000400u;
  const auto bits = static_cast<unsigned>(code);
  const int plain = bits >= kOffset && bits - kOffset < 0x400 ? static_cast<int>(bits - kOffset) : code;
  const char* name = nullptr;
  switch (plain) {
    case AEE_EFAILED:
      name = "failed";
      break;
    case AEE_ENOMEMORY:
      name = "out of memory";
      break;
    case AEE_EUNABLETOLOAD:
      name = "unable to load";
      break;
    case AEE_EBADPARM:
      name = "bad parameter";
      break;
    case AEE_EUNSUPPORTED:
      name = "unsupported";
      break;
    case AEE_ENOSUCH:
      name = "no such session";
      break;
    case AEE_EINVHANDLE:
      name = "invalid handle";
      break;
    case AEE_ENOSUCHMOD:
      name = "no such module";
      break;
    case AEE_ENOSUCHSYMBOL:
      name = "no such symbol";
      break;
    case AEE_ENOSUCHMAP:
      name = "no such mapping";
      break;
    case AEE_ECONNRESET:
      name = "connection reset";
      break;
    case AEE_EMAPALREADYPRESENT:
      name = "mapped already";
      break;
    default:
      break;
  }
  return name != nullptr ? fmt::format("{} ({})", name, code) : fmt::format("error {}", code);
}

Result<std::shared_ptr<Library>> Library::open(const std::string& path) {
  std::vector<std::string> candidates{path};
  if (path.empty()) candidates = {"libcdsprpc.so", beside_program()};
  Loaded& all = loaded();
  const std::lock_guard lock(all.mutex);
  std::string why;
  for (const std::string& candidate : candidates) {
    if (auto known = all.list[candidate].lock()) return known;
    std::shared_ptr<Library> library(new Library);
    if (const Status status = library->load(candidate); !status) {
      why += (why.empty() ? "" : "; ") + status.error().message;
      continue;
    }
    all.list[candidate] = library;
    return library;
  }
  return failed("hexagon: {}", why);
}

Status Library::load(const std::string& path) {
  path_ = path;
  handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    // "FILE: what is wrong", by the system; one line.
    std::string text = ::dlerror();
    std::ranges::replace(text, '\n', ' ');
    return failed("{}", text);
  }
  const char* missing = nullptr;
  const auto find = [&]<class F>(F*& function, const char* name) {
    function = reinterpret_cast<F*>(::dlsym(handle_, name));
    if (function == nullptr) missing = name;
  };
  find(rpcmem_alloc, "rpcmem_alloc");
  find(rpcmem_free, "rpcmem_free");
  find(rpcmem_to_fd, "rpcmem_to_fd");
  find(fastrpc_mmap, "fastrpc_mmap");
  find(fastrpc_munmap, "fastrpc_munmap");
  find(open_handle, "remote_handle64_open");
  find(invoke, "remote_handle64_invoke");
  find(close_handle, "remote_handle64_close");
  find(session_control, "remote_session_control");
  if (missing != nullptr) return failed("{}: it has no function {}", path, missing);
  standin_error_ = reinterpret_cast<const char* (*)()>(::dlsym(handle_, "llada_standin_error"));
  standin_space_ = reinterpret_cast<int (*)(uint32_t)>(::dlsym(handle_, "llada_standin_space"));
  return {};
}

// Never unloaded: a call that hangs in it may still return one day.
Library::~Library() = default;

std::string Library::reason() const {
  const std::string text = standin_error_ != nullptr ? standin_error_() : "";
  return text.empty() ? "" : ": " + text;
}

void Library::choose_space(int64_t bytes) const {
  if (standin_space_ != nullptr) standin_space_(static_cast<uint32_t>(std::min<int64_t>(bytes, UINT32_MAX)));
}

Result<int> Library::control(uint32_t request, std::shared_ptr<void> data, uint32_t bytes, double deadline_s) const {
  const Guarded call([function = session_control, request, data = std::move(data), bytes] {
    return function(request, data.get(), bytes);
  });
  if (const auto status = call.wait(deadline_s)) return *status;
  return failed("hexagon: asking the driver for a session: no answer within {:.3g} s", deadline_s);
}

Result<Library::Place> Library::take_session(double deadline_s) {
  const std::lock_guard lock(sessions_mutex_);
  if (!free_.empty()) {
    Place place = std::move(free_.back());
    free_.pop_back();
    return place;
  }
  // Without it only modules signed by the phone's maker are loaded; whether it could be had shows when one is opened.
  const auto allow_unsigned = [&](int domain) -> Status {
    const auto wanted = std::make_shared<remote_rpc_control_unsigned_module>(domain, 1);
    LLADA_TRY_STATUS(control(DSPRPC_CONTROL_UNSIGNED_MODULE, wanted, sizeof *wanted, deadline_s));
    return {};
  };
  if (!default_taken_) {
    // One that did not answer once is not asked again.
    default_taken_ = true;
    LLADA_TRY_STATUS(allow_unsigned(CDSP_DOMAIN_ID));
    return Place{CDSP_DOMAIN_ID, std::string(kModule) + "&_dom=cdsp"};
  }
  struct Asked {
    char domain[5] = "cdsp", name[6] = "llada", uri[256] = {};
    std::string module{kModule};
    remote_rpc_reserve_new_session session{domain, 4, name, 5, 0, 0};
    remote_rpc_get_uri get{domain, 4, 0, module.data(), static_cast<uint32_t>(module.size()), uri, sizeof uri};
  };
  const auto asked = std::make_shared<Asked>();
  const auto part = [&](auto& field) { return std::shared_ptr<void>(asked, &field); };
  LLADA_TRY(const int reserved,
            control(FASTRPC_RESERVE_NEW_SESSION, part(asked->session), sizeof asked->session, deadline_s));
  if (reserved != AEE_SUCCESS) return failed("hexagon: no further session on the DSP: {}", aee_name(reserved));
  asked->get.session_id = asked->session.session_id;
  LLADA_TRY(const int named, control(FASTRPC_GET_URI, part(asked->get), sizeof asked->get, deadline_s));
  if (named != AEE_SUCCESS)
    return failed("hexagon: no address for session {}: {}", asked->session.session_id, aee_name(named));
  const auto id = static_cast<int>(asked->session.effective_domain_id);
  LLADA_TRY_STATUS(allow_unsigned(id));
  return Place{id, asked->uri};
}

void Library::give_back(const Place& place) {
  const std::lock_guard lock(sessions_mutex_);
  free_.push_back(place);
}

std::shared_ptr<Buffer> Library::find(const std::byte* data) const {
  const std::lock_guard lock(mutex_);
  const auto found = buffers_.find(data);
  return found == buffers_.end() ? nullptr : found->second.lock();
}

std::shared_ptr<Buffer> Buffer::allocate(std::shared_ptr<Library> library, int64_t bytes, double deadline_s) {
  const int64_t rounded = (std::max<int64_t>(bytes, 1) + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (rounded >= kBufferLimit) return nullptr;
  if (library == nullptr) {
    std::shared_ptr<Buffer> buffer(new Buffer);
    buffer->own_ = allocate_shared(rounded);
    if (buffer->own_ == nullptr) return nullptr;
    buffer->data_ = buffer->own_.get();
    buffer->bytes_ = rounded;
    return buffer;
  }
  // The driver may not answer; memory that it gives too late goes back.
  struct Asked {
    std::mutex mutex;
    void* data = nullptr;
    bool late = false;
  };
  const auto asked = std::make_shared<Asked>();
  const Guarded call([asked, library, rounded] {
    void* const given = library->rpcmem_alloc(RPCMEM_HEAP_ID_SYSTEM, RPCMEM_DEFAULT_FLAGS, static_cast<int>(rounded));
    const std::lock_guard lock(asked->mutex);
    asked->data = given;
    if (asked->late && given != nullptr) library->rpcmem_free(given);
    return 0;
  });
  static_cast<void>(call.wait(deadline_s));
  void* data = nullptr;
  {
    const std::lock_guard lock(asked->mutex);
    data = asked->data;
    asked->late = data == nullptr;
  }
  if (data == nullptr) return nullptr;
  std::shared_ptr<Buffer> buffer(new Buffer);
  buffer->fd_ = library->rpcmem_to_fd(data);
  buffer->data_ = static_cast<std::byte*>(data);
  buffer->bytes_ = rounded;
  buffer->library_ = std::move(library);
  if (buffer->fd_ < 0) return nullptr;
  llada::forget(buffer->data_, rounded);
  const std::lock_guard lock(buffer->library_->mutex_);
  buffer->library_->buffers_[buffer->data_] = buffer;
  return buffer;
}

void Buffer::remember(std::weak_ptr<Session> session) {
  const std::lock_guard lock(mutex_);
  mapped_in_.push_back(std::move(session));
}
void Buffer::forget(const Session* session) {
  const std::lock_guard lock(mutex_);
  std::erase_if(mapped_in_, [&](const std::weak_ptr<Session>& s) {
    const auto alive = s.lock();
    return alive == nullptr || alive.get() == session;
  });
}

Buffer::~Buffer() {
  for (const auto& session : std::exchange(mapped_in_, {}))
    // A session that cannot unmap is dead, and then nothing is mapped.
    if (const auto alive = session.lock()) static_cast<void>(alive->unmap(*this));
  if (library_ == nullptr || data_ == nullptr) return;
  {
    const std::lock_guard lock(library_->mutex_);
    library_->buffers_.erase(data_);
  }
  library_->rpcmem_free(data_);
}

}  // namespace llada::hexagon
