// The GPU's reading of every stored type against its scalar definition, and products against double arithmetic.
// Emulated in test_cuda; test_cuda_kernels_gpu is the same on a GPU.
#include "devices/cuda/kernels.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "cuda/found_gpu.h"
#include "devices/cuda/runtime.h"
#include "must.h"
#include "tensor/half.h"
#include "tensor/quantize.h"

namespace llada::cuda {
namespace {

constexpr DType kTypes[] = {DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0, DType::Q4_K, DType::Q6_K};

// Rows of any bytes, with scales that are numbers of ordinary size.
std::vector<std::byte> any_rows(DType type, int64_t rows, int64_t columns) {
  std::vector<std::byte> bytes(static_cast<size_t>(row_bytes(type, columns) * rows));
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(mix64(i + static_cast<uint64_t>(type) * 7919));
  const auto each = [&](size_t size, auto set) {
    for (size_t at = 0; at + size <= bytes.size(); at += size) set(bytes.data() + at, uniform(3, at, 0, 0));
  };
  const auto half = [](std::byte* to, double value) {
    const uint16_t bits = float_to_f16(static_cast<float>(value));
    std::memcpy(to, &bits, 2);
  };
  const auto float_of = [](double u) { return static_cast<float>(2 * u - 1); };
  switch (type) {
    case DType::F32:
      each(4, [&](std::byte* p, double u) {
        const float f = float_of(u);
        std::memcpy(p, &f, 4);
      });
      break;
    case DType::F16:
      each(2, [&](std::byte* p, double u) { half(p, 2 * u - 1); });
      break;
    case DType::BF16:
      each(2, [&](std::byte* p, double u) {
        const uint16_t b = float_to_bf16(float_of(u));
        std::memcpy(p, &b, 2);
      });
      break;
    case DType::Q4_K:
      each(144, [&](std::byte* p, double u) { half(p, 0.01 * u), half(p + 2, 0.02 * u); });
      break;
    case DType::Q6_K:
      each(210, [&](std::byte* p, double u) { half(p + 208, 0.001 * u); });
      break;
    default:
      each(static_cast<size_t>(traits(type).bytes), [&](std::byte* p, double u) { half(p, 0.1 * u); });
  }
  return bytes;
}

class Kernels : public testing::Test {
 protected:
  void SetUp() override {
    if (!found_gpu()) GTEST_SKIP() << "not run: no GPU";
    stream_ = std::move(*make_stream());
  }
  template <class T>
  const T* put(const T* from, size_t n) {
    auto bytes = memory_->allocate(static_cast<int64_t>(n * sizeof(T)), "a test");
    EXPECT_TRUE(bytes);
    held_.push_back(std::move(*bytes));
    EXPECT_EQ(cudaMemcpyAsync(held_.back().data(), from, n * sizeof(T), cudaMemcpyHostToDevice, stream_.get()),
              cudaSuccess);
    return reinterpret_cast<const T*>(held_.back().data());
  }
  float* room(size_t n) {
    const std::vector<float> nothing(n, -7.0f);
    return const_cast<float*>(put(nothing.data(), n));
  }
  std::vector<float> get(const float* from, size_t n) {
    std::vector<float> out(n);
    EXPECT_EQ(cudaMemcpyAsync(out.data(), from, n * 4, cudaMemcpyDeviceToHost, stream_.get()), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_.get()), cudaSuccess);
    return out;
  }

  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>(int64_t{16} << 20);
  std::vector<DeviceBytes> held_;
  Queue stream_;
};

TEST_F(Kernels, EveryTypeIsReadAsItsDefinitionSays) {
  constexpr int kColumns = 512;
  for (const DType type : kTypes) {
    ASSERT_TRUE(has_kernels(type));
    const auto bytes = any_rows(type, 3, kColumns);
    const Matrix table{reinterpret_cast<const uint8_t*>(put(bytes.data(), bytes.size())), type, kColumns, 3};
    const int32_t tokens[] = {2, 0};
    float* out = room(2 * kColumns);
    embed(stream_.get(), table, put(tokens, 2), 2, out);
    const auto found = get(out, 2 * kColumns);
    for (size_t r = 0; r < 2; ++r) {
      std::vector<float> expected(kColumns);
      dequantize_row(type, bytes.data() + tokens[r] * row_bytes(type, kColumns), expected.data(), kColumns);
      for (size_t c = 0; c < kColumns; ++c)
        ASSERT_EQ(found[r * kColumns + c], expected[c]) << traits(type).name << " " << c;
    }
  }
  EXPECT_FALSE(has_kernels(DType::Q5_0));
}

// Inputs over a stretch and a half and over several chunks, columns that break the tile, batches of every width:
// against doubles, and every row alone the same bits.
TEST_F(Kernels, ProductsOfEveryType) {
  constexpr int kColumns = 37, kRows = 43;
  for (const DType type : kTypes)
    for (const bool tensor : {false, true}) {
      if (tensor && !has_tensor_kernels(type)) continue;
      // Of types in groups of 32 also rows that begin anywhere in 16 bytes.
      for (const int inputs : {768, traits(type).elements == 256 ? 2560 : 2592}) {
        const auto k_of = static_cast<size_t>(inputs);
        std::vector<float> x(kRows * k_of);
        for (size_t i = 0; i < x.size(); ++i)
          x[i] = static_cast<float>(2 * uniform(8, i, 0, 0) - 1) * std::ldexp(1.0f, static_cast<int>(i / k_of) - 20);
        const auto bytes = any_rows(type, kColumns, inputs);
        const Matrix w{reinterpret_cast<const uint8_t*>(put(bytes.data(), bytes.size())), type, inputs, kColumns};
        const float* input = put(x.data(), x.size());
        const auto multiply = [&](int first, int rows, int n0, int n1) {
          const auto stride = static_cast<size_t>(n1 - n0);
          float* out = room(static_cast<size_t>(rows) * stride);
          const float* from = input + static_cast<size_t>(first) * k_of;
          if (tensor) {
            const auto size = static_cast<size_t>(split_bytes(rows, inputs));
            const SplitRows split =
                split_at(reinterpret_cast<uint8_t*>(room(size / 4)), rows, inputs, std::array{type});
            split_rows(stream_.get(), from, 0, rows, inputs, split);
            tensor_product(stream_.get(), w, split, rows, n0, n1, out, n1 - n0);
          } else {
            product(stream_.get(), w, from, rows, n0, n1, out, n1 - n0);
          }
          return get(out, static_cast<size_t>(rows) * stride);
        };
        const auto found = multiply(0, kRows, 0, kColumns);
        for (size_t c = 0; c < kColumns; ++c) {
          std::vector<float> row(k_of);
          dequantize_row(type, bytes.data() + static_cast<int64_t>(c) * row_bytes(type, inputs), row.data(), inputs);
          for (size_t r = 0; r < kRows; ++r) {
            double sum = 0, size = 0;
            for (size_t k = 0; k < k_of; ++k) {
              sum += double{row[k]} * x[r * k_of + k];
              size += std::fabs(double{row[k]} * x[r * k_of + k]);
            }
            ASSERT_NEAR(found[r * kColumns + c], sum, 1e-6 * size)
                << traits(type).name << " tensor " << tensor << " row " << r << " column " << c;
          }
        }
        // Other batches, of rows and of columns.
        for (const auto& [first, rows, n0] : {std::tuple{9, 2, 17}, {42, 1, 0}, {3, 11, 0}, {20, 23, 32}}) {
          const auto part = multiply(first, rows, n0, kColumns);
          const auto width = static_cast<size_t>(kColumns - n0);
          for (size_t i = 0; i < part.size(); ++i)
            ASSERT_EQ(part[i],
                      found[(static_cast<size_t>(first) + i / width) * kColumns + static_cast<size_t>(n0) + i % width])
                << traits(type).name << " tensor " << tensor << " rows " << first << " + " << i / width;
        }
      }
    }
}

// Values that differ by many powers of two in one row, rows of nothing, and rows with what is no number.
TEST_F(Kernels, SplitRowsKeepWhatFloatsHold) {
  constexpr int kInputs = 96, kRows = 4;
  std::vector<float> x(kRows * kInputs, 0.0f);
  for (size_t i = 0; i < kInputs; ++i) {
    x[i] = std::ldexp(static_cast<float>(2 * uniform(5, i, 0, 0) - 1), -static_cast<int>(i / 4));
    x[2 * kInputs + i] = x[i] * 1e30f;
    x[3 * kInputs + i] = i == 7 ? std::numeric_limits<float>::infinity() : x[i];
  }
  const auto bytes = [&] {
    std::vector<uint16_t> one(kInputs * kInputs, 0);
    for (size_t i = 0; i < kInputs; ++i) one[i * kInputs + i] = float_to_f16(1.0f);
    return one;
  }();
  const Matrix identity{reinterpret_cast<const uint8_t*>(put(bytes.data(), bytes.size())), DType::F16, kInputs,
                        kInputs};
  float* memory = room(static_cast<size_t>(split_bytes(kRows, kInputs)) / 4);
  const SplitRows split = split_at(reinterpret_cast<uint8_t*>(memory), kRows, kInputs, std::array{DType::F16});
  split_rows(stream_.get(), put(x.data(), x.size()), 0, kRows, kInputs, split);
  float* out = room(x.size());
  tensor_product(stream_.get(), identity, split, kRows, 0, kInputs, out, kInputs);
  const auto y = get(out, x.size());
  for (size_t i = 0; i < size_t{3} * kInputs; ++i) {
    const float largest = i < kInputs ? 1.0f : 1e30f;
    EXPECT_NEAR(y[i], x[i], std::max(std::ldexp(std::fabs(x[i]), -22), std::ldexp(largest, -38))) << i;
  }
  for (size_t i = size_t{3} * kInputs; i < x.size(); ++i) EXPECT_FALSE(std::isfinite(y[i])) << i;
}

TEST_F(Kernels, TheBudgetIsKept) {
  const auto within = memory_->allocate(int64_t{10} << 20, "one");
  ASSERT_TRUE(within);
  EXPECT_EQ(why_not(memory_->allocate(int64_t{7} << 20, "another")),
            "cuda: another needs 7340032 bytes of device memory, 6291456 of the budget of 16777216 are left");
}

}  // namespace
}  // namespace llada::cuda
