#include "devices/expert_books.h"

namespace llada {

ExpertBooks::ExpertBooks(std::string keeper, const ExpertWindow& window)
    : keeper_(std::move(keeper)),
      window_(window),
      where_(static_cast<size_t>(window.layers) * static_cast<size_t>(window.experts), Where::nowhere),
      in_layer_(static_cast<size_t>(window.layers), 0) {}

Status ExpertBooks::enter(ExpertId id, Where where) {
  if (holds(id)) return failed("{}: expert {} of layer {} is moved, but it is there", keeper_, id.expert, id.layer);
  const bool slot = where == Where::slot;
  const int64_t taken = slot ? residents_ : static_cast<int64_t>(buffered_.size());
  const int64_t most = slot ? window_.slots : window_.buffer;
  if (taken >= most)
    return failed("{}: expert {} of layer {} needs a {}, all {} are taken", keeper_, id.expert, id.layer,
                  slot ? "slot" : "place in the buffer", most);
  where_[index(id)] = where;
  if (slot)
    ++residents_, ++in_layer_[static_cast<size_t>(id.layer)];
  else
    buffered_.insert(id);
  return {};
}

void ExpertBooks::leave(ExpertId id) {
  if (resident(id)) --residents_, --in_layer_[static_cast<size_t>(id.layer)];
  buffered_.erase(id);
  where_[index(id)] = Where::nowhere;
}

Status ExpertBooks::check_room(const ExpertMove& move, bool arriving) const {
  if (!move.replaces || (resident(*move.replaces) && !arriving)) return {};
  return failed("{}: expert {} of layer {} is to make room, but it is not there", keeper_, move.replaces->expert,
                move.replaces->layer);
}

Status ExpertBooks::keep(ExpertId id) {
  if (where(id) != Where::buffer)
    return failed("{}: expert {} of layer {} is to be kept, but it is not in the buffer", keeper_, id.expert, id.layer);
  leave(id);
  return enter(id, Where::slot);
}

}  // namespace llada
