// Multiple-choice questions of published data sets: one JSON object per line, as Hugging Face's datasets library
// exports them. Each becomes a context, the options that are scored behind it, and the right one. The wording is that
// of the tasks of EleutherAI's lm-evaluation-harness, which the published tables used. The fields of a row tell its
// kind:
//
//   BoolQ      passage, question, answer (or SuperGLUE's label)   options " no", " yes"
//   ARC        question, choices {text, label}, answerKey         the texts
//   HellaSwag  activity_label, ctx_a, ctx_b, endings, label       the endings, without [marks] and double blanks
//   MMLU       question, subject, choices, answer                 " A" to " D", behind the list of choices
//   PIQA       goal, sol1, sol2, label                            the two solutions
//   WinoGrande sentence, option1, option2, answer ("1" or "2")    the text behind the blank "_", after that before it
//                                                                 with either option in the blank's place
//   TruthfulQA question, mc2_targets {choices, labels}            the choices, of which any number may be right
//   any other  prompt, choices, answer (from 0)                   the texts as they are
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada::eval {

struct Question {
  // "boolq", "arc", "hellaswag", "mmlu", "piqa", "winogrande", "truthfulqa", "choice"
  std::string task;
  std::string subject = {};               // of MMLU
  std::string context = {};               // the question itself, few-shot examples aside
  std::vector<std::string> options = {};  // texts that may follow, the blank before them included
  std::vector<int64_t> lengths = {};      // of each option in code points without that blank: the divisors of acc_norm
  size_t answer = 0;
  std::vector<size_t> also_right = {};     // of TruthfulQA: other options that are right
  std::vector<std::string> contexts = {};  // of WinoGrande: one per option, in place of `context`

  const std::string& context_of(size_t option) const { return contexts.empty() ? context : contexts[option]; }
  bool is_right(size_t option) const;
};

// Errors name the file, the line and the field. limit > 0 keeps the first `limit` questions of each kind of row and,
// within MMLU, of each subject.
Result<std::vector<Question>> load_questions(const std::string& path, int64_t limit);
Result<std::vector<Question>> parse_questions(std::string_view text, const std::string& source, int64_t limit);

// The option's context behind `shots` answered examples: the first of `from` that are rows of the question's kind and
// subject, without the question itself. Invalid: there are fewer.
Result<std::string> with_examples(const Question& question, std::span<const Question> from, int64_t shots,
                                  size_t option = 0);

}  // namespace llada::eval
