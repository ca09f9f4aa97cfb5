// Questions with known answers: rows of every kind, what is wrong with one, and the measures.
#include "eval/decisions.h"

#include <gtest/gtest.h>

#include <cmath>

#include "eval/shipped_model.h"

namespace llada::eval {
namespace {

const char* const kRows =
    R"({"task": "bool", "prompt": "Is it red?", "response": "no", "answer": "no"}
{"task": "choice", "prompt": "Which number is the smallest?\nA. 79\nB. 12\nC. 70", "answer": "B"}
{"task": "sort", "prompt": "Sort 2 1", "answer": "1 2"}
{"type": "predicate", "instructions": "Is it spam?", "state": "Buy!", "answer": true, "task": "spam"}
{"type": "choice", "instructions": "Tone?", "choices": [{"value": "true"}, {"value": true}], "answer": true}
{"type": "score", "instructions": "How bad?", "levels": [{"label": "low"}, {"label": "high"}], "answer": "high"}
)";

TEST(DecideTasks, RowsOfEveryKind) {
  const auto tasks = must(parse_decide_tasks(kRows, "rows", 0));
  ASSERT_EQ(tasks->size(), 5u) << "a task that asks for a text is none";
  EXPECT_EQ((*tasks)[0].right, 1u) << "no";
  EXPECT_EQ((*tasks)[1].question.instructions, "Which number is the smallest?");
  EXPECT_EQ((*tasks)[1].question.options[2].text, "70");
  EXPECT_EQ((*tasks)[1].right, 1u);
  EXPECT_EQ((*tasks)[2].task, "spam");
  EXPECT_EQ((*tasks)[2].state, "Buy!");
  EXPECT_EQ((*tasks)[3].right, 1u) << "true is not \"true\"";
  EXPECT_EQ((*tasks)[4].right, 1u);
}

TEST(DecideTasks, WhatIsWrongWithARow) {
  const auto error = [](const std::string& row) { return parse_decide_tasks(row, "f", 0).error().message; };
  EXPECT_EQ(error(R"({"task": "bool", "prompt": "a", "answer": "maybe"})"),
            "f:1: answer: found \"maybe\", needed yes or no");
  EXPECT_EQ(error(R"({"task": "choice", "prompt": "a\nA. b", "answer": "A"})"),
            "f:1: prompt: found 1 lines like 'A. text', needed 2 or more");
  EXPECT_EQ(
      error(R"({"type": "choice", "instructions": "a", "choices": [{"value": "b"}, {"value": "c"}], "answer": "d"})"),
      "f:1: answer: found \"d\", needed one of the question's options");
  EXPECT_EQ(error(R"({"task": "sort", "prompt": "a", "answer": "b"})"),
            "f: found no question, needed rows with a type, or of the tasks bool and choice");
}

// By hand: two predicates, one right with .8, one wrong with .6.
TEST(DecideTasks, MeasuresAreTheirDefinitions) {
  DecideReport report;
  const auto add = [&](double p, size_t right) {
    report.answers.push_back({QuestionKind::predicate, {{std::log(p), std::log(1 - p)}}, right});
    report.tasks.emplace_back("bool");
    report.best_is_label.push_back(right == 0);
  };
  add(.8, 0), add(.6, 1);
  const DecideMeasures m = measure(report, {1, 1, 1}).at("bool");
  EXPECT_EQ(m.questions, 2);
  EXPECT_EQ(m.accuracy(), 0.5);
  EXPECT_NEAR(m.brier, (2 * .04 + 2 * .36) / 2, 1e-12);
  EXPECT_NEAR(m.calibration_error, (.2 + .6) / 2, 1e-12);
  EXPECT_NEAR(m.loss, -(std::log(.8) + std::log(.4)) / 2, 1e-12);
  EXPECT_EQ(m.best_is_label, 1);
  EXPECT_EQ(measure(report, {1, 1, 1}, [](size_t i) { return i == 0; }).at("").questions, 1);
}

TEST(DecideTasks, AnswersAreThoseOfTheModelAndInOrder) {
  const auto tasks = parse_decide_tasks(kRows, "rows", 0).value();
  const auto model = shipped_model();
  const auto engine = Engine::create(model, {.row_budget = 256}).value();
  const auto report = must(decide_tasks(model, *engine, tasks, {}, [](int64_t) { return true; }));
  ASSERT_EQ(report->answers.size(), tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i) {
    const auto alone = engine->submit_decide(start_decide(model, {tasks[i].state, {tasks[i].question}}).value());
    EXPECT_EQ(alone->wait()->answers[0].log_probabilities, report->answers[i].log_probabilities);
  }
  const auto stopped = decide_tasks(model, *engine, tasks, {}, [](int64_t) { return false; });
  EXPECT_TRUE(stopped->interrupted);
}

}  // namespace
}  // namespace llada::eval
