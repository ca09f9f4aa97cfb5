// Sessions that use the model's own device one after the other: what one was given does not stay with the device.
#include "engine/session.h"

#include <memory>

#include "golden.h"

namespace llada {
namespace {

std::unique_ptr<Session> session_with(const std::shared_ptr<const Model>& model, Trace* trace) {
  auto session = Session::create(model, {.threads = 0, .trace = trace});
  EXPECT_TRUE(session);
  return std::move(*session);
}

// Spans of ops, which the device itself writes.
int64_t device_spans(const Trace& trace) {
  return std::ranges::count_if(trace.spans(), [](const Trace::Span& span) { return span.lane == "cpu"; });
}

void step(Session& session) {
  decode::DecodeOptions options;
  options.gen_length = options.block_length = 4;
  options.steps = 2;
  const auto done = session.generate(std::vector<int32_t>{5, 6, 7}, options, {});
  ASSERT_TRUE(done) << done.error().message;
}

TEST(SharedDevice, ATraceIsOfItsSessionsRunsOnly) {
  const auto model = load_model(LLADA_SOURCE_DIR "/models/tiny-llada", 1);
  const auto plain = session_with(model, nullptr);
  auto first = std::make_unique<Trace>();
  Trace second;
  auto traced = session_with(model, first.get());
  const auto other = session_with(model, &second);  // made later, which must not take over the first one's
  step(*plain);
  EXPECT_EQ(device_spans(*first) + device_spans(second), 0);
  step(*traced);
  const int64_t spans = device_spans(*first);
  EXPECT_GT(spans, 0);
  EXPECT_EQ(device_spans(second), 0);
  ASSERT_TRUE(traced->logits(std::vector<int32_t>{5, 6, 7}, std::vector<int32_t>{1}));
  EXPECT_GT(device_spans(*first), spans);
  traced.reset();
  first.reset();
  step(*plain);  // would write into memory that is gone
  step(*other);
  EXPECT_EQ(device_spans(second), spans);
}

}  // namespace
}  // namespace llada
