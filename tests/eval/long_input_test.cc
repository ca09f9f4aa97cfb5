// Evaluations over prompts of more than a thousand tokens, where attention may read digests: the same recording byte
// for byte every time, whatever memory held before, for any number of threads and workers, and in shared forwards. Here
// a few prompts; with LLADA_TEST_LONG in the environment 150 of 1,000 to 4,000 tokens (minutes).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/pages.h"
#include "base/random.h"
#include "eval/evaluate.h"
#include "must.h"
#include "study/synth.h"

namespace llada::eval::long_input {
namespace {

bool long_run() { return std::getenv("LLADA_TEST_LONG") != nullptr; }

// Random weights: two layers, heads of 64, a context of 4,096.
class LongInput : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() / ("llada_long_input_" + std::to_string(::getpid()) + ".gguf"))
                .string();
    const auto request = must(synth_request("tiny", "q8_0", 0));
    ASSERT_EQ(request->preset.config.head_dim, 64);
    ASSERT_GE(request->preset.config.context, 4096);
    const auto written = must(synthesize_file(path_, *request, {.threads = 2}));
  }
  void TearDown() override {
    fill_forgotten_memory(0xff);
    std::filesystem::remove(path_);
  }

  // Words of random letters, not far from as many tokens as asked for.
  static std::string prompt(uint64_t seed, int64_t tokens) {
    std::string text;
    for (uint64_t i = 0; static_cast<int64_t>(text.size()) * 10 < tokens * 17; ++i)
      text +=
          uniform(1, seed, i, 0) < 0.2 ? ' ' : static_cast<char>('a' + static_cast<int>(uniform(2, seed, i, 0) * 26));
    return text;
  }
  static std::vector<Example> examples() {
    std::vector<Example> list;
    const uint64_t count = long_run() ? 150 : 3;
    for (uint64_t i = 0; i < count; ++i) {
      const double length = long_run() ? 1000 + 2950 * uniform(3, i, 0, 0) : 1030 + 90 * static_cast<double>(i);
      list.push_back({"other", prompt(i, static_cast<int64_t>(length)), "x", "x"});
    }
    return list;
  }

  // An example runs on one thread.
  std::vector<std::string> recording(int fill, int workers, int streams = 0) {
    fill_forgotten_memory(fill);
    const char* isa = std::getenv("LLADA_ISA");
    auto model = Model::load(path_, {.isa = isa != nullptr ? isa : "", .threads = 1});
    EXPECT_TRUE(model) << model.error().message;
    decode::DecodeOptions plain;
    plain.gen_length = 32, plain.steps = 4, plain.early_stop = decode::EarlyStop::none;
    decode::DecodeOptions cached = plain;
    cached.kv = decode::KvChoice::prefix;
    std::vector<std::string> lines;
    EvaluateOptions options;
    options.workers = workers;
    options.at_once = streams;
    options.record = [&](const RecordedRun& run) {
      lines.push_back(recording_lines(run));
      return Status();
    };
    const auto done = evaluate(*model, examples(), {{"plain", "", plain}, {"cached", "", cached}}, std::move(options));
    EXPECT_TRUE(done) << done.error().message;
    return lines;
  }

  std::string path_;
};

TEST_F(LongInput, RecordingsAreTheSameInAnyMemory) {
  const std::vector<std::string> want = recording(0, 1);
  ASSERT_EQ(want.size(), 2 * examples().size());
  struct Way {
    int fill, workers, streams;
  };
  // As malloc gives it; NaN; NaN as F16 and huge as F32; on several threads; three at a time, which share forwards.
  for (const auto& [fill, workers, streams] :
       {Way{-1, 1, 0}, Way{0xff, 2, 0}, Way{0x7f, 2, 0}, Way{-1, 3, 0}, Way{0xff, 1, 3}}) {
    const std::vector<std::string> got = recording(fill, workers, streams);
    ASSERT_EQ(got.size(), want.size());
    size_t different = 0;
    for (size_t i = 0; i < want.size(); ++i) different += got[i] != want[i];
    EXPECT_EQ(different, 0u) << "of " << want.size() << " runs; memory " << fill << ", " << workers << " threads, "
                             << streams << " streams";
  }
}

}  // namespace
}  // namespace llada::eval::long_input
