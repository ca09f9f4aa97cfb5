// Questions whose answers are known, decided by a model (engine/decide.h): how often it is right, and how honest its
// probabilities are. One JSON object per line; its fields tell the kind of row:
//
//   type, instructions, choices | levels, name   a question as of /v1/decisions, about the text `state` where there is
//                                                one; `answer` is true or false, a choice's value, a level's label
//   prompt, answer, task "bool"                  a predicate, whose answer is yes or no
//   prompt, answer, task "choice"                a choice: the prompt's last lines are "A. text", "B. text" and so on,
//                                                and the answer is a letter
//
// A row's `task` names the row of the table; without one its kind does.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/decide_answer.h"
#include "engine/engine.h"

namespace llada::eval {

struct DecideTask {
  std::string task, state;
  DecideQuestion question;
  size_t right = 0;  // of its options; of a predicate 0 is true
};

// Errors name the file, the line and the field. limit > 0 keeps the first `limit` of each task.
Result<std::vector<DecideTask>> load_decide_tasks(const std::string& path, int64_t limit);
Result<std::vector<DecideTask>> parse_decide_tasks(std::string_view text, const std::string& source, int64_t limit);

// Measures over some answers.
struct DecideMeasures {
  int64_t questions = 0, right = 0;
  double brier = 0;              // mean over questions of the summed squares (probability - 1 or 0): 0 to 2
  double calibration_error = 0;  // of the best option's probability, over 10 bins of equal width
  double loss = 0;               // mean negative log-probability of the right option, nats
  double label_mass = 0;         // mean
  int64_t best_is_label = 0;     // questions where the most probable token begins a label

  double accuracy() const { return questions > 0 ? static_cast<double>(right) / static_cast<double>(questions) : 0; }
};

struct DecideReport {
  std::vector<DecidedQuestion> answers;  // in the order of the tasks
  std::vector<std::string> tasks;        // their names
  std::vector<bool> best_is_label;
  double seconds = 0;  // wall clock
  int64_t forwards = 0, rows = 0;
  bool interrupted = false;  // then it has only the first tasks

  double ms_each() const { return answers.empty() ? 0 : seconds * 1e3 / static_cast<double>(answers.size()); }
};

// Measures by task, and over all tasks under "". keep: whether the answer of this index counts; empty: all do.
std::map<std::string, DecideMeasures> measure(const DecideReport& report,
                                              const std::array<double, kQuestionKinds>& temperatures,
                                              const std::function<bool(size_t)>& keep = {});

// Decides every question in a request of its own, many at a time. proceed is called at least ten times a second with
// the number of answers; false ends the work with the answers so far.
Result<DecideReport> decide_tasks(const std::shared_ptr<const Model>& model, Engine& engine,
                                  const std::vector<DecideTask>& tasks, const DecideOptions& options,
                                  const std::function<bool(int64_t done)>& proceed);

}  // namespace llada::eval
