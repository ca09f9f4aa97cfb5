// Random sequences of calls, with fixed seeds: the sanitizers look for crashes, races and leaks.
#include "random_calls.h"

#include "api_fixture.h"
#include "base/random.h"

namespace llada {
namespace {

TEST(CApiFuzz, RandomCallsKeepThePromises) {
  int64_t ended_well = 0;
  const uint64_t seeds = quick() ? 12 : 60;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    std::vector<uint8_t> bytes(600);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(mix64(seed * kRandomStep + i) >> 40);
    // Begin with what most calls need.
    const uint8_t begin[] = {0, 0, 0, 1, 0, 2, 1, 0, 0, 1, 1, 0, 1, 2, 0};
    std::copy(std::begin(begin), std::end(begin), bytes.begin());
    RandomCalls calls(tiny().model, bytes);
    calls.run();
    ended_well += calls.ended_well();
  }
  EXPECT_GT(ended_well, 0) << "some of it was more than errors, however slow the machine";
}

}  // namespace
}  // namespace llada
