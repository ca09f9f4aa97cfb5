// Multiple-choice files in the shapes that Hugging Face exports, with questions of our own: what becomes of a row, what
// is refused, and how the options are scored and judged.
#include "eval/questions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "devices/small_model.h"
#include "engine/prompt.h"
#include "engine/session.h"
#include "eval/choices.h"
#include "eval/shipped_model.h"
#include "eval/tasks.h"
#include "geometry/model_files.h"

namespace llada::eval {
namespace {

constexpr const char* kBoolq =
    R"({"question":"is a canoe a boat","answer":true,"passage":"A canoe is a narrow boat."})";
constexpr const char* kArc =
    R"({"id":"x_1","question":"What melts?","choices":{"text":["ice","sand","gold leaf"],"label":["A","B","C"]},"answerKey":"A"})";
constexpr const char* kHellaswag =
    R"({"ind":4,"activity_label":"Baking a loaf","ctx_a":"[header] How to bake [title] Mix the dough.  Wait.","ctx_b":"the Baker","ctx":"-","endings":["opens [step] the oven.","eats the tin."],"source_id":"wikihow~1","split":"val","label":"1"})";
constexpr const char* kMmlu =
    R"({"question":" What is 2 + 2? ","subject":"small_sums","choices":["1","2","3","4"],"answer":3})";
constexpr const char* kPiqa = R"({"goal":"To dry a cup,","sol1":"use a towel","sol2":"use soup","label":0})";
constexpr const char* kPlain = R"({"prompt":"äöü: ","choices":["é","ee"],"answer":1})";

constexpr const char* kWinogrande =
    R"({"sentence":"The pot fits the lid since the _ is round. ","option1":"pot","option2":"lid","answer":"2"})";
constexpr const char* kTruthful =
    R"({"question":"What are rocks?","mc1_targets":{"choices":["Stones","Pets"],"labels":[1,0]},"mc2_targets":{"choices":["Bread","Stones","Pets","Minerals"],"labels":[0,1,0,1]}})";

Question one(std::string_view row) {
  const auto questions = must(parse_questions(row, "f", 0));
  return questions->at(0);
}

TEST(Questions, RowsBecomeContextsAndOptions) {
  Question q = one(kBoolq);
  EXPECT_EQ(q.task, "boolq");
  EXPECT_EQ(q.context, "A canoe is a narrow boat.\nQuestion: is a canoe a boat?\nAnswer:");
  EXPECT_EQ(q.options, (std::vector<std::string>{" no", " yes"}));
  EXPECT_EQ(q.answer, 1u);
  EXPECT_EQ(one(R"({"question":"q","passage":"p","label":0})").answer, 0u) << "SuperGLUE's";
  q = one(kArc);
  EXPECT_EQ(q.context, "Question: What melts?\nAnswer:");
  EXPECT_EQ(q.options, (std::vector<std::string>{" ice", " sand", " gold leaf"}));
  EXPECT_EQ(q.lengths, (std::vector<int64_t>{3, 4, 9})) << "without the blank";
  EXPECT_EQ(q.answer, 0u);
  q = one(kHellaswag);
  EXPECT_EQ(q.context, "Baking a loaf: How to bake. Mix the dough. Wait. The baker");
  EXPECT_EQ(q.options, (std::vector<std::string>{" opens the oven.", " eats the tin."}));
  EXPECT_EQ(q.answer, 1u);
  q = one(kMmlu);
  EXPECT_EQ(q.context, "What is 2 + 2?\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer:");
  EXPECT_EQ(q.options, (std::vector<std::string>{" A", " B", " C", " D"}));
  EXPECT_EQ(q.answer, 3u);
  q = one(kPiqa);
  EXPECT_EQ(q.context, "Question: To dry a cup,\nAnswer:");
  EXPECT_EQ(q.options, (std::vector<std::string>{" use a towel", " use soup"}));
  EXPECT_EQ(q.answer, 0u);
  q = one(kWinogrande);
  EXPECT_EQ(q.task, "winogrande");
  EXPECT_EQ(q.contexts,
            (std::vector<std::string>{"The pot fits the lid since the pot", "The pot fits the lid since the lid"}));
  EXPECT_EQ(q.options, (std::vector<std::string>{" is round.", " is round."})) << "scored behind either";
  EXPECT_EQ(q.answer, 1u);
  EXPECT_TRUE(q.is_right(1) && !q.is_right(0));
  q = one(kTruthful);
  EXPECT_EQ(q.task, "truthfulqa");
  EXPECT_EQ(q.context, "Q: What are rocks?\nA:");
  EXPECT_EQ(q.options, (std::vector<std::string>{" Bread", " Stones", " Pets", " Minerals"}));
  EXPECT_EQ(q.answer, 1u);
  EXPECT_EQ(q.also_right, (std::vector<size_t>{3}));
  EXPECT_TRUE(q.is_right(1) && q.is_right(3) && !q.is_right(0) && !q.is_right(2));
  q = one(kPlain);
  EXPECT_EQ(q.context, "äöü: ");
  EXPECT_EQ(q.options, (std::vector<std::string>{"é", "ee"}));
  EXPECT_EQ(q.lengths, (std::vector<int64_t>{1, 2})) << "code points, not bytes";
}

TEST(Questions, ErrorsNameTheLineAndTheField) {
  const auto message = [](std::string_view row) {
    return why_not(parse_questions(std::string(kArc) + "\n" + std::string(row), "f", 0));
  };
  EXPECT_EQ(message("[1]"), "f:2: the JSON is not an object");
  EXPECT_EQ(message(std::string_view("{}\0{}", 5)), "f:2: found a NUL byte at byte 2, needed JSON text");
  EXPECT_EQ(message("{}"), "f:2: prompt: is missing; needed a string");
  EXPECT_EQ(message(R"({"prompt":"a","choices":["x"],"answer":0})"),
            "f:2: choices: found [\"x\"], needed a list of two strings or more");
  EXPECT_EQ(message(R"({"prompt":"a","choices":["x","y"],"answer":2})"),
            "f:2: answer: found 2, needed a number from 0 to 1");
  EXPECT_EQ(message(R"({"question":"q","choices":{"text":["a","b"],"label":["A","B"]},"answerKey":"C"})"),
            "f:2: answerKey: found \"C\", needed one of choices.label, of which there are as many as texts");
  EXPECT_EQ(message(R"({"question":"q","choices":["a","b"],"answerKey":"A"})"),
            "f:2: choices: found [\"a\",\"b\"], needed an object");
  EXPECT_EQ(message(R"({"passage":"p","question":"q","answer":"maybe"})"),
            "f:2: answer: found \"maybe\", needed a number from 0 to 1");
  for (const char* sentence : {"no blank", "ends in _", "two _ and _.", "_ "})
    EXPECT_EQ(message(fmt::format(R"({{"sentence":"{}","option1":"a","option2":"b","answer":"1"}})", sentence)),
              fmt::format("f:2: sentence: found \"{}\", needed a string with one blank '_' and something behind it",
                          sentence))
        << sentence;
  EXPECT_EQ(message(R"({"sentence":"a _ b","option1":"a","option2":"b","answer":""})"),
            "f:2: answer: found \"\", needed '1' or '2'");
  EXPECT_EQ(message(R"({"sentence":"a _ b","option1":"a","answer":"1"})"), "f:2: option2: is missing; needed a string");
  for (const char* labels : {"[0,0]", "[1]", "[1,2]", "\"11\"", "[1,\"0\"]", "null"})
    EXPECT_EQ(
        message(fmt::format(R"({{"question":"q","mc2_targets":{{"choices":["a","b"],"labels":{}}}}})", labels)),
        fmt::format("f:2: mc2_targets.labels: {} needed 2 numbers 0 or 1, one for each of choices, and a 1 among them",
                    std::string_view(labels) == "null" ? "is missing;" : fmt::format("found {},", labels)))
        << labels;
  EXPECT_EQ(message(R"({"question":"q","mc2_targets":[]})"), "f:2: mc2_targets: found [], needed an object");
  EXPECT_NE(message(std::string(200000, '[')), "");
  EXPECT_FALSE(parse_questions("\n", "empty", 0));
}

TEST(Questions, AnMmluRowSaysWhatItNeeds) {
  const auto message = [](std::string_view row) { return why_not(parse_questions(row, "f", 0)); };
  EXPECT_EQ(message(R"({"question":"q","choices":["a","b"],"answer":0})"),
            "f:1: subject: is missing; needed a string, beside MMLU's question, choices and answer");
  EXPECT_EQ(message(R"({"question":"q","subject":3,"choices":["a","b"],"answer":0})"),
            "f:1: subject: found 3, needed a string");
  EXPECT_EQ(message(R"({"question":"q","prompt":"p","choices":["a","b"],"answer":0})"), "");
  // Two options with one letter could not be told apart.
  std::string choices = "\"1\"";
  for (int i = 2; i <= 26; ++i) choices += fmt::format(",\"{}\"", i);
  const auto row = [](const std::string& list) {
    return fmt::format(R"({{"question":"q","subject":"s","choices":[{}],"answer":25}})", list);
  };
  EXPECT_EQ(one(row(choices)).options.back(), " Z");
  EXPECT_THAT(message(row(choices + ",\"27\"")),
              testing::EndsWith("..., needed 26 strings at most, one for each letter"));
}

constexpr const char* kOtherMmlu =
    R"({"question":"What is 1 + 1?","subject":"small_sums","choices":["1","2"],"answer":1})";
constexpr const char* kOtherPiqa = R"({"goal":"To cool tea,","sol1":"wait","sol2":"boil it","label":0})";

TEST(Questions, ExamplesComeFromTheSubject) {
  const std::vector<Question> from = {one(kOtherPiqa), one(kOtherMmlu), one(kOtherMmlu)};
  Question other = one(kMmlu);
  other.subject = "large_sums";
  EXPECT_EQ(*with_examples(one(kMmlu), from, 1),
            "The following are multiple choice questions (with answers) about small sums.\n\n"
            "What is 1 + 1?\nA. 1\nB. 2\nAnswer: B\n\n"
            "What is 2 + 2?\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer:");
  EXPECT_EQ(*with_examples(one(kPiqa), from, 1),
            "Question: To cool tea,\nAnswer: wait\n\nQuestion: To dry a cup,\nAnswer:");
  EXPECT_EQ(with_examples(one(kMmlu), from, 3).error().message,
            "examples: found 2 of mmlu of the subject small_sums, needed 3");
  EXPECT_EQ(with_examples(other, from, 1).error().message,
            "examples: found 0 of mmlu of the subject large_sums, needed 1");
}

// An example of WinoGrande is the right sentence.
TEST(Questions, EachOptionsContextHasTheExamples) {
  const std::vector<Question> from = {one(R"({"sentence":"_ sings.","option1":"Ann","option2":"Bob","answer":"1"})"),
                                      one(kWinogrande)};
  EXPECT_EQ(*with_examples(from[1], from, 1), "Ann sings.\n\nThe pot fits the lid since the pot");
  EXPECT_EQ(*with_examples(from[1], from, 1, 1), "Ann sings.\n\nThe pot fits the lid since the lid");
  EXPECT_EQ(*with_examples(from[0], from, 1, 1), "The pot fits the lid since the lid is round.\n\nBob");
  EXPECT_EQ(*with_examples(
                one(kTruthful),
                std::vector{one(R"({"question":"Who?","mc2_targets":{"choices":["No one","I"],"labels":[1,0]}})")}, 1),
            "Q: Who?\nA: No one\n\nQ: What are rocks?\nA:");
}

// Rows without a subject are not all of one kind.
TEST(Questions, ExamplesAreRowsOfTheSameKind) {
  const std::vector<Question> from = {one(kBoolq), one(kOtherPiqa)};
  EXPECT_EQ(*with_examples(one(kPiqa), from, 1),
            "Question: To cool tea,\nAnswer: wait\n\nQuestion: To dry a cup,\nAnswer:");
  EXPECT_EQ(with_examples(one(kArc), from, 1).error().message, "examples: found 0 of arc, needed 1");
}

TEST(Questions, AQuestionIsNotItsOwnExample) {
  const std::vector<Question> all = {one(kPiqa), one(kOtherPiqa)};
  EXPECT_EQ(*with_examples(all[0], all, 1), "Question: To cool tea,\nAnswer: wait\n\nQuestion: To dry a cup,\nAnswer:");
  EXPECT_EQ(*with_examples(all[1], all, 1),
            "Question: To dry a cup,\nAnswer: use a towel\n\nQuestion: To cool tea,\nAnswer:");
  EXPECT_EQ(with_examples(all[0], all, 2).error().message,
            "examples: found 1 of piqa beside the question itself, needed 2");
}

TEST(Questions, LimitCountsPerKindAndSubject) {
  std::string text;
  for (const char* subject : {"a", "b"})
    for (int i = 0; i < 3; ++i)
      text += fmt::format(R"({{"question":"{}","subject":"{}","choices":["x","y"],"answer":0}})", i, subject) + "\n";
  EXPECT_EQ(parse_questions(text, "f", 2)->size(), 4u);
  EXPECT_EQ(parse_questions(text, "f", 0)->size(), 6u);
  text.clear();
  for (const char* row : {kBoolq, kBoolq, kArc, kHellaswag, kPiqa, kPlain, kArc}) text += std::string(row) + "\n";
  std::vector<std::string> kinds;
  const auto first_ones = parse_questions(text, "f", 1);
  for (const Question& q : *first_ones) kinds.push_back(q.task);
  EXPECT_EQ(kinds, (std::vector<std::string>{"boolq", "arc", "hellaswag", "piqa", "choice"}));
}

// ---- GSM8K by its own rule

TEST(Gsm8k, TheNumberCounts) {
  const auto right = [](std::string_view answer, std::string_view text) {
    return answer_is_right({"gsm8k", "", "", std::string(answer)}, text);
  };
  EXPECT_TRUE(right("72", "48/2 = 24\n48+24 = 72\n#### 72"));
  EXPECT_TRUE(right("72", "So she sold 72 clips."));
  EXPECT_FALSE(right("72", "So she sold 72 clips in 2 months."));
  EXPECT_TRUE(right("1234", "#### $1,234."));
  EXPECT_TRUE(right("-5", "it is -5"));
  EXPECT_FALSE(right("5", "it is -5"));
  EXPECT_TRUE(right("2.5", "2.5"));
  EXPECT_TRUE(right("7", "#### 7 apples and 3 pears")) << "behind the mark the first";
  EXPECT_TRUE(right("8", "#### 7\nno, #### 8"));
  EXPECT_FALSE(right("7",
                     "#### none, though 7 was said"
                     "\n#### "));
  EXPECT_FALSE(right("7", ""));
  EXPECT_FALSE(right("7", "- , $ ."));
}

TEST(Gsm8k, RowsOfTheDataSetAreExamples) {
  const auto examples =
      must(parse_examples(R"({"question":"Two and two?","answer":"It is <<2+2=4>>4.\n#### 4"})", "f", 0));
  EXPECT_EQ(examples->at(0).task, "gsm8k");
  EXPECT_EQ(examples->at(0).prompt, "Two and two?");
  EXPECT_EQ(examples->at(0).answer, "4");
  EXPECT_EQ(parse_examples(R"({"question":"q","answer":"4"})", "f", 0).error().message,
            "f:1: answer: found \"4\", needed '####' and a number behind it");
}

// Without a number to compare with, every reply that has none would be right.
TEST(Gsm8k, ARightAnswerHasANumber) {
  const std::string good = R"({"question":"q","answer":"#### 4"})";
  for (const char* answer : {"#### none", "#### ", "4 apples\\n####"}) {
    const auto examples =
        parse_examples(good + fmt::format("\n{{\"question\":\"q\",\"answer\":\"{}\"}}", answer), "f", 0);
    ASSERT_FALSE(examples) << answer;
    EXPECT_EQ(examples.error().message,
              fmt::format("f:2: answer: found \"{}\", needed a number behind '####'", answer));
    EXPECT_EQ(exit_status(examples.error()), 2);
  }
  EXPECT_EQ(why_not(parse_examples(R"({"task":"gsm8k","prompt":"q","response":"#### 4","answer":"four"})", "f", 0)),
            "f:1: answer: found \"four\", needed a number");
}

// ---- The shipped model is asked

TEST(Choices, TextsAreCutAsTheHarnessCutsThem) {
  const auto model = shipped_model();
  const auto pair = must(encode_pair(*model, "Answer: \n ", "yes"));
  EXPECT_EQ(pair->context, *model->prompt_ids("Answer:"));
  std::vector<int32_t> both = pair->context;
  both.insert(both.end(), pair->continuation.begin(), pair->continuation.end());
  EXPECT_EQ(both, *model->prompt_ids("Answer: \n yes"));
  EXPECT_TRUE(encode_pair(*model, "  ", "yes")->context.empty());
}

// Dream's published evaluation: a beginning token, an end token behind every option that is seen and not masked, rates.
// As a chain the end token is scored too.
TEST(Choices, DreamIsAskedAsItsAuthorsDo) {
  ModelConfig config = small_dream();
  config.family = &kDreamFamily;
  config.shift_logits = true;
  config.vocab = 1024, config.mask_id = 1005, config.eos_id = config.pad_id = 1001;
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("llada_dream_{}", ::getpid());
  write_hf_folder(make_small_model(DType::F32, config), folder);
  const auto model = must(Model::load(folder, {.threads = 1}));
  const Question question{.task = "t", .context = "One", .options = {" two", " three four"}, .lengths = {3, 10}};
  ChoiceOptions options{.score = {.method = ScoreMethod::monte_carlo}};
  const auto requests = must(score_requests(**model, question, {}, options));
  ASSERT_EQ(requests->size(), 1u);
  const ScoreRequest* const request = &requests->front();
  EXPECT_EQ(request->prompt.front(), 1000);
  EXPECT_EQ(std::ranges::count(request->prompt, 1000), 1);
  EXPECT_TRUE(request->options.mask_rates);
  EXPECT_EQ(request->options.fixed_tail, 1);
  for (const auto& text : request->continuations) EXPECT_EQ(text.back(), 1001);
  const auto scored = (*Session::create(*model, {.threads = 0}))->score(*request);
  for (const ContinuationScore& c : scored->continuations) EXPECT_EQ(c.tokens.back().log_probability, 0);
  options.score.method = ScoreMethod::chain;
  EXPECT_EQ(score_requests(**model, question, {}, options)->at(0).continuations[0].back(), 1001);
  options.published = false;
  EXPECT_NE(score_requests(**model, question, {}, options)->at(0).continuations[0].back(), 1001);
  std::filesystem::remove_all(folder);
}

// What the model was trained on, so that it knows the answers: sorting, and the letters of multiple choice.
std::vector<Question> known_questions() {
  std::vector<Question> questions;
  for (const auto& [list, right, wrong] : {std::tuple{"38 41 6 51 3", "3 6 38 41 51", "3 6 41 38 51"},
                                           {"9 8 20 31", "8 9 20 31", "31 20 9 8"},
                                           {"7 2 5", "2 5 7", "2 7 5"}})
    questions.push_back({.task = "sort",
                         .context = fmt::format("Sort the numbers from smallest to largest: {}", list),
                         .options = {wrong, right},
                         .lengths = {10, 10},
                         .answer = 1});
  return questions;
}

TEST(Choices, TheModelKnowsWhatItLearned) {
  const auto model = shipped_model();
  const auto engine = *Engine::create(model, {.row_budget = 64});
  const auto questions = known_questions();
  for (const ScoreMethod method : {ScoreMethod::monte_carlo, ScoreMethod::chain, ScoreMethod::duel}) {
    ChoiceOptions options{.score = {.method = method, .draws = 16}, .chat = true};
    int64_t calls = 0;
    const auto report = answer_choices(model, *engine, questions, {}, options, [&](int64_t, const ChoiceReport&) {
      ++calls;
      return true;
    });
    ASSERT_TRUE(report) << report.error().message;
    // Where nearly all of a list is masked, two lists of the same numbers are hard to tell apart: of the estimate's
    // three, one is a near miss.
    EXPECT_GE(report->total().right, method == ScoreMethod::monte_carlo ? 2 : 3) << method_name(method);
    EXPECT_EQ(report->total().right_normalised, report->total().right) << "options of equal lengths";
    EXPECT_EQ(report->tasks.at("sort").questions, 3);
    EXPECT_GE(calls, 3);
    EXPECT_FALSE(report->interrupted);
    // Each as a session scores it alone.
    const auto session = *Session::create(model, {.threads = 0});
    int64_t forwards = 0;
    for (size_t i = 0; i < questions.size(); ++i) {
      const auto alone = session->score(score_requests(*model, questions[i], {}, options)->at(0));
      forwards += alone->forwards;
      for (size_t o = 0; o < 2; ++o)
        EXPECT_EQ(report->answers[i].log_probability[o], alone->continuations[o].log_probability);
    }
    EXPECT_EQ(report->total().forwards, forwards);
  }
}

// Options before the scored text: the sentence is scored behind each, as a question of its own would be; several right
// options: any of them counts, and the share is theirs together.
TEST(Choices, OptionsWithContextsAndSeveralRightOnes) {
  const auto model = shipped_model();
  const auto engine = *Engine::create(model, {.row_budget = 64});
  const std::vector<Question> questions = {
      one(R"({"sentence":"Sort the numbers from smallest to largest: _ 3 5 7","option1":"7 5 3","option2":"8 1 2","answer":"1"})"),
      one(R"({"question":"3 + 4","mc2_targets":{"choices":["8","7","seven","9 apples"],"labels":[0,1,1,0]}})")};
  const auto session = *Session::create(model, {.threads = 0});
  for (const ScoreMethod method : {ScoreMethod::monte_carlo, ScoreMethod::chain}) {
    const ChoiceOptions options{.score = {.method = method, .draws = 16}};
    const auto report =
        must(answer_choices(model, *engine, questions, {}, options, [](int64_t, const ChoiceReport&) { return true; }));
    const auto alone = [&](const std::string& prompt, const std::string& text) {
      const Question q{.task = "t", .context = prompt, .options = {text}, .lengths = {1}};
      const auto result = session->score(score_requests(*model, q, {}, options)->at(0));
      return result->continuations[0].log_probability;
    };
    const ChoiceAnswer& placed = report->answers[0];
    ASSERT_EQ(placed.log_probability.size(), 2u);
    for (size_t i = 0; i < 2; ++i)
      EXPECT_EQ(placed.log_probability[i], alone(questions[0].contexts[i], questions[0].options[i])) << i;
    EXPECT_NE(placed.log_probability[0], placed.log_probability[1]);
    double all = 0, right = 0;
    const ChoiceAnswer& several = report->answers[1];
    for (size_t i = 0; i < 4; ++i) {
      const double p = std::exp(alone(questions[1].context, questions[1].options[i]));
      all += p, right += i == 1 || i == 2 ? p : 0;
    }
    EXPECT_NEAR(several.share, right / all, 1e-9);
    EXPECT_EQ(report->tasks.at("truthfulqa").share, several.share);
    EXPECT_EQ(report->tasks.at("truthfulqa").right, several.best == 1 || several.best == 2);
    EXPECT_NEAR(report->total().share, placed.share + several.share, 1e-12);
    EXPECT_GT(placed.share, 0);
    EXPECT_LT(placed.share, 1);
  }
}

TEST(Choices, LengthsNormalise) {
  // The same option twice, said to be of different lengths: the longer one has more probability per code point.
  const auto model = shipped_model();
  const auto engine = *Engine::create(model, {.row_budget = 64});
  std::vector<Question> questions = {known_questions()[0]};
  questions[0].options[1] = questions[0].options[0];
  questions[0].lengths = {10, 20};
  const auto report =
      answer_choices(model, *engine, questions, {}, {.chat = true}, [](int64_t, const ChoiceReport&) { return true; });
  EXPECT_EQ(report->answers[0].best, 0u) << "of equal ones the first";
  EXPECT_EQ(report->answers[0].best_normalised, 1u);
}

TEST(Choices, AnInterruptKeepsWhatIsThere) {
  const auto model = shipped_model();
  const auto engine = *Engine::create(model, {.row_budget = 64});
  std::vector<Question> questions;
  for (int i = 0; i < 20; ++i)
    for (const Question& q : known_questions()) questions.push_back(q);
  const auto report = must(answer_choices(model, *engine, questions, {},
                                          {.score = {.method = ScoreMethod::monte_carlo, .draws = 8}, .chat = true},
                                          [](int64_t done, const ChoiceReport&) { return done < 5; }));
  EXPECT_TRUE(report->interrupted);
  EXPECT_EQ(report->answers.size(), 5u);
  EXPECT_EQ(report->total().questions, 5);
}

// Its score would be 0 and win.
TEST(Choices, AnOptionWithoutTokensIsRefused) {
  const auto model = shipped_model();
  const auto engine = *Engine::create(model, {.row_budget = 64});
  const auto message = [&](const std::string& prompt, const std::vector<std::string>& choices, bool chat) {
    const std::vector<Question> questions = {
        known_questions()[0],
        {.task = "choice", .context = prompt, .options = choices, .lengths = {1, 1}, .answer = 1}};
    return why_not(answer_choices(model, *engine, questions, {},
                                  {.score = {.method = ScoreMethod::chain}, .chat = chat},
                                  [](int64_t, const ChoiceReport&) { return true; }));
  };
  EXPECT_EQ(encode_pair(*model, "The co", "lor")->continuation.size(), 0u) << "else this tests nothing";
  EXPECT_EQ(message("The co", {" 12", "lor"}, false),
            "question 2: option 'lor': found 0 tokens behind the prompt's, since the tokenizer joins it with them; "
            "needed 1 or more, as a text that begins with a blank has");
  EXPECT_EQ(message("The co", {" lor", " w"}, false), "");
  EXPECT_EQ(message("Which?", {" a", ""}, true), "question 2: option '': found 0 tokens, needed 1 or more");
}

TEST(Choices, AQuestionThatIsTooLongIsNamedFirst) {
  const auto model = shipped_model();
  const auto engine = *Engine::create(model, {.row_budget = 64});
  std::vector<Question> questions = known_questions();
  for (int i = 0; i < 4000; ++i) questions[1].context += " 12";
  const auto report = answer_choices(model, *engine, questions, {}, {}, [](int64_t, const ChoiceReport&) {
    ADD_FAILURE() << "something was computed";
    return true;
  });
  ASSERT_FALSE(report);
  EXPECT_TRUE(report.error().message.starts_with("question 2: ")) << report.error().message;
}

}  // namespace
}  // namespace llada::eval
