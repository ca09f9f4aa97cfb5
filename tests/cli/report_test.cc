// The line of stats and its JSON.
#include "cli/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/figures.h"
#include "cli/progress.h"
#include "cli/terminal.h"

namespace llada::cli {
namespace {

TEST(Report, BytesRoundToTheUnitThatReadsBest) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1000), "1.0 kB");
  EXPECT_EQ(bytes_text(37.6e6), "38 MB");
  EXPECT_EQ(bytes_text(999.6e6), "1.0 GB");
  EXPECT_EQ(bytes_text(9.96e9), "10 GB");
}

GenerationStats sample() {
  GenerationStats stats;
  stats.decode.nfe = 7;
  stats.decode.steps = 7;
  stats.decode.committed = 32;
  stats.content_tokens = 23;
  stats.seconds = 0.035;
  stats.canvas_hash = 0xabc;
  return stats;
}

TEST(Report, StatsLinesFitAndSayMoreWithV) {
  GenerationStats stats = sample();
  EXPECT_EQ(stats_lines(stats, "balanced", false), "23 tokens in 7 forwards (balanced), 657 tokens/s (measured)\n");
  EXPECT_THAT(stats_lines(stats, "folder/mine.json", true),
              testing::StartsWith("23 tokens in 7 forwards (mine.json), 657 tokens/s (measured)\n"
                                  "32 with padding, 3.3 tokens per forward, 5.0 ms per step, peak memory "));
  stats.seed = 4'294'967'295u;
  stats.content_tokens = 999, stats.decode.nfe = 256, stats.seconds = 1.5;
  const std::string widest = stats_lines(stats, "balanced", false);
  EXPECT_EQ(widest, "999 tokens in 256 forwards (balanced), 666 tokens/s (measured), seed 4294967295\n");
  EXPECT_LE(widest.size(), 81u);
  stats.emulated.emplace();
  stats.emulated->profile = "phone", stats.emulated->seconds = 1.25, stats.emulated->joules = 3;
  EXPECT_THAT(stats_lines(stats, "", false), testing::EndsWith("\non phone 1.25 s and 3 J (modelled)\n"));
  stats = sample();
  stats.decode.committed = stats.content_tokens = stats.decode.nfe = 1;
  EXPECT_THAT(stats_lines(stats, "", true), testing::StartsWith("1 token in 1 forward, "));
}

TEST(Report, CountsAndSmallNumbersReadWell) {
  EXPECT_EQ(counted(0, "row"), "0 rows");
  EXPECT_EQ(counted(1, "row"), "1 row");
  EXPECT_EQ(fmt::format("{:+.2f}", rounded(-0.004, 2)), "+0.00");
  EXPECT_EQ(fmt::format("{:.2f}", rounded(-0.006, 2)), "-0.01");
  EXPECT_EQ(nlohmann::json(rounded(-0.0, 4)).dump(), "0.0");
  Generation cut;
  cut.tokens = {5}, cut.stats.content_tokens = 1;
  EXPECT_EQ(unfinished_line(cut), "the answer was cut at 1 token (--gen-length)\n");
}

TEST(Report, EmptyRunsDivideByNothing) {
  EXPECT_THAT(stats_lines(GenerationStats{}, "", true),
              testing::StartsWith("0 tokens in 0 forwards, 0 tokens/s (measured)\n"
                                  "0.0 tokens per forward, 0.0 ms per step"));
}

TEST(Report, StatsJsonIsConsistent) {
  const auto json = stats_json(sample());
  EXPECT_EQ(json["label"], "measured");
  EXPECT_EQ(json["canvas_hash"], "0000000000000abc");
  EXPECT_DOUBLE_EQ(json["tokens_per_forward"], 23 / 7.0) << "of the answer, without what follows its end";
  EXPECT_EQ(json["committed_tokens"], 32);
  EXPECT_DOUBLE_EQ(json["ms_per_step"].get<double>() * 7 / 1e3, json["seconds"]);
  EXPECT_GT(json["peak_memory_bytes"].get<int64_t>(), 1'000'000);
}

TEST(Report, JsonIsValidUtf8OnOneLine) { EXPECT_EQ(json_line({{"text", "a\xff\nb"}}), "{\"text\":\"a\ufffd\\nb\"}\n"); }

TEST(Terminal, ModelTextCannotSteerATerminal) {
  EXPECT_EQ(printable_text("a\x1b]0;t\x07\r\n\tb\xc2\x9b", true), "a\ufffd]0;t\ufffd\n\tb\ufffd");
  EXPECT_EQ(printable_text("a\x1b[1m\r\xff", false),
            "a\x1b[1m\r\ufffd");  // a pipe gets the bytes, made valid
}

TEST(Terminal, ErrorsStayOnOneLine) {
  EXPECT_EQ(one_line("no\nsuch\x1b[1m\xff\u20ac"), "no\\x0asuch\\x1b[1m\ufffd\u20ac");
}

TEST(Progress, BarFitsTheTerminal) {
  EXPECT_EQ(progress_bar("convert", 50, "blk.0", 80), "convert [##########..........]  50 %  blk.0");
  EXPECT_EQ(progress_bar("convert", 0, "", 80), "convert [....................]   0 %  ");
  EXPECT_EQ(progress_bar("convert", 100, "x", 20), "convert 100 %  x");
  EXPECT_EQ(progress_bar("convert", 50, "0123456789", 42), "convert [######.......]  50 %  0123456789");
  EXPECT_EQ(progress_bar("convert", 50, "0123456789", 32), "convert  50 %  0123456789");
  EXPECT_EQ(progress_bar("convert", 100, std::string(99, 'x'), 20).size(), 19u);
}

}  // namespace
}  // namespace llada::cli
