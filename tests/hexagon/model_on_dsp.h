// A small model on the emulated DSP, for each test of a suite; a cpu device of the same weights; and that nothing of
// the DSP is left behind a test.
#pragma once
#include "devices/cpu/cpu_device.h"
#include "devices/hexagon/hexagon_device.h"
#include "devices/one_stream.h"
#include "devices/small_model.h"
#include "hexagon_tools.h"
#include "sched/executor.h"

namespace llada {

class ModelOnDsp : public testing::Test {
 protected:
  static void make_model(const ModelConfig& config) {
    model_ = new SmallModel(make_small_model(DType::Q4_0, config));
    cpu_ = make_cpu_device({.threads = 1, .isa = ""}, model_->graph.weights, model_->views, {})->release();
  }
  static void SetUpTestSuite() { make_model(small_config()); }
  static void TearDownTestSuite() {
    delete cpu_;
    delete model_;
  }
  void SetUp() override {
    SKIP_WITHOUT_EMULATOR();
    play_fault("");
  }
  void TearDown() override {
    if (!no_emulator().empty()) return;
    play_fault("");
    play_phone("");
    EXPECT_TRUE(dsp_processes().empty());
    EXPECT_EQ(shared_buffers(), 0);
  }

  static HexagonOptions options() { return {.library = standin_path(), .deadline_s = 30}; }
  static std::unique_ptr<HexagonDevice> hexagon(const HexagonOptions& options) {
    return *make_hexagon_device(options, model_->graph.weights, model_->views, *cpu_->share(1));
  }
  // Bytes of all slabs of the DSP's weights.
  static int64_t total(HexagonDevice& device, SlabGrain grain) {
    const Program program = model_->graph.forward(plain_shape(1, 1));
    return total_bytes(group_slabs(weight_uses(program, device), grain, device.window().page_bytes));
  }
  static KvStore store(Device& device, int64_t positions = 64) {
    return *KvStore::create({.layers = model_->graph.layers,
                             .sequences = 1,
                             .kv_heads = model_->config.kv_heads,
                             .head_dim = 16,
                             .positions = positions,
                             .type = DType::F16},
                            [&](int64_t bytes) { return device.allocate(bytes); });
  }
  // Rows of these positions over nine keys.
  static OneStream inputs(int32_t first, int32_t last, int32_t shift = 0) {
    OneStream in;
    for (int32_t p = first; p < last; ++p) in.tokens.push_back((p * 71 + shift) % 1500), in.positions.push_back(p);
    in.spans = {{0, last - first, 0, 9}};
    in.wanted = {0, last - first - 1};
    in.keep_logits = true;
    return in;
  }

  // A full pass and two partial ones: the logits of all of them.
  static Result<std::vector<float>> passes(Executor& executor, Device& device) {
    KvStore kv = store(device);
    std::vector<float> all;
    for (const OneStream& in : {inputs(0, 9), inputs(4, 7), inputs(2, 4)}) {
      OneResult out;
      LLADA_TRY_STATUS(run_one(executor, in, kv, out));
      all.insert(all.end(), out.logits.begin(), out.logits.end());
    }
    return all;
  }
  static Result<std::vector<float>> passes(HexagonDevice& device, MemoryOptions memory = {}) {
    Executor executor(device, forwards_of(model_->graph), {.memory = memory});
    return passes(executor, device);
  }

  static inline SmallModel* model_ = nullptr;
  static inline Device* cpu_ = nullptr;
};

}  // namespace llada
