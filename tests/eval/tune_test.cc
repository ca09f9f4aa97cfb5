// The search over options, on made-up measurements with a known best answer.
#include "eval/tune.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "must.h"

namespace llada::eval {
namespace {

std::vector<Example> examples_of(std::initializer_list<std::pair<const char*, int>> tasks) {
  std::vector<Example> examples;
  for (const auto& [task, count] : tasks)
    for (int i = 0; i < count; ++i) examples.push_back({task, std::to_string(i), "", ""});
  return examples;
}

const std::vector<Axis> kAxes = {{"t", {"t=9", "t=8", "t=7", "t=6", "t=5", "t=4"}, 0}, {"k", {"", "k=1", "k=2"}, 0}};

struct Setting {
  int t = 0, k = 0;
};

Setting setting_of(const std::string& options) {
  Setting s;
  s.t = options[2] - '0';
  if (options.size() > 4) s.k = options[6] - '0';
  return s;
}

// Every example costs t (k=1: one less, k=2: half); of each 20 examples, t=7 loses 1 and t=6 or less loses 5;
// k=2 loses 4 more.
Score measure_one(const std::string& options, size_t example) {
  const Setting s = setting_of(options);
  Score score{.n = 1, .compared = 1};
  score.nfe = s.k == 2 ? s.t * 5 : (s.k == 1 ? s.t * 10 - 10 : s.t * 10);
  const size_t bad = (s.t >= 8 ? 0 : s.t == 7 ? 1 : 5) + (s.k == 2 ? 4 : 0);
  score.lost = example / 2 % 20 < bad;  // the same in both halves
  score.agreed = 1 - score.lost;
  return score;
}

Result<Score> sum_of(const std::string& options, const std::vector<size_t>& which) {
  Score sum;
  for (const size_t i : which) sum += measure_one(options, i);
  return sum;
}

TuneRequest request(double max_loss) {
  TuneRequest r;
  r.max_loss = max_loss;
  r.cost = [](const Score& s) { return s.mean(s.nfe); };
  return r;
}

Result<TuneResult> run(double max_loss, std::map<std::string, int64_t>* asked = nullptr) {
  const auto measure = [asked](const std::string& options, const std::vector<size_t>& which) {
    if (asked != nullptr) (*asked)[options] += static_cast<int64_t>(which.size());
    return sum_of(options, which);
  };
  // k=1 and t=8 do not go together.
  const auto accepts = [](const std::string& options) { return options != "t=8 k=1"; };
  return tune(examples_of({{"a", 200}, {"b", 200}}), kAxes, accepts, measure, request(max_loss));
}

TEST(Tune, FindsTheCheapestWithinTheLoss) {
  const auto strict = must(run(0));
  ASSERT_GE(strict->chosen, 0);
  EXPECT_EQ(strict->frontier[static_cast<size_t>(strict->chosen)].options, "t=8");
  const auto loose = must(run(5.5));
  ASSERT_GE(loose->chosen, 0);
  EXPECT_EQ(loose->frontier[static_cast<size_t>(loose->chosen)].options, "t=7 k=1");
  EXPECT_GT(loose->refused, 0);
}

// Stopped behind any number of measurements: what was tried by then, and no choice. An error is one all the same.
TEST(Tune, WhatWasTriedByAStopIsKept) {
  const auto examples = examples_of({{"a", 200}, {"b", 200}});
  const auto accepts = [](const std::string&) { return true; };
  for (const int most : {0, 1, 30}) {
    int calls = 0;
    const auto measure = [&](const std::string& options, const std::vector<size_t>& which) -> Result<Score> {
      if (calls++ == most) return failed("interrupted");
      return sum_of(options, which);
    };
    TuneRequest asked = request(5.5);
    EXPECT_FALSE(tune(examples, kAxes, accepts, measure, asked)) << most;
    calls = 0;
    asked.stopped = [&] { return calls > most; };
    const auto result = tune(examples, kAxes, accepts, measure, asked);
    ASSERT_TRUE(result) << most << ": " << result.error().message;
    EXPECT_TRUE(result->interrupted);
    EXPECT_EQ(result->chosen, -1);
    EXPECT_EQ(result->tried > 0, most > 0);
    EXPECT_EQ(result->frontier.empty(), most < 30) << most;
  }
}

TEST(Tune, TheFrontierIsSortedAndUndominated) {
  const auto result = must(run(5.5));
  for (size_t i = 1; i < result->frontier.size(); ++i) {
    EXPECT_GE(result->frontier[i].cost, result->frontier[i - 1].cost);
    EXPECT_LT(result->frontier[i].loss(), result->frontier[i - 1].loss());
  }
  EXPECT_NE(tune_table(*result).find("<- chosen"), std::string::npos);
}

TEST(Tune, MostCandidatesSeeFewExamples) {
  std::map<std::string, int64_t> asked;
  const auto result = must(run(0, &asked));
  int64_t spent = 0, few = 0;
  for (const auto& [options, examples] : asked) spent += examples, few += examples < 400;
  EXPECT_LT(spent, static_cast<int64_t>(asked.size()) * 400);
  EXPECT_EQ(asked.at("t=8"), 400);  // both halves, each once
  EXPECT_GT(few, 0);
}

TEST(Tune, TheHopelessAreGivenUpEarly) {
  std::map<std::string, int64_t> asked;
  const auto result = must(run(0, &asked));
  // The first stage is 25 of the search half: "t=4" loses 5 of every 20, and 9 examples of it are enough to know.
  EXPECT_LT(asked.at("t=4"), 25);
  EXPECT_GE(asked.at("t=9"), 25);
  int64_t sum = 0;
  for (const auto& [options, examples] : asked) sum += examples;
  EXPECT_EQ(result->examples, sum);
}

TEST(Tune, TellsHowFarItIs) {
  TuneRequest told = request(0);
  std::vector<TuneProgress> seen;
  std::vector<std::string> news;
  told.progress = [&](const TuneProgress& p) { seen.push_back(p); };
  told.news = [&](const std::string& text) { news.push_back(text); };
  const auto result =
      must(tune(examples_of({{"a", 200}, {"b", 200}}), kAxes, [](const std::string&) { return true; }, sum_of, told));
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.front().done, 0);
  EXPECT_EQ(seen.front().best, "");
  EXPECT_EQ(seen.back().stage, "validation");
  EXPECT_EQ(seen.back().expected, result->examples);  // exact at the end
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_GT(seen[i].expected, seen[i].done) << i;
    if (i > 0) {
      EXPECT_GE(seen[i].done, seen[i - 1].done);
    }
  }
  ASSERT_FALSE(news.empty());
  EXPECT_NE(news.back().find("best cost"), std::string::npos) << news.back();
}

TEST(Tune, NothingIsChosenWhereNothingIsGoodEnough) {
  const std::vector<Axis> axes = {{"t", {"t=7", "t=6"}, 0}};
  const auto result =
      must(tune(examples_of({{"a", 200}}), axes, [](const std::string&) { return true; }, sum_of, request(0.5)));
  EXPECT_EQ(result->chosen, -1);
}

// Examples that cost what their options say and are lost where `lost(options, example, held out)` has it.
template <typename Lost>
auto losing(const std::vector<Example>& examples, Lost lost) {
  return [held_out = split(examples).validation, lost](const std::string& options, const std::vector<size_t>& which) {
    Score sum;
    for (const size_t i : which)
      sum += Score{.n = 1,
                   .nfe = setting_of(options).t,
                   .compared = 1,
                   .lost = lost(options, i, std::ranges::find(held_out, i) != held_out.end())};
    return Result<Score>(sum);
  };
}

TEST(Tune, ACandidateThatWasLuckyInTheSearchIsFoundOut) {
  // t=8 is perfect on the search half and always wrong on the other.
  const auto examples = examples_of({{"a", 100}});
  const std::vector<Axis> axes = {{"t", {"t=9", "t=8"}, 0}};
  const auto measure =
      losing(examples, [](const std::string& options, size_t, bool held_out) { return options == "t=8" && held_out; });
  const auto result = must(tune(examples, axes, [](const std::string&) { return true; }, measure, request(1)));
  ASSERT_GE(result->chosen, 0);
  EXPECT_EQ(result->frontier[static_cast<size_t>(result->chosen)].options, "t=9");
}

TEST(Tune, WhatHoldsIsChosenBehindWhatHeldInTheSearchAlone) {
  // Of 100 examples in each half "t=8" loses 0 and 2, "t=9" 1 and 1.
  const auto examples = examples_of({{"a", 200}});
  const std::vector<Axis> axes = {{"t", {"t=9", "t=8"}, 0}};
  const auto measure = losing(examples, [](const std::string& options, size_t i, bool held_out) {
    return i / 2 < (options == "t=9" ? 1u : held_out ? 2u : 0u);
  });
  const auto result = must(tune(examples, axes, [](const std::string&) { return true; }, measure, request(1)));
  ASSERT_EQ(result->chosen, 1);
  EXPECT_EQ(result->frontier[0].options, "t=8");
  EXPECT_EQ(result->frontier[1].options, "t=9");
}

TEST(Tune, GoesBackToTheAccurateWhereTheCheapFail) {
  // Many cheap candidates lose 2 of every 50, and only the dearest loses none: granting luck, all look possible.
  std::vector<Axis> axes = {{"t", {}, 0}};
  for (int t = 60; t >= 20; --t) axes[0].choices.push_back(std::to_string(t));
  const auto measure = [&](const std::string& options, const std::vector<size_t>& which) {
    Score sum;
    for (const size_t i : which)
      sum += Score{.n = 1, .nfe = std::stoi(options), .compared = 1, .lost = options != "60" && i % 50 / 2 == 24};
    return Result<Score>(sum);
  };
  const auto result =
      must(tune(examples_of({{"a", 400}}), axes, [](const std::string&) { return true; }, measure, request(1)));
  ASSERT_GE(result->chosen, 0);
  EXPECT_EQ(result->frontier[static_cast<size_t>(result->chosen)].options, "60");
}

TEST(Tune, HalvesAreBalancedAndDisjoint) {
  const auto examples = examples_of({{"a", 10}, {"b", 4}, {"c", 5}});
  const Halves halves = split(examples);
  EXPECT_EQ(halves.search.size() + halves.validation.size(), examples.size());
  std::map<std::string, int> search;
  for (const size_t i : halves.search) {
    ++search[examples[i].task];
    EXPECT_EQ(std::ranges::count(halves.validation, i), 0);
  }
  EXPECT_EQ(search["a"], 5);
  EXPECT_EQ(search["b"], 2);
  EXPECT_EQ(search["c"], 3);
  EXPECT_NE(examples[halves.search[0]].task, examples[halves.search[1]].task);
}

TEST(Tune, RefusesWhatItCannotSplit) {
  const auto measure = [](const std::string&, const std::vector<size_t>&) { return Result<Score>(Score{}); };
  const auto all = [](const std::string&) { return true; };
  EXPECT_THAT(why_not(tune(examples_of({{"a", 1}}), kAxes, all, measure, request(1))), testing::HasSubstr("task 'a'"));
  const auto none = tune(examples_of({{"a", 4}}), kAxes, [](const std::string&) { return false; }, measure, request(1));
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("cannot start from 't=9'"), std::string::npos);
}

// Before the reference is computed.
TEST(Tune, TheSameIsRefusedBeforehand) {
  const auto all = [](const std::string&) { return true; };
  EXPECT_TRUE(check_tune(examples_of({{"a", 2}, {"b", 3}}), kAxes, all));
  EXPECT_EQ(check_tune(examples_of({{"a", 2}, {"b", 1}}), kAxes, all).error().message,
            "tune: found 1 example of task 'b', needed at least 2 (half of them validate)");
  EXPECT_EQ(
      check_tune(examples_of({{"a", 2}}), kAxes, [](const std::string& text) { return text != "t=9"; }).error().message,
      "tune: the search cannot start from 't=9'");
  EXPECT_FALSE(check_tune(examples_of({{"a", 2}}), {{"t", {"x"}, 1}}, all));
}

// Nothing could be lost to it, so the cheapest nonsense would be chosen with a loss of 0.
TEST(Tune, AReferenceWithoutARightAnswerIsRefused) {
  decode::DecodeOptions options;
  EXPECT_TRUE(check_reference({.n = 12, .right = 1, .cut = 11}, options));
  const auto cut = check_reference({.n = 12, .cut = 9}, options);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().message,
            "reference, one token per forward: found 0 of 12 answers right, needed 1 or more, or no candidate could "
            "lose any; 9 of 12 were cut at --gen-length 128, where a longer one may help (--options '--gen-length "
            "auto:384')");
  EXPECT_EQ(exit_status(cut.error()), 2);
  options.auto_length = true, options.gen_length = 384;
  const auto whole = check_reference({.n = 12}, options);
  ASSERT_FALSE(whole);
  EXPECT_TRUE(whole.error().message.ends_with(
      "none was cut at --gen-length auto:384, so the model may not have learned these tasks"))
      << whole.error().message;
}

}  // namespace
}  // namespace llada::eval
