#include "devices/hexagon/mapped_slabs.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/check.h"

namespace llada::hexagon {

bool Progress::reached(const Buffer& flags, uint32_t done) {
  flags.take();
  const uint32_t seen = std::atomic_ref(reinterpret_cast<WireFlags*>(flags.data())->done);
  const uint32_t begin = done & 0xffff0000u;
  return seen - begin >= done - begin && seen - begin <= WIRE_MAX_OPS;
}

void Progress::wait(size_t op) const {
  using namespace std::chrono_literals;
  const auto is_done = [&] { return reached(*flags, WIRE_DONE(sequence, ops_at[op - first - 1])); };
  while (!ended && !(built && (op == first || is_done()))) std::this_thread::sleep_for(20us);
}

MappedSlabs::MappedSlabs(std::shared_ptr<Weights> weights, const std::vector<std::shared_ptr<Session>>& sessions)
    : weights_(std::move(weights)),
      sessions_(sessions),
      place_(weights_->infos().size()),
      in_slab_(weights_->infos().size(), -1) {}

Status MappedSlabs::unmap_all() {
  static_cast<void>(lane_.drain());
  for (size_t i = 0; i < slabs_.size(); ++i)
    if (std::exchange(slabs_[i].mapped, false) && slabs_[i].slab.session < std::ssize(sessions_))
      post_unmap(static_cast<int>(i), nullptr, 0);
  const Status status = lane_.drain();
  for (const auto& session : sessions_) session->forget_promises();  // of mappings that failed
  return status;
}

Status MappedSlabs::define(std::vector<DeviceSlab> slabs, const std::shared_ptr<Library>& library, int threads) {
  struct Bundle {
    std::vector<size_t> slabs;
    std::vector<WeightId> weights;
    int64_t bytes = 0;
  };
  std::vector<Bundle> bundles;
  std::map<int, size_t> open;  // by session: the one that takes its next pinned slab
  for (size_t i = 0; i < slabs.size(); ++i) {
    const DeviceSlab& slab = slabs[i];
    if (slab.session < 0 || slab.session >= std::ssize(sessions_))
      return failed("hexagon: slab {} wants session {}, there are {}", i, slab.session, sessions_.size());
    size_t at = bundles.size();
    if (slab.pinned) {
      const auto [known, fresh] = open.try_emplace(slab.session, at);
      if (!fresh && bundles[known->second].bytes + slab.bytes > bundle_bytes_) known->second = at;
      at = known->second;
    }
    if (at == bundles.size()) bundles.emplace_back();
    Bundle& bundle = bundles[at];
    bundle.slabs.push_back(i);
    bundle.weights.insert(bundle.weights.end(), slab.weights.begin(), slab.weights.end());
    bundle.bytes += slab.bytes;
  }
  // Old slabs that are the same stay; the others make room before new ones are packed.
  std::vector<Slab> before = std::exchange(slabs_, {});
  std::erase_if(before, [&](const Slab& slab) {
    return std::ranges::none_of(bundles, [&](const Bundle& bundle) {
      return std::ranges::equal(bundle.weights, slab.packed->places, {}, {}, &PackedSlab::Place::weight);
    });
  });
  std::ranges::fill(place_, PlacedWeight{});
  std::ranges::fill(in_slab_, -1);
  slabs_.resize(slabs.size());
  for (const Bundle& bundle : bundles) {
    LLADA_TRY(const auto packed, weights_->pack(library, bundle.weights, threads));
    for (const PackedSlab::Place& p : packed->places)
      place_[static_cast<size_t>(p.weight)] = {packed->buffers[p.buffer], p.offset};
    for (const size_t i : bundle.slabs) {
      for (const WeightId id : slabs[i].weights) {
        int& slab = in_slab_[static_cast<size_t>(id)];
        if (slab >= 0) return failed("hexagon: {} is in two slabs", weights_->infos()[static_cast<size_t>(id)].name);
        slab = static_cast<int>(i);
      }
      slabs_[i] = {.slab = std::move(slabs[i]), .packed = packed, .bundle = bundle.slabs.front()};
    }
  }
  there_when_refused_.clear();
  return {};
}

MappedSlabs::Slab& MappedSlabs::at(int index) {
  LLADA_CHECK(index >= 0 && static_cast<size_t>(index) < slabs_.size());
  return slabs_[static_cast<size_t>(index)];
}

std::set<int> MappedSlabs::used_by(const Run& run) const {
  std::set<int> slabs;
  for (size_t i = run.first; i < run.last; ++i)
    for_each_weight(run.program->ops[i], [&](WeightId w) { slabs.insert(in_slab_[static_cast<size_t>(w)]); });
  return slabs;
}

int MappedSlabs::session_of(const Op& op) const {
  int session = -1;
  for_each_weight(op, [&](WeightId w) {
    if (const int slab = in_slab_[static_cast<size_t>(w)]; slab >= 0)
      session = slabs_[static_cast<size_t>(slab)].slab.session;
  });
  return session;
}

int64_t MappedSlabs::bytes() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < slabs_.size(); ++i)
    if (slabs_[i].bundle == i)
      for (const auto& buffer : slabs_[i].packed->buffers) bytes += buffer->bytes();
  return bytes;
}

bool MappedSlabs::bundled() const {
  for (size_t i = 0; i < slabs_.size(); ++i)
    if (slabs_[i].bundle != i) return true;
  return false;
}

int64_t MappedSlabs::largest() const {
  int64_t largest = 0;
  for (const Slab& s : slabs_) largest = std::max(largest, s.slab.bytes);
  return largest;
}

int64_t MappedSlabs::bytes_in(int session) const {
  int64_t bytes = 0;
  for (const Slab& s : slabs_)
    if (s.slab.session == session && slabs_[s.bundle].there) bytes += s.slab.bytes;
  return bytes;
}

Status MappedSlabs::expect(int index) {
  Slab& s = at(index);
  if (std::exchange(s.mapped, true)) return failed("hexagon: slab {} is mapped already", index);
  return {};
}

void MappedSlabs::post_map(int index) {
  Slab& s = at(index);
  Slab& first = slabs_[s.bundle];
  if (first.asked++ > 0) {
    s.ticket = first.ticket;
    return;
  }
  int64_t bytes = 0;
  for (const auto& buffer : s.packed->buffers) session(s)->promise(*buffer), bytes += buffer->bytes();
  s.ticket = lane_.post([this, index, bundle = s.bundle, session = session(s), packed = s.packed, bytes]() -> Status {
    const TraceSpan span(trace_, "map", fmt::format("slab {}", index));
    for (size_t b = 0; b < packed->buffers.size(); ++b) {
      const uint32_t promised = session->next_promised(*packed->buffers[b]);
      const auto number = session->map(packed->buffers[b]);
      if (number) continue;
      const int of = slabs_[bundle].slab.session;
      there_when_refused_.try_emplace(of, bytes_in(of));
      stop_waiting(*session, promised, *packed->buffers[b]);
      while (b-- > 0) static_cast<void>(session->unmap(*packed->buffers[b]));
      return failed("{} (slab {})", number.error().message, index);
    }
    ++maps;
    mapped_bytes += bytes;
    slabs_[bundle].there = true;
    return {};
  });
  first.ticket = s.ticket;
}

void MappedSlabs::post_unmap(int index, std::shared_ptr<const Progress> progress, size_t op) {
  Slab& s = at(index);
  if (--slabs_[s.bundle].asked > 0) return;
  lane_.post([this, index, bundle = s.bundle, session = session(s), packed = s.packed, progress, op]() -> Status {
    if (progress != nullptr) progress->wait(op);
    const TraceSpan span(trace_, "map", fmt::format("unmap slab {}", index));
    slabs_[bundle].there = false;
    for (const auto& buffer : packed->buffers) LLADA_TRY_STATUS(session->unmap(*buffer));
    ++unmaps;
    return {};
  });
}

// A batch that waits for the buffer, now or later, gives up.
void MappedSlabs::stop_waiting(Session& session, uint32_t number, const Buffer& buffer) const {
  if (flags_ == nullptr) return;
  flags_->give([&] { std::atomic_ref(reinterpret_cast<WireFlags*>(flags_->data())->stop) = 1; });
  if (number < WIRE_BUFFERS) session.wake(number, buffer);
}

Status MappedSlabs::check_asked(const Op& op, size_t i) const {
  Status status;
  for_each_weight(op, [&](WeightId w) {
    const int slab = in_slab_[static_cast<size_t>(w)];
    const auto& name = weights_->infos()[static_cast<size_t>(w)].name;
    if (!status) return;
    if (slab < 0)
      status = failed("hexagon: op {} ({}) uses {}, which is in no slab", i, llada::name(op.kind), name);
    else if (!slabs_[static_cast<size_t>(slab)].mapped)
      status = failed("hexagon: op {} ({}) uses {}, whose slab {} is not mapped", i, llada::name(op.kind), name, slab);
  });
  return status;
}

Status MappedSlabs::check_mapped(const std::set<int>& slabs) {
  for (const int slab : slabs)
    if (Status status = lane_.wait(at(slab).ticket); !status) {
      if (std::exchange(at(slab).mapped, false)) --slabs_[at(slab).bundle].asked;
      return status;
    }
  return {};
}

}  // namespace llada::hexagon
