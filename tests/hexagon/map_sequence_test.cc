// The mappings of whole passes of an 8B model, without its arithmetic: slabs of the true sizes in real buffers, mapped
// and unmapped in the emulated address space in the order that the residency plan gives, a marker read by the DSP from
// every slab that an op needs. Here a sixteenth of the size and few passes; LLADA_TEST_LONG=1: all of it, 100 passes.
#include <fstream>

#include "devices/hexagon/pack.h"
#include "devices/hexagon/session.h"
#include "failing/stub_device.h"
#include "hexagon_tools.h"
#include "models/model_graph.h"
#include "sched/memory_runtime.h"
#include "study/presets.h"

namespace llada {
namespace {

using namespace hexagon;

// Runs nothing but one small op per slab of a stretch: an rms_norm whose weight is the slab's marker.
class MapsOnly final : public StubDevice, Window {
 public:
  MapsOnly(std::shared_ptr<Library> library, std::shared_ptr<Session> session, std::vector<int64_t> sizes,
           int64_t window)
      : library_(std::move(library)), session_(std::move(session)), sizes_(std::move(sizes)), window_(window) {
    small_ = Buffer::allocate(library_, hexagon::kPageBytes);
  }
  Unit place(const Op& op) const override { return op.kind == OpKind::embed ? Unit::host : Unit::accelerator; }
  DeviceWindow window() const override {
    return {.weight_bytes = window_, .sessions = 1, .cuts_slabs = false, .page_bytes = hexagon::kPageBytes};
  }
  std::vector<int64_t> weight_sizes() const override { return sizes_; }
  Capabilities capabilities() override { return {.window = this}; }

  Status define_slabs(std::vector<DeviceSlab> slabs) override {
    for (const DeviceSlab& slab : slabs) {
      auto buffer = Buffer::allocate(library_, slab.bytes);
      if (buffer == nullptr) return failed("no buffer of {} bytes", slab.bytes);
      // Every page is written, so that the slab is really there; the marker stands in its last bytes.
      for (int64_t at = 0; at < buffer->bytes(); at += 4096) buffer->data()[at] = std::byte{1};
      std::fill_n(marker(*buffer), 32, static_cast<float>(buffers_.size() + 1));
      buffers_.push_back(std::move(buffer));
    }
    return {};
  }
  Status map(int slab, MapMode) override {
    const auto number = session_->map(buffers_[static_cast<size_t>(slab)]);
    if (!number) return std::unexpected(number.error());
    ++maps;
    mapped_bytes += buffers_[static_cast<size_t>(slab)]->bytes();
    most = std::max(most, session_->mapped_bytes());
    return {};
  }
  Status unmap(int slab) override { return session_->unmap(*buffers_[static_cast<size_t>(slab)]); }

  // The DSP multiplies a row of ones with the slab's marker.
  Status check(int slab) {
    const auto& buffer = buffers_[static_cast<size_t>(slab)];
    LLADA_TRY(const uint32_t weights, session_->map(buffer));  // mapped already, or this counts as one more
    LLADA_TRY(const uint32_t small, session_->map(small_));
    auto* x = reinterpret_cast<float*>(small_->data());
    std::fill_n(x, 32, 1.0f);
    constexpr WireRef kNone{WIRE_NO_BUFFER, 0};
    struct {
      WireBatch head;
      WireOp op;
    } batch{};
    batch.head = {WIRE_MAGIC, WIRE_VERSION, ++sequence_, 1, 0, 1, 1024, {small, 4096}, 0, 0, {WIRE_NO_BUFFER, 0}, 0, 0};
    WireOp& op = batch.op;
    op.kind = WIRE_RMS_NORM, op.rows = 1, op.columns = 32;
    for (WireRef* ref : {&op.in[1], &op.out[1], &op.out[2], &op.index, &op.trial_index, &op.table, &op.spans,
                         &op.kv.keys, &op.kv.values, &op.kv.trial, &op.predictions, &op.logits, &op.out_of_softmax,
                         &op.never_sampled, &op.weight[1].data, &op.weight[2].data})
      *ref = kNone;
    op.in[0] = {small, 0}, op.out[0] = {small, 1024};
    op.weight[0] = {{weights, static_cast<uint32_t>(buffer->bytes() - 128)}, WIRE_STORED_F32, 32, 1};
    LLADA_TRY(const WireReply reply,
              session_->run(std::as_bytes(std::span(&batch, 1)).first(sizeof batch.head + sizeof op), sequence_, 30));
    if (reply.status != WIRE_OK) return failed("slab {}: {}", slab, describe(reply));
    const float got = reinterpret_cast<const float*>(small_->data() + 1024)[31];
    if (std::abs(got - static_cast<float>(slab + 1)) > 1e-3f) return failed("slab {} holds {}", slab, got);
    return {};
  }

  int64_t maps = 0, mapped_bytes = 0, most = 0;

 private:
  static float* marker(Buffer& buffer) { return reinterpret_cast<float*>(buffer.data() + buffer.bytes() - 128); }
  std::shared_ptr<Library> library_;
  std::shared_ptr<Session> session_;
  std::vector<int64_t> sizes_;
  int64_t window_;
  std::vector<std::shared_ptr<Buffer>> buffers_;
  std::shared_ptr<Buffer> small_;
  uint64_t sequence_ = 0;
};

int64_t resident_kb(int pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmSize:")) return std::atoll(line.c_str() + 7);
  return 0;
}

TEST(MapSequence, PassesOfAn8BModelMapWhatThePlanSaysAndLeaveNothing) {
  SKIP_WITHOUT_EMULATOR();
  play_phone("coherent=2");  // of mappings alone
  const bool whole = std::getenv("LLADA_TEST_LONG") != nullptr;
  const int64_t divisor = whole ? 1 : 16;
  const int passes = whole ? 100 : 4;
  const ModelGraph graph = *build_model(find_preset("llada-8b")->config);
  std::vector<int64_t> sizes;
  for (const WeightInfo& w : graph.weights)
    sizes.push_back((w.dims[1] == 1 ? w.dims[0] * 4 : layout_bytes(WIRE_TILE_Q4_0, w.dims[1], w.dims[0])) / divisor);
  const int64_t space = (int64_t{3} << 30) / divisor, reserve = (int64_t{128} << 20) / (whole ? 1 : 4);
  auto library = Library::open(standin_path());
  ASSERT_TRUE(library) << library.error().message;
  {
    auto session = Session::open(*library, space, 30);
    ASSERT_TRUE(session) << session.error().message;
    MapsOnly device(*library, *session, sizes, space - reserve);
    const Program program = graph.forward(plain_shape(1, 1));
    auto runtime = MemoryRuntime::create(device, program, {});
    ASSERT_TRUE(runtime) << runtime.error().message;
    const ResidencyPlan& plan = runtime->plan();
    ASSERT_FALSE(plan.streamed.empty());
    const auto stretches = runtime->cut(device, program);
    const auto pids = dsp_processes();
    ASSERT_EQ(pids.size(), 1u);
    int64_t first_size = 0;
    for (int pass = 0; pass < passes; ++pass) {
      const int64_t before = device.maps;
      for (const auto& stretch : stretches) {
        ASSERT_TRUE(runtime->before(device, stretch, 0));
        for (const int slab : stretch.slabs) {
          const Status status = device.check(slab);
          ASSERT_TRUE(status) << "pass " << pass << ": " << status.error().message;
        }
        const Status after = runtime->after(stretch);
        ASSERT_TRUE(after) << after.error().message;
      }
      EXPECT_EQ(device.maps - before, static_cast<int64_t>(plan.streamed.size())) << "pass " << pass;
      if (pass == 1) first_size = resident_kb(*pids.begin());
    }
    EXPECT_LE(device.most, space);
    EXPECT_EQ(resident_kb(*pids.begin()), first_size) << "the emulated process has not grown";
    EXPECT_EQ(shared_buffers(), static_cast<int>(plan.slabs.size()) + 2) << "slabs, the small one, the ring";
    if (whole)
      fmt::print(
          "{} passes: {:.2f} GB of weights in {} slabs, window {:.2f} GB of {:.2f} GiB, {} slabs streamed in {} slots, "
          "{} maps, {:.1f} GB mapped, at most {:.2f} GB at a time\n",
          passes, static_cast<double>(plan.weight_bytes) / 1e9, plan.slabs.size(),
          static_cast<double>(plan.window_bytes) / 1e9, static_cast<double>(space) / 0x1p30, plan.streamed.size(),
          plan.slots, device.maps, static_cast<double>(device.mapped_bytes) / 1e9,
          static_cast<double>(device.most) / 1e9);
  }
  EXPECT_TRUE(dsp_processes().empty());
  EXPECT_EQ(shared_buffers(), 0);
  play_phone("");
}

}  // namespace
}  // namespace llada
