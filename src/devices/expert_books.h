// Which experts an accelerator holds, and where: in slots (residents) or in the buffer of experts moved ahead on a
// guess. The planner, the devices and the simulation each keep such books, and refuse plans that the places cannot
// hold. Experts that pass through staging are not booked.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "devices/experts.h"

namespace llada {

class ExpertBooks {
 public:
  enum class Where : uint8_t { nowhere, slot, buffer };

  // keeper: "cuda", for errors.
  ExpertBooks(std::string keeper, const ExpertWindow& window);

  Where where(ExpertId id) const { return where_[index(id)]; }
  bool resident(ExpertId id) const { return where(id) == Where::slot; }
  bool holds(ExpertId id) const { return where(id) != Where::nowhere; }
  int64_t residents() const { return residents_; }
  int32_t residents(int32_t layer) const { return in_layer_[static_cast<size_t>(layer)]; }
  const std::set<ExpertId>& buffered() const { return buffered_; }

  // Failed: it is there already, or no slot or place in the buffer is free.
  Status enter(ExpertId id, Where where);
  void leave(ExpertId id);
  // Failed: the expert to be replaced cannot make room, since it is not resident or still on its way (`arriving`).
  Status check_room(const ExpertMove& move, bool arriving = false) const;
  // Moves the expert from the buffer to a slot.
  Status keep(ExpertId id);

 private:
  size_t index(ExpertId id) const { return static_cast<size_t>(id.layer * window_.experts + id.expert); }

  std::string keeper_;
  ExpertWindow window_;
  std::vector<Where> where_;
  std::vector<int32_t> in_layer_;  // residents
  std::set<ExpertId> buffered_;
  int64_t residents_ = 0;
};

}  // namespace llada
