// Whole evaluations on the shipped model: results do not depend on workers or on what was cached, the
// reference agrees with itself, likelihoods are those of single forwards.
#include "eval/evaluate.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdlib>

#include "base/file.h"
#include "eval/shipped_model.h"
#include "formats/temp_folder.h"

namespace llada::eval {
namespace {

// Short answers, so that a canvas of 16 masks does.
std::vector<Example> some_examples() {
  return {{"sort", "Sort the numbers from smallest to largest: 38 41 6 51 3", "3 6 38 41 51", "3 6 38 41 51"},
          {"sort", "Sort the numbers from largest to smallest: 9 8 20 31", "31 20 9 8", "31 20 9 8"},
          {"other", "Sort the numbers from smallest to largest: 38 41 6 51 3", "x", "x"}};
}

// Needs intermediate results, so deciding everything at once goes wrong.
std::vector<Example> a_hard_example() {
  return {
      {"gsm-mini", "Mia rides 5 km every morning and 5 km every evening. How many km is that in 4 days?", "", "40"}};
}

decode::DecodeOptions short_options() {
  decode::DecodeOptions options;
  options.gen_length = 16;
  return options;
}

StrategyUnderTest threshold(double value) {
  StrategyUnderTest strategy{"t", "--threshold", short_options()};
  strategy.options.acceptance = decode::Acceptance::threshold;
  strategy.options.threshold = value;
  return strategy;
}

EvaluateOptions compared(int workers) {
  EvaluateOptions options;
  options.workers = workers;
  options.reference = reference_options(short_options());
  options.likelihood = true;
  return options;
}

Evaluation run(const std::vector<StrategyUnderTest>& strategies, EvaluateOptions options) {
  return *must(evaluate(shipped_model(), some_examples(), strategies, std::move(options)));
}

void expect_same_but_time(const Score& a, const Score& b) {
  EXPECT_EQ(a.right, b.right);
  EXPECT_EQ(a.nfe, b.nfe);
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.agreed, b.agreed);
  EXPECT_EQ(a.edit_distance, b.edit_distance);
  EXPECT_EQ(a.likelihood.log_probability, b.likelihood.log_probability);  // to the last bit
  EXPECT_EQ(a.likelihood.tokens, b.likelihood.tokens);
}

// With a canvas of 128 it would cut what strategies of an open length answer in full.
TEST(Evaluate, TheReferenceIsAsLongAsTheStrategies) {
  decode::DecodeOptions open = short_options();
  open.auto_length = true, open.gen_length = 384, open.tail = 16, open.acceptance = decode::Acceptance::threshold;
  const decode::DecodeOptions reference = reference_options(open);
  EXPECT_TRUE(reference.auto_length);
  EXPECT_EQ(reference.gen_length, 384);
  EXPECT_EQ(reference.tail, decode::DecodeOptions().tail);
  EXPECT_EQ(reference.acceptance, decode::Acceptance::schedule);
  EXPECT_EQ(reference_text(reference), fmt::format("--gen-length auto:384 --block-length {}", open.block_length));
  EXPECT_NE(reference_text(reference), reference_text(reference_options(short_options()))) << "kept in one file";
  // Of several it has the first one's blocks and the longest one's length, open where one is.
  const StrategyUnderTest several[] = {{"short", "", short_options()}, {"open", "", open}};
  const decode::DecodeOptions longest = reference_options(several);
  EXPECT_TRUE(longest.auto_length);
  EXPECT_EQ(longest.gen_length, 384);
  EXPECT_EQ(longest.block_length, short_options().block_length);
}

// A canvas of 4 has no room for these answers and an end token, one of 16 has.
TEST(Evaluate, AnswersThatWereCutAreCounted) {
  EvaluateOptions options;
  options.workers = 1;
  options.reference = reference_options(short_options());
  StrategyUnderTest cut = threshold(0.9);
  cut.options.gen_length = cut.options.block_length = 4;
  const Evaluation evaluation = run({threshold(0.9), cut}, std::move(options));
  EXPECT_EQ(evaluation.reference->total.cut, 0);
  EXPECT_EQ(evaluation.results[0].total.cut, 0);
  EXPECT_EQ(evaluation.results[1].total.cut, 3);
  EXPECT_EQ(evaluation.results[1].tasks.at("sort").cut, 2);
  const TableReport table(8, true);
  EXPECT_EQ(table.section(evaluation.results[0]).find("WARNING"), std::string::npos);
  const std::string section = table.section(evaluation.results[1]);
  EXPECT_NE(section.find("\n  WARNING: cut at --gen-length 4 before their end: 3 of 3 answers\n"), std::string::npos)
      << section;
  const std::string json = report_json(*shipped_model(), evaluation);
  EXPECT_NE(json.find("\"cut\": 3,"), std::string::npos) << json;
  EXPECT_NE(json.find("\"cut\": 2,"), std::string::npos) << json;
}

TEST(Evaluate, WorkersChangeNothing) {
  std::vector<std::string> recorded[2];
  std::vector<Evaluation> runs;
  for (const int workers : {1, 3}) {
    EvaluateOptions options = compared(workers);
    options.record = [&](const RecordedRun& run) {
      recorded[workers > 1].push_back(recording_lines(run));
      return Status();
    };
    runs.push_back(run({threshold(0.9), threshold(0.3)}, std::move(options)));
  }
  for (size_t i = 0; i < 2; ++i) {
    expect_same_but_time(runs[0].results[i].total, runs[1].results[i].total);
    EXPECT_EQ(runs[0].results[i].tasks.size(), 2u);
  }
  EXPECT_EQ(recorded[0], recorded[1]);
  EXPECT_EQ(recorded[0].size(), 6u);
}

// On a worker as on the caller's thread.
TEST(Evaluate, WithoutMemoryOrThreadsItIsAnErrorAndTheNextRunWorks) {
  bool refused = false;
  EvaluateOptions options;
  options.workers = 3;
  options.progress = [&](int64_t, int64_t, const std::string&) {
    if (refused) throw std::bad_alloc();
  };
  const auto evaluator = must(Evaluator::create(shipped_model(), some_examples(), std::move(options)));
  const auto answers = [&] { return (*evaluator)->answers(threshold(0.3), (*evaluator)->all()); };
  refused = true;
  EXPECT_EQ(why_not(answers()), "out of memory");
  refused = false;
  pthread_attr_t usual, huge;
  ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(::pthread_getattr_default_np(&huge), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&huge, size_t{1} << 47), 0);  // no address space has room for it
  ASSERT_EQ(::pthread_setattr_default_np(&huge), 0);
  const std::string without_threads = why_not(answers());
  ASSERT_EQ(::pthread_setattr_default_np(&usual), 0);
  EXPECT_EQ(without_threads, "the system gives no thread or no memory for one");
  const auto again = must(answers());
  EXPECT_EQ(again->size(), some_examples().size());
}

TEST(Evaluate, SharedForwardsChangeNothing) {
  std::vector<std::string> recorded[2];
  std::vector<Evaluation> runs;
  for (const int streams : {0, 2}) {
    EvaluateOptions options = compared(2);
    options.at_once = streams;
    options.record = [&](const RecordedRun& run) {
      recorded[streams > 0].push_back(recording_lines(run));
      return Status();
    };
    StrategyUnderTest sampled = threshold(0.3);
    sampled.name = "sampled", sampled.options.temperature = 0.7, sampled.options.cfg_scale = 0.5;
    runs.push_back(run({threshold(0.9), sampled}, std::move(options)));
  }
  for (size_t i = 0; i < 2; ++i) expect_same_but_time(runs[0].results[i].total, runs[1].results[i].total);
  EXPECT_EQ(recorded[0], recorded[1]);
  EXPECT_EQ(recorded[0].size(), 6u);
  EXPECT_GT(runs[0].results[0].total.cpu_seconds, 0);
  EXPECT_EQ(runs[1].results[0].total.cpu_seconds, 0) << "nobody's alone";
}

// labels: long
TEST(Evaluate, TheReferenceAgreesWithItself) {
  // Steps are wanted, so that it really runs twice.
  EvaluateOptions options = compared(2);
  options.record = [](const RecordedRun&) { return Status(); };
  const Evaluation evaluation = run({{"same", "", short_options()}}, std::move(options));
  ASSERT_TRUE(evaluation.reference);
  EXPECT_EQ(evaluation.results[0].measured_as, "");
  const Score& reference = evaluation.reference->total;
  const Score& same = evaluation.results[0].total;
  EXPECT_EQ(reference.agreed, 3);
  EXPECT_EQ(reference.edit_distance, 0);
  EXPECT_EQ(reference.right, 2);  // the third asks for an answer that nobody gives
  expect_same_but_time(reference, same);
}

TEST(Evaluate, AStrategyWithTheReferencesOptionsRunsOnce) {
  EvaluateOptions options = compared(2);
  int64_t runs = 0;
  options.progress = [&](int64_t, int64_t, const std::string&) { ++runs; };
  StrategyUnderTest other{"other", "", short_options()};
  other.options.block_length = 8;
  const Evaluation evaluation = run({{"same", "as written", short_options()}, other}, std::move(options));
  EXPECT_EQ(runs, 2 + 3) << "the reference's two prompts, and what is not the reference";
  const StrategyResult& same = evaluation.results[0];
  EXPECT_EQ(same.measured_as, "reference");
  EXPECT_EQ(same.strategy.name, "same");
  EXPECT_EQ(same.strategy.description, "as written");
  EXPECT_EQ(same.total.seconds, evaluation.reference->total.seconds);
  EXPECT_EQ(evaluation.results[1].measured_as, "");
}

// labels: long
TEST(Evaluate, AHastyStrategyIsFarther) {
  EvaluateOptions options = compared(2);
  options.reference->gen_length = 40;
  std::vector<StrategyUnderTest> strategies = {threshold(0.9), threshold(0.01)};
  for (auto& strategy : strategies) strategy.options.gen_length = 40;
  const auto evaluation = must(evaluate(shipped_model(), a_hard_example(), strategies, std::move(options)));
  const Score &careful = evaluation->results[0].total, &hasty = evaluation->results[1].total;
  EXPECT_LT(hasty.nfe, careful.nfe);
  EXPECT_LT(hasty.cpu_seconds, careful.cpu_seconds);
  EXPECT_EQ(hasty.agreed, 0);
  EXPECT_GT(hasty.edit_distance, careful.edit_distance);
  EXPECT_LT(hasty.likelihood.per_token(), careful.likelihood.per_token());
}

// labels: long
TEST(Evaluate, AReferenceFileGivesTheSameAnswersAndIsNotComputedAgain) {
  const TempFolder folder;
  EvaluateOptions first = compared(2);
  first.reference_path = folder / "reference";
  const Evaluation computed = run({threshold(0.5)}, std::move(first));
  EvaluateOptions second = compared(2);
  second.reference_path = folder / "reference";
  second.progress = [](int64_t, int64_t, const std::string& what) { EXPECT_NE(what, "reference"); };
  const Evaluation kept = run({threshold(0.5)}, std::move(second));
  expect_same_but_time(computed.reference->total, kept.reference->total);
  EXPECT_EQ(computed.reference->total.seconds, kept.reference->total.seconds);
  expect_same_but_time(computed.results[0].total, kept.results[0].total);

  EvaluateOptions other = compared(1);
  other.reference_path = folder / "reference";
  other.reference->gen_length = 24;
  const auto refused = Evaluator::create(shipped_model(), some_examples(), std::move(other));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid_input);
  EXPECT_NE(refused.error().message.find("made with options '--gen-length 16"), std::string::npos)
      << refused.error().message;
}

// Stopped at any step: the examples that were done count as in a whole run, and the file has what the next one needs.
TEST(Evaluate, WhatIsDoneByAStopIsKept) {
  int64_t asked = 0, partial = 0, continued = 0;
  EvaluateOptions to_the_end = compared(1);
  to_the_end.stopped = [&] { return ++asked, false; };
  const Evaluation whole = run({threshold(0.9)}, to_the_end);
  const int64_t all = asked;
  const TempFolder folder;
  for (int64_t most = 0;; most += 4) {
    EvaluateOptions options = compared(1);
    options.reference_path = folder / fmt::format("{}.jsonl", most);
    int64_t recorded = 0;
    asked = 0;
    options.stopped = [&] { return asked++ >= most; };
    options.record = [&](const RecordedRun&) -> Status { return ++recorded, Status(); };
    const Evaluation part = run({threshold(0.9)}, options);
    if (!part.interrupted) break;
    int64_t n = 0;
    for (const StrategyResult& result : part.results) {
      partial += n = result.total.n;
      for (const auto& [task, score] : result.tasks)
        if (score.n == whole.results[0].tasks.at(task).n) expect_same_but_time(score, whole.results[0].tasks.at(task));
    }
    EXPECT_EQ(recorded, n);
    if (!part.reference) continue;
    EXPECT_EQ(part.results.empty() || part.reference->total.n == 3, true);
    asked = 0, ++continued;
    to_the_end.reference_path = options.reference_path;
    const Evaluation again = run({threshold(0.9)}, to_the_end);
    expect_same_but_time(again.results[0].total, whole.results[0].total);
    EXPECT_LT(asked, all) << "what the file has is not computed again";
  }
  EXPECT_GT(partial, 0);
  EXPECT_GT(continued, 0);
}

TEST(Likelihood, IsThatOfSingleForwards) {
  const auto model = shipped_model();
  auto session = must(Session::create(model, {.threads = 1, .trace = nullptr}));
  const ChatMessage message{"user", some_examples()[0].prompt};
  const auto prompt = must(model->chat_ids({&message, 1}));
  const std::vector<int32_t> response = model->tokenizer().encode("3 6 38");
  double by_hand = 0, in_pairs = 0;
  const size_t half = (response.size() + 1) / 2;
  for (size_t i = 0; i < response.size(); ++i) {
    std::vector<int32_t> canvas = *prompt;
    canvas.insert(canvas.end(), response.begin(), response.end());
    const auto position = static_cast<int32_t>(prompt->size() + i);
    canvas[static_cast<size_t>(position)] = model->special_ids().mask;
    by_hand += log_probability(*(*session)->logits(canvas, {{position}}), response[i]);
    for (size_t j = i % half; j < response.size(); j += half) canvas[prompt->size() + j] = model->special_ids().mask;
    in_pairs += log_probability(*(*session)->logits(canvas, {{position}}), response[i]);
  }
  const auto alone = pseudo_log_likelihood(**session, *prompt, response, 0);
  const auto grouped = pseudo_log_likelihood(**session, *prompt, response, static_cast<int64_t>(half));
  ASSERT_TRUE(alone && grouped);
  EXPECT_DOUBLE_EQ(alone->log_probability, by_hand);
  EXPECT_DOUBLE_EQ(grouped->log_probability, in_pairs);
  EXPECT_NE(by_hand, in_pairs);
  EXPECT_EQ(alone->tokens, static_cast<int64_t>(response.size()));
  // A damaged reference file may name any token.
  for (const auto token : {static_cast<int32_t>(model->config().vocab), -1}) {
    const std::vector<int32_t> strange = {token};
    const auto refused = pseudo_log_likelihood(**session, *prompt, strange, 0);
    ASSERT_FALSE(refused);
    EXPECT_EQ(exit_status(refused.error()), 2);
    EXPECT_FALSE((*session)->logits(strange, std::vector<int32_t>{0}));
  }
  const auto nothing = must(pseudo_log_likelihood(**session, *prompt, {}, 0));
  EXPECT_EQ(nothing->tokens, 0);
}

TEST(Reference, TextComesBack) {
  const ReferenceStore::Key key{"m", "d", "o"};
  ReferenceStore store = ReferenceStore::in_memory(key);
  Answer answer{.tokens = {5, 1004}, .likelihood_groups = 0, .score = {.n = 1, .nfe = 7, .rows = 90}};
  answer.score.likelihood = {-0.125, 2};
  answer.score.seconds = 0.1;
  answer.score.cpu_seconds = 0.07;
  store.put(0xfedcba9876543210, answer);
  const auto back = must(ReferenceStore::parse(store.text(), "f", key));
  EXPECT_EQ(back->text(), store.text());
  ASSERT_NE(back->find(0xfedcba9876543210), nullptr);
  EXPECT_EQ(back->find(0xfedcba9876543210)->tokens, answer.tokens);
  EXPECT_EQ(back->find(1), nullptr);
}

TEST(Reference, HostileTextIsRefusedInOneLine) {
  const std::string head = R"({"format":"llada-reference","version":1,"model":"m","device":"d","options":"o"})"
                           "\n";
  const std::string row =
      R"({"prompt":"00000000000000aa","tokens":[1],"nfe":1,"rows":1,"committed":1,"content_tokens":1,"seconds":0,"cpu_seconds":0,"likelihood_groups":0,"log_probability":-1,"scored_tokens":1})"
      "\n";
  ASSERT_TRUE(ReferenceStore::parse(head + row, "f", {"m", "d", "o"}));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = head + row;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const std::pair<std::string, std::string> cases[] = {
      {"", "f: empty"},
      {row, "f:1: format: is missing"},
      {head + "{\n", "f:2: not valid JSON"},
      {head + row + row, "f:3: the prompt is there twice"},
      {with("llada-reference", "gguf"), "format: found \"gguf\""},
      {with("\"version\":1", "\"version\":2"), "version: found 2"},
      {with("\"m\"", "\"n\""), "made with model 'n'"},
      {with("[1]", "[-1]"), "f:2: tokens: found -1"},
      {with("[1]", "[99999999999999999999]"), "tokens: "},
      {with("\"seconds\":0", "\"seconds\":1e999"), "not valid JSON"},
      {with("\"seconds\":0", "\"seconds\":-1"), "seconds: found -1"},
      {with("\"cpu_seconds\":0,", ""), "cpu_seconds: is missing"},
      {with("00000000000000aa", "zz"), "prompt: found \"zz\", needed 16 hexadecimal digits"},
      {with("\"rows\":1,", ""), "rows: is missing"},
      {with("\"rows\"", "\"more\":1,\"rows\""), "more: is not known"},
  };
  for (const auto& [text, says] : cases) {
    const auto store = ReferenceStore::parse(text, "f", {"m", "d", "o"});
    ASSERT_FALSE(store) << says;
    EXPECT_EQ(store.error().kind, ErrorKind::invalid_input);
    EXPECT_NE(store.error().message.find(says), std::string::npos) << store.error().message;
    EXPECT_EQ(store.error().message.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace llada::eval
