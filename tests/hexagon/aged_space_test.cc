// An address space that ages: mappings anywhere, so that what is free lies in pieces, over thousands of them; few large
// mappings of what stays; windows that shrink in several sessions; and machines that are slow, or have few threads.
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "base/processors.h"
#include "base/system.h"
#include "devices/hexagon/session.h"
#include "model_on_dsp.h"

namespace llada {
namespace {

using namespace hexagon;

class AgedSpace : public ModelOnDsp {
 protected:
  static void SetUpTestSuite() {
    ModelConfig config = small_config();
    config.layers = 8;
    config.ffn_width = 384;  // so that a layer takes most of a page of the emulator
    make_model(config);
  }
  static std::unique_ptr<HexagonDevice> hexagon(int sessions = 1) {
    HexagonOptions with = options();
    with.sessions = sessions, with.deadline_s = 60, with.head_on_dsp = false;
    return ModelOnDsp::hexagon(with);
  }
  static KvStore store(Device& device) { return ModelOnDsp::store(device, 16); }
  static Result<std::vector<float>> pass(Executor& executor, KvStore& kv) {
    OneStream in;
    for (int32_t p = 0; p < 4; ++p) in.tokens.push_back(p * 71), in.positions.push_back(p);
    in.spans = {{0, 4, 0, 4}};
    in.wanted = {0, 3};
    in.keep_logits = true;
    OneResult out;
    LLADA_TRY_STATUS(run_one(executor, in, kv, out));
    return out.logits;
  }
  static std::vector<float> expected() {
    const auto device = hexagon();
    Executor executor(*device, forwards_of(model_->graph));
    KvStore kv = store(*device);
    return *pass(executor, kv);
  }
};

TEST_F(AgedSpace, PinnedSlabsLieInOneMapping) {
  const auto device = hexagon();
  Executor executor(*device, forwards_of(model_->graph));
  KvStore kv = store(*device);
  ASSERT_TRUE(pass(executor, kv));
  EXPECT_GE(executor.plan()->slabs.size(), 8u);
  EXPECT_EQ(device->counters().maps, 1);
  // With half of them streamed: what is pinned, and a mapping for each of the others.
  device->set_window(total(*device, SlabGrain::layer) * 3 / 4);
  Executor half(*device, forwards_of(model_->graph));
  const int64_t before = device->counters().maps;
  const auto got = pass(half, kv);
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_FALSE(half.plan()->streamed.empty());
  EXPECT_EQ(device->counters().maps - before, 1 + std::ssize(half.plan()->streamed) + half.plan()->slots);
  EXPECT_EQ(*got, expected());
}

// The DSP hears of a batch long after the lane began to look how far it is: what is left of the batch before, in
// whichever cache, is no news of this one.
TEST_F(AgedSpace, AnEarlierBatchsProgressCountsForNothing) {
  const auto all = expected();
  for (const char* coherent : {"coherent=0", "coherent=1", "coherent=2"}) {
    play_phone(fmt::format("{},batch_us=20000", coherent));
    const auto device = hexagon();
    Executor executor(*device, forwards_of(model_->graph));
    KvStore kv = store(*device);
    ASSERT_TRUE(pass(executor, kv)) << "a batch in which nothing is unmapped";
    device->set_window(total(*device, SlabGrain::layer) / 2);
    Executor half(*device, forwards_of(model_->graph));
    for (int i = 0; i < 2; ++i) {
      const auto got = pass(half, kv);
      ASSERT_TRUE(got) << coherent << ": " << got.error().message;
      ASSERT_EQ(*got, all) << coherent;
    }
  }
}

// Mappings and unmappings at 95 % of what a session has, at any place: what is refused for want of a large enough piece
// is made room for, and a model's answer is the same behind it. Here 500; all 10,000 with LLADA_TEST_LONG=1,
// as the test hexagon.aged_space has it.
TEST_F(AgedSpace, ThousandsOfMappingsLeaveNothingAndTheSameBits) {
  const int cycles = std::getenv("LLADA_TEST_LONG") != nullptr ? 10000 : 500;
  const auto all = expected();
  play_phone("scatter=12345");
  constexpr int64_t kSpace = 96 << 20;
  const auto library = *Library::open(standin_path());
  int64_t refused = 0, most = 0;
  {
    const auto session = *Session::open(library, kSpace, 30);
    std::vector<std::shared_ptr<Buffer>> buffers, mapped;
    for (int i = 0; i < 90; ++i) buffers.push_back(Buffer::allocate(library, ((i * 7) % 40 + 1) * hexagon::kPageBytes));
    // What fits at all, less a twentieth.
    const int64_t limit = (kSpace - (16 << 20)) * 95 / 100;
    const int files = shared_buffers();
    uint32_t state = 1;
    const auto next = [&](size_t n) { return (state = state * 1664525u + 1013904223u) / 65536 % n; };
    for (int done = 0; done < cycles;) {
      const auto& buffer = buffers[next(buffers.size())];
      if (std::ranges::count(mapped, buffer) > 0) continue;
      const bool room = session->mapped_bytes() + buffer->bytes() <= limit;
      const auto number = room ? session->map(buffer) : failed("full");
      if (number) {
        mapped.push_back(buffer);
        most = std::max(most, session->mapped_bytes());
        ++done;
        continue;
      }
      ASSERT_TRUE(session->alive()) << number.error().message;
      refused += room;
      ASSERT_FALSE(mapped.empty());
      const size_t victim = next(mapped.size());
      ASSERT_TRUE(session->unmap(*mapped[victim]));
      mapped.erase(mapped.begin() + static_cast<std::ptrdiff_t>(victim));
    }
    for (const auto& buffer : mapped) ASSERT_TRUE(session->unmap(*buffer));
    EXPECT_EQ(session->mapped_bytes(), 0);
    EXPECT_EQ(shared_buffers(), files);
  }
  RecordProperty("refused", static_cast<int>(refused));
  EXPECT_GT(most, (int64_t{64} << 20)) << "the space was nearly full";
  // A device that streams half of its weights through such a space.
  const auto device = hexagon();
  device->set_window(total(*device, SlabGrain::op) / 2);
  Executor executor(*device, forwards_of(model_->graph), {.memory = {.grain = SlabGrain::op}});
  KvStore kv = store(*device);
  int files = 0;
  for (int i = 0; device->counters().maps < cycles / 2; ++i) {
    const auto got = pass(executor, kv);
    ASSERT_TRUE(got) << i << ": " << got.error().message;
    ASSERT_EQ(*got, all) << i;
    if (i == 0) files = shared_buffers();
  }
  EXPECT_EQ(shared_buffers(), files);
  EXPECT_EQ(device->counters().sessions_opened, 1);
}

// Two sessions, of which the first maps less than was believed: the plan is made again over smaller windows.
TEST_F(AgedSpace, SeveralSessionsShrinkToo) {
  std::vector<float> all;
  int64_t beside = 2 * hexagon::kPageBytes;  // of K/V and flags
  {
    const auto one = hexagon();
    Executor executor(*one, forwards_of(model_->graph));
    KvStore kv = store(*one);
    all = *pass(executor, kv);
    const HexagonCounters used = one->counters();
    beside += used.arena_bytes + used.staging_bytes + used.scratch_bytes;
  }
  const auto device = hexagon(2);
  device->set_window(total(*device, SlabGrain::layer));
  const auto fallback = *cpu_->share(1);
  std::vector<std::string> warnings;
  Executor executor(*device, forwards_of(model_->graph),
                    {.memory = {.policy = MemoryPolicy::sessions},
                     .fallback = fallback.get(),
                     .warn = [&](const std::string& line) { warnings.push_back(line); }});
  KvStore kv = store(*device);
  ASSERT_TRUE(device->start());
  // Room for everything else, and for five layers of eight.
  play_phone(fmt::format("space={}", beside + 5 * hexagon::kPageBytes));
  const auto got = pass(executor, kv);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, all);
  EXPECT_FALSE(executor.fell_back());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("was refused; the window for weights is "), std::string::npos) << warnings[0];
  EXPECT_LE(device->window().weight_bytes, 6 * hexagon::kPageBytes);
}

// The threads that wait for a session's answers.
TEST(Channels, AreBoundToTheFastCoresOfAPhone) {
  const auto mask = [](const Processors& cores) {
    std::vector<int> found;
    std::thread([&] {
      if (const ProcessorMask fast = fast_cores(cores); !fast.empty()) static_cast<void>(bind_thread(fast));
      found = members(own_mask());
    }).join();
    return found;
  };
  const Processors all = usable_processors();
  std::vector<int> allowed = all.order;
  std::ranges::sort(allowed);
  if (allowed.size() > 1) {
    // As of a phone: one fast core beside slow ones.
    EXPECT_EQ(mask({.order = {allowed[1], allowed[0]}, .preferred = 1}), (std::vector<int>{allowed[1]}));
  }
  EXPECT_EQ(mask({.order = allowed, .preferred = static_cast<int>(allowed.size())}), allowed) << "all are alike";
  EXPECT_EQ(mask({}), allowed) << "nothing is known";
}

// Fewer hardware threads than workers and servers: nobody waits for ever, and mappings are served beside a batch.
TEST_F(AgedSpace, OneHardwareThreadDoesItAll) {
  const auto all = expected();
  play_phone("hardware=1");
  const auto device = hexagon();
  device->set_window(total(*device, SlabGrain::layer) / 2);
  Executor executor(*device, forwards_of(model_->graph));
  KvStore kv = store(*device);
  for (int i = 0; i < 20 && (i == 0 || device->counters().maps_beside == 0); ++i) {
    const auto got = pass(executor, kv);
    ASSERT_TRUE(got) << got.error().message;
    ASSERT_EQ(*got, all);
  }
  EXPECT_GT(device->counters().maps_beside, 0);
}

// The prices of a profile, and a DSP that takes five times as long: the same answer, later.
TEST_F(AgedSpace, AProfilesDelaysAndASlowDspChangeTimeAlone) {
  const auto all = expected();
  const auto text = read_file(LLADA_SOURCE_DIR "/profiles/v79-8elite.json");
  ASSERT_TRUE(text);
  const auto profile = nlohmann::json::parse(*text);
  const auto& map = profile.at("map").at("variants").at(profile.at("map").at("default").get<std::string>());
  const auto value = [](const nlohmann::json& number) { return number.at("value").get<double>(); };
  const double batch_us = value(profile.at("npu").at("batch_us")), call_us = value(map.at("us_per_call"));
  play_phone(fmt::format("slow=5,batch_us={:.0f},map_us={:.0f},map_us_mb={:.0f}", batch_us, call_us,
                         value(map.at("us_per_mb"))));
  const auto device = hexagon();
  device->set_window(total(*device, SlabGrain::layer) / 2);
  Executor executor(*device, forwards_of(model_->graph));
  KvStore kv = store(*device);
  const auto begin = std::chrono::steady_clock::now();
  const auto got = pass(executor, kv);
  const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, all);
  EXPECT_GE(us, batch_us + call_us * static_cast<double>(device->counters().maps) / 2) << "the clock obeys";
}

}  // namespace
}  // namespace llada
