// Machines on which a side does not look into the other one's caches: the stand-in keeps a copy of every buffer for
// each side and moves only what is asked for. The same passes are made on both kinds of them, with one range after the
// other left out, and over the geometry of LLaDA-8B the lines are counted that a pass asks for.
#include "devices/hexagon/batch.h"
#include "lab/hexagon/experiments.h"
#include "model_on_dsp.h"
#include "study/presets.h"

namespace llada {
namespace {

using namespace hexagon;

class Caches : public ModelOnDsp {
 protected:
  static std::unique_ptr<HexagonDevice> hexagon() { return ModelOnDsp::hexagon(options()); }

  // Everything that either side may do to the other's memory, and all that comes of it.
  static Result<std::vector<float>> story() {
    std::vector<float> all;
    const auto device = hexagon();
    LLADA_TRY(const auto host, device->on_host(1));
    KvStore kv = store(*device);
    Executor executor(*device, forwards_of(model_->graph)), on_host(*host, forwards_of(model_->graph));
    const auto pass = [&](Executor& by, const OneStream& in) -> Status {
      OneResult out;
      LLADA_TRY_STATUS(run_one(by, in, kv, out));
      all.insert(all.end(), out.logits.begin(), out.logits.end());
      for (const Prediction& p : out.predictions) all.push_back(static_cast<float>(p.token));
      return {};
    };
    const auto keep = [&](const std::vector<std::byte>& bytes) {
      for (const std::byte b : bytes) all.push_back(static_cast<float>(b));
    };
    LLADA_TRY_STATUS(pass(executor, inputs(0, 9)));
    const std::vector<int32_t> rows = {2, 3, 4};
    const KvStore::Saved saved = kv.save(rows);
    keep(saved.data);
    LLADA_TRY_STATUS(pass(executor, inputs(2, 5, 500)));  // other tokens, whose keys and values are taken back
    kv.put_back(saved);
    LLADA_TRY_STATUS(pass(executor, inputs(6, 8)));
    std::vector<std::byte> whole(static_cast<size_t>(kv.sequence_bytes(9)));
    kv.read(0, 0, 9, whole.data());
    keep(whole);
    LLADA_TRY_STATUS(pass(executor, inputs(1, 4, 300)));
    LLADA_TRY_STATUS(pass(on_host, inputs(0, 3, 900)));  // the host goes on over what the DSP has written
    LLADA_TRY_STATUS(pass(executor, inputs(5, 7)));      // and the DSP over what the host has
    return all;
  }
};

TEST_F(Caches, WhoeverLooksIntoThemTheBitsAreTheSame) {
  const auto expected = story();
  ASSERT_TRUE(expected) << expected.error().message;
  for (const char* phone : {"coherent=1", "coherent=0"}) {
    play_phone(phone);
    const auto got = story();
    ASSERT_TRUE(got) << phone << ": " << got.error().message;
    EXPECT_EQ(*got, *expected) << phone;
  }
}

// What is staged, predictions, logits, and keys and values that the host wrote; of a batch that asks for rows their
// keys and their values.
TEST_F(Caches, NoRangeCanBeLeftOut) {
  play_phone("coherent=1");
  const auto expected = story();
  ASSERT_TRUE(expected) << expected.error().message;
  constexpr int kRanges = 5;
  for (int lost = 0; lost <= kRanges; ++lost) {
    play_phone(fmt::format("coherent=1,lost={}", lost));
    const auto got = story();
    const bool same = got && *got == *expected;
    EXPECT_EQ(same, lost == kRanges) << "range " << lost << (got ? "" : ": " + got.error().message);
  }
  play_phone("coherent=0,sync=0");  // nor what the host does for its own
  const auto got = story();
  EXPECT_FALSE(got && *got == *expected);
}

// Rows that the DSP does not give back come when its process ends, as of one that dies.
TEST_F(Caches, ARefusedFlushEndsTheProcess) {
  std::vector<std::byte> expected;
  for (const char* fault : {"", "spoil:0", "error:0"}) {
    play_phone("coherent=1");
    const auto device = hexagon();
    KvStore kv = store(*device);
    Executor executor(*device, forwards_of(model_->graph));
    OneResult out;
    ASSERT_TRUE(run_one(executor, inputs(0, 9), kv, out));
    play_fault(fault);
    const KvStore::Saved saved = kv.save(std::vector<int32_t>{2, 3, 4});
    play_fault("");
    if (expected.empty()) expected = saved.data;
    EXPECT_EQ(saved.data, expected) << fault;
    EXPECT_EQ(run_one(executor, inputs(2, 5), kv, out).has_value(), *fault == '\0') << fault;
  }
}

TEST_F(Caches, LinesAreThoseThatAStepTouched) {
  const auto device = hexagon();
  KvStore kv = store(*device);
  Executor executor(*device, forwards_of(model_->graph));
  OneResult out;
  ASSERT_TRUE(run_one(executor, inputs(0, 9), kv, out));
  const int64_t pass = device->counters().lines;
  // Activations of the embedding, logits of two rows, and less than 2 KiB of lists, each in whole lines.
  const int64_t known = 9 * 64 * 4 / WIRE_LINE + 2 * 1500 * 4 / WIRE_LINE;
  EXPECT_GE(pass, known);
  EXPECT_LE(pass, known + (4 << 10) / WIRE_LINE);
  static_cast<void>(kv.save(std::vector<int32_t>{2, 3, 5}));
  EXPECT_EQ(device->counters().lines - pass, 3 * 3 * 4 * 2 * 32 / WIRE_LINE) << "three rows of three layers";
  static_cast<void>(kv.save(std::vector<int32_t>{2, 3, 5}));
  EXPECT_EQ(device->counters().lines - pass, 3 * 3 * 4 * 2 * 32 / WIRE_LINE) << "they are there";
}

TEST_F(Caches, TheProbeFindsWhoLooksIntoThem) {
  for (const auto& [phone, host_to_dsp, dsp_to_host] :
       {std::tuple{"coherent=2", true, true}, {"coherent=1", false, false}, {"coherent=0", false, false}}) {
    play_phone(phone);
    const auto library = *Library::open(standin_path());
    const auto session = *Session::open(library, 64 << 20, 20);
    const auto found = measure_coherency(library, *session);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_TRUE(found->asked) << phone;
    EXPECT_EQ(found->host_to_dsp, host_to_dsp) << phone;
    EXPECT_EQ(found->dsp_to_host, dsp_to_host) << phone;
  }
}

// What a batch of a pass of LLaDA-8B over a canvas of 206 asks for, as the DSP counts it.
TEST(CachesOfLlada8b, APassMaintainsFewLines) {
  const ModelConfig config = find_preset("llada-8b")->config;
  const ModelGraph graph = *build_model(config);
  constexpr int32_t kCanvas = 206;
  KvStore kv = *KvStore::create({.layers = static_cast<int>(config.layers),
                                 .sequences = 1,
                                 .kv_heads = static_cast<int>(config.kv_heads),
                                 .head_dim = static_cast<int>(config.head_dim),
                                 .positions = kCanvas,
                                 .type = DType::F16});
  std::vector<WireLayout> layouts;
  for (const WeightInfo& w : graph.weights) layouts.push_back(is_vector(w) ? WIRE_STORED_F32 : WIRE_TILE_Q4_0);
  const auto small = Buffer::allocate(nullptr, 1);
  for (const auto& [first, wanted] : {std::pair<int32_t, int32_t>{0, 128}, {kCanvas - 32, 32}}) {
    OneStream in;
    for (int32_t p = first; p < kCanvas; ++p) in.tokens.push_back(1), in.positions.push_back(p);
    const auto rows = static_cast<int32_t>(in.tokens.size());
    in.spans = {{0, rows, 0, kCanvas}};
    for (int32_t r = rows - wanted; r < rows; ++r) in.wanted.push_back(r);
    const StepInputs step = in.over(kv);
    const auto program = std::make_shared<const Program>(graph.forward(plain_shape(rows, wanted)));
    const llada::Run run{program, 0, program->ops.size(), &step, nullptr};
    const ValuePlan plan = plan_values(*program);
    const RowSets sets = bind_row_sets(step, *program);
    RopeTables rope;
    std::map<const Buffer*, uint32_t> numbers;
    const auto arena = Buffer::allocate(nullptr, plan.bytes);
    BatchSources sources{.run = &run,
                         .plan = &plan,
                         .rows = &sets,
                         .rope = &rope,
                         .arena = arena,
                         .scratch = small,
                         .kv = {Buffer::allocate(nullptr, 1)},
                         .host_arena = arena,
                         .in = {program->ops[0].out[0]},
                         .written = {{}},
                         .infos = graph.weights,
                         .layouts = layouts,
                         .weight = [&](WeightId) { return PlacedWeight{small, 0}; },
                         .number = [&](const std::shared_ptr<Buffer>& b) -> Result<uint32_t> {
                           return numbers.try_emplace(b.get(), static_cast<uint32_t>(numbers.size())).first->second;
                         }};
    Stagings staging;
    const auto batch = build_batch(sources, 1, program->ops.size(), staging, nullptr);
    ASSERT_TRUE(batch) << batch.error().message;
    WireBatch head;
    std::memcpy(&head, batch->bytes.data(), sizeof head);
    int64_t lines = 0;
    for (uint32_t i = 0; i < head.range_count; ++i) {
      WireRange range;
      std::memcpy(&range, batch->bytes.data() + sizeof head + head.op_count * sizeof(WireOp) + i * sizeof range,
                  sizeof range);
      ASSERT_EQ(range.count, 1u) << "no rows of K/V";
      lines += (range.bytes + WIRE_LINE - 1) / WIRE_LINE * ((range.use & 1) + (range.use >> 1));
    }
    EXPECT_GE(lines, int64_t{rows} * 4096 * 4 / WIRE_LINE) << "the embedding's rows";
    EXPECT_LT(lines, rows == kCanvas ? 120000 : 20000);
    RecordProperty(fmt::format("lines_of_{}_rows", rows), static_cast<int>(lines));
  }
}

}  // namespace
}  // namespace llada
