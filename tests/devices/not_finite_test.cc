// Results that are no numbers, whoever made them: the executor lets none pass.
#include <gtest/gtest.h>

#include "devices/cpu/cpu_device.h"
#include "failing/failing_device.h"
#include "one_stream.h"
#include "sched/executor.h"
#include "small_model.h"

namespace llada {
namespace {

class NotFinite : public testing::Test {
 protected:
  NotFinite() : model_(make_small_model(DType::Q8_0, small_config())) {
    cpu_ = std::move(*make_cpu_device({.threads = 1, .isa = ""}, model_.graph.weights, model_.views, {}));
  }
  std::unique_ptr<Device> faulty(const char* fault) {
    return make_failing_device(*cpu_->share(1), *parse_fault(fault));
  }
  static OneStream inputs(bool logits) {
    OneStream in = step_of({3, 1, 4, 1, 5, 9}, ascending(0, 6), {2, 5});
    in.keep_logits = logits;
    return in;
  }
  static KvStore store(int heads = 4) {
    return std::move(*KvStore::create(
        {.layers = 3, .sequences = 1, .kv_heads = heads, .head_dim = 16, .positions = 8, .type = DType::F32}));
  }

  SmallModel model_;
  std::unique_ptr<Device> cpu_;
};

constexpr const char* kLine =
    "cpu: the logits of position 2 are not finite; the weights or the activations are damaged";

TEST_F(NotFinite, NoResultOfADeviceThatGivesNoNumbers) {
  for (const bool logits : {false, true}) {
    const auto device = faulty("nan:0");
    Executor executor(*device, forwards_of(model_.graph));
    KvStore kv = store();
    OneResult out;
    const OneStream in = inputs(logits);
    const auto status = run_one(executor, in, kv, out);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().message, kLine);
    EXPECT_EQ(exit_status(status.error()), 1);
    const auto pass = std::make_shared<SidePass>();
    pass->inputs = in.over(kv);
    ASSERT_TRUE(executor.begin_side_pass(pass));
    ASSERT_TRUE(executor.join(*pass));
    ASSERT_EQ(pass->streams.size(), 1u);
    ASSERT_FALSE(pass->streams[0]);
    EXPECT_EQ(pass->streams[0].error().message, kLine);
    EXPECT_EQ(pass->streams[0].error().kind, ErrorKind::data);
  }
}

// Damaged weights give no numbers on any device: the one that has them is not left.
TEST_F(NotFinite, IsNoReasonToLeaveTheDevice) {
  KvStore kv = store();
  OneResult out;
  const OneStream in = inputs(true);
  const auto device = faulty("nan:0");
  std::vector<std::string> warnings;
  Executor executor(*device, forwards_of(model_.graph),
                    {.fallback = cpu_.get(), .warn = [&](const std::string& line) { warnings.push_back(line); }});
  const auto status = run_one(executor, in, kv, out);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::data);
  EXPECT_TRUE(warnings.empty());
  EXPECT_FALSE(executor.fell_back());
}

// Devices index the store by what stands in the program.
TEST_F(NotFinite, AStoreOfAnotherGeometryIsRefused) {
  Executor executor(*cpu_, forwards_of(model_.graph));
  KvStore kv = store(2);
  OneResult out;
  EXPECT_EQ(why_not(run_one(executor, inputs(false), kv, out)),
            "K/V store: found 3 layers of 2 heads of 16 elements, needed 3 of 4 of 16");
}

}  // namespace
}  // namespace llada
