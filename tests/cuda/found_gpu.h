// What the programs of this folder's kernel tests run on: the emulator or a GPU.
#pragma once
#include <cuda_runtime_api.h>

#include <string_view>

namespace llada::cuda {

// "emulated" or "measured"; null where there is no GPU.
inline const char* found_gpu() {
  int count = 0;
  cudaDeviceProp properties{};
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0 || cudaGetDeviceProperties(&properties, 0) != cudaSuccess)
    return nullptr;
  return std::string_view(properties.name).find("emulator") != std::string_view::npos ? "emulated" : "measured";
}

}  // namespace llada::cuda
