// Every device that the conformance tests run, and how each is opened over a small model.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "devices/cpu/cpu_device.h"
#include "devices/cuda/cuda_device.h"
#include "devices/hexagon/hexagon_device.h"
#include "geometry/reference_forward.h"
#include "kernels/kernels.h"
#include "sched/memory_runtime.h"
#include "study/sim/sim_device.h"

namespace llada {

struct DeviceUnderTest {
  std::string name;
  std::function<Result<std::unique_ptr<Device>>(const SmallModel&)> open;
};
inline void PrintTo(const DeviceUnderTest& device, std::ostream* out) { *out << device.name; }

// A sim device in front of the cpu device, its window half of the layers, so that they stream.
inline Result<std::unique_ptr<Device>> open_sim(const char* profile, const SmallModel& m) {
  LLADA_TRY(auto numerics, make_cpu_device({.threads = 2, .isa = ""}, m.graph.weights, m.views, {}));
  std::vector<WeightSize> sizes;
  for (const TensorView& v : m.views) sizes.push_back({v.bytes(), v.type, v.shape.rank > 1});
  int64_t layers = 0;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (m.graph.weights[i].layer >= 0) layers += sizes[i].bytes;
  LLADA_TRY(const Profile p, load_profile(profile));
  SimOptions options;
  if (p.window_gib) options.window_bytes = std::max<int64_t>(layers / 2, 32 << 10);
  LLADA_TRY(auto device, make_sim_device(p, options, m.graph.weights, sizes, std::move(numerics)));
  return device;
}

// The emulated DSP in front of the cpu device, its window three quarters of the weights, so that they stream;
// all of them where one is more than half.
inline Result<std::unique_ptr<Device>> open_hexagon(const SmallModel& m) {
  LLADA_TRY(auto host, make_cpu_device({.threads = 2, .isa = ""}, m.graph.weights, m.views, {}));
  LLADA_TRY(auto device, make_hexagon_device({.deadline_s = 60}, m.graph.weights, m.views, std::move(host)));
  const Program program = m.graph.forward(plain_shape(1, 1));
  const auto uses = weight_uses(program, *device);
  const auto slabs = group_slabs(uses, SlabGrain::op, device->window().page_bytes);
  const int64_t all = total_bytes(slabs), largest = std::ranges::max_element(slabs, {}, &Slab::bytes)->bytes;
  device->set_window(2 * largest > all ? all : all * 3 / 4);
  return device;
}

inline Result<std::unique_ptr<Device>> open_cuda(const SmallModel& m, bool tensor_products) {
  LLADA_TRY(auto host, make_cpu_device({.threads = 2, .isa = ""}, m.graph.weights, m.views, {}));
  LLADA_TRY(auto device, make_cuda_device({.budget_bytes = 256 << 20, .tensor_products = tensor_products},
                                          m.graph.weights, m.views, std::move(host)));
  return device;
}
// This program has the cuda device over the emulator of tests/cuda_emulator, or over a GPU: the name says which.
inline std::string cuda_name(bool tensor_products) {
  const bool emulated = describe_cuda().value_or("").find("emulated") != std::string::npos;
  return fmt::format("cuda{}{}", tensor_products ? "_tensor" : "", emulated ? "_emulated" : "");
}

// One per instruction set of the cpu device, sim devices, the DSP, the GPU; a new device adds its line here.
inline std::vector<DeviceUnderTest> all_devices() {
  std::vector<DeviceUnderTest> devices;
  for (const auto* table : kernels::available())
    devices.push_back({"cpu_" + std::string(table->isa), [table](const SmallModel& m) {
                         return make_cpu_device({.threads = 2, .isa = table->isa}, m.graph.weights, m.views, {});
                       }});
  for (const char* profile : {"sm8750-paper", "v81-8elite-gen5"})
    devices.push_back(
        {"sim_" + std::string(profile, 0, 3), [profile](const SmallModel& m) { return open_sim(profile, m); }});
  devices.push_back({"hexagon", open_hexagon});
  for (const bool tensor : {false, true})
    devices.push_back({cuda_name(tensor), [tensor](const SmallModel& m) { return open_cuda(m, tensor); }});
  return devices;
}

// An emulator's forward is slow.
inline bool emulated(const DeviceUnderTest& device) {
  return device.name == "hexagon" || device.name.ends_with("_emulated");
}

// Why the device cannot be tested here; empty where it can.
inline std::string absent(const DeviceUnderTest& device) {
  if (device.name == "hexagon")
    if (const auto found = describe_hexagon({}); !found) return found.error().message;
  if (device.name.starts_with("cuda"))
    if (const auto found = describe_cuda(); !found) return "not run: " + found.error().message;
  return "";
}

// A test on one of all_devices(), where that is here.
class OnDevice : public testing::TestWithParam<DeviceUnderTest> {
 protected:
  void SetUp() override {
    if (const std::string why = absent(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
};

}  // namespace llada
