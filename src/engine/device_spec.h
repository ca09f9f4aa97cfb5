// The text of --device: "cpu", "hexagon", "cuda" or a plugin's (device_plugin.h), with options after commas (after a
// colon, of hexagon and cuda):
//   window=SIZE      of the NPU: "40%" of its weights, "2.5GiB" with the reserve in it, or "unlimited" (a plugin's)
//   memory=POLICY    plan, copy or sessions, and a plugin's (plan)
//   grain=GRAIN      slabs of a layer, half-layer or op (the coarsest that fits)
//   head=UNIT        npu or cpu (npu; a plugin's may differ)
//   sessions=N       processes on the DSP, each with a window (hexagon)
//   positions=N      of the longest canvas that the window leaves room for (hexagon; the model's context, at most 1024)
//   profile=FILE     measurements of llada-study doctor: window, threads, module (hexagon; nothing)
//   library=FILE     libcdsprpc (hexagon; LLADA_CDSPRPC in the environment, the system's, the stand-in)
//   space=SIZE       "64MiB" or "2GiB": of an emulated session's address space (hexagon; the window and the reserve)
//   deadline=SECONDS after which a call of the DSP counts as hanging, beside its work's time (hexagon; 10)
//   split=SHARE      "40%", auto or off: of the columns of products, the host's; not by a matrix unit (hexagon; auto)
//   unit=UNIT        vector, matrix or auto: who multiplies (hexagon; auto: matrix where its test has passed)
//   budget=SIZE      "512MiB" or "4GiB" of device memory for everything (cuda; all of the GPU's)
//   products=KIND    float or tensor: how matrices are multiplied (cuda; float)
//   fallback=UNIT    cpu or none: the unit that takes over when the device fails (cpu; none for the device "cpu")
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "devices/cuda/cuda_device.h"
#include "devices/device.h"
#include "devices/hexagon/hexagon_device.h"
#include "engine/device_plugin.h"
#include "engine/measured_dsp.h"
#include "sched/memory_runtime.h"

namespace llada {

// The value of `window`: at most one member is set.
struct WindowSize {
  double percent = 0;  // of the weights that the accelerator reads
  double gib = 0;      // with the reserve beside weights
  bool unlimited = false;
  int64_t share_of(int64_t bytes) const { return static_cast<int64_t>(static_cast<double>(bytes) * percent / 100); }
};

struct DeviceSpec {
  std::unique_ptr<PluginDevice> plugin;  // null: one of the engine's
  bool hexagon = false, cuda = false;    // none of the three: the cpu itself
  CudaOptions gpu;                       // experts are set once the model is known
  HexagonOptions dsp;                    // window_bytes and reserve_bytes are set once the weights are known
  std::optional<int64_t> positions;      // of hexagon
  std::optional<double> host_share;      // of hexagon's products; absent: as measured
  MeasuredDsp measured;                  // of hexagon; its window counts where none is given
  WindowSize window;
  std::optional<bool> head_on_accelerator;
  MemoryOptions memory;
  bool fallback = false;
  DevicePlugin::Wrap wrap;  // empty: none
};

// plugin: may be null.
Result<DeviceSpec> parse_device_spec(const std::string& text, const DevicePlugin* plugin);

}  // namespace llada
