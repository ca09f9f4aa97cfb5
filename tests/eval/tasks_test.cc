// How answers are found in responses, and the intervals reported beside accuracies.
#include "eval/tasks.h"

#include <gtest/gtest.h>

#include "eval/evaluate.h"
#include "must.h"

namespace llada::eval {
namespace {

TEST(Tasks, FindsTheAnswerOfEachTask) {
  EXPECT_TRUE(answer_is_right({"gsm-mini", "", "", "42"}, "6 * 7 = 42\n#### 42\n"));
  EXPECT_FALSE(answer_is_right({"gsm-mini", "", "", "42"}, "#### 42 apples"));
  EXPECT_FALSE(answer_is_right({"gsm-mini", "", "", "42"}, "the answer is 42"));
  EXPECT_TRUE(answer_is_right({"gsm-mini", "", "", "4"},
                              "#### 4 #### 5"));  // what follows a second mark does not count
  EXPECT_TRUE(answer_is_right({"bool", "", "", "yes"}, "3 is more than 2.\nyes"));
  EXPECT_FALSE(answer_is_right({"bool", "", "", "yes"}, "yes\nno"));
  EXPECT_TRUE(answer_is_right({"choice", "", "", "B"}, "the second one\nAnswer: B"));
  EXPECT_TRUE(answer_is_right({"json", "", "", R"({"a": 1, "b": [2, 3]})"}, R"({"a":1,"b":[2,3]})"));
  EXPECT_FALSE(answer_is_right({"json", "", "", R"({"a": 1, "b": 2})"},
                               R"({"b": 2, "a": 1})"));  // order is part of the task
  EXPECT_FALSE(answer_is_right({"json", "", "", R"({"a": 1})"}, R"({"a": 1)"));
  EXPECT_FALSE(answer_is_right({"json", "", "", "1"}, std::string(100000, '[')));
  EXPECT_TRUE(answer_is_right({"sort", "", "", "1 2 3"}, " 1 2 3\n"));
  EXPECT_TRUE(answer_is_right({"story", "", "", "47"}, "A. She buys 12 more: 35+12=47.\n#### 47"));
  EXPECT_FALSE(answer_is_right({"story", "", "", "47"}, "A. She buys 12 more: 35+12=48.\n#### 48"));
  EXPECT_TRUE(answer_is_right({"sort-steps", "", "", "10 20"}, "Take 10, left 20\nTake 20\nSorted: 10 20"));
  EXPECT_FALSE(answer_is_right({"sort-steps", "", "", "10 20"}, "Take 10, left 20\nTake 20"));
  EXPECT_FALSE(answer_is_right({"count", "", "", "1 2 3"}, "1 2"));
}

TEST(Tasks, ErrorsNameTheLineAndTheField) {
  const std::string good = R"({"task":"t","prompt":"p","response":"r","answer":"a"})";
  const auto broken = parse_examples(good + "\n{\"task\":\"t\",\"prompt\":3}\n", "file.jsonl", 0);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().message, "file.jsonl:2: prompt: found 3, needed a string");
  EXPECT_EQ(exit_status(broken.error()), 2);
  EXPECT_FALSE(parse_examples("", "empty", 0));
  EXPECT_FALSE(parse_examples("[1]\n", "array", 0));
  EXPECT_FALSE(parse_examples(std::string(200000, '['), "deep", 0));
}

TEST(Tasks, AnOwnRowNeedsPromptAndAnswer) {
  const auto examples =
      must(parse_examples("{\"prompt\":\"p\",\"answer\":\"a\"}\n"
                          "{\"prompt\":\"p\",\"answer\":\"a\",\"task\":\"sort\",\"response\":\"so a\"}\n",
                          "folder/capitals.jsonl", 0));
  EXPECT_EQ(examples->at(0).task, "capitals");
  EXPECT_EQ(examples->at(0).response, "a");
  EXPECT_EQ(examples->at(1).task, "sort");
  EXPECT_EQ(examples->at(1).response, "so a");
  EXPECT_EQ(parse_examples(R"({"prompt":"p"})", "f", 0).error().message, "f:1: answer: is missing; needed a string");
  EXPECT_EQ(parse_examples(R"({"prompt":"p","answer":"a","task":7})", "f", 0).error().message,
            "f:1: task: found 7, needed a string");
  EXPECT_EQ(parse_examples(R"({"prompt":" \n","answer":"a"})", "f", 0).error().message,
            "f:1: prompt: found nothing but white space, needed text");
  EXPECT_EQ(parse_examples(R"({"prompt":"p" "answer":"a"})", "f", 0).error().message,
            "f:1: not valid JSON at byte 22 of 27");
  EXPECT_EQ(parse_examples("{\"n\":1e999}", "f", 0).error().message, "f:1: not valid JSON at byte 10 of 11");
}

TEST(Tasks, LimitCountsPerTask) {
  std::string text;
  for (int i = 0; i < 5; ++i)
    for (const char* task : {"x", "y"})
      text += fmt::format(R"({{"task":"{}","prompt":"{}","response":"","answer":""}})", task, i) + "\n";
  const auto examples = must(parse_examples(text, "f", 2));
  ASSERT_EQ(examples->size(), 4u);
  EXPECT_EQ((*examples)[3].task, "y");
  EXPECT_EQ((*examples)[3].prompt, "1");
}

TEST(Tasks, ShippedFilesAreWhole) {
  for (const auto& [name, size] : {std::pair{"eval_public", 1000u}, {"long_public", 1200u}}) {
    const auto examples = must(load_examples(fmt::format(LLADA_SOURCE_DIR "/eval/{}.jsonl", name), 0));
    EXPECT_EQ(examples->size(), size);
    for (const Example& e : *examples) {
      EXPECT_TRUE(answer_is_right(e, e.response)) << e.task << ": " << e.response;
      EXPECT_FALSE(answer_is_right(e, e.response + "0")) << e.task << ": " << e.response;
    }
  }
}

TEST(Wilson, KnownIntervals) {
  // Worked by hand from the formula; 10 of 10 must not claim certainty.
  const auto [low, high] = wilson95(50, 100);
  EXPECT_NEAR(low, 0.4038, 1e-4);
  EXPECT_NEAR(high, 0.5962, 1e-4);
  EXPECT_NEAR(wilson95(10, 10).first, 0.7225, 1e-4);
  EXPECT_NEAR(wilson95(10, 10).second, 1.0, 1e-12);
  EXPECT_NEAR(wilson95(0, 10).first, 0.0, 1e-12);
}

}  // namespace
}  // namespace llada::eval
