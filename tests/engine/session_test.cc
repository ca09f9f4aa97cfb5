// Sessions that use the model's own device one after the other: what one was given does not stay with the device.
#include "engine/session.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>

#include "engine/engine.h"
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
  const auto done = must(session.generate(std::vector<int32_t>{5, 6, 7}, options, {}));
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

// Of the same size, over a model that is open: half of its weights would be the other's. Whoever asks is told, a
// request that is under way too; what only touches the file or takes away its name is no harm.
TEST(ModelFile, ThatWasWrittenToGivesNoAnswer) {
  namespace fs = std::filesystem;
  const fs::path file = fs::path(testing::TempDir()) / fmt::format("llada-written-{}.gguf", ::getpid());
  fs::copy_file(LLADA_SOURCE_DIR "/tests/data/peer/tiny-llada-q8_0.gguf", file, fs::copy_options::overwrite_existing);
  const auto later = [&] { fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1)); };
  const auto model = load_model(file.string(), 1);
  const auto session = session_with(model, nullptr);
  const auto engine = must(Engine::create(model, {.threads = 1, .row_budget = 64}));
  decode::DecodeOptions options;
  options.gen_length = options.block_length = options.steps = 4;
  const std::vector<int32_t> prompt = {5, 6, 7};
  const ScoreRequest score{.prompt = prompt, .continuations = {{8}}, .options = {.method = ScoreMethod::chain}};
  const auto answers = [&] {
    std::vector<std::string> errors;
    const auto add = [&](const auto& result) { errors.push_back(result ? "" : result.error().message); };
    add(session->generate(prompt, options, {}));
    add(session->score(score));
    add(session->logits(prompt, std::vector<int32_t>{1}));
    add((*engine)->submit(prepare(*model, {.tokens = prompt, .options = options}).value())->wait());
    add((*engine)->submit_score(score)->wait());
    return errors;
  };
  EXPECT_THAT(answers(), testing::Each(""));
  later();
  fs::permissions(file, fs::perms::owner_read);
  EXPECT_THAT(answers(), testing::Each("")) << "touched";
  fs::permissions(file, fs::perms::owner_all);
  const auto write = [&](char byte) {
    std::fstream(file, std::ios::in | std::ios::out).seekp(static_cast<std::streamoff>(fs::file_size(file)) / 2)
        << std::string(100'000, byte);
    later();
  };
  int64_t steps = 0;
  const auto under_way = session->generate(prompt, options, [&](const decode::StepEvent&) {
    if (++steps == 2) write('x');
    return true;
  });
  ASSERT_FALSE(under_way);
  EXPECT_EQ(steps, 2);
  const std::string written = file.string() + ": it was written to since it was opened, needed an unchanged file";
  EXPECT_EQ(under_way.error().message, written);
  EXPECT_THAT(answers(), testing::Each(written));
  const auto again = load_model(file.string(), 1);
  fs::remove(file);
  EXPECT_TRUE(session_with(again, nullptr)->generate(prompt, options, {})) << "its name is gone";
}

}  // namespace
}  // namespace llada
