// Emulated: experts in the GPU's slots, of layers that store theirs in different types; copies that fail; memory that is
// given up while work is queued; launches that no GPU takes.
#include "devices/cuda/expert_slots.h"

#include <gtest/gtest.h>

#include <cstring>

#include "cuda_block.h"
#include "devices/cpu/cpu_device.h"
#include "devices/cuda/kernels.h"
#include "devices/one_stream.h"
#include "devices/small_model.h"
#include "must.h"
#include "sched/executor.h"

namespace llada {
namespace {

using namespace cuda;

constexpr auto kSecret = std::byte{0xee};

// Pieces of experts in host memory, each with bytes behind it that are none of its own.
class Pieces {
 public:
  std::span<const std::byte> add(int64_t bytes, uint8_t value) {
    auto& made = pieces_.emplace_back(static_cast<size_t>(bytes + 4096), kSecret);
    std::fill_n(made.begin(), bytes, std::byte{value});
    return {made.data(), static_cast<size_t>(bytes)};
  }

 private:
  std::deque<std::vector<std::byte>> pieces_;
};

class Slots : public testing::Test {
 protected:
  static constexpr std::array<int64_t, 3> kLargest = {512, 512, 1024};
  void make(const CudaExperts& experts, ExpertSlots::Source source) {
    memory_ = std::move(*owner_->allocate(ExpertSlots::bytes_needed(experts, kLargest), "a test"));
    slots_ = std::move(*ExpertSlots::create(memory_.data(), experts, kLargest, std::move(source)));
  }
  std::vector<std::byte> read(const uint8_t* from, int64_t bytes) {
    const SharedBytes to = allocate_pinned(bytes);
    EXPECT_EQ(cudaMemcpyAsync(to.get(), from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, compute_.get()),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(compute_.get()), cudaSuccess);
    return {to.get(), to.get() + bytes};
  }

  std::shared_ptr<Memory> owner_ = std::make_shared<Memory>(1 << 20);
  DeviceBytes memory_;
  Queue compute_ = std::move(*make_stream());
  std::unique_ptr<ExpertSlots> slots_;
};

// Layer 0 stores its last piece in a type of twice the bytes of layer 1's. Nothing behind a piece is read.
TEST_F(Slots, APieceIsAsLongAsItsLayerStoresIt) {
  Pieces pieces;
  std::map<std::pair<int32_t, int>, std::span<const std::byte>> stored;
  for (const int32_t layer : {0, 1})
    for (int p = 0; p < 3; ++p)
      stored[{layer, p}] = pieces.add(kLargest[static_cast<size_t>(p)] / (layer == 1 && p == 2 ? 2 : 1),
                                      static_cast<uint8_t>(16 * layer + p + 1));
  make({.layers = 2, .experts = 1, .slots = 2, .buffer = 0, .staging = 0},
       [&](ExpertId id, int piece) { return stored.at({id.layer, piece}); });
  int64_t bytes = 0;
  for (const int32_t layer : {0, 1}) {
    ASSERT_TRUE(slots_->assign({.id = {layer, 0}, .to = MoveTo::slot}, compute_.get()));
    ASSERT_TRUE(slots_->copy({layer, 0}));
  }
  ASSERT_TRUE(slots_->wait_for_copies());
  for (const int32_t layer : {0, 1})
    for (int p = 0; p < 3; ++p) {
      const std::span<const std::byte> from = stored.at({layer, p});
      const auto there = read(slots_->address({layer, 0}, p), kLargest[static_cast<size_t>(p)]);
      EXPECT_TRUE(std::ranges::equal(from, std::span(there).first(from.size()))) << layer << " " << p;
      EXPECT_EQ(std::ranges::count(there, kSecret), 0) << layer << " " << p << ": bytes behind the piece";
      bytes += static_cast<int64_t>(from.size());
    }
  EXPECT_EQ(slots_->traffic().moved_bytes, bytes);
}

// After a copy that failed the events of a slot are those of who was there before: nobody has arrived.
TEST_F(Slots, NobodyArrivesAfterAFailure) {
  Pieces pieces;
  const auto good = pieces.add(512, 1), large = pieces.add(4096, 2);
  make({.layers = 1, .experts = 2, .slots = 0, .buffer = 0, .staging = 1},
       [&](ExpertId id, int) { return id.expert == 0 ? good : large; });
  ASSERT_TRUE(slots_->assign({.id = {0, 0}, .to = MoveTo::staging}, compute_.get()));
  ASSERT_TRUE(slots_->copy({0, 0}));
  ASSERT_TRUE(slots_->wait_for_copies());
  EXPECT_TRUE(slots_->arrived({0, 0}));
  ASSERT_TRUE(slots_->used({.id = {0, 0}, .to = MoveTo::staging}, compute_.get()));
  ASSERT_TRUE(slots_->assign({.id = {0, 1}, .to = MoveTo::staging}, compute_.get()));
  // The first piece fails at once or after the others were asked for.
  const Status copied = slots_->copy({0, 1});
  EXPECT_FALSE(copied && slots_->wait_for_copies());
  EXPECT_FALSE(slots_->arrived({0, 1}));
  EXPECT_FALSE(slots_->wait_for_copies());
}

// Given up with copies queued: they end before the memory that they write (the emulator looks).
TEST_F(Slots, EndWithCopiesUnderWay) {
  Pieces pieces;
  const auto piece = pieces.add(512, 1);
  for (int i = 0; i < 20; ++i) {
    make({.layers = 1, .experts = 1, .slots = 1, .buffer = 0, .staging = 0}, [&](ExpertId, int) { return piece; });
    ASSERT_TRUE(slots_->assign({.id = {0, 0}, .to = MoveTo::slot}, compute_.get()));
    ASSERT_TRUE(slots_->copy({0, 0}));
    if (i % 2 == 0) {
      ASSERT_TRUE(slots_->wait({0, 0}, 2, compute_.get()));
    }
    slots_.reset();
    EXPECT_EQ(cudaStreamSynchronize(compute_.get()), cudaSuccess);
    memory_ = {};
  }
}

TEST(CudaMemoryReserve, GrowsOnlyWhenTheStreamIsDone) {
  const auto memory = std::make_shared<Memory>(1 << 20);
  const Queue stream = std::move(*make_stream());
  DeviceBytes bytes;
  ASSERT_TRUE(reserve(*memory, bytes, 64, "a test", stream.get()));
  auto* const floats = reinterpret_cast<float*>(bytes.data());
  add(stream.get(), floats, 8, floats);
  ASSERT_TRUE(reserve(*memory, bytes, 4096, "a test", stream.get()))
      << "the emulator ends where it was freed too early";
  EXPECT_EQ(memory->used(), 4096);
}

TEST(CudaEmulatorDeathTest, FreeingWhatIsStillUsedIsNoticed) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "not run: a forked death test under the thread sanitizer";
#endif
  EXPECT_DEATH(
      {
        const auto memory = std::make_shared<Memory>(4096);
        const Queue stream = std::move(*make_stream());
        auto bytes = *memory->allocate(64, "a test");
        auto* const floats = reinterpret_cast<float*>(bytes.data());
        add(stream.get(), floats, 8, floats);
        bytes = {};
      },
      "freed while kernels are queued");
}

struct Nothing {
  static constexpr int kThreads = 1;
  LLADA_DEVICE void operator()(const Block&) const {}
};

// As on a GPU: a launch that it cannot take is an error that somebody has to ask for.
TEST(CudaLaunch, OutOfBoundsIsAnError) {
  const Queue stream = std::move(*make_stream());
  const std::pair<Grid, int64_t> cases[] = {
      {{1, 65536, 1}, 0}, {{1, 1, 65536}, 0}, {{1, 1, 1}, (48 << 10) + 1}, {{int64_t{1} << 31, 1, 1}, 0}};
  for (const auto& [grid, shared] : cases) {
    launch(stream.get(), grid, shared, Nothing{});
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "said once";
  }
  launch(stream.get(), {65536, 65535, 0}, 0, Nothing{});
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "of nothing nothing is launched";
}

// Any number of rows: only a grid's first dimension has room for more than 65,535.
TEST(CudaLaunch, TheHeadHasAnyNumberOfRows) {
  const Queue stream = std::move(*make_stream());
  constexpr int64_t kRows = 70000;
  const auto memory = std::make_shared<Memory>(int64_t{1} << 28);
  auto logits = *memory->allocate(kRows * 4, "logits"), rows = *memory->allocate(kRows * sizeof(HeadRow), "rows"),
       partials = *memory->allocate(kRows * sizeof(HeadPartial), "partials");
  const SharedBytes host = allocate_pinned(kRows * static_cast<int64_t>(sizeof(HeadRow)));
  std::memset(host.get(), 0, kRows * sizeof(HeadRow));
  ASSERT_EQ(cudaMemcpyAsync(rows.data(), host.get(), kRows * sizeof(HeadRow), cudaMemcpyHostToDevice, stream.get()),
            cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(logits.data(), host.get(), kRows * 4, cudaMemcpyHostToDevice, stream.get()), cudaSuccess);
  head_reduce(stream.get(),
              {.logits = reinterpret_cast<const float*>(logits.data()),
               .stride = 1,
               .begin = 0,
               .end = 1,
               .rows_of = reinterpret_cast<const HeadRow*>(rows.data()),
               .tokens = nullptr,
               .partials = reinterpret_cast<HeadPartial*>(partials.data()),
               .chunks = 1},
              kRows);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
}

// ---- A mixture whose layers store their experts in different types

SmallModel two_types() {
  ModelConfig config = small_llada_moe();
  config.layers = 2;
  SmallModel m = make_small_model(DType::F32, config);
  const SmallModel narrow = make_small_model(DType::Q8_0, config);
  for (size_t w = 0; w < m.views.size(); ++w) {
    const WeightInfo& info = m.graph.weights[w];
    if (info.expert < 0 || info.layer != 1 || info.name.find("down") == std::string::npos) continue;
    m.storage[w] = narrow.storage[w];
    m.views[w] = narrow.views[w];
    m.views[w].data = m.storage[w].data();
  }
  return m;
}

struct Opened {
  std::unique_ptr<CudaDevice> device;
  CudaExperts experts;
};
Opened open_with_experts(const SmallModel& m, int64_t budget) {
  auto host = make_cpu_device({.threads = 1, .isa = ""}, m.graph.weights, m.views, {});
  const CudaExperts experts{.first_layer = 0,
                            .layers = static_cast<int32_t>(m.config.layers),
                            .experts = static_cast<int32_t>(m.config.experts),
                            .slots = 4};
  auto device =
      make_cuda_device({.budget_bytes = budget, .experts = experts}, m.graph.weights, m.views, std::move(*host));
  return {device ? std::move(*device) : nullptr, experts};
}
const Op& experts_op(const Program& program) { return *std::ranges::find(program.ops, OpKind::experts, &Op::kind); }

TEST(CudaExperts, OfTwoTypesComputeWhatTheCpuDoes) {
  const SmallModel m = two_types();
  const Opened opened = open_with_experts(m, 64 << 20);
  ASSERT_NE(opened.device, nullptr);
  const auto program = must(forwards_of(m.graph)(plain_shape(8, 1)));
  const auto costs = must(opened.device->measure_experts(experts_op(**program)));
  const auto cpu = make_cpu_device({.threads = 1, .isa = ""}, m.graph.weights, m.views, {});
  const OneStream in = step_of({3, 34, 65, 96, 127, 158, 189, 220}, ascending(0, 8), {2, 7});
  const auto run = [&](Device& device, const ExecutorOptions& options) {
    Executor executor(device, forwards_of(m.graph), options);
    KvStore kv = store_of(m.graph, 8, DType::F32, &device);
    OneResult result;
    for (int i = 0; i < 3; ++i) {  // what is resident changes
      const auto status = run_one(executor, in, kv, result);
      EXPECT_TRUE(status) << status.error().message;
    }
    return result;
  };
  const OneResult expected = run(**cpu, {});
  for (const MoeRule rule : {MoeRule::hybrid, MoeRule::on_demand, MoeRule::all_cpu}) {
    ExpertSplitOptions split;
    split.layers = 2, split.experts = static_cast<int32_t>(m.config.experts);
    split.costs = *costs;
    split.moe.plan = rule;
    split.moe.cache.slots = rule == MoeRule::all_cpu ? 0 : 2;
    const OneResult got = run(*opened.device, {.experts = split});
    ASSERT_EQ(got.logits.size(), expected.logits.size());
    double worst = 0;
    for (size_t i = 0; i < got.logits.size(); ++i)
      worst = std::max(worst, std::fabs(static_cast<double>(got.logits[i]) - expected.logits[i]));
    EXPECT_LT(worst, 0.05) << static_cast<int>(rule);
  }
}

// The slots are taken when the model is opened: what comes later finds less, and a first step no less.
TEST(CudaExperts, HaveTheirMemoryFromTheBeginning) {
  const SmallModel m = two_types();
  const Opened opened = open_with_experts(m, 64 << 20);
  ASSERT_NE(opened.device, nullptr);
  std::array<int64_t, 3> largest{};
  for (size_t w = 0; w < m.views.size(); ++w)
    if (const WeightInfo& info = m.graph.weights[w]; info.expert >= 0) {
      int64_t& bytes = largest[static_cast<size_t>(info.part)];
      bytes = std::max(bytes, m.views[w].bytes());
    }
  const int64_t slots = ExpertSlots::bytes_needed(opened.experts, largest);
  const int64_t used = opened.device->device_memory_bytes();
  EXPECT_GE(used, slots);
  EXPECT_EQ(open_with_experts(m, used - 1).device, nullptr) << "one byte less is refused at once";
  EXPECT_NE(open_with_experts(m, used).device, nullptr);
}

// A launch that failed shows where costs are measured, not in some step later.
TEST(CudaExperts, CostsAreNotMeasuredOfLaunchesThatFailed) {
  const SmallModel m = two_types();
  const Opened opened = open_with_experts(m, 64 << 20);
  ASSERT_NE(opened.device, nullptr);
  const auto program = forwards_of(m.graph)(plain_shape(8, 1));
  cuda_emulator::refuse_launch();
  EXPECT_EQ(why_not(opened.device->measure_experts(experts_op(**program))),
            "cuda: starting kernels of experts: invalid configuration argument");
}

}  // namespace
}  // namespace llada
