#include "devices/hexagon/session.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <thread>
#include <vector>

#include "base/system.h"

namespace llada::hexagon {
namespace {

constexpr double kSecondsToDie = 5;  // at most, between the kill and the return of the call that hangs

}  // namespace

// A channel's thread that wakes on a slow core hands the DSP's answer on late.
ProcessorMask fast_cores(const Processors& cores) {
  const auto fast = static_cast<size_t>(cores.preferred);
  return fast > 0 && fast < cores.order.size() ? mask_of(std::span(cores.order).first(fast)) : ProcessorMask();
}

// Outlives the session when a call never returns: then the thread is left behind, alone with this.
struct Session::Worker {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<int()> job;
  int result = 0;
  bool busy = false, leave = false;

  static void loop(const std::shared_ptr<Worker>& self) {
    std::unique_lock lock(self->mutex);
    for (;;) {
      self->changed.wait(lock, [&] { return self->leave || self->busy; });
      if (!self->busy) return;
      const std::function<int()> job = std::move(self->job);
      lock.unlock();
      const int result = job();
      lock.lock();
      self->result = result;
      self->busy = false;
      self->changed.notify_all();
    }
  }
  bool wait(std::unique_lock<std::mutex>& lock, double seconds) {
    return changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return !busy; });
  }
};

std::string describe(const WireReply& reply) {
  constexpr const char* kNames[] = {"done",           "bad batch",
                                    "bad op",         "bad ref",
                                    "unsupported",    "map refused",
                                    "busy buffer",    "scratch too small",
                                    "no matrix unit", "no columns of the host"};
  return fmt::format("op {}: {} (detail {})", reply.op,
                     reply.status < std::size(kNames) ? kNames[reply.status] : "unknown status", reply.detail);
}

std::string describe_refusal(const Session::Votes& votes) {
  if ((votes.refused & WIRE_VOTE_ABSENT) != 0) return "the DSP's system takes no votes";
  if ((votes.refused & WIRE_VOTE_MATRIX) != 0) return fmt::format("its power ({})", aee_name(votes.status));
  return "its memory, or the unit itself";
}

std::string describe(const Library& library, const WireInfo& info) {
  return fmt::format("Hexagon v{}, {} threads, {} ({})", info.arch, info.threads,
                     info.emulated != 0 ? "emulated by qemu-hexagon" : "the DSP of this machine", library.path());
}

Result<std::shared_ptr<Session>> Session::open(std::shared_ptr<Library> library, int64_t space_bytes,
                                               double deadline_s) {
  LLADA_TRY(auto place, library->take_session(deadline_s));
  std::shared_ptr<Session> session(new Session);
  session->library_ = std::move(library);
  session->place_ = std::move(place);
  session->deadline_s_ = deadline_s;
  // Looked up here: a thread that finds no memory for it would end the program.
  const ProcessorMask fast = fast_cores(usable_processors());
  for (Channel* channel : {&session->runs_, &session->maps_}) {
    channel->worker = std::make_shared<Worker>();
    channel->thread = std::thread([worker = channel->worker, fast] {
      if (!fast.empty()) static_cast<void>(bind_thread(fast));
      Worker::loop(worker);
    });
  }
  session->library_->choose_space(space_bytes);
  // Starting a process takes longer than a call of one.
  const double opening_s = std::max(deadline_s, 10.0);
  LLADA_TRY_STATUS(session->open_module(opening_s));
  const auto info = std::as_writable_bytes(std::span(&session->info_, 1));
  LLADA_TRY(const int asked,
            session->invoke(session->runs_, WIRE_QUERY, {}, info, opening_s, "asking the DSP for its kind"));
  if (asked != AEE_SUCCESS)
    return failed("hexagon: asking {} for its kind: {}; {}", session->module_, aee_name(asked), advice(AEE_EBADPARM));
  if (session->info_.magic != WIRE_MAGIC)
    return failed("hexagon: {} is another program's module; {}", session->module_, advice(AEE_ENOSUCHSYMBOL));
  if (session->info_.version != WIRE_VERSION)
    return failed("hexagon: {} speaks version {}, needed {}: take the module of this build", session->module_,
                  session->info_.version, WIRE_VERSION);
  session->library_->opened(session->module_);
  static_cast<void>(session->set_latency(true));  // costs time where it is refused
  LLADA_TRY_STATUS(session->vote(true));
  return session;
}

Status Session::open_module(double opening_s) {
  std::string tried;
  int last = 0;
  for (const std::string& module : library_->modules()) {
    LLADA_TRY(const std::string uri, library_->address(place_, module, deadline_s_));
    const auto handle = std::make_shared<remote_handle64>(0);
    const auto open = [library = library_, uri, handle] { return library->open_handle(uri.c_str(), handle.get()); };
    LLADA_TRY(last, call(runs_, open, opening_s, "opening the module"));
    if (last == AEE_SUCCESS) {
      handle_ = *handle;
      opened_ = true;
      module_ = module;
      return {};
    }
    tried += fmt::format("{}{}: {}", tried.empty() ? "" : ", ", module, aee_name(last));
  }
  const std::string arch =
      library_->architecture() ? fmt::format("of a v{} DSP", *library_->architecture()) : "of a DSP";
  const std::string signing = place_.unsigned_status == AEE_SUCCESS ? ""
                                                                    : fmt::format("; unsigned modules were refused: {}",
                                                                                  aee_name(place_.unsigned_status));
  return failed("hexagon: {} {} opened no module: {}{}{}; {}", library_->path(), arch, tried, library_->reason(),
                signing, advice(last));
}

Result<std::optional<int>> Session::set_latency(bool low) {
  if (library_->handle_control == nullptr) return std::nullopt;
  const auto asked =
      std::make_shared<remote_rpc_control_latency>(low ? RPC_PM_QOS : RPC_DISABLE_QOS, low ? kLatencyUs : 0);
  const auto control = [library = library_, handle = handle_, asked] {
    return library->handle_control(handle, DSPRPC_CONTROL_LATENCY, asked.get(), sizeof *asked);
  };
  const std::lock_guard alone(runs_.mutex);
  LLADA_TRY(const int status, call(runs_, control, deadline_s_, "asking for quick answers"));
  return status;
}

Status Session::empty_call() {
  WireInfo info{};
  const std::lock_guard alone(runs_.mutex);
  LLADA_TRY_STATUS(check_alive());
  LLADA_TRY(const int status, invoke(runs_, WIRE_QUERY, {}, std::as_writable_bytes(std::span(&info, 1)), deadline_s_,
                                     "asking the DSP for its kind"));
  return status == AEE_SUCCESS ? Status{} : die(fmt::format("asking the DSP for its kind: {}", aee_name(status)));
}

Result<Session::Votes> Session::vote(bool up) {
  LLADA_TRY(votes_, vote_for(up ? uint32_t{WIRE_MAP_UP} : 0, "voting for clock and vector units"));
  return votes_;
}

Result<Session::Votes> Session::vote_unit(bool up) {
  return vote_for(WIRE_MAP_MATRIX | (up ? uint32_t{WIRE_MAP_UP} : 0), "voting for the matrix unit");
}

Result<Session::Votes> Session::vote_for(uint32_t flags, std::string_view what) {
  const WireMap request{WIRE_MAGIC, WIRE_VERSION, 0, -1, 0, flags};
  WireReply reply{};
  const std::lock_guard alone(runs_.mutex);
  LLADA_TRY_STATUS(check_alive());
  LLADA_TRY(const int status, invoke(runs_, WIRE_VOTE, std::as_bytes(std::span(&request, 1)),
                                     std::as_writable_bytes(std::span(&reply, 1)), deadline_s_, what));
  if (status == AEE_ECONNRESET) LLADA_TRY_STATUS(die(fmt::format("{}: the DSP process ended: start again", what)));
  if (status != AEE_SUCCESS) LLADA_TRY_STATUS(die(fmt::format("{}: {}; {}", what, aee_name(status), advice(status))));
  if (reply.magic != WIRE_MAGIC || reply.op >= 2 * WIRE_VOTE_MEMORY)
    LLADA_TRY_STATUS(die(fmt::format("{}: the answer is garbage: take the module of this build", what)));
  unit_bytes_ = reply.lines;
  return Votes{reply.op, static_cast<int>(reply.detail)};
}

void Session::refused(const Buffer& buffer) {
  const std::lock_guard lock(mutex_);
  refusal_ = {buffer.bytes(), mapped_bytes_};
}

std::optional<Session::Refusal> Session::take_refusal() {
  const std::lock_guard lock(mutex_);
  return std::exchange(refusal_, std::nullopt);
}

bool Session::Channel::end() {
  if (!thread.joinable()) return true;  // the system gave none
  bool free = false;
  {
    const std::lock_guard lock(worker->mutex);
    worker->leave = true;
    free = !worker->busy;
    worker->changed.notify_all();
  }
  if (free)
    thread.join();
  else
    thread.detach();
  return free;
}

Session::~Session() {
  if (opened_) {
    const auto close = [library = library_, handle = handle_] { return library->close_handle(handle); };
    static_cast<void>(call(runs_, close, deadline_s_, "closing the skel"));
  }
  const bool runs = runs_.end(), maps = maps_.end();
  // A session with a call that never returned stays lost, and one whose end was asked for and may still come.
  if (runs && maps && (!killing_ || killing_->wait(0))) library_->give_back(place_);
}

bool Session::alive() const { return check_alive().has_value(); }

Status Session::check_alive() const {
  const std::lock_guard lock(mutex_);
  return dead_.empty() ? Status{} : failed("hexagon: {}", dead_);
}

int64_t Session::mapped_bytes() const {
  const std::lock_guard lock(mutex_);
  return mapped_bytes_;
}

Status Session::die(std::string why) {
  const std::lock_guard lock(mutex_);
  if (dead_.empty()) dead_ = std::move(why);
  numbers_.clear(), promised_.clear();
  mapped_bytes_ = 0;
  return failed("hexagon: {}", dead_);
}

Result<int> Session::call(Channel& channel, std::function<int()> function, double deadline_s, std::string_view what) {
  Worker& worker = *channel.worker;
  std::unique_lock lock(worker.mutex);
  if (worker.busy) {  // with a call that never returned
    LLADA_TRY_STATUS(check_alive());
    return failed("hexagon: {}: an earlier call has not returned", what);
  }
  worker.job = std::move(function);
  worker.busy = true;
  worker.changed.notify_all();
  if (worker.wait(lock, deadline_s)) return worker.result;
  // FastRPC's way to end a call that does not return. The call then fails, and so do those of the other channel: the
  // reason is this one.
  lock.unlock();
  const Status late = die(fmt::format("{}: no answer within {:.3g} s; the DSP process was killed", what, deadline_s));
  const TimedCall kill = kill_process();
  const auto begin = std::chrono::steady_clock::now();
  const double most = std::clamp(deadline_s, 1.0, kSecondsToDie);
  lock.lock();
  const bool returned = worker.wait(lock, most);
  lock.unlock();
  const double gone = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const bool killed = kill.wait(std::max(0.0, most - gone)).has_value();
  if (returned && killed) return std::unexpected(late.error());
  return failed("{}, but {} did not return", late.error().message, returned ? "killing it" : "the call");
}

void Session::end_process(std::string why) {
  if (!why.empty()) static_cast<void>(die(std::move(why)));
  if (!alive()) static_cast<void>(kill_process().wait(kSecondsToDie));
}

TimedCall Session::kill_process() {
  const std::lock_guard lock(mutex_);
  if (!killing_)
    killing_.emplace([library = library_, domain = place_.domain] {
      remote_rpc_process_clean_params asked{domain};
      return library->session_control(FASTRPC_REMOTE_PROCESS_KILL, &asked, sizeof asked);
    });
  return *killing_;
}

Result<int> Session::invoke(Channel& channel, uint32_t method, std::span<const std::byte> in, std::span<std::byte> out,
                            double deadline_s, std::string_view what) {
  struct Message {
    std::vector<std::byte> in, out;
  };
  const auto message = std::make_shared<Message>(Message{{in.begin(), in.end()}, std::vector<std::byte>(out.size())});
  LLADA_TRY(const int status, call(
                                  channel,
                                  [library = library_, handle = handle_, method, message] {
                                    remote_arg arguments[2] = {};
                                    const uint32_t has_in = message->in.empty() ? 0 : 1;
                                    arguments[0].buf = {message->in.data(), message->in.size()};
                                    arguments[has_in].buf = {message->out.data(), message->out.size()};
                                    return library->invoke(handle, REMOTE_SCALARS_MAKEX(0, method, has_in, 1, 0, 0),
                                                           arguments);
                                  },
                                  deadline_s, what));
  std::memcpy(out.data(), message->out.data(), out.size());
  return status;
}

Status Session::map_number(uint32_t method, uint32_t number, const Buffer& buffer, std::string_view what) {
  const WireMap request{WIRE_MAGIC, WIRE_VERSION, number, buffer.fd(), static_cast<uint32_t>(buffer.bytes()), 0};
  WireReply reply{};
  LLADA_TRY(const int status, invoke(maps_, method, std::as_bytes(std::span(&request, 1)),
                                     std::as_writable_bytes(std::span(&reply, 1)), deadline_s_, what));
  if (status == AEE_ECONNRESET) return die(fmt::format("{}: the DSP process ended", what));
  if (status != AEE_SUCCESS) return die(fmt::format("{}: {}", what, aee_name(status)));
  if (reply.magic != WIRE_MAGIC) return die(fmt::format("{}: the answer is garbage", what));
  if (reply.status == WIRE_MAP_REFUSED) refused(buffer);
  if (reply.status != WIRE_OK)
    return failed("hexagon: {} of {} bytes beside {} mapped bytes: the DSP answered {}", what, buffer.bytes(),
                  mapped_bytes(), describe(reply));
  return {};
}

std::optional<uint32_t> Session::number_of(const Buffer& buffer) const {
  const std::lock_guard lock(mutex_);
  const auto found = numbers_.find(&buffer);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

uint32_t Session::free_number() const {
  std::vector<bool> taken(WIRE_BUFFERS, false);
  for (const auto& [other, number] : numbers_) taken[number] = true;
  for (const auto& [other, numbers] : promised_)
    for (const uint32_t number : numbers) taken[number] = true;
  return static_cast<uint32_t>(std::ranges::find(taken, false) - taken.begin());
}

uint32_t Session::promise(const Buffer& buffer) {
  const std::lock_guard lock(mutex_);
  const uint32_t number = free_number();
  if (number < WIRE_BUFFERS) promised_[&buffer].push_back(number);
  return number;
}

uint32_t Session::promised(const Buffer& buffer) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = promised_.find(&buffer); found != promised_.end()) return found->second.back();
  const auto found = numbers_.find(&buffer);
  return found != numbers_.end() ? found->second : WIRE_BUFFERS;
}

void Session::wake(uint32_t number, const Buffer& buffer) {
  const std::lock_guard alone(maps_.mutex);
  if (alive()) static_cast<void>(map_number(WIRE_UNMAP, number, buffer, "giving a buffer up"));
}

void Session::forget_promises() {
  const std::lock_guard lock(mutex_);
  promised_.clear();
}

uint32_t Session::next_promised(const Buffer& buffer) const {
  const std::lock_guard lock(mutex_);
  const auto found = promised_.find(&buffer);
  return found != promised_.end() ? found->second.front() : WIRE_BUFFERS;
}

Result<uint32_t> Session::map(const std::shared_ptr<Buffer>& buffer) {
  LLADA_TRY_STATUS(check_alive());
  if (const auto known = number_of(*buffer)) return *known;
  const std::lock_guard alone(maps_.mutex);
  if (const auto known = number_of(*buffer)) return *known;  // while others were served
  const uint32_t number = next_promised(*buffer);
  auto mapped = map_as(number < WIRE_BUFFERS ? number : promise(*buffer), buffer);
  const std::lock_guard lock(mutex_);
  if (const auto kept = promised_.find(buffer.get()); kept != promised_.end()) {
    kept->second.pop_front();
    if (kept->second.empty()) promised_.erase(kept);
  }
  return mapped;
}

Result<uint32_t> Session::map_as(uint32_t number, const std::shared_ptr<Buffer>& buffer) {
  if (number == WIRE_BUFFERS) return failed("hexagon: {} buffers are mapped already, no more are possible", number);
  buffer->give();
  const auto length = static_cast<size_t>(buffer->bytes());
  const auto driver = [&, fd = buffer->fd(), data = buffer->data()](bool mapping) {
    // By value: a call that never returns would use these.
    return call(
        maps_,
        [library = library_, domain = place_.domain, fd, data, length, mapping] {
          return mapping ? library->fastrpc_mmap(domain, fd, data, 0, length, FASTRPC_MAP_FD_DELAYED)
                         : library->fastrpc_munmap(domain, fd, data, length);
        },
        deadline_s_, "mapping a buffer");
  };
  LLADA_TRY(const int allowed, driver(true));
  if (allowed == AEE_ECONNRESET) LLADA_TRY_STATUS(die("mapping a buffer: the DSP process ended"));
  if (allowed != AEE_SUCCESS) refused(*buffer);
  if (allowed != AEE_SUCCESS)
    return failed("hexagon: mapping a buffer of {} bytes beside {} mapped bytes was refused: {}", length,
                  mapped_bytes(), aee_name(allowed));
  if (const Status status = map_number(WIRE_MAP, number, *buffer, "mapping a buffer"); !status) {
    if (alive()) static_cast<void>(driver(false));
    return std::unexpected(status.error());
  }
  buffer->remember(weak_from_this());
  const std::lock_guard lock(mutex_);
  if (!dead_.empty()) return failed("hexagon: {}", dead_);
  numbers_[buffer.get()] = number;
  mapped_bytes_ += buffer->bytes();
  return number;
}

Status Session::unmap(Buffer& buffer) {
  const std::lock_guard alone(maps_.mutex);
  const auto number = number_of(buffer);
  if (!number) {
    buffer.forget(this);
    return {};
  }
  LLADA_TRY_STATUS(map_number(WIRE_UNMAP, *number, buffer, "unmapping a buffer"));
  buffer.forget(this);
  {
    const std::lock_guard lock(mutex_);
    if (numbers_.erase(&buffer) > 0) mapped_bytes_ -= buffer.bytes();
  }
  const auto length = static_cast<size_t>(buffer.bytes());
  LLADA_TRY(const int status, call(
                                  maps_,
                                  [library = library_, domain = place_.domain, fd = buffer.fd(), data = buffer.data(),
                                   length] { return library->fastrpc_munmap(domain, fd, data, length); },
                                  deadline_s_, "unmapping a buffer"));
  if (status != AEE_SUCCESS) return die(fmt::format("unmapping a buffer: {}", aee_name(status)));
  return {};
}

Result<WireReply> Session::run(std::span<const std::byte> batch, uint64_t sequence, double deadline_s) {
  const std::lock_guard alone(runs_.mutex);
  LLADA_TRY_STATUS(check_alive());
  uint32_t ops = 0;
  std::memcpy(&ops, batch.data() + offsetof(WireBatch, op_count), sizeof ops);
  WireReply reply{};
  LLADA_TRY(const int status, invoke(runs_, WIRE_RUN, batch, std::as_writable_bytes(std::span(&reply, 1)), deadline_s,
                                     "running a batch"));
  const auto dead = [&](std::string why) -> Result<WireReply> {
    LLADA_TRY_STATUS(die(std::move(why)));
    return reply;
  };
  if (status == AEE_ECONNRESET) return dead("running a batch: the DSP process ended");
  if (status != AEE_SUCCESS) return dead(fmt::format("running a batch: {}", aee_name(status)));
  // A batch that is none has no sequence to come back.
  const bool mine = reply.sequence == sequence || reply.status == WIRE_BAD_BATCH;
  if (reply.magic != WIRE_MAGIC || !mine || reply.status > WIRE_NO_UNIT || reply.op > ops ||
      (reply.status == WIRE_OK && reply.op != ops))
    return dead("running a batch: the answer is garbage");
  return reply;
}

}  // namespace llada::hexagon
