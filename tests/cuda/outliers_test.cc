// Emulated, or measured on a GPU (kernels_test.cc): what the GPU loses where a few input channels are far larger than
// the rest, as in large transformers, beside products of int8 activations with a scale per 32. The device's activations
// are floats or, on tensor cores, the sum of two halves, so next to nothing is to be lost.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "cuda/found_gpu.h"
#include "devices/cuda/kernels.h"
#include "devices/cuda/runtime.h"
#include "kernels/kernel_test_data.h"
#include "tensor/quantize.h"

namespace llada::cuda {
namespace {

constexpr int kInputs = 4096, kColumns = 24, kRows = 6;

// Every row's activations, and the channels of which all rows have large ones.
std::vector<float> activations(int channels, float factor) {
  kernels::testing::Random random(17);
  std::vector<float> x(size_t{kRows} * kInputs);
  for (float& v : x) v = random.normal();
  for (int i = 0; i < channels; ++i) {
    const auto channel = static_cast<size_t>(mix64(static_cast<uint64_t>(i) + 99) % kInputs);
    for (size_t r = 0; r < kRows; ++r) x[r * kInputs + channel] *= factor;
  }
  return x;
}

// As the cpu's kernels round them: a scale per 32, largest to 127.
std::vector<float> rounded_by_32(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  for (size_t at = 0; at < x.size(); at += 32) {
    float max = 0;
    for (size_t i = at; i < at + 32; ++i) max = std::max(max, std::fabs(x[i]));
    for (size_t i = at; i < at + 32; ++i) y[i] = max == 0 ? 0 : std::nearbyint(x[i] * 127 / max) * max / 127;
  }
  return y;
}

TEST(CudaOutliers, ActivationsLoseNextToNothing) {
  const char* const how = found_gpu();
  if (how == nullptr) GTEST_SKIP() << "not run: no GPU";
  const auto memory = std::make_shared<Memory>(int64_t{16} << 20);
  const Queue stream = std::move(*make_stream());
  for (const DType type : {DType::Q8_0, DType::Q4_0, DType::Q4_K, DType::Q6_K, DType::F16}) {
    kernels::testing::Random random(5);
    std::vector<float> weights(size_t{kColumns} * kInputs);
    for (float& w : weights) w = random.normal() / 64;
    std::vector<std::byte> stored(static_cast<size_t>(row_bytes(type, kInputs) * kColumns));
    if (type == DType::Q4_K || type == DType::Q6_K) {
      // Nothing writes these types: bytes with small scales.
      for (size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<std::byte>(mix64(i + 1));
      const size_t group = static_cast<size_t>(traits(type).bytes), scale = type == DType::Q4_K ? 0 : 208;
      for (size_t at = 0; at < stored.size(); at += group) {
        const uint16_t small = 0x1400;  // 2^-10
        std::memcpy(stored.data() + at + scale, &small, 2);
        if (type == DType::Q4_K) std::memcpy(stored.data() + at + 2, &small, 2);
      }
    } else {
      quantize_row(type, weights.data(), stored.data(), static_cast<int64_t>(weights.size()));
    }
    for (int c = 0; c < kColumns; ++c)
      dequantize_row(type, stored.data() + c * row_bytes(type, kInputs), weights.data() + size_t{kInputs} * c, kInputs);
    const auto on_device = [&](const void* from, size_t bytes) {
      auto held = memory->allocate(static_cast<int64_t>(bytes), "a test");
      EXPECT_EQ(cudaMemcpyAsync(held->data(), from, bytes, cudaMemcpyHostToDevice, stream.get()), cudaSuccess);
      return std::move(*held);
    };
    const DeviceBytes w = on_device(stored.data(), stored.size());
    for (const auto& [channels, factor] :
         {std::pair{0, 1.0f}, {3, 8.0f}, {3, 32.0f}, {3, 100.0f}, {16, 8.0f}, {16, 32.0f}, {16, 100.0f}}) {
      const std::vector<float> x = activations(channels, factor), rounded = rounded_by_32(x);
      std::vector<float> y(size_t{kRows} * kColumns, 0);
      const DeviceBytes in = on_device(x.data(), x.size() * 4), out = on_device(y.data(), y.size() * 4);
      const std::vector<float> nothing(static_cast<size_t>(split_bytes(kRows, kInputs)) / 4);
      const DeviceBytes halves = on_device(nothing.data(), nothing.size() * 4);
      const Matrix matrix{w.data(), type, kInputs, kColumns};
      const auto* const from = reinterpret_cast<const float*>(in.data());
      auto* const to = reinterpret_cast<float*>(out.data());
      double size = 0, error_32 = 0;
      std::vector<double> exact(y.size(), 0);
      for (size_t i = 0; i < y.size(); ++i) {
        double by_32 = 0;
        for (size_t k = 0; k < kInputs; ++k) {
          exact[i] += double{weights[i % kColumns * kInputs + k]} * x[i / kColumns * kInputs + k];
          by_32 += double{weights[i % kColumns * kInputs + k]} * rounded[i / kColumns * kInputs + k];
        }
        size += exact[i] * exact[i];
        error_32 += std::pow(by_32 - exact[i], 2);
      }
      const double relative_32 = std::sqrt(error_32 / size);
      for (const bool tensor : {true, false}) {
        if (tensor) {
          const SplitRows split = split_at(halves.data(), kRows, kInputs, std::array{type});
          split_rows(stream.get(), from, 0, kRows, kInputs, split);
          tensor_product(stream.get(), matrix, split, kRows, 0, kColumns, to, kColumns);
        } else {
          product(stream.get(), matrix, from, kRows, 0, kColumns, to, kColumns);
        }
        ASSERT_EQ(cudaMemcpyAsync(y.data(), to, y.size() * 4, cudaMemcpyDeviceToHost, stream.get()), cudaSuccess);
        ASSERT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
        double error = 0;
        for (size_t i = 0; i < y.size(); ++i) error += std::pow(y[i] - exact[i], 2);
        const double relative = std::sqrt(error / size);
        fmt::print("{:5} {:2} channels {:3} times, {}: {:.1e} ({}), in groups of 32 {:.1e}\n", traits(type).name,
                   channels, factor, tensor ? "tensor cores" : "floats", relative, how, relative_32);
        EXPECT_LT(relative, 2e-6) << traits(type).name << " " << channels << " x " << factor;
        EXPECT_LT(relative, relative_32 / 1000) << traits(type).name << " " << channels << " x " << factor;
      }
    }
  }
}

}  // namespace
}  // namespace llada::cuda
