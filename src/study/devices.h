// The devices of studies, for --device: "sim:PROFILE", a phone's chip or a desktop with a card as a timing model
// (study/sim/sim_device.h). And the options that studies may give to any device: `memory=` with the baselines of the
// plan (study/paging.h).
#pragma once

namespace llada {

class DevicePlugin;

// For LoadOptions::plugin (engine/device_plugin.h). The same object each time; it has no state.
const DevicePlugin& study_devices();

}  // namespace llada
