// Measures of decisions as a table and as JSON, for `llada decide --calibrate` and `llada eval --decide`; and the work
// that both do.
#pragma once
#include <string>
#include <vector>

#include "eval/decisions.h"
#include "json/parse.h"

namespace llada::cli {

// Asks all questions with a bar; after an interrupt the report has the answers so far.
Result<eval::DecideReport> run_decide_tasks(const std::shared_ptr<const Model>& model,
                                            const std::vector<eval::DecideTask>& tasks, const DecideOptions& options);

// A line for each task and, where there are several, one for all of them; `title` stands above the tasks.
std::string measures_table(const std::string& title, const std::map<std::string, eval::DecideMeasures>& measures);
Json measures_json(const std::map<std::string, eval::DecideMeasures>& measures);

}  // namespace llada::cli
