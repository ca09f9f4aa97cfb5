// Importance: sums of squares against a forward in plain double arithmetic, on canvases with chosen masks.
#include "engine/importance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "engine/importance_sums.h"
#include "formats/temp_folder.h"
#include "geometry/peaked_engine.h"
#include "must.h"

namespace llada {
namespace {

using testing::HasSubstr;

// Canvases of one model: a prompt and masks, all masks, no mask.
std::vector<std::vector<int32_t>> canvases_of(const PeakedSpec& spec) {
  std::vector<int32_t> some = random_prompt(spec, 40, 3);
  for (const size_t at : {3, 4, 17, 30, 31, 39}) some[at] = spec.config.mask_id;
  return {some, std::vector<int32_t>(9, spec.config.mask_id), random_prompt(spec, 33, 5)};
}

struct Expected {
  std::vector<double> squares;
  int64_t count = 0;
};

class ImportanceOf : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, ImportanceOf, testing::Values("llada", "dream", "llada_moe", "llada2", "nemotron"),
                         [](const auto& model) { return std::string(model.param); });

TEST_P(ImportanceOf, IsTheSumOverAllRowsOfAPlainForward) {
  const PeakedSpec& spec = peaked_spec(GetParam());
  const TempFolder folder;
  SmallModel reference = make_peaked_model(spec);
  write_hf_folder(reference, folder / "hf");
  reference.config.causal_text = false;  // a canvas of masks is block-causal, its finished text alone is causal
  std::map<std::pair<std::string, int>, Expected> expected;
  reference.watch = [&](const std::string& name, int expert, const std::vector<double>& rows) {
    const auto columns = static_cast<size_t>(reference.views[reference.index(name, expert)].shape.columns());
    Expected& sums = expected[{name, std::max(expert, 0)}];
    sums.squares.resize(columns);
    for (size_t i = 0; i < rows.size(); ++i) sums.squares[i % columns] += rows[i] * rows[i];
    sums.count += static_cast<int64_t>(rows.size() / columns);
  };
  std::vector<ImatrixSums> found;
  for (const int threads : {1, 3}) {
    const PeakedEngine engine(GetParam(), folder / "hf", {.isa = "scalar", .threads = threads});
    auto importance = must(Importance::create(engine.model));
    for (const auto& canvas : canvases_of(spec)) ASSERT_TRUE(importance->add(canvas));
    const auto sums = importance->sums();
    if (threads == 1) found = sums;
    ASSERT_EQ(sums.size(), found.size());
    for (size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(sums[i].squares, found[i].squares) << "depend on threads";
  }
  for (const auto& canvas : canvases_of(spec)) {
    std::vector<int32_t> positions(canvas.size());
    std::iota(positions.begin(), positions.end(), 0);
    (void)reference_logits(reference, canvas, positions);
  }
  size_t compared = 0;
  for (const ImatrixSums& sums : found) {
    if (!sums.name.starts_with("blk.")) continue;
    SCOPED_TRACE(sums.name);
    const auto columns = static_cast<size_t>(sums.columns);
    ASSERT_EQ(sums.squares.size(), columns * sums.counts.size());
    for (size_t e = 0; e < sums.counts.size(); ++e) {
      const auto at = expected.find({sums.name, static_cast<int>(e)});
      const Expected one = at == expected.end() ? Expected{std::vector<double>(columns), 0} : at->second;
      EXPECT_EQ(sums.counts[e], one.count) << "expert " << e;
      const double total = std::accumulate(one.squares.begin(), one.squares.end(), 0.0);
      for (size_t i = 0; i < columns; ++i)
        ASSERT_NEAR(sums.squares[e * columns + i], one.squares[i], 2e-3 * one.squares[i] + 1e-6 * total) << i;
      compared += one.count > 0;
    }
  }
  EXPECT_EQ(compared, expected.size());
}

TEST(Importance, MasksAreDrawnAtTheCanvassRate) {
  std::vector<int32_t> tokens(1000);
  std::iota(tokens.begin(), tokens.end(), 0);
  double sum = 0, squares = 0;
  constexpr int kCanvases = 500;
  for (uint64_t n = 0; n < kCanvases; ++n) {
    const double rate = mask_rate(7, n);
    sum += rate, squares += rate * rate;
    const auto canvas = masked_at_random(tokens, -5, rate, 7, n);
    int64_t masked = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      ASSERT_TRUE(canvas[i] == tokens[i] || canvas[i] == -5);
      masked += canvas[i] == -5;
    }
    EXPECT_NEAR(static_cast<double>(masked) / 1000, rate, 0.08);
    EXPECT_EQ(canvas, masked_at_random(tokens, -5, rate, 7, n));
  }
  EXPECT_NEAR(sum / kCanvases, 0.5, 0.05);
  EXPECT_NEAR(squares / kCanvases, 1.0 / 3, 0.05) << "rates are uniform";
  EXPECT_NE(masked_at_random(tokens, -5, 0.5, 7, 0), masked_at_random(tokens, -5, 0.5, 8, 0));
  EXPECT_EQ(masked_at_random(tokens, -5, 0, 7, 0), tokens);
}

TEST(Importance, WrittenFilesAreReadAndRequestsAreChecked) {
  const TempFolder folder;
  const std::string path = LLADA_SOURCE_DIR "/models/tiny-llada-moe";
  const auto model = *must(Model::load(path, {.threads = 2}));
  ImportanceRequest request{.text = "one two three four five six seven eight nine ten", .text_name = "t.txt"};
  request.out_path = folder / "i.gguf";
  request.length = 8;
  const auto all = [](int64_t, int64_t) { return true; };
  const auto report = must(measure_importance(model, request, all));
  EXPECT_GT(report->canvases, 1);
  EXPECT_GT(report->masked, 0);
  EXPECT_LT(report->masked, report->rows);
  const auto imatrix = must(Imatrix::open(request.out_path));
  EXPECT_EQ(std::ssize(imatrix->entries()), report->matrices);
  const auto* down = imatrix->find("blk.0.ffn_down_exps.weight");
  ASSERT_NE(down, nullptr);
  EXPECT_EQ(down->weights.size(), 16u * 64);
  EXPECT_NE(imatrix->find("blk.0.attn_q.weight"), nullptr);

  // Each canvas has its own rate and masks.
  const std::vector<int32_t> ids = model->tokenizer().encode(request.text, ControlText::token);
  int64_t masked = 0;
  for (size_t n = 0; n * 8 < ids.size(); ++n) {
    const auto tokens = std::span(ids).subspan(n * 8, std::min<size_t>(8, ids.size() - n * 8));
    const int32_t mask = model->special_ids().mask;
    masked += std::ranges::count(masked_at_random(tokens, mask, mask_rate(0, n), 0, n), mask);
  }
  EXPECT_EQ(report->masked, masked);
  EXPECT_EQ(report->rows, std::ssize(ids));

  ImportanceRequest first = request;
  first.canvases = 1;
  const auto one = must(measure_importance(model, first, all));
  EXPECT_EQ(one->rows, 8);
  EXPECT_THAT(one->unseen, testing::Contains("blk.0.ffn_down_exps.weight")) << "8 rows do not choose 16 experts";
  EXPECT_THAT(one->unseen, testing::Not(testing::Contains("blk.0.attn_q.weight")));

  ImportanceRequest usual = request;
  usual.length = 0;
  EXPECT_EQ(must(measure_importance(model, usual, all))->canvases, 1) << "512 tokens, or the 256 of the context";

  std::filesystem::remove(request.out_path);
  const auto stopped = must(measure_importance(model, request, [](int64_t done, int64_t) { return done < 1; }));
  EXPECT_EQ(stopped->canvases, 1);
  EXPECT_FALSE(std::filesystem::exists(request.out_path)) << "a stopped measurement wrote a file";
  const auto refusal = [&](auto change) {
    ImportanceRequest bad = request;
    change(bad);
    return why_not(measure_importance(model, bad, all));
  };
  EXPECT_EQ(refusal([](auto& r) { r.length = 1; }), "length: found 1, needed 2 to 256");
  EXPECT_EQ(refusal([](auto& r) { r.length = 257; }), "length: found 257, needed 2 to 256");
  EXPECT_EQ(refusal([](auto& r) { r.mask_rate = 1.5; }), "mask_rate: found 1.5, needed 0 to 1");
}

}  // namespace
}  // namespace llada
