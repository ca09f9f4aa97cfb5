// A device's use of the matrix unit: taken with its sessions where the self-test has passed, and given up for good once
// something is wrong with it. Devices over the same weights share a grant, so that all compute alike: where the system
// gives the unit to some of them only, all are the vector unit's. Once a batch has been computed with it, a device that
// does not get it is refused instead.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "devices/hexagon/hexagon_device.h"
#include "devices/hexagon/unit_record.h"

namespace llada::hexagon {

struct UnitGrant {
  std::mutex mutex;    // guards the members below
  int holders = 0;     // devices that have it
  bool used = false;   // by a batch
  bool ended = false;  // for all
};

class UnitUse {
 public:
  explicit UnitUse(std::shared_ptr<UnitGrant> grant = std::make_shared<UnitGrant>()) : grant_(std::move(grant)) {}
  UnitUse(UnitUse&&) = delete;
  ~UnitUse() { release(); }

  const std::shared_ptr<UnitGrant>& grant() const { return grant_; }

  // All sessions have it or none has, so that a row does not know its session. An error: options ask for a unit whose
  // test has not passed; or other devices have computed with a unit that this one does not get. One that is refused
  // before is a line of options.warn.
  Status take(const HexagonOptions& options, const Library& library,
              std::span<const std::shared_ptr<Session>> sessions);
  uint32_t units() const;  // WireUnit of a batch
  uint32_t begin_batch();  // the same, of a batch that runs next

  // No effect where it is not taken. why: also for later runs of the program.
  void give_up(const std::string& why);
  // The same, and lost() says so once.
  void lose(const std::string& why);
  std::string lost();

 private:
  void release();

  std::shared_ptr<UnitGrant> grant_;
  std::optional<UnitRecords> records_;
  bool taken_ = false;
  std::string lost_;
};

}  // namespace llada::hexagon
