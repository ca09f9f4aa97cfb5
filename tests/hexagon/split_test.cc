// Products divided between DSP and host: the same bits for every share, whoever looks into whose caches and whatever is
// mapped when; and one error in bounded time where one of the two does not do its part.
// labels of this file: native
#include <signal.h>

#include <chrono>
#include <thread>

#include "model_on_dsp.h"
#include "must.h"

namespace llada {
namespace {

class Split : public ModelOnDsp {
 protected:
  // Gate and up have nine tiles, queries and down two, keys and values one, which is the DSP's.
  static void SetUpTestSuite() {
    ModelConfig config = small_dream();
    config.ffn_width = 288;
    make_model(config);
  }
  static HexagonOptions with(double share) {
    HexagonOptions o = options();
    o.host_share = share;
    return o;
  }
  static std::vector<float> whole() { return *must(passes(*hexagon(options()))); }
  static double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  static constexpr int64_t kPasses = 3, kLayers = 3;
};

TEST_F(Split, EveryShareGivesTheBitsOfTheWholeProducts) {
  const std::vector<float> expected = whole();
  struct Case {
    double share;
    int64_t ops;  // of a layer that are divided
  };
  // None; one of nine; two of nine; four of nine and one of two; all but one of each.
  for (const auto& [share, ops] : {Case{0, 0}, {0.05, 0}, {0.1, 1}, {0.2, 1}, {0.45, 4}, {0.99, 4}}) {
    const auto device = hexagon(with(share));
    EXPECT_EQ(*must(passes(*device)), expected) << share;
    const HexagonCounters counters = device->counters();
    EXPECT_EQ(counters.host_parts, kPasses * kLayers * ops) << share;
    EXPECT_EQ(counters.batches, kPasses) << "a pass stays one call";
  }
}

TEST_F(Split, NeitherSideLooksIntoTheOthersCaches) {
  const std::vector<float> expected = whole();
  for (const char* phone : {"coherent=1", "coherent=0", "coherent=0,hardware=1"}) {
    play_phone(phone);
    EXPECT_EQ(*must(passes(*hexagon(with(0.5)))), expected) << phone;
  }
  play_phone("coherent=0,sync=0");  // what the host does for its own caches is needed
  const auto got = passes(*hexagon(with(0.5)));
  EXPECT_FALSE(got && *got == expected);
}

TEST_F(Split, SlabsStreamBesideIt) {
  HexagonOptions o = with(0.5);
  o.head_on_dsp = false;
  const auto undivided = [&] {
    HexagonOptions alone = o;
    alone.host_share = 0;
    return *must(passes(*hexagon(alone)));
  }();
  for (const int sessions : {1, 2}) {
    o.sessions = sessions;
    const auto device = hexagon(o);
    device->set_window(total(*device, SlabGrain::op) * 3 / 5);
    const auto policy = sessions > 1 ? MemoryPolicy::sessions : MemoryPolicy::plan;
    EXPECT_EQ(*must(passes(*device, {.policy = policy, .grain = SlabGrain::op})), undivided);
    EXPECT_GT(device->counters().host_parts, 0);
  }
}

TEST_F(Split, TheHostMayBeLate) {
  const std::vector<float> expected = whole();
  HexagonOptions o = with(0.5);
  int parts = 0;
  o.on_part = [&]() -> Status {
    if (++parts % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return {};
  };
  EXPECT_EQ(*must(passes(*hexagon(o))), expected);
  EXPECT_GE(parts, 5);
}

// Too late is the same as a DSP that hangs: its deadline ends the step, and the fallback has its bits.
TEST_F(Split, AHostThatIsTooLateEndsTheStepInBoundedTime) {
  HexagonOptions o = with(0.5);
  o.deadline_s = 0.5;
  o.on_part = []() -> Status { return std::this_thread::sleep_for(std::chrono::seconds(4)), Status{}; };
  const auto device = hexagon(o);
  const auto begin = std::chrono::steady_clock::now();
  const auto got = passes(*device);
  EXPECT_LT(seconds_since(begin), 15);
  ASSERT_FALSE(got);
  EXPECT_NE(got.error().message.find("no answer within"), std::string::npos) << got.error().message;
}

TEST_F(Split, APartThatFailsIsTheStepsErrorAndTheFallbackGoesOn) {
  const std::vector<float> expected = whole();
  HexagonOptions o = with(0.5);
  int parts = 0;
  o.on_part = [&]() -> Status { return ++parts == 7 ? failed("no memory for a part") : Status{}; };
  const auto device = hexagon(o);
  const auto fallback = must(device->on_host(1));
  std::vector<std::string> warnings;
  Executor executor(*device, forwards_of(model_->graph),
                    {.fallback = fallback->get(), .warn = [&](const std::string& s) { warnings.push_back(s); }});
  EXPECT_EQ(*must(passes(executor, *device)), expected);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with("no memory for a part")) << warnings[0];
  EXPECT_EQ(parts, 7);
}

// Its process ends, or hangs, while it has its part of a product or waits for the host's.
TEST_F(Split, ADspThatDiesOrHangsInADividedProductChangesNoBit) {
  const std::vector<float> expected = whole();
  for (const char* fault : {"kill:0:0", "kill:0:3000", "kill:1:20000", "hang:1", "garbage:1", "error:0"}) {
    HexagonOptions o = with(0.5);
    o.deadline_s = 1;
    const auto device = hexagon(o);
    ASSERT_TRUE(device->start());
    const auto fallback = must(device->on_host(1));
    std::vector<std::string> warnings;
    Executor executor(*device, forwards_of(model_->graph),
                      {.fallback = fallback->get(), .warn = [&](const std::string& s) { warnings.push_back(s); }});
    ASSERT_TRUE(executor.prepare());
    const auto begin = std::chrono::steady_clock::now();
    play_fault(fault);
    EXPECT_EQ(*must(passes(executor, *device)), expected) << fault;
    EXPECT_LT(seconds_since(begin), 20) << fault;
    play_fault("");
    EXPECT_EQ(warnings.size(), 1u) << fault;
  }
  // And at every moment of a pass, as the host sees it.
  for (int64_t at = 1; at <= kLayers * 4; at += 3) {
    HexagonOptions o = with(0.5);
    int64_t parts = 0;
    o.on_part = [&]() -> Status {
      if (++parts == at)
        for (const int process : dsp_processes()) ::kill(process, SIGKILL);
      return {};
    };
    const auto device = hexagon(o);
    const auto fallback = must(device->on_host(1));
    Executor executor(*device, forwards_of(model_->graph), {.fallback = fallback->get()});
    EXPECT_EQ(*must(passes(executor, *device)), expected) << at;
    EXPECT_TRUE(executor.fell_back()) << at;
  }
}

}  // namespace
}  // namespace llada
