// Passes of the host beside an accelerator's steps where the system gives no thread for them.
#include "devices/host_passes.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include "failing/stub_device.h"

namespace llada {
namespace {

class Host final : public StubDevice {
 public:
  Result<std::unique_ptr<Device>> share(int) const override { return std::make_unique<Host>(); }
};

// With --revise-lateness ready a pass lands once it is ready, so one that nobody computes would never land.
TEST(HostPasses, OneWithoutAThreadIsReadyAndComputedByWhoeverTakesIt) {
  const Host host;
  int begun = 0;
  HostPasses passes(host, [&] { ++begun; });
  const auto program = std::make_shared<const Program>();
  pthread_attr_t usual, huge;
  ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(::pthread_getattr_default_np(&huge), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&huge, size_t{1} << 47), 0);  // no address space has room for it
  ASSERT_EQ(::pthread_setattr_default_np(&huge), 0);
  const auto first = passes.submit_side_pass({program, 0, 0, nullptr, nullptr});
  const auto second = passes.submit_side_pass({program, 0, 0, nullptr, nullptr});
  ASSERT_EQ(::pthread_setattr_default_np(&usual), 0);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(begun, 0);
  EXPECT_TRUE(passes.ready(*first));
  EXPECT_TRUE(passes.ready(*second));
  EXPECT_TRUE(passes.take(*second));
  EXPECT_TRUE(passes.take(*first));
  EXPECT_EQ(begun, 2);
}

}  // namespace
}  // namespace llada
