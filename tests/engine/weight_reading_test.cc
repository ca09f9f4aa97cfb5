// What a loader tells of its progress, and what it lets others do before weights are read.
#include "engine/weight_reading.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/model.h"
#include "engine/request.h"
#include "must.h"

namespace llada {
namespace {

const char* const kModelFolder = LLADA_SOURCE_DIR "/models/tiny-llada";

TEST(Loading, TellsTheBytesThatAreReadInTheirOrder) {
  std::vector<std::pair<int64_t, int64_t>> told;
  LoadOptions options;
  options.threads = 2;
  options.progress = [&](int64_t done, int64_t total) { told.emplace_back(done, total); };
  const auto model = must(Model::load(kModelFolder, options));
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.front().first, 0);
  EXPECT_TRUE(std::ranges::is_sorted(told));
  int64_t whole = 0, largest = 0;
  for (const auto& tensor : (*model)->file().tensors()) {
    whole += tensor.view.bytes();
    largest = std::max(largest, tensor.view.bytes());
  }
  for (const auto& [done, total] : told) {
    EXPECT_LT(done, total);
    EXPECT_LE(total, whole);
  }
  ASSERT_GT(told.size(), 1u);
  EXPECT_LE(told[1].first, largest);
  // Of what is read here: kernels that use floats as they are stored read the vectors alone.
  EXPECT_GT(told.back().first, told.back().second / 2) << "the last one is small: matrices come first";
}

TEST(Loading, AnErrorBeforeTheWeightsEndsItThere) {
  LoadOptions options;
  options.threads = 1;
  bool read = false;
  options.progress = [&](int64_t, int64_t) { read = true; };
  options.before_weights = [](const Model& model) -> Status {
    const auto ids = model.prompt_ids("Sort the numbers");
    EXPECT_TRUE(ids && ids->size() > 2);
    EXPECT_GE(model.special_ids().mask, 0);
    const auto ready = prepare(model, {.tokens = std::vector<int32_t>(1'000, 5)});
    return ready ? Status() : std::unexpected(Error(ready.error()));
  };
  const auto model = Model::load(kModelFolder, options);
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().message.find("the prompt is too long: 1000 tokens; this model's maximum context"),
            std::string::npos)
      << model.error().message;
  EXPECT_FALSE(read);
}

TEST(Loading, WeightsThatWereNotPlannedAreNoProgress) {
  const auto file = must(ModelFile::open(kModelFolder));
  std::vector<TensorView> views;
  for (const auto& tensor : file->tensors()) views.push_back(tensor.view);
  std::vector<int64_t> told;
  {
    WeightReading reading(*file, [&](int64_t done, int64_t) { told.push_back(done); });
    reading.wanted(views[0]);
    EXPECT_TRUE(told.empty());
    reading.planned({views[3], views[1]});
    reading.wanted(views[1]);  // not the next
    EXPECT_TRUE(told.empty());
    reading.wanted(views[3]);
    reading.planned({views[2]});
    reading.wanted(views[1]);
    reading.wanted(views[2]);
    reading.wanted(views[2]);
  }
  EXPECT_EQ(told, (std::vector<int64_t>{0, views[3].bytes(), views[3].bytes() + views[1].bytes()}));
  for (int i = 0; i < 50; ++i) {  // ends whatever its thread is at
    WeightReading reading(*file, {});
    reading.planned(views);
  }
}

}  // namespace
}  // namespace llada
