// Who is where among an accelerator's places for experts: slots of residents, and the buffer of experts moved ahead on
// a guess. The plan, the devices and the simulation each keep such books, so that a plan that the places could not hold
// is refused. An expert that passes through staging is not booked.
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

  // A slot or a place in the buffer.
  Status enter(ExpertId id, Where where);
  // From wherever it is.
  void leave(ExpertId id);
  // Checks that the expert to be replaced can make room: a resident that is not on its way.
  Status check_room(const ExpertMove& move, bool arriving = false) const;
  // From the buffer to a slot.
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
