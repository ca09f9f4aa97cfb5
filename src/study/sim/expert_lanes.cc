#include "study/sim/expert_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace llada {

ExpertLanes::ExpertLanes(Lanes& lanes, const ExpertCosts& costs, const ExpertWindow& window, bool labels)
    : lanes_(lanes),
      costs_(costs),
      labels_(labels),
      books_("sim", window),
      staging_(static_cast<size_t>(std::max(1, costs.staging))) {}

Status ExpertLanes::place(ExpertId id) { return books_.holds(id) ? Status{} : books_.enter(id, Where::slot); }

TaskId ExpertLanes::add_piece(ExpertId id, int piece, TaskId after, bool background) {
  LaneTask task;
  task.lane = link_lane();
  task.fixed_s = costs_.piece_s;
  const double bytes = costs_.piece_bytes[static_cast<size_t>(piece)];
  if (costs_.link_reads_memory) {
    task.bytes = bytes;
    task.bytes_per_s = costs_.link_bytes_per_s;
  } else {
    task.fixed_s += bytes / costs_.link_bytes_per_s;
  }
  task.after = after;
  task.background = background;
  if (labels_)
    task.label = fmt::format("{}expert {}.{} {}", background ? "ahead " : "", id.layer, id.expert,
                             std::array{"gate", "up", "down"}[static_cast<size_t>(piece)]);
  moved_bytes_ += static_cast<int64_t>(bytes);
  return lanes_.add(std::move(task));
}

// Pieces of a move that have not begun never will.
void ExpertLanes::drop_pieces(ExpertId id) {
  const auto found = arriving_.find(id);
  if (found == arriving_.end()) return;
  for (size_t p = 0; p < 3; ++p)
    if (lanes_.cancel(found->second.pieces[p])) moved_bytes_ -= static_cast<int64_t>(costs_.piece_bytes[p]);
  arriving_.erase(found);
  std::erase(order_, id);
}

Status ExpertLanes::cancel(ExpertId id) {
  const auto found = arriving_.find(id);
  if (found == arriving_.end() || !found->second.background)
    return failed("sim: expert {} of layer {} is not being moved ahead", id.expert, id.layer);
  drop_pieces(id);
  books_.leave(id);
  return {};
}

Status ExpertLanes::make_room(const ExpertMove& move) {
  if (!move.replaces) return {};
  LLADA_TRY_STATUS(books_.check_room(move, arriving_.contains(*move.replaces)));
  books_.leave(*move.replaces);
  return {};
}

Status ExpertLanes::keep(const ExpertMove& move) {
  LLADA_TRY_STATUS(make_room(move));
  return books_.keep(move.id);
}

void ExpertLanes::hurry(ExpertId id) {
  Move& move = arriving_.at(id);
  if (!move.background) return;
  for (size_t p = 0; p < 3; ++p)
    if (lanes_.cancel(move.pieces[p])) {
      moved_bytes_ -= static_cast<int64_t>(costs_.piece_bytes[p]);
      move.pieces[p] = add_piece(id, static_cast<int>(p), kNoTask, false);
    }
  move.background = false;
}

ExpertLink ExpertLanes::link() {
  ExpertLink link;
  link.free_s = lanes_.free_in_s(link_lane());
  std::vector<ExpertId> left;
  for (const ExpertId id : order_) {
    const Move& move = arriving_.at(id);
    double ready = link.free_s;
    bool started = false, there = true;
    for (size_t p = 0; p < 3; ++p) {
      if (lanes_.finished(move.pieces[p])) {
        started = true;
        continue;
      }
      there = false;
      if (lanes_.started(move.pieces[p]))
        started = true;
      else
        ready += costs_.piece_link_s(static_cast<int>(p));
    }
    if (there) {
      arriving_.erase(id);
      continue;
    }
    left.push_back(id);
    link.arriving.push_back({id, started, ready});
  }
  order_ = std::move(left);
  return link;
}

Result<TaskId> ExpertLanes::run(const ExpertsPlan& plan, TaskId after) {
  link();  // forgets experts that have arrived
  for (const ExpertId id : plan.cancelled) LLADA_TRY_STATUS(cancel(id));
  Layer layer{.plan = plan, .after = after};
  for (const ExpertWork& work : plan.work) (work.on_device ? layer.device : layer.host).push_back(work);
  // Experts that are needed now and still on their way go before new moves.
  for (const ExpertWork& work : layer.device)
    if (const ExpertId id{plan.layer, work.expert}; arriving_.contains(id)) hurry(id);
  for (const ExpertMove& move : plan.moves)
    if (!move.background) LLADA_TRY_STATUS(add_move(layer, move));
  if (plan.moves_first) layer.wait = layer.last_move;
  TaskId last_host = kNoTask;
  for (const ExpertWork& work : layer.host) last_host = add_host(layer, work);
  while (layer.next_device < layer.device.size()) LLADA_TRY_STATUS(add_device(layer));
  for (const ExpertId id : plan.released) {
    drop_pieces(id);
    books_.leave(id);
  }
  for (const ExpertMove& move : plan.kept) LLADA_TRY_STATUS(keep(move));
  // Last: a victim may be in this layer's queue, and goes when that has been read.
  for (const ExpertMove& move : plan.moves)
    if (move.background) LLADA_TRY_STATUS(add_move(layer, move));
  LaneTask join;  // no time of its own; behind the accelerator's work in its queue
  join.lane = Lane::npu;
  join.after = last_host != kNoTask ? last_host : after;
  join.maps[0] = layer.wait;
  return lanes_.add(std::move(join));
}

Status ExpertLanes::add_move(Layer& layer, const ExpertMove& m) {
  const ExpertId id = m.id;
  if (books_.holds(id)) return failed("sim: expert {} of layer {} is moved, but it is there", id.expert, id.layer);
  const bool here = id.layer == layer.plan.layer && !m.background;
  if (m.to == MoveTo::staging && !here)
    return failed("sim: expert {} of layer {} is staged for later", id.expert, id.layer);
  TaskId slot_free = kNoTask;
  if (m.to == MoveTo::staging) {
    Slot& slot = staging_[next_staging_];
    // Its products have to be in the queue before something can wait for them.
    while (slot.expert >= 0 && layer.next_device < layer.device.size()) LLADA_TRY_STATUS(add_device(layer));
    slot_free = slot.used;
    slot.expert = id.expert;
  } else {
    LLADA_TRY_STATUS(make_room(m));
    LLADA_TRY_STATUS(books_.enter(id, m.to == MoveTo::slot ? Where::slot : Where::buffer));
  }
  Move move{.pieces = {}, .background = m.background};
  for (int p = 0; p < 3; ++p)
    move.pieces[static_cast<size_t>(p)] = add_piece(id, p, p == 0 ? slot_free : kNoTask, m.background);
  if (m.to == MoveTo::staging) {
    staging_[next_staging_].used = move.pieces[2];
    next_staging_ = (next_staging_ + 1) % staging_.size();
  } else {
    arriving_[id] = move;
    order_.push_back(id);
  }
  if (here) layer.moved[id.expert] = move, layer.last_move = move.pieces[2];
  return {};
}

TaskId ExpertLanes::add_host(Layer& layer, const ExpertWork& work) {
  LaneTask task;
  task.lane = Lane::cpu;
  const bool first = layer.last_host < 0;
  task.fixed_s = first ? costs_.host_first_s : 0;
  if (first || !costs_.same_expert(layer.last_host, work.expert)) task.fixed_s += costs_.host_expert_s;
  layer.last_host = work.expert;
  (costs_.host_overlap ? task.compute_s : task.fixed_s) += costs_.host_compute_s(work.rows);
  task.bytes = costs_.expert_bytes();
  task.bytes_per_s = costs_.host_bytes_per_s;
  task.after = layer.after;
  task.maps[0] = layer.wait;
  if (labels_) task.label = fmt::format("expert {}.{} x{}", layer.plan.layer, work.expert, work.rows);
  return lanes_.add(std::move(task));
}

// The next of the accelerator's queue.
Status ExpertLanes::add_device(Layer& layer) {
  const ExpertWork work = layer.device[layer.next_device++];
  const ExpertId id{layer.plan.layer, work.expert};
  const auto own = layer.moved.find(work.expert);
  const auto late = arriving_.find(id);
  // Where everything waits for the moves, new residents are there like the others.
  const bool moved = own != layer.moved.end();
  const bool pieces = moved && !(layer.plan.moves_first && resident(id));
  const bool there = !pieces && (moved || late == arriving_.end());
  if (!pieces && !books_.holds(id))
    return failed("sim: expert {} of layer {} is on the accelerator's list, but not there", id.expert, id.layer);
  const bool goes_on = there && layer.last_there >= 0 && costs_.one_start(layer.last_there, work.expert);
  layer.last_there = there ? work.expert : -1;
  TaskId last = kNoTask;
  for (size_t p = 0; p < (pieces ? 3 : 1); ++p) {
    const double share = pieces ? costs_.piece_bytes[p] / costs_.expert_bytes() : 1;
    LaneTask task;
    task.lane = Lane::npu;
    task.fixed_s = goes_on ? costs_.device_member_s : costs_.device_expert_s * share;
    task.compute_s = costs_.device_compute_s(work.rows) * share;
    const double bytes = costs_.expert_bytes() * share;
    if (costs_.device_shares_memory)
      task.bytes = bytes, task.bytes_per_s = costs_.device_bytes_per_s;
    else
      task.compute_s = std::max(task.compute_s, bytes / costs_.device_bytes_per_s);
    task.after = layer.after;
    task.maps[0] = layer.plan.moves_first ? layer.last_move : kNoTask;
    if (pieces)
      task.maps[1] = own->second.pieces[p];
    else if (!there)
      task.maps[1] = late->second.pieces[2];
    if (labels_)
      task.label = fmt::format("expert {}.{} x{}{}", id.layer, id.expert, work.rows,
                               pieces ? std::array{" gate", " up", " down"}[p] : "");
    last = lanes_.add(std::move(task));
  }
  for (Slot& slot : staging_)
    if (pieces && slot.expert == work.expert) slot = {-1, last};
  return {};
}

}  // namespace llada
