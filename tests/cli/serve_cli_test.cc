// llada serve as a process: its end by a signal, and what it refuses. What it answers: tests/serve.
#include <sys/resource.h>

#include "cli/process.h"

namespace llada::test {
namespace {

const std::string kModel = LLADA_SOURCE_DIR "/models/tiny-llada";

TEST(ServeCommand, ASignalEndsItInGoodOrder) {
  const auto ended = run_llada_on_terminal(
      {"serve", "-m", kModel, "--port", "0", "--row-budget", "64", "--max-connections", "1048576"},
      {.interrupt_after = "is ready at http://127.0.0.1:"});
  EXPECT_EQ(ended.status, 0) << ended.out;
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  if (files.rlim_max <= 1048576) {
    EXPECT_TRUE(ended.out.contains(fmt::format("{} connections at a time, not 1048576", files.rlim_max - 64)))
        << ended.out;
  }
  EXPECT_TRUE(ended.out.contains("\"event\":\"shutdown\",\"seconds\":25")) << ended.out;
}

TEST(ServeCommand, AnIpv6AddressStandsInBrackets) {
  const auto ended =
      run_llada_on_terminal({"serve", "-m", kModel, "--host", "[::1]", "--port", "0", "--row-budget", "64"},
                            {.interrupt_after = "is ready at http://[::1]:"});
  if (ended.out.contains("cannot listen there")) GTEST_SKIP() << "no IPv6 here";
  EXPECT_EQ(ended.status, 0) << ended.out;
  EXPECT_FALSE(ended.out.contains("warning")) << ended.out;
}

TEST(ServeCommand, APlaceOfAnotherMachineIsRefused) {
  const auto no_place = run_llada({"serve", "-m", kModel, "--host", "192.0.2.1", "--port", "0"});
  EXPECT_EQ(no_place.status, 2);
  EXPECT_TRUE(no_place.err.contains("192.0.2.1:0: cannot listen there")) << no_place.err;
  EXPECT_TRUE(
      no_place.err.contains("llada serve: warning: anyone who reaches 192.0.2.1 can send requests: no key is set"))
      << no_place.err;
}

}  // namespace
}  // namespace llada::test
