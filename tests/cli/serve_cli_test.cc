// llada serve as a process: its end by a signal, and what it refuses. What it answers: tests/serve.
#include <gtest/gtest.h>

#include "cli/process.h"

namespace llada::test {
namespace {

const std::string kModel = LLADA_SOURCE_DIR "/models/tiny-llada";

TEST(ServeCommand, ASignalEndsItInGoodOrder) {
  const auto ended = run_llada_on_terminal({"serve", "-m", kModel, "--port", "0", "--row-budget", "64"},
                                           {.interrupt_after = "is ready at http://127.0.0.1:"});
  EXPECT_EQ(ended.status, 0) << ended.out;
  EXPECT_TRUE(ended.out.contains("\"event\":\"shutdown\"")) << ended.out;
}

TEST(ServeCommand, WhatCannotBeServedIsRefused) {
  const auto no_model = run_llada({"serve", "-m", "/nowhere/model.gguf", "--port", "0"});
  EXPECT_EQ(no_model.status, 2) << no_model.err;
  const auto no_keys = run_llada({"serve", "-m", kModel, "--port", "0", "--api-key-file", "/dev/null"});
  EXPECT_EQ(no_keys.status, 2);
  EXPECT_TRUE(no_keys.err.contains("/dev/null: found no key, needed one a line")) << no_keys.err;
  const auto no_place = run_llada({"serve", "-m", kModel, "--host", "192.0.2.1", "--port", "0"});
  EXPECT_EQ(no_place.status, 2);
  EXPECT_TRUE(no_place.err.contains("192.0.2.1:0: cannot listen there")) << no_place.err;
}

}  // namespace
}  // namespace llada::test
