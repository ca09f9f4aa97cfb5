// A device's use of the matrix unit: taken with its sessions where the self-test has passed, and given up for good once
// something is wrong with it.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "devices/hexagon/hexagon_device.h"
#include "devices/hexagon/unit_record.h"

namespace llada::hexagon {

class UnitUse {
 public:
  // All sessions have it or none has, so that a row does not know its session. An error: options ask for a unit whose
  // test has not passed. One that is refused is a line of options.warn.
  Status take(const HexagonOptions& options, const Library& library,
              std::span<const std::shared_ptr<Session>> sessions);
  uint32_t units() const { return taken_ ? 1 : 0; }  // WireUnit of a batch

  // No effect where it is not taken. why: also for later runs of the program.
  void give_up(const std::string& why);
  // The same, and lost() says so once.
  void lose(const std::string& why);
  std::string lost();

 private:
  std::optional<UnitRecords> records_;
  bool taken_ = false, given_up_ = false;
  std::string lost_;
};

}  // namespace llada::hexagon
