// What the Hexagon device makes of unusual numbers and geometries: values that are not finite in weights, activations,
// keys and values end in one error line; a program with two rotary geometries, heads of 64 and 128, grouped keys,
// widths that are no multiple of 256 and rows of any count agree with the cpu device; memory that nobody wrote does not
// matter.
#include <dlfcn.h>

#include "devices/cpu/cpu_device.h"
#include "devices/hexagon/hexagon_device.h"
#include "devices/one_stream.h"
#include "devices/small_model.h"
#include "hexagon_tools.h"
#include "sched/executor.h"
#include "tensor/half.h"

namespace llada {
namespace {

ModelConfig with_heads(int heads, int kv_heads, int head_dim, int ffn) {
  ModelConfig c = small_config(RopePairing::half_split, kv_heads);
  c.layers = 2, c.width = 96, c.heads = heads, c.head_dim = head_dim, c.rotary_dims = head_dim, c.ffn_width = ffn;
  c.vocab = 160;
  return c;
}

class HexagonNumbers : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_EMULATOR();
    void* library = ::dlopen(standin_path(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << ::dlerror();
    poison_ = reinterpret_cast<int (*)(int)>(::dlsym(library, "llada_standin_poison"));
    ASSERT_NE(poison_, nullptr);
    poison_(0xff);
  }
  void TearDown() override {
    if (poison_ != nullptr) poison_(0);
    device_.reset();
    EXPECT_TRUE(dsp_processes().empty());
  }

  void open(DType type, const ModelConfig& config) { open(make_small_model(type, config)); }
  void open(SmallModel model) {
    device_.reset();
    model_ = std::move(model);
    cpu_ = *make_cpu_device({.threads = 1, .isa = "scalar"}, model_.graph.weights, model_.views, {});
    device_ = *make_hexagon_device({.library = standin_path(), .deadline_s = 60}, model_.graph.weights, model_.views,
                                   *cpu_->share(1));
    change_ = [](Program&) {};
  }
  Executor::Build build() {
    return [this](StepShape shape) -> Result<std::shared_ptr<const Program>> {
      auto program = std::make_shared<Program>(model_.graph.forward(shape));
      change_(*program);
      LLADA_TRY_STATUS(verify(*program, model_.graph.weights));
      return program;
    };
  }
  KvStore store(Device& device, DType type = DType::F16) {
    const ModelConfig& c = model_.config;
    return *KvStore::create({.layers = static_cast<int>(c.layers),
                             .sequences = 1,
                             .kv_heads = static_cast<int>(c.kv_heads),
                             .head_dim = static_cast<int>(c.head_dim),
                             .positions = 64,
                             .type = type},
                            [&](int64_t bytes) { return device.allocate(bytes); });
  }
  OneStream inputs(int32_t first, int32_t last, int32_t keys) const {
    OneStream in;
    for (int32_t p = first; p < last; ++p)
      in.tokens.push_back(p * 71 % static_cast<int32_t>(model_.config.vocab)), in.positions.push_back(p);
    in.spans = {{0, last - first, 0, keys}};
    in.wanted = {0, last - first - 1};
    if (last - first == 1) in.wanted = {0};
    in.keep_logits = true;
    return in;
  }
  Result<std::vector<float>> logits(Device& device, KvStore& kv, const OneStream& in) {
    Executor executor(device, build());
    OneResult out;
    LLADA_TRY_STATUS(run_one(executor, in, kv, out));
    return out.logits;
  }
  void expect_like_cpu(const OneStream& in, double bound) {
    KvStore kv = store(*device_), plain = store(*cpu_);
    const auto got = logits(*device_, kv, in), want = logits(*cpu_, plain, in);
    ASSERT_TRUE(got) << got.error().message;
    ASSERT_TRUE(want) << want.error().message;
    double sum = 0, size = 0;
    for (size_t i = 0; i < got->size(); ++i) {
      sum += std::pow(double{(*got)[i]} - (*want)[i], 2), size += std::pow(double{(*want)[i]}, 2);
    }
    EXPECT_LT(std::sqrt(sum / size), bound) << in.tokens.size() << " rows";
  }
  void expect_the_line(KvStore& kv, const OneStream& in) {
    const auto got = logits(*device_, kv, in);
    ASSERT_FALSE(got) << "text";
    EXPECT_EQ(got.error().message,
              fmt::format("hexagon: the logits of position {} are not finite; the weights or the activations "
                          "are damaged",
                          in.positions[static_cast<size_t>(in.wanted[0])]));
    EXPECT_EQ(exit_status(got.error()), 1);
  }
  size_t weight(const std::string& name) const {
    for (size_t i = 0; i < model_.graph.weights.size(); ++i)
      if (model_.graph.weights[i].name == name) return i;
    throw std::runtime_error("no weight " + name);
  }

  SmallModel model_;
  std::unique_ptr<Device> cpu_;
  std::unique_ptr<HexagonDevice> device_;
  std::function<void(Program&)> change_;
  int (*poison_)(int) = nullptr;
};

TEST_F(HexagonNumbers, OneActivationThatIsNotFiniteIsTheOneErrorLine) {
  for (const uint16_t scale : {0x7e00, 0x7c00, 0xfc00}) {
    SmallModel model = make_small_model(DType::Q8_0, small_config());
    // The embedding of the token at position 5, its last group: the host computes it, the DSP has it as activation.
    const int64_t row = row_bytes(DType::Q8_0, model.config.width), token = 5 * 71 % model.config.vocab;
    for (size_t i = 0; i < model.graph.weights.size(); ++i)
      if (model.graph.weights[i].name == "token_embd.weight")
        std::memcpy(model.storage[i].data() + token * row + 34, &scale, 2);
    open(std::move(model));
    KvStore kv = store(*device_);
    expect_the_line(kv, inputs(0, 9, 9));
    // Rows that do not see it are as they were.
    EXPECT_TRUE(logits(*device_, kv, inputs(0, 5, 5)));
  }
}

TEST_F(HexagonNumbers, OneWeightThatIsNotFiniteIsRefusedByItsName) {
  for (const char* name : {"blk.1.ffn_down.weight", "blk.0.attn_norm.weight", "output.weight"}) {
    SmallModel model = make_small_model(DType::Q4_0, small_config());
    open(std::move(model));
    auto& bytes = model_.storage[weight(name)];
    const bool vector = std::string(name).find("norm") != std::string::npos;
    const uint16_t half = 0x7e00;
    const float nan = NAN;
    std::memcpy(bytes.data() + (vector ? 40 : 18), vector ? static_cast<const void*>(&nan) : &half, vector ? 4 : 2);
    KvStore kv = store(*device_);
    const auto got = logits(*device_, kv, inputs(0, 9, 9));
    ASSERT_FALSE(got) << name;
    EXPECT_EQ(got.error().message,
              fmt::format("hexagon: output 0 of {} has a value that is not finite; the weights are damaged", name));
    EXPECT_EQ(got.error().kind, ErrorKind::data);
  }
}

TEST_F(HexagonNumbers, OneKeyOrValueThatIsNotFiniteIsTheOneErrorLine) {
  for (const DType type : {DType::F16, DType::F32})
    for (const int head_dim : {16, 64}) {
      open(DType::Q4_0, with_heads(2, 1, head_dim, 96));
      for (const float bad : {NAN, INFINITY, -INFINITY})
        for (const bool key : {true, false}) {
          KvStore kv = store(*device_, type);
          ASSERT_TRUE(logits(*device_, kv, inputs(0, 9, 9)));
          ASSERT_TRUE(logits(*device_, kv, inputs(2, 4, 9)));
          kv.flush();
          auto* at = const_cast<std::byte*>(key ? kv.keys(1, 0, 0) : kv.values(1, 0, 0));
          const size_t element = static_cast<size_t>(6 * head_dim + 3);
          if (type == DType::F16)
            reinterpret_cast<uint16_t*>(at)[element] = float_to_f16(bad);
          else
            reinterpret_cast<float*>(at)[element] = bad;
          kv.wrote(KvViewer::memory, 1, 0, 6);
          expect_the_line(kv, inputs(2, 4, 9));
          ASSERT_TRUE(logits(*device_, kv, inputs(2, 4, 6))) << "it is not seen";
        }
    }
}

TEST_F(HexagonNumbers, TwoRotaryGeometriesInOneProgram) {
  open(DType::Q8_0, small_config());
  change_ = [](Program& program) {
    program.ropes = {program.ropes[0], *make_rope({.rotary = 16, .theta = 7}),
                     *make_rope({.rotary = 8, .adjacent = true, .theta = 1e4})};
    int16_t layer = 0;  // rotations name none
    for (Op& op : program.ops) {
      if (op.kind == OpKind::rope) op.attributes = static_cast<int16_t>(layer % 3);  // queries: of the next layer
      layer += op.kind == OpKind::store_kv ? 1 : 0;
    }
  };
  // Keys themselves: what attention makes of them hides a wrong angle.
  KvStore kv = store(*device_), plain = store(*cpu_);
  ASSERT_TRUE(logits(*device_, kv, inputs(0, 40, 40)));
  ASSERT_TRUE(logits(*cpu_, plain, inputs(0, 40, 40)));
  kv.flush();
  for (int layer = 0; layer < 3; ++layer) {
    double off = 0, size = 0;
    for (int head = 0; head < 4; ++head)
      for (size_t i = 0; i < 40 * 16; ++i) {
        const auto at = [&](KvStore& s) {
          return f16_to_float(reinterpret_cast<const uint16_t*>(s.keys(layer, 0, head))[i]);
        };
        off += std::pow(double{at(kv)} - at(plain), 2), size += std::pow(double{at(plain)}, 2);
      }
    EXPECT_LT(std::sqrt(off / size), 0.04) << "layer " << layer;
  }
}

TEST_F(HexagonNumbers, HeadsWidthsAndRowsOfEveryKindAgreeWithTheCpu) {
  struct Case {
    ModelConfig config;
    DType type;
  };
  for (const Case& c : {Case{with_heads(4, 2, 64, 352), DType::Q4_0},
                        {with_heads(3, 1, 128, 224), DType::Q8_0},
                        {with_heads(2, 2, 32, 96), DType::Q4_0}}) {
    open(c.type, c.config);
    for (const int32_t rows : {1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 33, 40}) expect_like_cpu(inputs(0, rows, rows), 0.04);
  }
}

// The host computes with nothing but the weights of the ops that are placed on it: the steps run over damaged others.
TEST_F(HexagonNumbers, TheHostNeedsOnlyTheWeightsOfItsOps) {
  for (const bool head_on_dsp : {true, false}) {
    open(DType::Q4_0, with_heads(4, 2, 64, 352));
    const Program program = model_.graph.forward(plain_shape(9, 2));
    const HexagonOptions options{.library = standin_path(), .deadline_s = 60, .head_on_dsp = head_on_dsp};
    device_ =
        *make_hexagon_device(options, model_.graph.weights, model_.views,
                             *make_cpu_device({.threads = 1, .isa = "scalar"}, model_.graph.weights, model_.views, {}));
    std::vector<bool> needed(model_.graph.weights.size(), false);
    for (const Op& op : program.ops)
      if (device_->place(op) == Unit::host)
        for_each_weight(op, [&](WeightId w) { needed[static_cast<size_t>(w)] = true; });
    std::vector<std::string> names;
    for (size_t i = 0; i < needed.size(); ++i)
      if (needed[i]) names.push_back(model_.graph.weights[i].name);
    EXPECT_EQ(names, head_on_dsp ? std::vector<std::string>{"token_embd.weight"}
                                 : (std::vector<std::string>{"token_embd.weight", "output.weight"}));
    // A host whose other weights are not finite.
    SmallModel poor = make_small_model(DType::Q4_0, model_.config);
    for (size_t i = 0; i < needed.size(); ++i)
      if (!needed[i]) std::ranges::fill(poor.storage[i], std::byte{0xff});
    auto host = *make_cpu_device({.threads = 1, .isa = "scalar"}, poor.graph.weights, poor.views, {});
    device_ = *make_hexagon_device(options, model_.graph.weights, model_.views, std::move(host));
    KvStore kv = store(*device_);
    const auto got = logits(*device_, kv, inputs(0, 9, 9));
    ASSERT_TRUE(got) << got.error().message;
  }
}

// The buffers of arena, scratch, staging and K/V full of one byte or another: the same bits.
TEST_F(HexagonNumbers, MemoryThatNobodyWroteDoesNotMatter) {
  std::vector<std::vector<float>> seen;
  for (const int byte : {0x00, 0xff, 0x7c}) {
    poison_(byte);
    open(DType::Q4_0, with_heads(4, 2, 64, 352));
    KvStore kv = store(*device_);
    std::vector<float> all;
    for (const OneStream& in : {inputs(0, 33, 33), inputs(7, 12, 33), inputs(33, 34, 34)}) {
      const auto got = logits(*device_, kv, in);
      ASSERT_TRUE(got) << byte << ": " << got.error().message;
      all.insert(all.end(), got->begin(), got->end());
    }
    seen.push_back(all);
  }
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(seen[0], seen[2]);
}

}  // namespace
}  // namespace llada
