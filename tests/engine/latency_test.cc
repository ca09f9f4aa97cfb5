// The latency table: what lies between its points, and that a measurement has the shape it promises. No
// assertion depends on how fast the machine is.
#include "engine/latency.h"

#include "golden.h"

namespace llada {
namespace {

TEST(Latency, LinesBetweenAndBeyondPoints) {
  const LatencyTable table{"d", 64, 32, {{8, 4}, {16, 4}, {32, 12}}};
  EXPECT_DOUBLE_EQ(table.ms(4), 2);  // through the origin
  EXPECT_DOUBLE_EQ(table.ms(8), 4);
  EXPECT_DOUBLE_EQ(table.ms(12), 4);
  EXPECT_DOUBLE_EQ(table.ms(24), 8);
  EXPECT_DOUBLE_EQ(table.ms(40), 16);
  const LatencyTable one{"d", 64, 32, {{8, 4}}};
  EXPECT_DOUBLE_EQ(one.ms(16), 8);
}

TEST(Latency, IsMeasuredOncePerModel) {
  const auto model = load_model(LLADA_SOURCE_DIR "/models/tiny-llada", 1);
  const auto table = model->latency(1);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->points.front().rows, 1);
  EXPECT_EQ(table->points.back().rows, 128);
  for (size_t i = 0; i < table->points.size(); ++i) {
    EXPECT_GT(table->points[i].ms, 0);
    if (i > 0) {
      EXPECT_GT(table->points[i].rows, table->points[i - 1].rows);
    }
  }
  const auto again = model->latency(1);
  ASSERT_TRUE(again);
  for (size_t i = 0; i < table->points.size(); ++i) EXPECT_EQ(again->points[i].ms, table->points[i].ms);
}

TEST(Latency, RefusesACanvasTheModelCannotTake) {
  const auto model = load_model(LLADA_SOURCE_DIR "/models/tiny-llada", 1);
  const auto table = measure_latency(*model, {.keys = 4096});
  ASSERT_FALSE(table);
  EXPECT_NE(table.error().message.find("4096"), std::string::npos);
}

}  // namespace
}  // namespace llada
