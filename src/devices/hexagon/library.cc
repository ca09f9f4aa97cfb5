#include "devices/hexagon/library.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <system_error>
#include <thread>

#include "base/os.h"
#include "base/pages.h"
#include "base/system.h"
#include "devices/hexagon/session.h"
#include "devices/hexagon/wire.h"

namespace llada::hexagon {
namespace {

constexpr std::string_view kModuleHead = "lib" WIRE_SKEL "_skel", kModuleEnd = ".so";
constexpr uint32_t kArchitectures[] = {81, 79, 75, 73, 68};  // of which there are modules, newest first
constexpr std::string_view kVariants[] = {"", "_aligned", "_sdk"};
constexpr int kServingStack = 128 << 10;  // bytes, of the DSP's threads that serve calls

// Where this program's files are: of an app, whose program is the system's, where the library that holds this code is.
std::string own_folder() {
  const std::string file = os::file_of_code(reinterpret_cast<const void*>(&aee_name));
  return file.contains(".so") ? file.substr(0, file.rfind('/') + 1) : program_folder() + '/';
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

struct TimedCall::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<int> result;
};

TimedCall::TimedCall(std::function<int()> function) : state_(std::make_shared<State>()) {
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

std::optional<int> TimedCall::wait(double seconds) const {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return state_->result.has_value(); });
  return state_->result;
}

namespace {

// Codes that come from the DSP itself are offset.
bool from_dsp(int code) {
  const auto bits = static_cast<unsigned>(code);
  return bits >= 0x80000400u && bits - 0x80000400u < 0x400;
}
int plain_code(int code) { return from_dsp(code) ? static_cast<int>(static_cast<unsigned>(code) - 0x80000400u) : code; }

struct KnownCode {
  int code;
  const char *name, *advice;
};
constexpr KnownCode kCodes[] = {
    {AEE_EFAILED, "failed", "this user may not open the DSP's device: run from adb shell or Termux, or as root"},
    {AEE_ENOMEMORY, "out of memory", "the DSP or the phone is full: end other programs that use the DSP"},
    {AEE_EUNABLETOLOAD, "unable to load",
     "the DSP's loader refused every variant of the module: send the output of 'adb logcat -d -s adsprpc'"},
    {AEE_EBADPARM, "bad parameter", "another module answered: take the module of this build"},
    {AEE_EUNSUPPORTED, "unsupported",
     "the driver does not allow it here: run from adb shell, or name the library in the app's manifest"},
    {AEE_ENOSUCH, "no such session",
     "the driver knows no DSP of this kind: run 'adb shell ls /dev' and look for fastrpc"},
    {AEE_EINVHANDLE, "invalid handle", "the session ended meanwhile: start again"},
    {AEE_ENOSUCHMOD, "no such module", "the module is not where the DSP looks: put it into ADSP_LIBRARY_PATH"},
    {AEE_ENOSUCHSYMBOL, "no such symbol", "take the module of this build"},
    {AEE_ENOSUCHMAP, "no such mapping", "the driver lost a mapping: start again"},
    {AEE_EMAPALREADYPRESENT, "mapped already", "another program holds the buffer: start again"},
    {AEE_ECONNRESET, "connection reset",
     "the DSP's process ended while it loaded the module: send the output of 'adb logcat -d -s adsprpc'"},
};
const KnownCode* known_code(int code) {
  const auto* const found = std::ranges::find(kCodes, plain_code(code), &KnownCode::code);
  return found == std::end(kCodes) ? nullptr : found;
}

}  // namespace

std::string aee_name(int code) {
  const std::string number =
      from_dsp(code) ? fmt::format("{:#x}", static_cast<unsigned>(code)) : fmt::format("{}", code);
  const KnownCode* const known = known_code(code);
  return known != nullptr ? fmt::format("{} ({})", known->name, number) : fmt::format("error {}", number);
}

std::string advice(int code) {
  if (from_dsp(code) && plain_code(code) == AEE_EUNABLETOLOAD)
    return "this program has a signed process on the DSP already, or the DSP's loader refused the module; end "
           "all programs that use the DSP, and send the output of 'adb logcat -d -s adsprpc'";
  const KnownCode* const known = known_code(code);
  return known != nullptr ? known->advice
                          : "the driver has no name for it: send the output of 'adb logcat -d -s adsprpc'";
}

Result<std::shared_ptr<Library>> Library::open(const std::string& path) {
  std::vector<std::string> candidates{path};
  if (path.empty()) candidates = {"libcdsprpc.so", "libcdsprpc.so.1", own_folder() + "hexagon/libcdsprpc.so"};
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
  return failed(
      "hexagon: no FastRPC library: {}; needed a phone or laptop with a Hexagon DSP, in an app "
      "<uses-native-library android:name=\"libcdsprpc.so\"/> in its manifest, or --device hexagon:library=FILE",
      why);
}

Status Library::load(const std::string& path) {
  path_ = path;
  std::string text;  // "FILE: what is wrong", by the system; one line
  handle_ = os::load_library(path, text);
  if (handle_ == nullptr) {
    std::ranges::replace(text, '\n', ' ');
    return failed("{}", text);
  }
  const char* missing = nullptr;
  const auto find = [&]<class F>(F*& function, const char* name) {
    function = reinterpret_cast<F*>(os::symbol(handle_, name));
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
  handle_control = reinterpret_cast<remote_handle64_control_fn*>(os::symbol(handle_, "remote_handle64_control"));
  ask_dsp_ = reinterpret_cast<remote_handle_control_fn*>(os::symbol(handle_, "remote_handle_control"));
  standin_error_ = reinterpret_cast<const char* (*)()>(os::symbol(handle_, "llada_standin_error"));
  standin_space_ = reinterpret_cast<int (*)(uint32_t)>(os::symbol(handle_, "llada_standin_space"));
  standin_sync_ = reinterpret_cast<int (*)(int, int)>(os::symbol(handle_, "llada_standin_sync"));
  architecture_ = ask_architecture();
  return {};
}

std::optional<uint32_t> Library::ask_architecture() const {
  if (ask_dsp_ == nullptr) return std::nullopt;
  const auto call_data = std::make_shared<remote_dsp_capability>(CDSP_DOMAIN_ID, DSP_ARCH_VER, 0);
  const TimedCall call(
      [function = ask_dsp_, call_data] { return function(DSPRPC_GET_DSP_INFO, call_data.get(), sizeof *call_data); });
  if (call.wait(10) != AEE_SUCCESS) return std::nullopt;
  // Its decimal digits stand in the last byte: 0x73.
  const uint32_t version = call_data->capability & 0xff;
  return (version >> 4) * 10 + (version & 15);
}

std::string Library::search_path() { return os::variable("ADSP_LIBRARY_PATH"); }

std::vector<std::string> Library::modules() const {
  {
    const std::lock_guard lock(mutex_);
    if (!opened_.empty()) return {opened_};
  }
  const auto there = [](const std::string& file) {
    std::string rest = search_path();
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(';'), rest.size());
      if (os::may_read(rest.substr(0, end) + "/" + file)) return true;
      rest.erase(0, end + 1);
    }
    return false;
  };
  std::vector<uint32_t> choices(std::begin(kArchitectures), std::end(kArchitectures));
  if (!architecture_) std::ranges::reverse(choices);  // the oldest runs on every DSP
  std::vector<std::string> found;
  for (const uint32_t arch : choices) {
    if (architecture_ && arch > *architecture_) continue;
    for (const std::string_view variant : kVariants)
      if (std::string file = fmt::format("{}_v{}{}{}", kModuleHead, arch, variant, kModuleEnd); there(file))
        found.push_back(std::move(file));
    if (!found.empty()) return found;
  }
  // One without an architecture in its name: the stand-in's, or the user's.
  return {fmt::format("{}{}", kModuleHead, kModuleEnd)};
}

void Library::opened(const std::string& module) {
  const std::lock_guard lock(mutex_);
  opened_ = module;
}

std::optional<int64_t> Library::known_space() const {
  const std::lock_guard lock(mutex_);
  return known_space_;
}
void Library::learn_space(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  known_space_ = bytes;
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

void Library::sync(int fd, CacheSync direction) const {
  if (standin_sync_ != nullptr)
    standin_sync_(fd, direction == CacheSync::take ? 1 : 0);
  else
    sync_caches(fd, direction);
}

Result<int> Library::control(uint32_t request, std::shared_ptr<void> data, uint32_t bytes, double deadline_s) const {
  const TimedCall call([function = session_control, request, data = std::move(data), bytes] {
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
  // Without it only modules signed by the phone's maker are loaded. Where it is refused the library may still allow
  // ours, so that is tried; the status is kept for who asks why it was not.
  const auto allow_unsigned = [&](Place place) -> Result<Place> {
    const auto stack = std::make_shared<remote_rpc_thread_params>(place.domain, -1, kServingStack);
    LLADA_TRY_STATUS(control(FASTRPC_THREAD_PARAMS, stack, sizeof *stack, deadline_s));
    const auto wanted = std::make_shared<remote_rpc_control_unsigned_module>(place.domain, 1);
    LLADA_TRY(place.unsigned_status, control(DSPRPC_CONTROL_UNSIGNED_MODULE, wanted, sizeof *wanted, deadline_s));
    return place;
  };
  if (!default_taken_) {
    // One that did not answer once is not asked again.
    default_taken_ = true;
    return allow_unsigned({CDSP_DOMAIN_ID, 0, 0});
  }
  struct Call {
    char domain[5] = "cdsp", name[6] = "llada";
    remote_rpc_reserve_new_session session{domain, 4, name, 5, 0, 0};
  };
  const auto call_data = std::make_shared<Call>();
  LLADA_TRY(const int reserved,
            control(FASTRPC_RESERVE_NEW_SESSION, std::shared_ptr<void>(call_data, &call_data->session),
                    sizeof call_data->session, deadline_s));
  if (reserved != AEE_SUCCESS) return failed("hexagon: no further session on the DSP: {}", aee_name(reserved));
  return allow_unsigned({static_cast<int>(call_data->session.effective_domain_id), call_data->session.session_id, 0});
}

Result<std::string> Library::address(const Place& place, const std::string& module, double deadline_s) const {
  const std::string plain = fmt::format("file:///{}?{}_skel_handle_invoke&_modver=1.0", module, WIRE_SKEL);
  if (place.number == 0) return plain + "&_dom=cdsp";
  struct Call {
    char domain[5] = "cdsp", uri[256] = {};
    std::string module;
    remote_rpc_get_uri get{};
  };
  const auto call_data = std::make_shared<Call>();
  call_data->module = plain;
  call_data->get = {call_data->domain,
                    4,
                    place.number,
                    call_data->module.data(),
                    static_cast<uint32_t>(call_data->module.size()),
                    call_data->uri,
                    sizeof call_data->uri};
  LLADA_TRY(const int named, control(FASTRPC_GET_URI, std::shared_ptr<void>(call_data, &call_data->get),
                                     sizeof call_data->get, deadline_s));
  if (named != AEE_SUCCESS) return failed("hexagon: no address for session {}: {}", place.number, aee_name(named));
  return std::string(call_data->uri);
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
  if (library == nullptr) return over(allocate_shared(rounded), rounded);
  // The driver may not answer; memory that it gives too late goes back.
  struct Call {
    std::mutex mutex;
    void* data = nullptr;
    bool late = false;
  };
  const auto call_data = std::make_shared<Call>();
  const TimedCall call([call_data, library, rounded] {
    void* const given = library->rpcmem_alloc(RPCMEM_HEAP_ID_SYSTEM, RPCMEM_DEFAULT_FLAGS, static_cast<int>(rounded));
    const std::lock_guard lock(call_data->mutex);
    call_data->data = given;
    if (call_data->late && given != nullptr) library->rpcmem_free(given);
    return 0;
  });
  static_cast<void>(call.wait(deadline_s));
  void* data = nullptr;
  {
    const std::lock_guard lock(call_data->mutex);
    data = call_data->data;
    call_data->late = data == nullptr;
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

std::shared_ptr<Buffer> Buffer::over(SharedBytes memory, int64_t bytes) {
  if (memory == nullptr) return nullptr;
  std::shared_ptr<Buffer> buffer(new Buffer);
  buffer->own_ = std::move(memory);
  buffer->data_ = buffer->own_.get();
  buffer->bytes_ = bytes;
  return buffer;
}

void Buffer::give(const std::function<void()>& write) const {
  const std::lock_guard lock(sync_mutex_);
  if (write) write();
  if (library_ != nullptr) library_->sync(fd_, CacheSync::give);
}

void Buffer::take() const {
  const std::lock_guard lock(sync_mutex_);
  if (library_ != nullptr) library_->sync(fd_, CacheSync::take);
}

std::shared_ptr<Session> Buffer::session() {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Session> any;
  for (const auto& entry : mapped_in_)
    if (auto session = entry.lock(); session != nullptr && (any == nullptr || session->alive()))
      any = std::move(session);
  return any;
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
