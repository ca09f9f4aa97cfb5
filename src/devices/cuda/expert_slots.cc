#include "devices/cuda/expert_slots.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/check.h"

namespace llada::cuda {
namespace {

constexpr size_t kPinned = 6;  // two experts on their way through staging
int64_t slot_count(const CudaExperts& e) { return e.slots + e.buffer + e.staging; }

}  // namespace

ExpertPieces find_pieces(std::span<const WeightInfo> infos, std::span<const TensorView> views, int32_t first_layer,
                         std::array<int64_t, 3>& bytes) {
  ExpertPieces pieces;
  for (size_t i = 0; i < infos.size(); ++i) {
    if (infos[i].expert < 0) continue;
    LLADA_CHECK(infos[i].part != ExpertPart::none);
    const auto piece = static_cast<size_t>(infos[i].part);
    pieces[{infos[i].layer - first_layer, infos[i].expert}][piece] = static_cast<WeightId>(i);
    bytes[piece] = std::max(bytes[piece], views[i].bytes());
  }
  return pieces;
}

int64_t ExpertSlots::bytes_needed(const CudaExperts& experts, std::array<int64_t, 3> bytes) {
  return slot_count(experts) * (align(bytes[0]) + align(bytes[1]) + align(bytes[2]));
}

Result<std::unique_ptr<ExpertSlots>> ExpertSlots::create(uint8_t* memory, const CudaExperts& experts,
                                                         std::array<int64_t, 3> piece_bytes, Source source) {
  std::unique_ptr<ExpertSlots> made(new ExpertSlots(experts));
  ExpertSlots& s = *made;
  s.piece_bytes_ = piece_bytes;
  s.source_ = std::move(source);
  s.offsets_ = {0, align(piece_bytes[0]), align(piece_bytes[0]) + align(piece_bytes[1])};
  LLADA_TRY(s.stream_, make_stream());
  const int64_t stride = s.offsets_[2] + align(piece_bytes[2]);
  for (int64_t i = 0; i < slot_count(experts); ++i) {
    Slot& slot = s.slots_.emplace_back();
    slot.data = memory + i * stride;
    LLADA_TRY(slot.used, make_event(false));
    for (Event& piece : slot.piece) {
      LLADA_TRY(piece, make_event(false));
    }
    s.free_.push_back(static_cast<size_t>(i));
  }
  for (size_t i = 0; i < kPinned; ++i) {
    Pinned& p = s.pinned_.emplace_back();
    p.data = allocate_pinned(std::ranges::max(piece_bytes));
    if (p.data == nullptr) return failed("cuda: pinned memory for experts could not be allocated");
    LLADA_TRY(p.done, make_event(false));
  }
  s.thread_ = std::thread([&s] { s.work(); });
  return made;
}

ExpertSlots::~ExpertSlots() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// ---- The thread that copies

void ExpertSlots::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || !jobs_.empty(); });
    if (ends_) return;
    const Job job = jobs_.front();
    jobs_.pop_front();
    if (status_) {
      lock.unlock();
      Status done = within_memory([&] { return carry_out(job); });
      lock.lock();
      status_ = std::move(done);
    }
    ++done_;
    changed_.notify_all();
  }
}

// Pieces go one after the other, so a slot that is given up while a piece is under way is written by a later copy only
// behind that piece.
Status ExpertSlots::carry_out(const Job& job) {
  Slot& slot = slots_[job.slot];
  const auto p = static_cast<size_t>(job.piece);
  if (job.after_use)
    LLADA_TRY_STATUS(check(cudaStreamWaitEvent(stream_.get(), slot.used.get(), 0), "waiting for an expert's slot"));
  Pinned& staging = pinned_[static_cast<size_t>(done_) % pinned_.size()];
  LLADA_TRY_STATUS(check(cudaEventSynchronize(staging.done.get()), "an expert's staging buffer"));
  const size_t bytes = job.from.size();
  if (bytes > static_cast<size_t>(piece_bytes_[p]))
    return failed("cuda: a piece of an expert has {} bytes, its slot {}", bytes, piece_bytes_[p]);
  const auto begin = std::chrono::steady_clock::now();
  std::memcpy(staging.data.get(), job.from.data(), bytes);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  LLADA_TRY_STATUS(
      check(cudaMemcpyAsync(slot.data + offsets_[p], staging.data.get(), bytes, cudaMemcpyHostToDevice, stream_.get()),
            "moving an expert"));
  LLADA_TRY_STATUS(check(cudaEventRecord(staging.done.get(), stream_.get()), "moving an expert"));
  LLADA_TRY_STATUS(check(cudaEventRecord(slot.piece[p].get(), stream_.get()), "moving an expert"));
  const std::lock_guard lock(mutex_);
  traffic_.moved_bytes += static_cast<int64_t>(bytes);
  traffic_.copy_s += took.count();
  return {};
}

// Without an error: after one, finished tickets were dropped, and their events are those of the experts before.
bool ExpertSlots::queued(int64_t ticket) {
  const std::lock_guard lock(mutex_);
  return status_ && done_ >= ticket;
}

Status ExpertSlots::wait_queued(int64_t ticket) {
  std::unique_lock lock(mutex_);
  const auto begin = std::chrono::steady_clock::now();
  changed_.wait(lock, [&] { return done_ >= ticket; });
  traffic_.wait_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return status_;
}

ExpertTraffic ExpertSlots::traffic() {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

// ---- Books

Status ExpertSlots::enter(ExpertId id, MoveTo to) {
  if (held_.contains(id)) return failed("cuda: expert {} of layer {} is moved, but it is there", id.expert, id.layer);
  if (to != MoveTo::staging)
    LLADA_TRY_STATUS(books_.enter(id, to == MoveTo::slot ? ExpertBooks::Where::slot : ExpertBooks::Where::buffer));
  if (free_.empty()) return failed("cuda: no slot is free for expert {} of layer {}", id.expert, id.layer);
  held_[id] = {.slot = free_.front()};
  free_.pop_front();
  return {};
}

Status ExpertSlots::leave(ExpertId id, cudaStream_t compute) {
  const auto it = held_.find(id);
  if (it == held_.end()) return {};
  books_.leave(id);
  Slot& slot = slots_[it->second.slot];
  slot.was_used = true;
  free_.push_back(it->second.slot);
  held_.erase(it);
  std::erase(arriving_, id);
  return check(cudaEventRecord(slot.used.get(), compute), "an event of an expert's slot");
}

Status ExpertSlots::make_room(const ExpertMove& move, cudaStream_t compute) {
  if (!move.replaces) return {};
  LLADA_TRY_STATUS(books_.check_room(move));
  return leave(*move.replaces, compute);
}

Status ExpertSlots::copy_piece(ExpertId id, Held& held) {
  Slot& slot = slots_[held.slot];
  const int p = held.next_piece++;
  {
    const std::lock_guard lock(mutex_);
    if (!status_) return status_;
    slot.ticket[static_cast<size_t>(p)] = ++asked_;
    jobs_.push_back({held.slot, p, source_(id, p), p == 0 && slot.was_used});
  }
  changed_.notify_all();
  return {};
}

Status ExpertSlots::cancel(ExpertId id) {
  const auto it = held_.find(id);
  if (it == held_.end() || !it->second.background)
    return failed("cuda: expert {} of layer {} is not being moved ahead", id.expert, id.layer);
  // Nothing has read the slot since it was assigned: its event still stands.
  books_.leave(id);
  free_.push_back(it->second.slot);
  held_.erase(it);
  std::erase(arriving_, id);
  return {};
}

Status ExpertSlots::assign(const ExpertMove& move, cudaStream_t compute) {
  if (move.to == MoveTo::staging) return enter(move.id, move.to);
  LLADA_TRY_STATUS(make_room(move, compute));
  LLADA_TRY_STATUS(enter(move.id, move.to));
  arriving_.push_back(move.id);
  return {};
}

const uint8_t* ExpertSlots::address(ExpertId id, int piece) const {
  const auto it = held_.find(id);
  if (it == held_.end()) return nullptr;
  return slots_[it->second.slot].data + offsets_[static_cast<size_t>(piece)];
}

bool ExpertSlots::arrived(ExpertId id) {
  const auto it = held_.find(id);
  if (it == held_.end()) return false;
  Held& held = it->second;
  const Slot& slot = slots_[held.slot];
  if (!held.arrived && held.next_piece == 3 && queued(slot.ticket[2]))
    held.arrived = cudaEventQuery(slot.piece[2].get()) == cudaSuccess;
  return held.arrived;
}

Status ExpertSlots::copy(ExpertId id) {
  Held& held = held_.at(id);
  held.background = false;
  while (held.next_piece < 3) LLADA_TRY_STATUS(copy_piece(id, held));
  return {};
}

Status ExpertSlots::wait(ExpertId id, int piece, cudaStream_t compute) {
  const Slot& slot = slots_[held_.at(id).slot];
  LLADA_TRY_STATUS(wait_queued(slot.ticket[static_cast<size_t>(piece)]));
  return check(cudaStreamWaitEvent(compute, slot.piece[static_cast<size_t>(piece)].get(), 0), "waiting for an expert");
}

Status ExpertSlots::used(const ExpertMove& move, cudaStream_t compute) {
  return move.to == MoveTo::staging ? leave(move.id, compute) : Status{};
}

Status ExpertSlots::release(ExpertId id, cudaStream_t compute) { return leave(id, compute); }

Status ExpertSlots::keep(const ExpertMove& move, cudaStream_t compute) {
  LLADA_TRY_STATUS(make_room(move, compute));
  return books_.keep(move.id);
}

Status ExpertSlots::add_background(const ExpertMove& move, cudaStream_t compute) {
  LLADA_TRY_STATUS(assign(move, compute));
  held_.at(move.id).background = true;
  return {};
}

Status ExpertSlots::pump() {
  for (const ExpertId id : arriving_) {
    Held& held = held_.at(id);
    if (!held.background || held.next_piece == 3) continue;
    {
      const std::lock_guard lock(mutex_);
      if (done_ < asked_) return {};
      const size_t last = static_cast<size_t>(done_ + static_cast<int64_t>(pinned_.size()) - 1) % pinned_.size();
      if (cudaEventQuery(pinned_[last].done.get()) == cudaErrorNotReady) return {};
    }
    LLADA_TRY_STATUS(copy_piece(id, held));
    return {};  // one piece: the next may be wanted more
  }
  return {};
}

ExpertLink ExpertSlots::link(const ExpertCosts& costs) {
  ExpertLink link;
  link.traffic = traffic();
  std::vector<ExpertId> left;
  double ready = 0;
  for (const ExpertId id : arriving_) {
    if (arrived(id)) {
      held_.at(id).background = false;
      continue;
    }
    const Held& held = held_.at(id);
    // The piece under way counts whole: how much of it is left is not known.
    for (int p = std::max(0, held.next_piece - 1); p < 3; ++p) ready += costs.piece_link_s(p);
    if (held.next_piece > 0) link.free_s = std::max(link.free_s, costs.piece_link_s(held.next_piece - 1));
    left.push_back(id);
    link.arriving.push_back({id, held.next_piece > 0, ready});
  }
  arriving_ = std::move(left);
  return link;
}

Status ExpertSlots::wait_for_copies() {
  LLADA_TRY_STATUS(wait_queued(asked_));
  return check(cudaStreamSynchronize(stream_.get()), "moving experts");
}

}  // namespace llada::cuda
