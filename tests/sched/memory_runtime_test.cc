// Which ops are submitted together under a window that not all slabs fit in, and errors where slots are
// missing.
#include "sched/memory_runtime.h"

#include <gtest/gtest.h>

#include "failing/stub_device.h"

namespace llada {
namespace {

constexpr int64_t kSlab = 1 << 16;  // whole pages

// Four weights of one slab each, two of which are mapped at a time.
class FourSlabs final : public StubDevice, Window {
 public:
  DeviceWindow window() const override {
    return {.weight_bytes = 2 * kSlab, .sessions = 1, .cuts_slabs = false, .page_bytes = 4096};
  }
  std::vector<int64_t> weight_sizes() const override { return std::vector<int64_t>(4, kSlab); }
  Status define_slabs(std::vector<DeviceSlab>) override { return {}; }
  Status map(int, MapMode) override { return {}; }
  Status unmap(int) override { return {}; }
  Capabilities capabilities() override { return {.window = this}; }
};

Program reading(const std::vector<std::vector<WeightId>>& ops) {
  Program program;
  for (const auto& weights : ops) {
    Op op;
    op.kind = OpKind::rms_norm;
    for (size_t i = 0; i < weights.size(); ++i) op.weight[i] = weights[i];
    program.ops.push_back(op);
  }
  return program;
}

class MemoryRuntimeTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = MemoryRuntime::create(device_, reading({{0}, {1}, {2}, {3}}), {.grain = SlabGrain::op});
    ASSERT_TRUE(made) << made.error().message;
    runtime_.emplace(std::move(*made));
    ASSERT_EQ(runtime_->plan().streamed.size(), 4u);
    ASSERT_EQ(runtime_->plan().slots, 2);
  }
  FourSlabs device_;
  std::optional<MemoryRuntime> runtime_;
};

TEST_F(MemoryRuntimeTest, TheOrderInWhichAnOpReadsItsSlabsCutsNothing) {
  for (const auto& ops : {std::vector<std::vector<WeightId>>{{1, 2}, {1, 2}, {2}, {1, 2}},
                          std::vector<std::vector<WeightId>>{{2, 1}, {2, 1}, {1}, {1, 2}}}) {
    const auto stretches = runtime_->cut(device_, reading(ops));
    ASSERT_EQ(stretches.size(), 1u);
    EXPECT_EQ(stretches[0].slabs, (std::vector<int>{1, 2}));
    EXPECT_EQ(stretches[0].releases, (std::vector<int>{1, 2}));
    EXPECT_EQ(stretches[0].last, 4u);
  }
  EXPECT_EQ(runtime_->cut(device_, reading({{2}, {2, 1}})).size(), 2u) << "a slab more is another stretch";
}

TEST_F(MemoryRuntimeTest, TooManySlabsAtATimeIsAnError) {
  const auto stretches = runtime_->cut(device_, reading({{3, 0, 2}}));
  ASSERT_EQ(stretches.size(), 1u);
  const Status before = runtime_->before(device_, stretches[0], 0);
  ASSERT_FALSE(before);
  EXPECT_EQ(before.error().message, "device memory: ops 0 to 1 need 3 slabs at a time, the plan has slots for 2");
  const Status after = runtime_->after({.first = 0, .last = 1, .slabs = {3}, .releases = {3}});  // 0 and 1 are
  ASSERT_FALSE(after);
  EXPECT_NE(after.error().message.find("is in no slot"), std::string::npos) << after.error().message;
  EXPECT_EQ(exit_status(after.error()), 1);
}

}  // namespace
}  // namespace llada
