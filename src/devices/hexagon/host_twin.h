// The host beside a DSP. Ops that the DSP could compute are run by its module in this process (host/module.h), over the
// same packed weights, with the same bits. All others run on the given cpu device. It is the host unit of the hexagon
// device, runs its side passes, and is its fallback.
#pragma once
#include <memory>

#include "devices/hexagon/placement.h"

namespace llada::hexagon {

// cpu: a device over the same weights that runs any op and can be a HostUnit; the returned device can, too.
std::unique_ptr<Device> make_host_twin(Placement placement, std::unique_ptr<Device> cpu);

}  // namespace llada::hexagon
