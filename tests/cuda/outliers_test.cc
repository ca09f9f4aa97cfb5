// Emulated: what the GPU loses where a few input channels are far larger than the rest, as in large transformers, beside
// products of int8 activations with a scale per 32. The device's activations are floats, so nothing is to be lost.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
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

TEST(CudaOutliers, FloatActivationsLoseNothing) {
  const auto memory = std::make_shared<Memory>(int64_t{16} << 20);
  const Stream stream = std::move(*make_stream());
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
      product(stream.get(), {w.data(), type, kInputs, kColumns}, reinterpret_cast<const float*>(in.data()), kRows, 0, kColumns,
              reinterpret_cast<float*>(out.data()), kColumns);
      ASSERT_EQ(cudaMemcpyAsync(y.data(), out.data(), y.size() * 4, cudaMemcpyDeviceToHost, stream.get()), cudaSuccess);
      ASSERT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
      double size = 0, error = 0, error_32 = 0;
      for (size_t r = 0; r < kRows; ++r)
        for (size_t c = 0; c < kColumns; ++c) {
          double exact = 0, by_32 = 0;
          for (size_t k = 0; k < kInputs; ++k) {
            exact += double{weights[c * kInputs + k]} * x[r * kInputs + k];
            by_32 += double{weights[c * kInputs + k]} * rounded[r * kInputs + k];
          }
          size += exact * exact;
          error += std::pow(y[r * kColumns + c] - exact, 2), error_32 += std::pow(by_32 - exact, 2);
        }
      const double relative = std::sqrt(error / size), relative_32 = std::sqrt(error_32 / size);
      fmt::print("{:5} {:2} channels {:3} times: {:.1e} (emulated), in groups of 32 {:.1e}\n", traits(type).name, channels,
                 factor, relative, relative_32);
      EXPECT_LT(relative, 2e-6) << traits(type).name << " " << channels << " x " << factor;
      EXPECT_LT(relative, relative_32 / 1000) << traits(type).name << " " << channels << " x " << factor;
    }
  }
}

}  // namespace
}  // namespace llada::cuda
