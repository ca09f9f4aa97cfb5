// The emulator's own checks.
#include <gtest/gtest.h>

#include <cmath>

#include "cuda_block.h"
#include "devices/cuda/kernels.h"
#include "devices/cuda/runtime.h"

namespace llada::cuda {
namespace {

TEST(CudaEmulator, WorkThatNobodyOrderedComesTooLate) {
  const Queue first = std::move(*make_stream()), second = std::move(*make_stream());
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
        const Queue stream = std::move(*make_stream());
        auto* const floats = reinterpret_cast<float*>(bytes->data());
        add(stream.get(), floats, 5, floats);  // one more than there are
        static_cast<void>(cudaStreamSynchronize(stream.get()));
      },
      "written behind the end");
}

}  // namespace
}  // namespace llada::cuda
