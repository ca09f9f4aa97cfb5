// llada eval: quality and cost of one or several decoding strategies on a file of tasks.
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/terminal.h"
#include "engine/session.h"
#include "eval/evaluate.h"

namespace llada::cli {
namespace {

struct EvalOptions {
  ModelOptions model;
  DecodeFlags decode;
  std::string tasks;
  int64_t limit = 0;
  std::vector<std::string> compare;
  bool json = false, raw = false;
};

// "name: options", as --compare takes it. Without a colon the whole text is options and names itself.
Result<eval::StrategyUnderTest> parse_strategy(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string name = colon == std::string::npos ? text : text.substr(0, colon);
  const std::string options = colon == std::string::npos ? text : text.substr(colon + 1);
  auto parsed = parse_decode_options(options);
  if (!parsed) return invalid("--compare '{}': {}", text, parsed.error().message);
  const size_t begin = options.find_first_not_of(' ');
  return eval::StrategyUnderTest{name, begin == std::string::npos ? "" : options.substr(begin), *parsed};
}

Result<int> run(const EvalOptions& o) {
  std::vector<eval::StrategyUnderTest> strategies;
  for (const std::string& text : o.compare) {
    LLADA_TRY(auto strategy, parse_strategy(text));
    strategies.push_back(std::move(strategy));
  }
  if (strategies.empty()) {
    LLADA_TRY_STATUS(decode::validate(o.decode.options));
    strategies.push_back({"run", "as given on the command line", o.decode.options});
  }
  LLADA_TRY(const auto examples, eval::load_examples(o.tasks, o.limit));
  LLADA_TRY(const auto model, Model::load(o.model.path, o.model.load));

  std::optional<Progress> progress;
  std::string current;
  const auto show = [&](int64_t done, int64_t total, const std::string& strategy) {
    if (!progress || strategy != current) progress.emplace("eval " + (current = strategy));
    progress->update(static_cast<double>(done) / static_cast<double>(total),
                     fmt::format("{} of {}", done, total));
  };
  LLADA_TRY(const auto results,
            eval::evaluate(model, examples, strategies,
                           {.workers = o.model.load.threads, .raw_prompts = o.raw, .progress = show}));
  progress.reset();
  LLADA_TRY_STATUS(print(o.json ? eval::report_json(*model, results) + "\n" : eval::report_table(results)));
  return 0;
}

}  // namespace

Work setup_eval(CLI::App& app) {
  auto o = std::make_shared<EvalOptions>();
  add_model_options(app, o->model);
  app.add_option("--tasks", o->tasks, "examples, one JSON object per line: task, prompt, response, answer")
      ->type_name("FILE")
      ->required();
  app.add_option("--limit", o->limit, "use the first N examples of each task")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_option("--compare", o->compare,
                 "a strategy 'name: options'; repeat it to compare several in one process")
      ->type_name("'NAME: OPTIONS'");
  app.add_flag("--raw", o->raw, "feed prompts as they are, without the model's chat template");
  app.add_flag("--json", o->json, "one JSON object on stdout instead of a table");
  add_decode_options(app, o->decode);
  app.footer(
      "Examples:\n"
      "  llada eval -m model.gguf --tasks eval/eval_public.jsonl --limit 50 --threshold 0.9 --json\n"
      "  llada eval -m model.gguf --tasks eval/eval_public.jsonl --compare 'exact: ' --compare 'fast: "
      "--threshold 0.7'\n"
      "Each example runs on one thread; --threads says how many run at once. Times are measured wall clock.");
  return [o] {
    o->model.load.isa = isa_from_environment();
    return run(*o);
  };
}

}  // namespace llada::cli
