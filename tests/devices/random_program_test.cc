// What verify() accepts must run: thousands of programs of random ops, some of them damaged, on the scalar cpu device.
// Under the address sanitizer this is the test of the verifier's bounds; without it, of what a device assumes about
// values.
#include "random_program.h"

#include <gtest/gtest.h>

#include <map>

#include "devices/cpu/cpu_device.h"

namespace llada {
namespace {

using random_programs::Bytes;
using random_programs::Made;
using random_programs::Maker;
using random_programs::world;

TEST(RandomPrograms, WhatIsAcceptedRunsAndDependsOnNothingElse) {
  const auto device = make_cpu_device({.threads = 2, .isa = "scalar"}, world().infos, world().views, {});
  ASSERT_TRUE(device) << device.error().message;
  const bool quick = std::getenv("LLADA_TEST_QUICK") != nullptr;
  const uint64_t programs = quick ? 6000 : 40000;
  uint64_t accepted = 0;
  std::map<OpKind, int> kinds;
  for (uint64_t seed = 0; seed < programs; ++seed) {
    std::vector<uint8_t> bytes(96 + mix64(seed) % 160);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(mix64(seed << 16 | i));
    Bytes source(bytes.data(), bytes.size());
    const Made c = Maker(source).make();
    const auto verdict = random_programs::judge(**device, c);
    ASSERT_EQ(verdict.complaint, "") << "program " << seed;
    accepted += verdict.accepted;
    if (verdict.accepted)
      for (const Op& op : c.program.ops) ++kinds[op.kind];
  }
  EXPECT_GT(accepted, programs / 20) << "of programs that nobody runs nothing is learnt";
  EXPECT_EQ(kinds.size(), static_cast<size_t>(kOpKindCount)) << "every kind was run";
}

}  // namespace
}  // namespace llada
