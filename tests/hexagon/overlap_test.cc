// Mapping beside work: that the DSP really serves mappings while a batch runs is counted by the DSP, not timed here.
#include <atomic>
#include <thread>

#include "devices/cpu/cpu_device.h"
#include "devices/hexagon/hexagon_device.h"
#include "devices/hexagon/map_lane.h"
#include "devices/hexagon/reserve.h"
#include "devices/hexagon/session.h"
#include "devices/one_stream.h"
#include "devices/small_model.h"
#include "hexagon_tools.h"
#include "sched/executor.h"

namespace llada {
namespace {

using namespace hexagon;

TEST(MapLane, DoesJobsInOrderAndKeepsTheirErrors) {
  MapLane lane;
  std::vector<int> done;
  const int64_t first = lane.post([&]() -> Status { return done.push_back(1), Status{}; });
  const int64_t second = lane.post([&]() -> Status { return done.push_back(2), failed("second"); });
  const int64_t third = lane.post([&]() -> Status { return done.push_back(3), failed("third"); });
  EXPECT_TRUE(lane.wait(first));
  ASSERT_FALSE(lane.wait(second));
  EXPECT_EQ(lane.wait(second).error().message, "second") << "as often as it is asked";
  lane.finish();
  EXPECT_EQ(done, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(lane.wait(third).error().message, "third");
  EXPECT_EQ(lane.drain().error().message, "second");
  EXPECT_TRUE(lane.drain()) << "forgotten";
}

TEST(MapLane, AJobWithoutMemoryIsItsOwnError) {
  MapLane lane;
  const int64_t first = lane.post([]() -> Status { throw std::bad_alloc(); });
  const int64_t second = lane.post([] { return Status(); });
  ASSERT_FALSE(lane.wait(first));
  EXPECT_EQ(lane.wait(first).error().kind, ErrorKind::memory);
  EXPECT_TRUE(lane.wait(second));
}

class Overlap : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_EMULATOR(); }
  void TearDown() override {
    if (!IsSkipped()) play_phone("");
  }
};

constexpr uint32_t kGuide = 768 << 10;  // where the copy of the mark is described

// One op that leaves a mark, then many that take long; all over one buffer.
std::vector<std::byte> long_batch(uint32_t number, uint32_t scratch, uint64_t sequence) {
  constexpr uint32_t kOps = 40, kRows = 1, kColumns = 256, kOut = 1 << 20, kWeights = 2 << 20;
  constexpr WireRef kNone{WIRE_NO_BUFFER, 0};
  std::vector<WireOp> ops(kOps);
  for (WireOp& op : ops) {
    for (WireRef* ref :
         {&op.in[0], &op.in[1], &op.out[0], &op.out[1], &op.out[2], &op.index, &op.trial_index, &op.table, &op.spans,
          &op.kv.keys, &op.kv.values, &op.kv.trial, &op.predictions, &op.logits, &op.out_of_softmax, &op.never_sampled,
          &op.weight[0].data, &op.weight[1].data, &op.weight[2].data})
      *ref = kNone;
    const bool mark = &op == &ops[0];
    op.kind = mark ? WIRE_GUIDE : WIRE_MATMUL;
    op.rows = mark ? 1 : kRows, op.source_rows = mark ? 1 : 0, op.columns = kColumns;
    op.in[0] = {number, 0}, op.out[0] = {number, mark ? 512u << 10 : kOut};
    if (mark) op.index = {number, kGuide};
    if (!mark) op.weight[0] = {{number, kWeights}, WIRE_STORED_F32, kColumns, 256};
  }
  const WireBatch head{WIRE_MAGIC, WIRE_VERSION, sequence, kOps, 0, 1, 1 << 20, {scratch, 0}, 0, 0, kNone, 0, 0};
  std::vector<std::byte> bytes(sizeof head + kOps * sizeof(WireOp));
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, ops.data(), kOps * sizeof(WireOp));
  return bytes;
}

TEST_F(Overlap, MappingsAreServedWhileABatchRunsAndWhatItNamesStays) {
  play_phone("coherent=2");  // the mark is looked at while the batch runs
  const auto library = *Library::open(standin_path());
  const auto session = *Session::open(library, 64 << 20, 60);
  const auto named = Buffer::allocate(library, 4 << 20), scratch = Buffer::allocate(library, 1 << 20),
             other = Buffer::allocate(library, 1 << 20);
  uint32_t beside = 0;
  std::string refusal;
  // Again where this thread slept through a batch.
  for (uint64_t sequence = 1; sequence <= 10 && (beside < 2 || refusal.empty()); ++sequence) {
    const uint32_t number = *session->map(named), scratch_number = *session->map(scratch);
    auto* values = reinterpret_cast<float*>(named->data());
    auto* mark = reinterpret_cast<std::atomic<float>*>(named->data() + (512 << 10));
    values[0] = 7;
    *reinterpret_cast<WireGuide*>(named->data() + kGuide) = {0, WIRE_NO_ROW, 0};
    mark->store(0);
    Result<WireReply> reply = failed("not run");
    std::thread runner([&] { reply = session->run(long_batch(number, scratch_number, sequence), sequence, 60); });
    while (mark->load() != 7) std::this_thread::yield();  // it runs now
    EXPECT_TRUE(session->map(other));
    EXPECT_TRUE(session->unmap(*other));
    if (const Status unmapped = session->unmap(*named); !unmapped) refusal = unmapped.error().message;
    runner.join();
    ASSERT_TRUE(reply) << reply.error().message;
    ASSERT_EQ(reply->status, WIRE_OK) << describe(*reply);
    beside = std::max(beside, reply->maps_beside);
  }
  EXPECT_GE(beside, 2u) << "one mapping and one unmapping, by the DSP's count";
  EXPECT_NE(refusal.find("busy buffer"), std::string::npos) << refusal;
  EXPECT_TRUE(session->alive());
  EXPECT_TRUE(session->unmap(*named)) << "after the batch it may go";
}

// The same of whole passes: the residency plan streams slabs while the DSP works on others, and nothing but time
// changes.
TEST_F(Overlap, StreamedSlabsAreMappedBesideTheBatches) {
  const SmallModel model = make_small_model(DType::Q4_0, small_config());
  auto cpu = *make_cpu_device({.threads = 1, .isa = ""}, model.graph.weights, model.views, {});
  OneStream in;
  for (int32_t p = 0; p < 40; ++p) in.tokens.push_back(p * 71 % 1500), in.positions.push_back(p);
  in.spans = {{0, 40, 0, 40}};
  in.wanted = {0, 39};
  in.keep_logits = true;
  std::vector<float> expected;
  for (const int percent : {100, 40}) {
    const auto device = *make_hexagon_device({.library = standin_path(), .deadline_s = 60, .head_on_dsp = false},
                                             model.graph.weights, model.views, *cpu->share(1));
    const Program program = model.graph.forward(plain_shape(1, 1));
    const auto slabs = group_slabs(weight_uses(program, *device), SlabGrain::layer, device->window().page_bytes);
    device->set_window(total_bytes(slabs) * percent / 100);
    Executor executor(*device, forwards_of(model.graph));
    KvStore kv = *KvStore::create(
        {.layers = 3, .sequences = 1, .kv_heads = 4, .head_dim = 16, .positions = 40, .type = DType::F16},
        [&](int64_t bytes) { return device->allocate(bytes); });
    OneResult out;
    for (int pass = 0; pass < 60 && (pass == 0 || (percent < 100 && device->counters().maps_beside == 0)); ++pass) {
      const Status status = run_one(executor, in, kv, out);
      ASSERT_TRUE(status) << status.error().message;
      ASSERT_EQ(device->counters().batches, pass + 1) << "a pass is one call, whatever is mapped in it";
    }
    // What the window leaves for everything else is enough.
    const HexagonReserve reserve = hexagon_reserve(model.graph.forward(plain_shape(40, 40)), model.graph.weights, 40);
    const HexagonCounters used = device->counters();
    EXPECT_LE(used.arena_bytes, reserve.arena + hexagon::kPageBytes);
    EXPECT_LE(used.staging_bytes, reserve.staging);
    EXPECT_LE(used.scratch_bytes, reserve.scratch + hexagon::kPageBytes);
    EXPECT_LE(kv.bytes(), reserve.kv);
    if (percent == 100) {
      expected = out.logits;
      EXPECT_TRUE(executor.plan()->streamed.empty());
    } else {
      EXPECT_EQ(out.logits, expected) << "bit for bit";
      EXPECT_FALSE(executor.plan()->streamed.empty());
      EXPECT_GT(device->counters().maps_beside, 0);
    }
  }
  EXPECT_TRUE(dsp_processes().empty());
}

}  // namespace
}  // namespace llada
