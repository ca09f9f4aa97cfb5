// The Hexagon device over the emulated DSP: windows of every size, an address space that refuses what bookkeeping would
// allow, several sessions, work beside the DSP, and every failure that a DSP can have, on purpose.
#include <chrono>
#include <optional>

#include "devices/hexagon/library.h"
#include "failing/stub_device.h"
#include "model_on_dsp.h"

namespace llada {
namespace {

class HexagonTest : public ModelOnDsp {
 protected:
  static std::vector<float> expected() {
    const auto device = hexagon(options());
    const auto got = passes(*device);
    return got ? *got : std::vector<float>{};
  }
};

TEST_F(HexagonTest, EveryWindowGivesTheSameLogitsWithTheMapsThatThePlanSays) {
  const auto all = expected();
  ASSERT_EQ(all.size(), 6u * 1500);
  EXPECT_NE(std::ranges::count_if(all, [](float l) { return l != 0; }), 0);
  // The head is most of this model: on the host, so that small windows are possible.
  for (const int percent : {100, 50, 25}) {
    auto with = options();
    with.head_on_dsp = false;
    const auto device = hexagon(with);
    device->set_window(total(*device, SlabGrain::layer) * percent / 100);
    Executor executor(*device, forwards_of(model_->graph));
    KvStore kv = store(*device);
    OneResult out;
    ASSERT_TRUE(run_one(executor, inputs(0, 9), kv, out));
    const ResidencyPlan& plan = *executor.plan();
    const int64_t before = device->counters().maps;
    ASSERT_TRUE(run_one(executor, inputs(0, 9), kv, out));
    const HexagonCounters counters = device->counters();
    EXPECT_EQ(counters.maps - before, static_cast<int64_t>(plan.streamed.size())) << percent << ": maps per pass";
    if (percent == 100) {
      EXPECT_TRUE(plan.streamed.empty());
    } else {
      EXPECT_FALSE(plan.streamed.empty());
    }
    EXPECT_EQ(counters.host_ops, 0);
    for (size_t i = 0; i < out.logits.size(); ++i)
      ASSERT_NEAR(out.logits[i], all[i], 0.12) << percent << ": the head by the cpu's kernels";
    // The same layers, whatever is mapped when: bit for bit.
    static std::vector<float> first;
    if (first.empty()) first = out.logits;
    EXPECT_EQ(out.logits, first) << percent;
  }
}

TEST_F(HexagonTest, TheAddressSpaceRefusesWhatBookkeepingWouldAllow) {
  auto with = options();
  with.space_bytes = 64 << 20;
  const auto device = hexagon(with);  // believes that it has 3.2 GiB
  EXPECT_GT(device->window().weight_bytes, int64_t{3} << 30);
  ASSERT_TRUE(device->start());
  // What other buffers take is not the device's to count: 8 MiB pieces until the emulated process is full.
  std::vector<KvStore> stores;
  Status status;
  const auto program = std::make_shared<const Program>(model_->graph.forward(plain_shape(9, 2)));
  Executor executor(*device, forwards_of(model_->graph));
  for (int i = 0; i < 20 && status; ++i) {
    stores.push_back(*KvStore::create(
        {.layers = 3, .sequences = 1, .kv_heads = 4, .head_dim = 16, .positions = 10923, .type = DType::F16},
        [&](int64_t bytes) { return device->allocate(bytes); }));
    OneResult out;
    status = run_one(executor, inputs(0, 9), stores.back(), out);
  }
  ASSERT_FALSE(status);
  EXPECT_LT(stores.size(), 8u) << "8 x 8 MiB is all there is, and the program takes a part";
  EXPECT_NE(status.error().message.find("map refused"), std::string::npos) << status.error().message;
  EXPECT_EQ(exit_status(status.error()), 1);
  // It lives on, and what is given up is free again.
  stores.clear();
  EXPECT_TRUE(passes(*device));
}

TEST_F(HexagonTest, SessionsShareTheWeightsAmongThem) {
  const auto all = expected();
  auto with = options();
  with.sessions = 2;
  const auto device = hexagon(with);
  device->set_window(total(*device, SlabGrain::layer) * 3 / 4);
  const auto got = passes(*device, {.policy = MemoryPolicy::sessions});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, all);
  EXPECT_EQ(device->counters().sessions_opened, 2);
  EXPECT_EQ(dsp_processes().size(), 2u);
}

TEST_F(HexagonTest, UnmappedSlabsAreRefusedByName) {
  const auto device = hexagon(options());
  const auto program = std::make_shared<const Program>(model_->graph.forward(plain_shape(9, 2)));
  std::vector<DeviceSlab> slabs(2);
  for (const WeightUse& use : weight_uses(*program, *device))
    slabs[use.layer == 1 ? 1 : 0].weights.push_back(use.weight);
  ASSERT_TRUE(device->define_slabs(slabs));
  ASSERT_TRUE(device->map(0, MapMode::remap));
  KvStore kv = store(*device);
  const StepInputs step = inputs(0, 9).over(kv);
  StepOutputs out;
  ASSERT_TRUE(device->submit({program, 0, 1, &step, &out, Unit::host}));
  const auto ticket = device->submit({program, 1, program->ops.size(), &step, &out, Unit::accelerator});
  ASSERT_FALSE(ticket);
  EXPECT_NE(ticket.error().message.find("uses blk.1.attn_norm.weight, whose slab 1 is not mapped"), std::string::npos)
      << ticket.error().message;
  EXPECT_EQ(device->counters().batches, 0) << "refused before any work";
}

// K/V that the DSP cannot see: attention moves to the host, the rest stays.
TEST_F(HexagonTest, KeysAndValuesInPlainMemoryAreTheHosts) {
  const auto device = hexagon(options());
  Executor executor(*device, forwards_of(model_->graph));
  auto kv = KvStore::create(
      {.layers = 3, .sequences = 1, .kv_heads = 4, .head_dim = 16, .positions = 64, .type = DType::F16});
  OneResult out, mapped;
  ASSERT_TRUE(run_one(executor, inputs(0, 9), *kv, out));
  EXPECT_EQ(device->counters().host_ops, 6) << "store_kv and attention of three layers";
  KvStore shared = store(*device);
  ASSERT_TRUE(run_one(executor, inputs(0, 9), shared, mapped));
  EXPECT_EQ(device->counters().host_ops, 6);
  for (size_t i = 0; i < out.logits.size(); ++i) ASSERT_NEAR(out.logits[i], mapped.logits[i], 0.05);
}

TEST_F(HexagonTest, TheHostWorksWhileTheDspDoes) {
  const auto device = hexagon(options());
  Trace trace;
  device->set_trace(&trace);
  Executor executor(*device, forwards_of(model_->graph));
  KvStore kv = store(*device), aside = store(*device);
  OneResult out;
  ASSERT_TRUE(run_one(executor, inputs(0, 9), kv, out));
  const std::vector<int32_t> rows = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  aside.put_back(kv.save(rows));
  const OneStream dense = inputs(0, 9), sparse = inputs(3, 5);
  const auto pass = std::make_shared<SidePass>();
  pass->inputs = sparse.over(aside);
  ASSERT_TRUE(executor.begin_side_pass(pass));
  ASSERT_TRUE(run_one(executor, dense, kv, out));
  ASSERT_TRUE(executor.join(*pass));
  const StepOutputs& beside = pass->outputs;
  ASSERT_EQ(beside.predictions.size(), 2u);
  // By the DSP over the same store: the same bits.
  aside.put_back(kv.save(rows));
  OneResult again;
  ASSERT_TRUE(run_one(executor, sparse, aside, again));
  EXPECT_EQ(beside.logits[0], again.logits);
}

// ---- What phones refuse in the middle of a run

// A session's address space is not what it was said to be: one line, a smaller window, the same logits, and no
// fallback.
TEST_F(HexagonTest, ARefusedMappingShrinksTheWindowAndThePlanIsMadeAgain) {
  auto with = options();
  with.head_on_dsp = false;
  std::vector<float> all;
  {
    const auto device = hexagon(with);
    all = *passes(*device);
  }
  const auto device = hexagon(with);
  const int64_t whole = total(*device, SlabGrain::op);
  device->set_window(whole * 3 / 4);
  const auto fallback = cpu_->share(1);
  std::vector<std::string> warnings;
  Executor executor(*device, forwards_of(model_->graph),
                    {.memory = {.grain = SlabGrain::op},
                     .fallback = fallback->get(),
                     .warn = [&](const std::string& line) { warnings.push_back(line); }});
  KvStore kv = store(*device);
  OneResult out;
  ASSERT_TRUE(run_one(executor, inputs(0, 9), kv, out));
  ASSERT_FALSE(executor.plan()->streamed.empty());
  const HexagonCounters before = device->counters();
  // What is pinned lies in one mapping, of a page or two; what streams beside it is refused.
  const int64_t used = before.arena_bytes + before.staging_bytes + before.scratch_bytes + kv.bytes();
  play_phone(fmt::format("space={}", used + 5 * hexagon::kPageBytes));
  const auto got = passes(executor, *device);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, all) << "bit for bit";
  EXPECT_FALSE(executor.fell_back());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with("hexagon: mapping ") &&
              warnings[0].find(" was refused; the window for weights is ") != std::string::npos)
      << warnings[0];
  EXPECT_LE(device->window().weight_bytes, whole / 2 + hexagon::kPageBytes);
  EXPECT_EQ(device->counters().sessions_opened, 1);
}

// Where even two slabs do not fit, it is the host's, and says why.
TEST_F(HexagonTest, ASpaceTooSmallForAnyPlanIsTheHosts) {
  const auto device = hexagon(options());
  play_phone("space=200000");
  const auto fallback = cpu_->share(1);
  std::vector<std::string> warnings;
  Executor executor(
      *device, forwards_of(model_->graph),
      {.memory = {}, .fallback = fallback->get(), .warn = [&](const std::string& line) { warnings.push_back(line); }});
  ASSERT_TRUE(passes(executor, *device));
  EXPECT_TRUE(executor.fell_back());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("was refused: out of memory (2)"), std::string::npos) << warnings[0];
}

// FASTRPC_GET_URI on 8 Gen 2, and a driver that has no second session: one does it, with a line.
TEST_F(HexagonTest, ASecondSessionThatIsRefusedIsDoneWithout) {
  const auto all = expected();
  for (const auto& [phone, says] :
       {std::pair{"uri=0x14", "hexagon: no address for session 1: unsupported (20); 1 of 2 sessions are used"},
        {"reserve=2", "hexagon: no further session on the DSP: out of memory (2); 1 of 2 sessions are used"}}) {
    play_phone(phone);
    auto with = options();
    with.sessions = 2;
    std::vector<std::string> warnings;
    with.warn = [&](const std::string& line) { warnings.push_back(line); };
    const auto device = hexagon(with);
    ASSERT_TRUE(device->start());
    EXPECT_EQ(warnings, std::vector<std::string>{says});
    EXPECT_EQ(device->window().sessions, 1);
    const auto got = passes(*device, {.policy = MemoryPolicy::sessions});
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(*got, all);
  }
}

TEST_F(HexagonTest, OneDeadSessionOfTwoIsSaidAndBothComeBack) {
  const auto all = expected();
  auto with = options();
  with.sessions = 2;
  const auto device = hexagon(with);
  device->set_window(total(*device, SlabGrain::layer) * 3 / 4);
  const auto fallback = cpu_->share(1);
  std::vector<std::string> warnings;
  const auto executor = [&] {
    return Executor(*device, forwards_of(model_->graph),
                    {.memory = {.policy = MemoryPolicy::sessions},
                     .fallback = fallback->get(),
                     .warn = [&](const std::string& line) { warnings.push_back(line); }});
  };
  {
    Executor first = executor();
    ASSERT_TRUE(device->start());
    play_fault("die:8");
    ASSERT_TRUE(passes(first, *device));
    EXPECT_TRUE(first.fell_back());
  }
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("the DSP process ended; this step and all later ones run on"), std::string::npos)
      << warnings[0];
  play_fault("");
  Executor second = executor();
  const auto again = passes(second, *device);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, all);
  EXPECT_FALSE(second.fell_back());
}

TEST_F(HexagonTest, CopyingIsRefusedByName) {
  const auto device = hexagon(options());
  device->set_window(total(*device, SlabGrain::op) / 2);
  const auto got = passes(*device, {.policy = MemoryPolicy::copy, .grain = SlabGrain::op});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().message, "hexagon: slabs are mapped, not copied; needed memory plan or sessions");
}

// The host computes the layers of its choice of every step.
class SomeLayersOnTheHost final : public PassingDevice {
 public:
  SomeLayersOnTheHost(Device& device, std::function<bool(const Op&)> mine)
      : PassingDevice(device), mine_(std::move(mine)) {}
  Unit place(const Op& op) const override { return mine_(op) ? Unit::host : PassingDevice::place(op); }

 private:
  std::function<bool(const Op&)> mine_;
};

// Whoever computes a layer, a head or a row: the same bits, from the same packed weights.
TEST_F(HexagonTest, TheHostGivesTheDspsBitsForLayersForRowsAndForAll) {
  const auto all = expected();
  const auto device = hexagon(options());
  const std::vector<std::function<bool(const Op&)>> splits = {
      [](const Op& op) { return op.layer == 1; }, [](const Op& op) { return op.kind == OpKind::head; },
      [](const Op& op) { return op.layer % 2 == 0 && op.kind != OpKind::matmul; }, [](const Op&) { return true; }};
  for (size_t i = 0; i < splits.size(); ++i) {
    SomeLayersOnTheHost split(*device, splits[i]);
    Executor executor(split, forwards_of(model_->graph));
    const auto got = passes(executor, split);
    ASSERT_TRUE(got) << i << ": " << got.error().message;
    EXPECT_EQ(*got, all) << "split " << i;
  }
  // Without the DSP: the slabs are there, so that nothing is packed again.
  const auto host = *device->on_host(2);
  Executor alone(*host, forwards_of(model_->graph)), dsp(*device, forwards_of(model_->graph));
  const int buffers = shared_buffers();
  auto got = passes(alone, *host);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, all);
  EXPECT_LE(shared_buffers(), buffers + 3) << "arena, staging and scratch";
  // Some rows here, some there, over one store.
  KvStore kv = store(*device);
  std::vector<float> both;
  for (const auto& [in, by] : {std::pair{inputs(0, 9), &alone}, {inputs(4, 7), &dsp}, {inputs(2, 4), &alone}}) {
    OneResult out;
    ASSERT_TRUE(run_one(*by, in, kv, out));
    both.insert(both.end(), out.logits.begin(), out.logits.end());
  }
  EXPECT_EQ(both, all);
}

// ---- Failures

struct Failure {
  const char* fault;
  const char* says;
};

TEST_F(HexagonTest, EveryFailureIsRetriedOnTheHostWithTheSameBitsAndTheDspIsStartedAgain) {
  const auto all = expected();
  // Invokes: 0 open, 1 query, then mappings and batches; a generation on a fresh session has more than 9 of them.
  for (const Failure& f : {Failure{"kill:9:100", "ended"},
                           {"error:9", "failed (1)"},
                           {"garbage:9", "garbage"},
                           {"hang:9", "no answer within"},
                           {"map:3", "was refused: out of memory"}}) {
    auto with = options();
    if (std::string_view(f.fault).starts_with("hang")) with.deadline_s = 1;  // a loaded machine looks like a hang
    const auto device = hexagon(with);
    play_fault(f.fault);
    const auto fallback = device->on_host(1);
    std::vector<std::string> warnings;
    Executor executor(*device, forwards_of(model_->graph),
                      {.memory = {}, .fallback = fallback->get(), .warn = [&](const std::string& line) {
                         warnings.push_back(line);
                       }});
    const auto begin = std::chrono::steady_clock::now();
    const auto got = passes(executor, *device);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    ASSERT_TRUE(got) << f.fault << ": " << got.error().message;
    EXPECT_TRUE(executor.fell_back()) << f.fault;
    ASSERT_EQ(warnings.size(), 1u) << f.fault;
    EXPECT_NE(warnings[0].find(f.says), std::string::npos) << f.fault << ": " << warnings[0];
    EXPECT_EQ(warnings[0].find('\n'), std::string::npos);
    EXPECT_LT(seconds, 60) << "a hang would last for ever";
    EXPECT_EQ(*got, all) << f.fault;
    // The next generation has the DSP again.
    play_fault("");
    const auto again = passes(*device);
    ASSERT_TRUE(again) << f.fault << ": " << again.error().message;
    EXPECT_EQ(*again, all) << f.fault;
    EXPECT_LE(device->counters().sessions_opened, 2) << f.fault;
    EXPECT_LE(dsp_processes().size(), 1u);
  }
}

TEST_F(HexagonTest, WhatIsMissingIsNamed) {
  auto with = options();
  with.library = "/nowhere/libcdsprpc.so";
  const auto none = describe_hexagon(with);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("/nowhere/libcdsprpc.so"), std::string::npos) << none.error().message;
  EXPECT_EQ(none.error().message.find('\n'), std::string::npos);
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  const auto unequipped = describe_hexagon(options());
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_FALSE(unequipped);
  EXPECT_NE(unequipped.error().message.find("qemu-hexagon is not installed"), std::string::npos)
      << unequipped.error().message;
  const auto found = describe_hexagon(options());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_NE(found->find("Hexagon v67"), std::string::npos) << *found;
  EXPECT_NE(found->find("emulated by qemu-hexagon"), std::string::npos) << *found;
}

}  // namespace
}  // namespace llada
