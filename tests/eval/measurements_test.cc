// The file of a search: what was put comes back bit for bit, and what does not belong is refused.
#include "eval/measurements.h"

#include <gtest/gtest.h>

#include "formats/temp_folder.h"
#include "must.h"

namespace llada::eval {
namespace {

const MeasurementStore::Key kKey{"feed", "a processor", "--gen-length 64", "beef"};
const std::vector<LatencyPoint> kLatency = {{1, 0.1}, {128, 1.0 / 3}};

Score some_score() {
  return {.n = 3,
          .right = 2,
          .whole_right = 1,
          .nfe = 17,
          .rows = 1234,
          .committed = 96,
          .content_tokens = 40,
          .seconds = 0.1,
          .cpu_seconds = 1.0 / 3,
          .table_seconds = 2e-300,
          .compared = 3,
          .agreed = 2,
          .edit_distance = 5,
          .won = 1,
          .lost = 2};
}

TEST(Measurements, ComeBackFromTheFile) {
  const TempFolder folder;
  {
    auto store = must(MeasurementStore::open(folder / "measured", kKey, kLatency));
    ASSERT_TRUE(store->put("--threshold 0.9", {0, 4, 2}, some_score()));
    ASSERT_TRUE(store->put("--threshold 0.9", {1}, Score{.n = 1, .compared = 1}));
  }
  const auto again = must(MeasurementStore::open(folder / "measured", kKey, {{1, 99}}));
  EXPECT_EQ(again->size(), 2u);
  ASSERT_EQ(again->latency().size(), 2u);  // of the measurements, not of today
  EXPECT_EQ(again->latency()[1].ms, 1.0 / 3);
  const Score* found = again->find("--threshold 0.9", {0, 4, 2});
  ASSERT_NE(found, nullptr);
  const Score s = some_score();
  EXPECT_EQ(found->table_seconds, s.table_seconds);
  EXPECT_EQ(found->cpu_seconds, s.cpu_seconds);
  for (const auto field :
       {&Score::n, &Score::right, &Score::whole_right, &Score::nfe, &Score::rows, &Score::committed,
        &Score::content_tokens, &Score::compared, &Score::agreed, &Score::edit_distance, &Score::won, &Score::lost})
    EXPECT_EQ(found->*field, s.*field);
  EXPECT_EQ(again->find("--threshold 0.9", {0, 4}), nullptr);
  EXPECT_EQ(again->find("--threshold 0.8", {1}), nullptr);
}

TEST(Measurements, AreRefusedWhereTheyDoNotBelong) {
  const auto store = must(MeasurementStore::open("", kKey, kLatency));
  const std::string head = store->text();
  const auto error = [](const std::string& text, MeasurementStore::Key key = kKey) {
    return why_not(MeasurementStore::parse(text, "f", std::move(key)));
  };
  EXPECT_EQ(error(head), "");
  MeasurementStore::Key other = kKey;
  other.tasks = "cafe";
  EXPECT_NE(error(head, other).find("f:1: measured with tasks 'beef', this search has 'cafe'"), std::string::npos);
  other = kKey;
  other.model = "f00d";
  EXPECT_NE(error(head, other).find("model"), std::string::npos);
  EXPECT_NE(error("").find("f: empty"), std::string::npos);
  EXPECT_NE(error(R"({"format":"llada-reference"})").find("needed llada-measurements"), std::string::npos);
  EXPECT_NE(error(head + R"({"options":"","examples":[1,2],"n":-1})").find("f:2: n: "), std::string::npos);
  std::string falling = head;
  falling.replace(falling.find("[128,"), 5, "[1,");
  EXPECT_NE(error(falling).find("latency: "), std::string::npos);
}

TEST(Measurements, TellExamplesApart) {
  const std::vector<Example> one = {{"a", "bc", "", ""}}, other = {{"ab", "c", "", ""}};
  EXPECT_NE(examples_fingerprint(one), examples_fingerprint(other));
  EXPECT_EQ(examples_fingerprint(one), examples_fingerprint(one));
}

}  // namespace
}  // namespace llada::eval
