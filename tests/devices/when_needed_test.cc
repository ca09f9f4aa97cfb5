// The cpu device that stands behind an accelerator: its weights are packed by whoever needs them first, once for all
// devices that share them, and not at all otherwise.
#include <gtest/gtest.h>

#include <thread>

#include "devices/cpu/cpu_device.h"
#include "eight_tokens.h"
#include "kernels/kernels.h"
#include "small_model.h"

namespace llada {
namespace {

TEST(WhenNeeded, TheSameResultsFromWeightsPackedByTheRunsThatReadThem) {
  for (const ModelConfig& config : {small_config(), small_llada_moe()})
    for (const auto* table : kernels::available()) {
      const SmallModel m = make_small_model(DType::Q8_0, config);
      const auto program = std::make_shared<const Program>(m.graph.forward(plain_shape(8, 2)));
      std::vector<size_t> packed;
      const WeightHooks hooks{.planned = {}, .wanted = {}, .packed = [&](size_t i) { packed.push_back(i); }};
      const auto all = *make_cpu_device({.threads = 2, .isa = table->isa}, m.graph.weights, m.views, hooks);
      const std::vector<size_t> once = std::exchange(packed, {});
      const auto expected = logits_of_eight_tokens(*all, program, program->ops.size());
      for (const size_t ops : {size_t{1}, size_t{7}, program->ops.size()}) {
        packed.clear();
        const auto device =
            *make_cpu_device({.threads = 2, .isa = table->isa, .when_needed = true}, m.graph.weights, m.views, hooks);
        EXPECT_EQ(device->memory_bytes(), 0) << table->isa;
        const auto other = *device->share(1);
        EXPECT_EQ(logits_of_eight_tokens(*device, program, ops), expected) << table->isa << " " << ops;
        EXPECT_EQ(logits_of_eight_tokens(*other, program, ops), expected) << table->isa << " " << ops;
        // Every weight once, none twice, whoever asked.
        std::ranges::sort(packed);
        EXPECT_TRUE(std::ranges::adjacent_find(packed) == packed.end());
        EXPECT_EQ(packed.size(), once.size()) << table->isa << " " << ops;
      }
    }
}

TEST(WhenNeeded, OnlyWhatIsAskedFor) {
  const SmallModel m = make_small_model(DType::Q4_0, small_config());
  std::vector<size_t> packed;
  const auto device = *make_cpu_device({.threads = 1, .isa = "", .when_needed = true}, m.graph.weights, m.views,
                                       {.planned = {}, .wanted = {}, .packed = [&](size_t i) { packed.push_back(i); }});
  const std::vector<WeightId> ids = {2, 5, 5, 2};
  ASSERT_TRUE(device->capabilities().host->load(ids));
  const bool packs = kernels::available().front()->packed_bytes(DType::Q4_0, 64, 64) > 0;
  EXPECT_EQ(packed.size(), packs ? 2u : 0u);
  ASSERT_TRUE(device->capabilities().host->load(ids));
  EXPECT_EQ(packed.size(), packs ? 2u : 0u);
}

// A machine without room for them is asked before they are packed: the run has the reason, and a later one goes on.
TEST(WhenNeeded, TheOwnerIsAskedBeforeMemoryIsTaken) {
  const SmallModel m = make_small_model(DType::Q8_0, small_config());
  const auto program = std::make_shared<const Program>(m.graph.forward(plain_shape(8, 2)));
  const auto* table = kernels::available().front();
  if (table->packed_bytes(DType::Q8_0, 64, 64) == 0) GTEST_SKIP() << "not run: nothing is packed here";
  const auto all = *make_cpu_device({.threads = 1, .isa = table->isa}, m.graph.weights, m.views, {});
  bool room = false;
  int64_t asked = 0;
  const auto admit = [&](int64_t bytes) -> Status {
    asked += bytes;
    return room ? Status{} : no_memory("no room");
  };
  const auto device = *make_cpu_device({.threads = 1, .isa = table->isa, .when_needed = true}, m.graph.weights, m.views,
                                       {.planned = {}, .wanted = {}, .packed = {}, .admit = admit});
  const std::vector<WeightId> ids = {2, 5};
  const Status refused = device->capabilities().host->load(ids);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::memory);
  EXPECT_EQ(device->memory_bytes(), 0);
  room = true, asked = 0;
  EXPECT_EQ(logits_of_eight_tokens(*device, program, program->ops.size()),
            logits_of_eight_tokens(*all, program, program->ops.size()));
  EXPECT_GT(asked, 0);
  EXPECT_LE(asked, device->memory_bytes());
}

// Sessions whose accelerator fails at a time.
TEST(WhenNeeded, ManyDevicesMayNeedThemAtOnce) {
  const SmallModel m = make_small_model(DType::Q8_0, small_config());
  const auto program = std::make_shared<const Program>(m.graph.forward(plain_shape(8, 2)));
  const auto all = *make_cpu_device({.threads = 1, .isa = ""}, m.graph.weights, m.views, {});
  const auto expected = logits_of_eight_tokens(*all, program, program->ops.size());
  const auto device = *make_cpu_device({.threads = 1, .isa = "", .when_needed = true}, m.graph.weights, m.views, {});
  std::vector<std::vector<float>> got(4);
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < got.size(); ++i)
    threads.emplace_back([&, i] {
      const auto own = *device->share(1);
      got[i] = logits_of_eight_tokens(*own, program, 1 + i * 5);
    });
  threads.clear();
  for (const auto& g : got) EXPECT_EQ(g, expected);
}

// Bytes that no machine has: one error line when they are asked for, not before.
TEST(WhenNeeded, MemoryThatIsNotThereIsOneErrorLine) {
  constexpr int64_t kHuge = int64_t{1} << 42;
  const std::vector<WeightInfo> infos = {{"blk.0.ffn_up.weight", {kHuge, 64}, 0}};
  const std::byte nothing{};
  TensorView view{&nothing, DType::Q8_0, {{kHuge, 64, 1, 1}, 2}};
  const auto* table = kernels::available().front();
  if (table->packed_bytes(DType::Q8_0, 64, 4096) == 0) GTEST_SKIP() << "not run: nothing is packed here";
  const auto device = make_cpu_device({.threads = 1, .isa = table->isa, .when_needed = true}, infos, {&view, 1}, {});
  ASSERT_TRUE(device);
  const WeightId id = 0;
  const auto status = (*device)->capabilities().host->load({&id, 1});
  ASSERT_FALSE(status);
  EXPECT_EQ(exit_status(status.error()), 1);
  EXPECT_NE(status.error().message.find("bytes for the packed weights could not be allocated"), std::string::npos);
}

}  // namespace
}  // namespace llada
