// What a device does not run it refuses by name, before anything runs.
#include <gmock/gmock.h>

#include "devices/op_table.h"
#include "devices_under_test.h"
#include "must.h"
#include "sched/executor.h"
#include "small_model.h"

namespace llada {
namespace {

Program of_one(OpKind kind) {
  Program program{.shape = plain_shape(1, 1), .values = {}, .ops = {{.kind = OpKind::add}, {.kind = kind}}};
  return program;
}

class Ops : public OnDevice {};

TEST_P(Ops, EveryKindIsRunOrRefusedByName) {
  const SmallModel m = make_small_model(DType::Q8_0, small_config());
  auto device = must(GetParam().open(m));
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
  auto device = must(GetParam().open(m));
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
  EXPECT_THAT(why_not(executor.run(in, out)), testing::HasSubstr("(unknown)"));
  for (const double ms : (*device)->take_phase_times()) EXPECT_EQ(ms, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, Ops, testing::ValuesIn(all_devices()),
                         [](const auto& info) { return info.param.name; });

TEST(OpTable, NamesTheFirstOpWithoutHandler) {
  constexpr OpTable<int (*)(int)> table{{OpKind::add, [](int x) { return x + 1; }}};
  EXPECT_EQ(table[OpKind::add](1), 2);
  EXPECT_EQ(table[OpKind::rope], nullptr);
  EXPECT_TRUE(table.covers(of_one(OpKind::add), "toy"));
  EXPECT_EQ(why_not(table.covers(of_one(OpKind::rope), "toy")), "toy: op 1 (rope) is not supported by this device");
}

}  // namespace
}  // namespace llada
