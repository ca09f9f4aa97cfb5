// The slabs of a device: packed here, mapped and unmapped by a thread of their own (MapLane) in the order of the calls,
// beside the batches that run. Pinned slabs lie in few large buffers, since many mappings fragment the address space.
// Words: bundle = slabs of a session in one buffer, named by the first; progress = how many ops are done of a batch
// during which slabs are mapped and unmapped.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "devices/hexagon/batch.h"
#include "devices/hexagon/map_lane.h"
#include "devices/hexagon/session.h"
#include "devices/hexagon/slabs.h"

namespace llada::hexagon {

struct Progress {
  std::shared_ptr<Buffer> flags;  // WireFlags
  size_t first = 0;               // op of the program
  std::vector<uint32_t> ops_at;   // Batch::ops_at; there when `built`
  std::atomic<bool> built = false, ended = false;
  std::atomic<uint64_t> sequence = 0;  // of the batch as it was sent last

  struct End {  // of the batch, however it comes
    std::shared_ptr<Progress> of;
    ~End() { of->ended = true; }
  };
  void wait(size_t op) const;  // until the program's ops below `op` are done, or the batch has ended
  static bool reached(const Buffer& flags, uint32_t done);  // the batch and the ops of WIRE_DONE(), or more
};

class MappedSlabs {
 public:
  // sessions: by number; outlives this, and may change between calls.
  MappedSlabs(std::shared_ptr<Weights> weights, const std::vector<std::shared_ptr<Session>>& sessions);

  struct Slab {
    DeviceSlab slab;
    std::shared_ptr<const PackedSlab> packed;
    bool mapped = false;  // its mapping is requested; done with the ticket
    int64_t ticket = 0;
    size_t bundle = 0;   // the bundle's first slab
    int asked = 0;       // in the first: how many of the bundle have `mapped`
    bool there = false;  // it is mapped; the lane's until finish()
  };

  // Replaces the slabs before, which are unmapped without waiting for their mappings.
  Status define(std::vector<DeviceSlab> slabs, const std::shared_ptr<Library>& library, int threads);
  // Unmappings ignore the outcome of earlier mappings of the same slabs; a dead session has nothing mapped.
  Status unmap_all();

  Slab& at(int index);
  PlacedWeight place(WeightId w) const { return place_[static_cast<size_t>(w)]; }
  std::set<int> used_by(const Run& run) const;
  int session_of(const Op& op) const;  // -1: of any
  int64_t bytes() const;
  bool empty() const { return slabs_.empty(); }
  int64_t largest() const;
  bool bundled() const;                   // whether slabs lie together
  void separate() { bundle_bytes_ = 0; }  // from the next define() on each lies alone

  Status expect(int index);  // marks it as mapped
  void post_map(int index);  // requests it, and promises the numbers of its buffers (Session::promise)
  // Requests it once the program's ops below `op` of the batch are done; progress null: at once.
  void post_unmap(int index, std::shared_ptr<const Progress> progress, size_t op);
  // Failed: a slab that the op needs was not requested. i: the op's place, for the message.
  Status check_asked(const Op& op, size_t i) const;
  bool done(int index) { return lane_.done(at(index).ticket); }
  Status check_mapped(const std::set<int>& slabs);  // waits for the mappings; the first error

  void finish() const { lane_.finish(); }
  void set_trace(Trace* trace) { trace_ = trace; }  // while nothing is under way
  void use_flags(std::shared_ptr<Buffer> flags) { flags_ = std::move(flags); }

  // The lane uses the members below until finish().
  int64_t bytes_in(int session) const;  // of its mapped slabs
  // The same at the first refused mapping of one of its slabs since define().
  std::optional<int64_t> there_when_refused(int session) const {
    const auto found = there_when_refused_.find(session);
    return found == there_when_refused_.end() ? std::nullopt : std::optional(found->second);
  }
  int64_t maps = 0, unmaps = 0, mapped_bytes = 0;

 private:
  const std::shared_ptr<Session>& session(const Slab& s) const {
    return sessions_[static_cast<size_t>(s.slab.session)];
  }
  void stop_waiting(Session& session, uint32_t number, const Buffer& buffer) const;

  std::shared_ptr<Weights> weights_;
  const std::vector<std::shared_ptr<Session>>& sessions_;
  std::vector<Slab> slabs_;
  std::vector<PlacedWeight> place_;  // by weight
  std::vector<int> in_slab_;         // by weight; -1: in none
  std::shared_ptr<Buffer> flags_;
  std::map<int, int64_t> there_when_refused_;  // by session
  int64_t bundle_bytes_ = int64_t{1} << 30;    // of a bundle at most
  Trace* trace_ = nullptr;
  mutable MapLane lane_;  // the last member: its jobs use the others
};

}  // namespace llada::hexagon
