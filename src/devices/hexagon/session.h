// One long-lived session on the DSP: the handle of its module, the buffers mapped in it by number, and calls that end
// in bounded time. Every call of the library runs on a thread of the session. At the deadline the caller has the DSP
// process killed, which makes the call return. A session that failed once stays dead. Any thread may call: batches run
// one after the other, mappings too, and mappings beside batches.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/processors.h"
#include "devices/hexagon/library.h"
#include "devices/hexagon/wire.h"

namespace llada::hexagon {

class Session : public std::enable_shared_from_this<Session> {
 public:
  // space_bytes: of its address space, where that can be chosen. deadline_s: of every call beside run().
  static Result<std::shared_ptr<Session>> open(std::shared_ptr<Library> library, int64_t space_bytes,
                                               double deadline_s);
  ~Session();

  const WireInfo& info() const { return info_; }
  const std::string& module() const { return module_; }
  const Library::Place& place() const { return place_; }
  bool alive() const;

  // Bounds the time that the phone's processors may take to notice a reply to kLatencyUs, or lifts the bound (false).
  // Returns the library's status; nothing where it is too old. open() sets it.
  static constexpr uint32_t kLatencyUs = 100;
  Result<std::optional<int>> set_latency(bool low);

  Status empty_call();  // an empty call, to measure the round trip
  // Ends the DSP process, which flushes its caches. The session is dead already, or dies now with this reason.
  void end_process(std::string why = {});

  // Asks the DSP's system for clock and vector units, or gives both back; open() asks, the end gives back.
  struct Votes {
    uint32_t refused = 0;  // bits of WireVote
    int status = 0;        // of the first of them
  };
  Result<Votes> vote(bool up);
  const Votes& votes() const { return votes_; }  // the last
  // The same for the matrix unit, which nobody asks for by itself. unit_bytes(): of its memory; 0: there is no unit.
  Result<Votes> vote_unit(bool up);
  uint32_t unit_bytes() const { return unit_bytes_; }
  // The last refused mapping since the last call: its bytes, and the bytes that were mapped then.
  struct Refusal {
    int64_t bytes, beside;
  };
  std::optional<Refusal> take_refusal();

  // The buffer's number on the DSP; maps it where it is not yet.
  Result<uint32_t> map(const std::shared_ptr<Buffer>& buffer);
  // No effect where it is not mapped. Failed where a running batch names it; the session lives on.
  Status unmap(Buffer& buffer);
  int64_t mapped_bytes() const;
  // Reserves a number for a later map() of the buffer, so that a batch may name it before; WIRE_BUFFERS: none is free.
  // Each promise is for the next map() that has none yet.
  uint32_t promise(const Buffer& buffer);
  // The number promised last, or else the buffer's number; WIRE_BUFFERS: neither.
  uint32_t promised(const Buffer& buffer) const;
  uint32_t next_promised(const Buffer& buffer) const;  // to the next map(); WIRE_BUFFERS: nothing
  void forget_promises();
  // Wakes a batch that waits for a buffer which will not come; it finds WireFlags::stop.
  void wake(uint32_t number, const Buffer& buffer);

  // Runs a batch as wire.h lays it out. The reply is checked: it answers this batch, and with WIRE_OK all ops are done.
  // The caller handles any other status.
  Result<WireReply> run(std::span<const std::byte> batch, uint64_t sequence, double deadline_s);

 private:
  struct Worker;
  struct Channel {  // calls that follow one another, on a thread of their own
    std::recursive_mutex mutex;
    std::shared_ptr<Worker> worker;
    std::thread thread;
    bool end();  // joins the thread; false: a call never returned, and keeps it
  };
  Session() = default;
  // Returns the value of function, which runs on the channel's thread. The error says that the session is dead now.
  Result<int> call(Channel& channel, std::function<int()> function, double deadline_s, std::string_view what);
  Result<int> invoke(Channel& channel, uint32_t method, std::span<const std::byte> in, std::span<std::byte> out,
                     double deadline_s, std::string_view what);
  Status check_alive() const;
  Status die(std::string why);
  Result<Votes> vote_for(uint32_t flags, std::string_view what);
  Status open_module(double opening_s);
  void refused(const Buffer& buffer);
  TimedCall kill_process();
  std::optional<uint32_t> number_of(const Buffer& buffer) const;
  uint32_t free_number() const;  // WIRE_BUFFERS: none; under mutex_
  Result<uint32_t> map_as(uint32_t number, const std::shared_ptr<Buffer>& buffer);
  Status map_number(uint32_t method, uint32_t number, const Buffer& buffer, std::string_view what);

  std::shared_ptr<Library> library_;
  Library::Place place_;
  remote_handle64 handle_ = 0;
  bool opened_ = false;
  std::string module_;
  Votes votes_;
  uint32_t unit_bytes_ = 0;
  WireInfo info_{};
  double deadline_s_ = 0;
  Channel runs_, maps_;
  mutable std::mutex mutex_;  // guards the members below; never held during a call
  std::map<const Buffer*, uint32_t> numbers_;
  std::map<const Buffer*, std::deque<uint32_t>> promised_;  // in the order of the map() calls to come
  int64_t mapped_bytes_ = 0;
  std::optional<Refusal> refusal_;
  std::string dead_;  // why; empty: alive
  std::optional<TimedCall> killing_;
};

// The processors for a session's threads: the preferred ones, if there are others; else empty, which means any.
ProcessorMask fast_cores(const Processors& cores);

// Why a session has no matrix unit: "its power (unsupported (20))".
std::string describe_refusal(const Session::Votes& votes);
// "op 3: bad ref (detail 7)", for messages.
std::string describe(const WireReply& reply);
std::string describe(const Library& library, const WireInfo& info);  // the DSP

}  // namespace llada::hexagon
