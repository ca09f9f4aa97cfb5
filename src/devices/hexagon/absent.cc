// In place of the Hexagon device where the build found no compiler for its DSP code.
#include "devices/hexagon/divided.h"
#include "devices/hexagon/hexagon_device.h"

namespace llada {
namespace {

std::unexpected<Error> absent() {
  return invalid(
      "hexagon: this build has no DSP code, because clang with the Hexagon target and lld were missing; "
      "needed clang-19, lld-19 and a new build (tools/setup.sh hexagon installs them)");
}

}  // namespace

Result<std::unique_ptr<HexagonDevice>> make_hexagon_device(const HexagonOptions&, std::span<const WeightInfo>,
                                                           std::span<const TensorView>, std::unique_ptr<Device>,
                                                           const WeightHooks&) {
  return absent();
}
Result<std::string> describe_hexagon(const HexagonOptions&) { return absent(); }
Result<double> hexagon::time_on_host(const Buffer&, WireOp, uint32_t, uint32_t, int, int) { return absent(); }

}  // namespace llada
