// Emulated: the GPU's reading of every stored type against its scalar definition, products against double arithmetic, and
// the emulator's own checks.
#include "devices/cuda/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "devices/cuda/runtime.h"
#include "tensor/half.h"
#include "tensor/quantize.h"

namespace llada::cuda {
namespace {

constexpr DType kTypes[] = {DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0, DType::Q4_K, DType::Q6_K};

// Rows of any bytes, with scales that are numbers of ordinary size.
std::vector<std::byte> any_rows(DType type, int64_t rows, int64_t columns) {
  std::vector<std::byte> bytes(static_cast<size_t>(row_bytes(type, columns) * rows));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(mix64(i + static_cast<uint64_t>(type) * 7919));
  const auto each = [&](size_t size, auto set) {
    for (size_t at = 0; at + size <= bytes.size(); at += size) set(bytes.data() + at, uniform(3, at, 0, 0));
  };
  const auto half = [](std::byte* to, double value) {
    const uint16_t bits = float_to_f16(static_cast<float>(value));
    std::memcpy(to, &bits, 2);
  };
  const auto float_of = [](double u) { return static_cast<float>(2 * u - 1); };
  switch (type) {
    case DType::F32: each(4, [&](std::byte* p, double u) { const float f = float_of(u); std::memcpy(p, &f, 4); }); break;
    case DType::F16: each(2, [&](std::byte* p, double u) { half(p, 2 * u - 1); }); break;
    case DType::BF16:
      each(2, [&](std::byte* p, double u) { const uint16_t b = float_to_bf16(float_of(u)); std::memcpy(p, &b, 2); });
      break;
    case DType::Q4_K: each(144, [&](std::byte* p, double u) { half(p, 0.01 * u), half(p + 2, 0.02 * u); }); break;
    case DType::Q6_K: each(210, [&](std::byte* p, double u) { half(p + 208, 0.001 * u); }); break;
    default: each(static_cast<size_t>(traits(type).bytes), [&](std::byte* p, double u) { half(p, 0.1 * u); });
  }
  return bytes;
}

class Kernels : public testing::Test {
 protected:
  template <class T>
  const T* put(const T* from, size_t n) {
    auto bytes = memory_->allocate(static_cast<int64_t>(n * sizeof(T)), "a test");
    EXPECT_TRUE(bytes);
    held_.push_back(std::move(*bytes));
    EXPECT_EQ(cudaMemcpyAsync(held_.back().data(), from, n * sizeof(T), cudaMemcpyHostToDevice, stream_.get()), cudaSuccess);
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
  Stream stream_ = std::move(*make_stream());
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
      for (size_t c = 0; c < kColumns; ++c) ASSERT_EQ(found[r * kColumns + c], expected[c]) << traits(type).name << " " << c;
    }
  }
  EXPECT_FALSE(has_kernels(DType::Q5_0));
}

// Inputs over a stretch and a half, columns that break the tile, batches of both widths: against doubles, and every row
// alone the same bits.
TEST_F(Kernels, ProductsOfEveryType) {
  constexpr int kInputs = 768, kColumns = 37, kRows = 11;
  std::vector<float> x(kRows * kInputs);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(2 * uniform(8, i, 0, 0) - 1);
  for (const DType type : kTypes) {
    const auto bytes = any_rows(type, kColumns, kInputs);
    const Matrix w{reinterpret_cast<const uint8_t*>(put(bytes.data(), bytes.size())), type, kInputs, kColumns};
    const float* input = put(x.data(), x.size());
    float* out = room(kRows * kColumns);
    product(stream_.get(), w, input, kRows, 0, kColumns, out, kColumns);
    const auto found = get(out, kRows * kColumns);
    for (size_t c = 0; c < kColumns; ++c) {
      std::vector<float> row(kInputs);
      dequantize_row(type, bytes.data() + static_cast<int64_t>(c) * row_bytes(type, kInputs), row.data(), kInputs);
      for (size_t r = 0; r < kRows; ++r) {
        double sum = 0, size = 0;
        for (size_t k = 0; k < kInputs; ++k) {
          sum += double{row[k]} * x[r * kInputs + k];
          size += std::fabs(double{row[k]} * x[r * kInputs + k]);
        }
        ASSERT_NEAR(found[r * kColumns + c], sum, 1e-6 * size) << traits(type).name << " row " << r << " column " << c;
      }
    }
    float* part = room(2 * 20);
    product(stream_.get(), w, input + 9 * kInputs, 2, 17, kColumns, part, 20);  // two rows, some columns
    const auto alone = get(part, 2 * 20);
    for (size_t r = 0; r < 2; ++r)
      for (size_t c = 17; c < kColumns; ++c) ASSERT_EQ(alone[r * 20 + c - 17], found[(9 + r) * kColumns + c]);
  }
}

TEST_F(Kernels, TheBudgetIsKept) {
  const auto within = memory_->allocate(int64_t{10} << 20, "one");
  ASSERT_TRUE(within);
  const auto beyond = memory_->allocate(int64_t{7} << 20, "another");
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().message,
            "cuda: another needs 7340032 bytes of device memory, 6291456 of the budget of 16777216 are left");
}

TEST(CudaEmulator, WorkThatNobodyOrderedComesTooLate) {
  const Stream first = std::move(*make_stream()), second = std::move(*make_stream());
  const Event ready = std::move(*make_event(false));
  const SharedBytes pinned = allocate_pinned(8);
  auto* const numbers = reinterpret_cast<float*>(pinned.get());
  const auto memory = std::make_shared<Memory>(4096);
  const auto bytes = memory->allocate(8, "a test");
  auto* const device = reinterpret_cast<float*>(bytes->data());
  const auto run = [&](bool ordered) {
    numbers[0] = 1, numbers[1] = 0;
    EXPECT_EQ(cudaMemcpyAsync(device, numbers, 4, cudaMemcpyHostToDevice, first.get()), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(ready.get(), first.get()), cudaSuccess);
    if (ordered) {
      EXPECT_EQ(cudaStreamWaitEvent(second.get(), ready.get(), 0), cudaSuccess);
    }
    EXPECT_EQ(cudaMemcpyAsync(numbers + 1, device, 4, cudaMemcpyDeviceToHost, second.get()), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(second.get()), cudaSuccess);
    return numbers[1];
  };
  EXPECT_TRUE(std::isnan(run(false))) << "the copy had not happened";
  EXPECT_EQ(run(true), 1);
}

TEST(CudaEmulatorDeathTest, WritingBehindAnAllocationIsNoticed) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "not run: a forked death test under the thread sanitizer";
#endif
  EXPECT_DEATH(
      {
        const auto memory = std::make_shared<Memory>(4096);
        const auto bytes = memory->allocate(16, "a test");
        const Stream stream = std::move(*make_stream());
        auto* const floats = reinterpret_cast<float*>(bytes->data());
        add(stream.get(), floats, 5, floats);  // one more than there are
        static_cast<void>(cudaStreamSynchronize(stream.get()));
      },
      "written behind the end");
}

}  // namespace
}  // namespace llada::cuda
