// The state of this phone's matrix unit, kept on disk: its self-test (`llada-study doctor --device hexagon`) has begun,
// has passed, or something went wrong since. It holds for one system and one module, since an update of either
// may change the answer. The mark of a beginning stands before the unit's first instruction. A phone that hung on it
// still has the mark after a reboot, and the unit is left alone.
#pragma once
#include <string>

#include "base/error.h"

namespace llada::hexagon {

class Library;
class Session;

struct UnitRecord {
  enum class State { none, began, passed, failed };
  State state = State::none;
  std::string why;  // of failed
};

class UnitRecords {
 public:
  // folder: of the user's caches; empty: nothing is kept, and no unit is used.
  UnitRecords(const std::string& folder, const Library& library, const Session& session);

  UnitRecord read() const;
  // On disk when it returns.
  Status write(const UnitRecord& record) const;
  // Why the unit is not used, with the next step; empty: its test has passed.
  std::string refusal() const;
  std::string file() const { return folder_ + "/hexagon-unit"; }

 private:
  std::string folder_, identity_;  // identity_: of system and module, one line
};

}  // namespace llada::hexagon
