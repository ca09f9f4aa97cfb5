// The sim device: same numbers as the device behind it whatever the window, policies and slabs; loud failure
// on what the chip could not do; emulated time that is the same every time and worked out by hand where that
// is possible; and recovery from devices that fail.
// labels of this file: threads
#include "study/sim/sim_device.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "devices/cpu/cpu_device.h"
#include "devices/one_stream.h"
#include "devices/small_model.h"
#include "failing/failing_device.h"
#include "failing/stub_device.h"
#include "must.h"
#include "sched/executor.h"
#include "study/paging.h"

namespace llada {
namespace {

std::vector<WeightSize> sizes_of(const SmallModel& m) {
  std::vector<WeightSize> sizes;
  for (const TensorView& v : m.views) sizes.push_back({v.bytes(), v.type, v.shape.rank > 1});
  return sizes;
}

// Slabs are whole pages; of this model a layer has 18 KiB or so.
int64_t weight_total(const SmallModel& m, Device& device, SlabGrain grain) {
  const Program program = m.graph.forward(plain_shape(1, 1));
  return total_bytes(group_slabs(weight_uses(program, device), grain));
}

class SimDeviceTest : public testing::Test {
 protected:
  SimDeviceTest() : model_(make_small_model(DType::Q8_0, small_config(RopePairing::half_split, 4))) {
    profile_ = *load_profile("v79-8elite");
    cpu_ = *make_cpu_device({.threads = 1, .isa = ""}, model_.graph.weights, model_.views, {});
    for (uint64_t p = 0; p < 19; ++p) tokens_.push_back(static_cast<int32_t>(uniform(5, p, 0, 0) * 1500));
  }

  std::unique_ptr<SimDevice> sim(SimOptions options, bool dry = false) {
    return *make_sim_device(profile_, options, model_.graph.weights, sizes_of(model_), dry ? nullptr : cpu());
  }
  KvStore store() const {
    return *KvStore::create(
        {.layers = 3, .sequences = 1, .kv_heads = 4, .head_dim = 16, .positions = 64, .type = DType::F32});
  }
  OneStream inputs(int32_t first, int32_t last, bool wanted = true) const {
    OneStream in;
    for (int32_t p = first; p < last; ++p)
      in.tokens.push_back(tokens_[static_cast<size_t>(p)]), in.positions.push_back(p);
    in.spans = {{0, last - first, 0, 19}};
    if (wanted)
      for (int32_t r = 0; r < last - first; r += 2) in.wanted.push_back(r);
    in.keep_logits = true;
    return in;
  }
  // Full, two blocks, a refresh without logits, a block: the logits of all of them.
  Result<std::vector<float>> passes(Executor& executor) const {
    KvStore kv = store();
    std::vector<float> all;
    for (const OneStream& in : {inputs(0, 19), inputs(4, 12), inputs(4, 12), inputs(0, 19, false), inputs(12, 19)}) {
      OneResult out;
      LLADA_TRY_STATUS(run_one(executor, in, kv, out));
      all.insert(all.end(), out.logits.begin(), out.logits.end());
    }
    return all;
  }

  std::unique_ptr<Device> cpu() const { return *cpu_->share(2); }

  SmallModel model_;
  std::unique_ptr<Device> cpu_;
  Profile profile_;
  std::vector<int32_t> tokens_;
};

TEST_F(SimDeviceTest, EveryWindowAndPolicyComputesWhatTheCpuDoes) {
  const auto reference = cpu();
  Executor plain(*reference, forwards_of(model_.graph));
  const auto expected = must(passes(plain));
  const int64_t total = weight_total(model_, *sim({}), SlabGrain::layer);
  for (const NamedMemory& policy : kMemories)
    for (int percent = 10; percent <= 100; percent += 15) {
      const auto device = sim({.window_bytes = total * percent / 100});
      MemoryOptions memory = policy.options();
      if (policy.name != "plan" && policy.name != "copy") memory.grain = SlabGrain::op;
      Executor executor(*device, forwards_of(model_.graph), {.memory = memory});
      const auto got = passes(executor);
      if (!got) {
        // The head alone is 60 % of this model's weights: a window that does not hold it is refused by name.
        EXPECT_LT(percent, 70);
        EXPECT_EQ(exit_status(got.error()), 2) << got.error().message;
        continue;
      }
      EXPECT_EQ(*got, *expected) << policy.name << " " << percent;
    }
}

TEST_F(SimDeviceTest, SmallWindowsWorkWithTheHeadOnTheCpu) {
  const auto reference = cpu();
  Executor plain(*reference, forwards_of(model_.graph));
  const auto expected = passes(plain);
  const int64_t total = weight_total(model_, *sim({.head_on_npu = false}), SlabGrain::op);
  for (const int percent : {30, 40, 60, 80, 99, 100}) {
    const auto device = sim({.window_bytes = total * percent / 100, .head_on_npu = false});
    Executor executor(*device, forwards_of(model_.graph), {.memory = {}});
    const auto got = passes(executor);
    ASSERT_TRUE(got) << percent << ": " << got.error().message;
    EXPECT_EQ(*got, *expected) << percent;
    if (percent <= 60) {
      EXPECT_GT(device->emulated().mapped_bytes, total) << percent;
    }
  }
}

TEST_F(SimDeviceTest, EmulatedTimeIsDeterministicAndDryTimeIsTheSame) {
  const int64_t window = weight_total(model_, *sim({.head_on_npu = false}), SlabGrain::op) / 2;
  std::vector<EmulatedStats> stats;
  for (const bool dry : {false, false, true}) {
    const auto device = sim({.window_bytes = window, .head_on_npu = false}, dry);
    Executor executor(*device, forwards_of(model_.graph));
    ASSERT_TRUE(passes(executor));
    stats.push_back(device->emulated());
    EXPECT_GT(stats.back().seconds, 0);
  }
  for (const EmulatedStats& s : stats) {
    EXPECT_EQ(s.seconds, stats[0].seconds);
    EXPECT_EQ(s.joules, stats[0].joules);
    EXPECT_EQ(s.mapped_bytes, stats[0].mapped_bytes);
    EXPECT_EQ(s.exposed_map_s, stats[0].exposed_map_s);
  }
}

TEST_F(SimDeviceTest, AnUnmappedSlabFailsLoudly) {
  const auto device = sim({.window_bytes = 1 << 20});
  const auto program = std::make_shared<const Program>(model_.graph.forward(plain_shape(19, 10)));
  std::vector<DeviceSlab> slabs(2);
  for (const WeightUse& use : weight_uses(*program, *device))
    slabs[use.layer == 1 ? 1 : 0].weights.push_back(use.weight);
  slabs[0].bytes = slabs[1].bytes = 100000;
  ASSERT_TRUE(device->define_slabs(slabs));
  ASSERT_TRUE(device->map(0, MapMode::remap));
  KvStore kv = store();
  const StepInputs step = inputs(0, 19).over(kv);
  StepOutputs out;
  // The first op is the embedding, the host's.
  ASSERT_TRUE(device->submit({program, 0, 1, &step, &out, Unit::host}));
  const auto ticket = device->submit({program, 1, program->ops.size(), &step, &out, Unit::accelerator});
  ASSERT_FALSE(ticket);
  EXPECT_EQ(exit_status(ticket.error()), 1);
  EXPECT_NE(ticket.error().message.find("uses blk.1.attn_norm.weight, whose slab 1 is not mapped"), std::string::npos)
      << ticket.error().message;
  EXPECT_TRUE(out.predictions.empty()) << "refused before any work";
}

TEST_F(SimDeviceTest, TheWindowIsEnforced) {
  const auto device = sim({.window_bytes = 100});
  ASSERT_TRUE(device->define_slabs({{{0}, 60, 0}, {{1}, 50, 0}, {{2}, 50, 1}, {{3}, 1, 9}}));
  ASSERT_TRUE(device->map(0, MapMode::remap));
  EXPECT_EQ(why_not(device->map(1, MapMode::remap)),
            "sim: mapping slab 1 of 50 bytes needs a window of 110 bytes, it has 100");
  EXPECT_TRUE(device->map(2, MapMode::remap)) << "another session, another window";
  EXPECT_FALSE(device->map(3, MapMode::remap)) << "the profile has 4 sessions";
  EXPECT_FALSE(device->map(0, MapMode::remap)) << "twice";
  ASSERT_TRUE(device->unmap(0));
  EXPECT_FALSE(device->unmap(0));
  EXPECT_TRUE(device->map(1, MapMode::remap));
}

TEST_F(SimDeviceTest, WhatTheProfileLacksIsRefusedAndPlacedOnTheHost) {
  std::erase(profile_.npu.ops, OpKind::rope);
  std::erase(profile_.npu.types, DType::Q8_0);
  const auto device = sim({.window_bytes = -1});
  const auto program = std::make_shared<const Program>(model_.graph.forward(plain_shape(19, 10)));
  KvStore kv = store();
  const StepInputs step = inputs(0, 19).over(kv);
  StepOutputs out;
  for (size_t i = 0; i < program->ops.size(); ++i) {
    const Op& op = program->ops[i];
    const bool lacks = op.kind == OpKind::rope || op.kind == OpKind::matmul || op.kind == OpKind::head;
    EXPECT_EQ(device->place(op), lacks || op.kind == OpKind::embed ? Unit::host : Unit::accelerator);
    if (!lacks) continue;
    const auto ticket = device->submit({program, i, i + 1, &step, &out, Unit::accelerator});
    ASSERT_FALSE(ticket);
    EXPECT_NE(ticket.error().message.find(op.kind == OpKind::rope ? "no rope op" : "of type q8_0"), std::string::npos)
        << ticket.error().message;
  }
  Executor executor(*device, forwards_of(model_.graph));
  EXPECT_TRUE(passes(executor)) << "the executor places them where they run";
}

// A plan whose k-th mapping never happens.
class ForgetfulDevice final : public PassingDevice, Window {
 public:
  ForgetfulDevice(SimDevice& device, int forget) : PassingDevice(device), device_(device), forget_(forget) {}
  Capabilities capabilities() override { return {.window = this}; }
  DeviceWindow window() const override { return device_.window(); }
  std::vector<int64_t> weight_sizes() const override { return device_.weight_sizes(); }
  Status define_slabs(std::vector<DeviceSlab> slabs) override { return device_.define_slabs(std::move(slabs)); }
  Status map(int slab, MapMode mode) override {
    if (maps++ == forget_) return {};
    return device_.map(slab, mode);
  }
  Status unmap(int slab) override { return device_.unmap(slab); }
  int maps = 0;

 private:
  SimDevice& device_;
  int forget_;
};

TEST_F(SimDeviceTest, AWrongPlanIsCaught) {
  const int64_t window = weight_total(model_, *sim({.head_on_npu = false}), SlabGrain::op) / 2;
  const SimOptions options{.window_bytes = window, .head_on_npu = false};
  int maps = 0;
  {
    const auto device = sim(options);
    ForgetfulDevice counting(*device, -1);
    Executor executor(counting, forwards_of(model_.graph));
    ASSERT_TRUE(passes(executor));
    maps = counting.maps;
  }
  ASSERT_GT(maps, 10);
  for (int forget = 0; forget < maps - 2; ++forget) {  // the last two are for a pass that does not come
    const auto device = sim(options);
    ForgetfulDevice wrong(*device, forget);
    Executor executor(wrong, forwards_of(model_.graph));
    EXPECT_THAT(why_not(passes(executor)), testing::HasSubstr("is not mapped"));
  }
}

TEST_F(SimDeviceTest, UnlimitedMeansNoWork) {
  const auto device = sim({.window_bytes = -1});
  Executor executor(*device, forwards_of(model_.graph));
  ASSERT_TRUE(passes(executor));
  EXPECT_EQ(device->emulated().maps, 0);
  EXPECT_EQ(device->emulated().exposed_map_s, 0);
  EXPECT_EQ(executor.plan(), nullptr);
}

// ---- Failures

TEST_F(SimDeviceTest, EveryFailureIsRetriedOnTheFallbackWithTheSameAnswer) {
  const auto reference = cpu();
  Executor plain(*reference, forwards_of(model_.graph));
  const auto expected = passes(plain);
  const int64_t window = weight_total(model_, *sim({.head_on_npu = false}), SlabGrain::op) / 2;
  for (const char* fault : {"allocate", "map:0", "map:3", "map:9", "submit:0", "submit:17", "submit:60", "gone:0",
                            "gone:11", "gone:25", "gone:100"})
    for (const bool simulated : {true, false}) {
      if (!simulated && std::string_view(fault).starts_with("map")) continue;  // the cpu device maps nothing
      std::unique_ptr<Device> inner;
      if (simulated) {
        inner = sim({.window_bytes = window, .head_on_npu = false});
      } else {
        inner = cpu();
      }
      const auto device = make_failing_device(std::move(inner), *parse_fault(fault));
      const auto fallback = cpu();
      std::vector<std::string> warnings;
      Executor executor(*device, forwards_of(model_.graph),
                        {.memory = {}, .fallback = fallback.get(), .warn = [&](const std::string& line) {
                           warnings.push_back(line);
                         }});
      const auto got = passes(executor);
      ASSERT_TRUE(got) << fault << ": " << got.error().message;
      EXPECT_EQ(*got, *expected) << fault;
      EXPECT_TRUE(executor.fell_back()) << fault;
      ASSERT_EQ(warnings.size(), 1u) << fault;
      EXPECT_NE(warnings[0].find("(injected); this step and all later ones run on cpu"), std::string::npos)
          << warnings[0];
      EXPECT_EQ(warnings[0].find('\n'), std::string::npos);
    }
}

TEST_F(SimDeviceTest, WithoutAFallbackTheFailureIsTheResult) {
  const auto device = make_failing_device(cpu(), {Fault::gone, 50});
  Executor executor(*device, forwards_of(model_.graph));
  const auto got = passes(executor);
  ASSERT_FALSE(got);
  EXPECT_EQ(exit_status(got.error()), 1);
  EXPECT_EQ(got.error().message, "cpu: the device is gone at op 50 (injected)");
}

TEST(Faults, AreReadStrictly) {
  EXPECT_EQ(parse_fault("submit:12")->at, 12);
  EXPECT_EQ(parse_fault("gone:0")->fault, Fault::gone);
  for (const char* text : {"", "submit", "submit:", "submit:-1", "submit:1x", "map:99999999999999999999", "allocate:1"})
    EXPECT_FALSE(parse_fault(text)) << text;
}

}  // namespace
}  // namespace llada
