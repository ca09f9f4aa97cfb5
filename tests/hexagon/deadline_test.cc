// Calls of the driver that never return: each ends as an error within its deadline and the time that a kill is given,
// even where the kill hangs too; and a session behind it can be had.
#include <chrono>
#include <thread>

#include "devices/hexagon/session.h"
#include "hexagon_tools.h"

namespace llada::hexagon {
namespace {

constexpr double kDeadline = 0.5, kBound = kDeadline + 1 + 3;  // the kill is given a second; a loaded machine the rest

class Deadlines : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_EMULATOR();
    play_fault("");
    library_ = *Library::open(standin_path());
  }
  void TearDown() override {
    if (!no_emulator().empty()) return;
    release();
    EXPECT_TRUE(dsp_processes().empty());
    EXPECT_EQ(shared_buffers(), 0);
  }
  // Whatever hangs returns.
  void release() {
    play_fault("");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  std::shared_ptr<Session> opened(double deadline) {
    auto session = Session::open(library_, 64 << 20, deadline);
    EXPECT_TRUE(session) << session.error().message;
    return session ? *session : nullptr;
  }
  template <class Call>
  void expect_late(const char* what, const Call& call) {
    const auto begin = std::chrono::steady_clock::now();
    const auto result = call();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_LT(seconds, kBound);
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message.find(fmt::format("hexagon: {}: no answer within 0.5 s", what)), std::string::npos)
        << result.error().message;
    EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
  }

  std::shared_ptr<Library> library_;
};

TEST_F(Deadlines, AMappingThatHangs) {
  auto session = opened(kDeadline);
  const auto buffer = Buffer::allocate(library_, 1 << 16);
  play_fault("hang-map:0");
  expect_late("mapping a buffer", [&] { return session->map(buffer); });
  EXPECT_FALSE(session->alive());
  // The next call fails at once, and a session beside it works meanwhile.
  play_fault("hang-unmap:99");
  EXPECT_FALSE(session->map(buffer));
  auto other = opened(20);
  EXPECT_TRUE(other->map(buffer));
  EXPECT_TRUE(other->unmap(*buffer));
  release();
}

TEST_F(Deadlines, AnAllocationThatHangs) {
  play_fault("hang-alloc:0");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(Buffer::allocate(library_, 1 << 16, kDeadline), nullptr);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_GE(seconds, kDeadline);
  EXPECT_LT(seconds, kBound);
  release();  // what comes too late is given back: TearDown() counts
  EXPECT_NE(Buffer::allocate(library_, 1 << 16, kDeadline), nullptr);
}

TEST_F(Deadlines, AnUnmappingThatHangs) {
  auto session = opened(kDeadline);
  const auto buffer = Buffer::allocate(library_, 1 << 16);
  ASSERT_TRUE(session->map(buffer));
  play_fault("hang-unmap:0");
  expect_late("unmapping a buffer", [&] { return session->unmap(*buffer); });
  release();
}

TEST_F(Deadlines, ADriverThatHangsWhenASessionIsAskedFor) {
  auto first = opened(20);
  play_fault("hang-control:0");
  expect_late("asking the driver for a session", [&] { return Session::open(library_, 64 << 20, kDeadline); });
  release();
  EXPECT_NE(opened(20), nullptr);
}

// The process does not answer, and the request to end it does not return either.
TEST_F(Deadlines, AKillThatHangs) {
  auto session = opened(kDeadline);
  const auto buffer = Buffer::allocate(library_, 1 << 16);
  play_fault("hang-all:0");
  expect_late("mapping a buffer", [&] { return session->map(buffer); });
  release();
}

}  // namespace
}  // namespace llada::hexagon
