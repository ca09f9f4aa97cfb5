// The host beside a DSP: ops that the DSP could compute are run by its module in this process (host/module.h), over the
// same packed weights, with the same bits; all others by the cpu device that it is given. It is the host unit of the
// hexagon device, what runs beside a step, and what goes on where the DSP fails.
#pragma once
#include <memory>

#include "devices/hexagon/placement.h"

namespace llada::hexagon {

// cpu: a device over the same weights that runs any op and can be a HostUnit; so can what is returned.
std::unique_ptr<Device> make_host_twin(Placement placement, std::unique_ptr<Device> cpu);

}  // namespace llada::hexagon
