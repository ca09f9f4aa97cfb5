// What a device does not run it refuses by name, before anything runs.
#include <gtest/gtest.h>

#include "devices/op_table.h"
#include "devices_under_test.h"
#include "sched/executor.h"
#include "small_model.h"

namespace llada {
namespace {

Program of_one(OpKind kind) {
  Program program{.shape = plain_shape(1, 1), .values = {}, .ops = {{.kind = OpKind::add}, {.kind = kind}}};
  return program;
}

class Ops : public testing::TestWithParam<DeviceUnderTest> {
 protected:
  void SetUp() override {
    if (const std::string why = absent(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(Ops, EveryKindIsRunOrRefusedByName) {
  const SmallModel m = make_small_model(DType::Q8_0, small_config());
  auto device = GetParam().open(m);
  ASSERT_TRUE(device) << device.error().message;
  for (int k = 0; k < kOpKindCount; ++k) {
    const auto kind = static_cast<OpKind>(k);
    if (const Status status = (*device)->supports(of_one(kind)); !status) {
      EXPECT_NE(status.error().message.find(fmt::format("op 1 ({})", name(kind))), std::string::npos)
          << status.error().message;
    }
  }
  // A kind that joins the list without a handler here.
  const Status status = (*device)->supports(of_one(static_cast<OpKind>(kOpKindCount)));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::failed) << "a fallback may run it";
  EXPECT_NE(status.error().message.find("op 1 (unknown)"), std::string::npos) << status.error().message;
}

// Not in the middle of a run: the op stands behind others.
TEST_P(Ops, AForwardThatIsRefusedNeverBegins) {
  const SmallModel m = make_small_model(DType::Q8_0, small_config());
  auto device = GetParam().open(m);
  ASSERT_TRUE(device) << device.error().message;
  Executor executor(**device, [&](StepShape shape) -> Result<std::shared_ptr<const Program>> {
    auto program = std::make_shared<Program>(m.graph.forward(shape));
    program->ops.back().kind = static_cast<OpKind>(kOpKindCount);
    return program;
  });
  const StepInputs in{.streams = {{}},
                      .spans = {{.begin = 0, .count = 1, .stream = 0}},
                      .tokens = {1},
                      .positions = {0},
                      .ranges = {{0, 1}},
                      .wanted = {0},
                      .predictions = {{.conditional = 0}}};
  StepOutputs out;
  const Status status = executor.run(in, out);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("(unknown)"), std::string::npos) << status.error().message;
  for (const double ms : (*device)->take_phase_times()) EXPECT_EQ(ms, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, Ops, testing::ValuesIn(all_devices()),
                         [](const auto& info) { return info.param.name; });

TEST(OpTable, NamesTheFirstOpWithoutHandler) {
  constexpr OpTable<int (*)(int)> table{{OpKind::add, [](int x) { return x + 1; }}};
  EXPECT_EQ(table[OpKind::add](1), 2);
  EXPECT_EQ(table[OpKind::rope], nullptr);
  EXPECT_TRUE(table.covers(of_one(OpKind::add), "toy"));
  const Status status = table.covers(of_one(OpKind::rope), "toy");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "toy: op 1 (rope) is not supported by this device");
}

}  // namespace
}  // namespace llada
