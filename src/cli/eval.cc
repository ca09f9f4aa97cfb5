// llada eval: quality and cost of one or several decoding strategies on a file of tasks.

#include "base/figures.h"
#include "cli/commands.h"
#include "cli/decide_report.h"
#include "cli/help.h"
#include "cli/hub_access.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/terminal.h"
#include "cli/workspace.h"
#include "engine/session.h"
#include "eval/evaluate.h"
#include "json/lines.h"
#include "wire/decide_json.h"

namespace llada::cli {
namespace {

struct EvalOptions {
  ModelOptions model;
  DecodeFlags decode;
  std::string tasks, reference_path, record_path, calibration;
  int64_t limit = 0, likelihood_groups = 0, at_once = 0;
  std::vector<std::string> compare;
  bool json = false, raw = false, no_reference = false, decide = false;
  int64_t rotations = 1;
};

// "name: options", as --compare takes it. Without a colon the whole text is options and names itself.
Result<eval::StrategyUnderTest> parse_strategy(const std::string& text, const std::optional<decode::ModelKind>& kind) {
  const size_t colon = text.find(':');
  const std::string name = colon == std::string::npos ? text : text.substr(0, colon);
  const std::string options = colon == std::string::npos ? text : text.substr(colon + 1);
  const auto parsed = parse_decode_flags(options, StartFrom::defaults, kind);
  if (!parsed) return invalid("--compare '{}': {}", text, parsed.error().message);
  if (kind && !parsed->note().empty()) note(fmt::format("note: {}: {}\n", one_line(name), parsed->note()));
  const size_t begin = options.find_first_not_of(' ');
  return eval::StrategyUnderTest{name, begin == std::string::npos ? "" : options.substr(begin), parsed->options};
}

// kind: of the model, once that is known.
Result<std::vector<eval::StrategyUnderTest>> strategies_of(EvalOptions& o,
                                                           const std::optional<decode::ModelKind>& kind = {}) {
  if (!o.compare.empty() && o.decode.given())
    return invalid("--compare: each strategy has its own decoding options; needed none beside it on the command line");
  std::vector<eval::StrategyUnderTest> strategies;
  for (const std::string& text : o.compare) {
    LLADA_TRY(auto strategy, parse_strategy(text, kind));
    if (strategy.name.empty()) return invalid("--compare '{}': found no name, needed 'NAME: OPTIONS'", text);
    if (std::ranges::count(strategies, strategy.name, &eval::StrategyUnderTest::name) > 0)
      return invalid("--compare '{}': two strategies have this name; results could not be told apart", strategy.name);
    strategies.push_back(std::move(strategy));
  }
  if (strategies.empty()) {
    LLADA_TRY_STATUS(o.decode.resolve(kind));
    if (kind && !o.decode.note().empty()) note(fmt::format("note: {}\n", o.decode.note()));
    strategies.push_back({"run", "as given on the command line", o.decode.options});
  }
  return strategies;
}

// Questions are decided by the probabilities of their options, and nothing is generated.
Result<int> run_decide(const EvalOptions& o) {
  if (!o.compare.empty() || o.decode.given() || !o.reference_path.empty() || !o.record_path.empty() || o.no_reference ||
      o.likelihood_groups > 0 || o.at_once > 0 || o.raw)
    return invalid("found options of generation beside --decide, needed none: nothing is generated");
  LLADA_TRY(const auto tasks, eval::load_decide_tasks(o.tasks, o.limit));
  DecideOptions options{.rotations = o.rotations};
  if (!o.calibration.empty()) {
    LLADA_TRY(options.temperatures, load_temperatures(o.calibration));
  }
  LLADA_TRY(const auto model, open_model(o.model));
  const InterruptGuard guard;
  LLADA_TRY(const auto report, run_decide_tasks(model, tasks, options));
  const auto measures = measure(report, options.temperatures);
  if (o.json) {
    LLADA_TRY_STATUS(print(json_line({{"model", model->file().path()},
                                      {"device", model->device().info().description},
                                      {"label", "measured"},
                                      {"tasks", measures_json(measures)},
                                      {"ms_per_decision", report.ms_each()},
                                      {"forwards", report.forwards},
                                      {"rows", report.rows},
                                      {"seconds", report.seconds},
                                      {"interrupted", report.interrupted}})));
  } else {
    LLADA_TRY_STATUS(print(measures_table("task", measures) +
                           fmt::format("{:.2f} ms per decision (measured), {}, {}{}\n", report.ms_each(),
                                       counted(report.forwards, "forward"), counted(report.rows, "row"),
                                       report.interrupted ? "; interrupted" : "")));
  }
  return report.interrupted ? 128 + InterruptGuard::signal_number() : 0;
}

Result<int> run(EvalOptions& o) {
  if (o.decide) return run_decide(o);
  if (o.rotations > 1 || !o.calibration.empty()) return invalid("found --rotations or --calibration, needed --decide");
  LLADA_TRY(auto strategies, strategies_of(o));
  if (o.no_reference && !o.reference_path.empty())
    return invalid("found --no-reference beside --reference {}, needed one of the two", o.reference_path);
  const bool compared = !o.no_reference && (!o.compare.empty() || !o.reference_path.empty());
  if (!compared && o.likelihood_groups > 0)
    return invalid("found --likelihood-groups without a reference, needed --compare or --reference");
  LLADA_TRY(auto examples, eval::load_examples(o.tasks, o.limit));
  LLADA_TRY(auto recording, OutputFile::open(o.record_path));
  LLADA_TRY(const auto model, open_model(o.model));
  LLADA_TRY(strategies, strategies_of(o, model->special_ids().kind()));
  LLADA_TRY_STATUS(recording.write(recording_header(model->file().path())));

  std::optional<Progress> progress;
  std::string current;
  eval::EvaluateOptions options;
  options.workers = o.model.load.threads;
  options.at_once = static_cast<int>(o.at_once);
  options.raw_prompts = o.raw;
  if (compared) options.reference = eval::reference_options(strategies);
  options.reference_path = o.reference_path;
  options.likelihood = compared;
  options.likelihood_groups = o.likelihood_groups;
  options.stopped = [] { return InterruptGuard::signal_number() != 0; };
  options.progress = [&](int64_t done, int64_t total, const std::string& what) {
    if (!progress || what != current) progress.emplace("eval " + (current = what));
    progress->update(static_cast<double>(done) / static_cast<double>(total), fmt::format("{} of {}", done, total));
  };
  if (!o.record_path.empty())
    options.record = [&](const RecordedRun& run) { return recording.write(recording_lines(run)); };
  size_t width = 0;
  for (const eval::Example& example : examples) width = std::max(width, example.task.size());
  const eval::TableReport table(width, compared);
  bool begun = false;
  if (!o.json)  // hours may pass until the next one is there
    options.finished = [&](const eval::StrategyResult& result) {
      progress.reset();
      const std::string head = begun ? "" : table.head();
      begun = true;
      return recording.report(head + table.section(result));
    };
  else
    options.finished = [&](const eval::StrategyResult& result) {
      progress.reset();
      if (const std::string cut = eval::cut_warning(result); !cut.empty())
        note(fmt::format("{}: {}\n", one_line(result.strategy.name), cut));
      return Status();
    };
  const InterruptGuard guard;
  LLADA_TRY(const auto evaluation, eval::evaluate(model, std::move(examples), strategies, std::move(options)));
  progress.reset();
  LLADA_TRY_STATUS(recording.commit());
  if (o.json) LLADA_TRY_STATUS(recording.report(eval::report_json(*model, evaluation) + "\n"));
  if (!evaluation.interrupted) return 0;
  note("llada eval: interrupted; the examples that were done are counted\n");
  return 128 + InterruptGuard::signal_number();
}

}  // namespace

Work setup_eval(CLI::App& app) {
  auto o = std::make_shared<EvalOptions>();
  add_model_options(app, o->model);
  app.add_option("--tasks", o->tasks,
                 "examples, one JSON object per line: prompt, answer, and if you like task, response")
      ->type_name("FILE")
      ->required();
  add_integer_option(app, "--limit", o->limit, 1, int64_t{1} << 40, "use the first N examples of each task");
  app.add_option("--compare", o->compare,
                 "a strategy 'name: options'; repeat it to compare several with each other and with one token "
                 "per forward")
      ->type_name("'NAME: OPTIONS'");
  only_file(app.add_option("--reference", o->reference_path,
                           "read the answers of one token per forward from FILE, or write them there; they are the "
                           "slowest part of a comparison"))
      ->type_name("FILE");
  app.add_flag("--no-reference", o->no_reference, "compare strategies with each other only");
  add_integer_option(app, "--likelihood-groups", o->likelihood_groups, 1, int64_t{1} << 40,
                     "score a response in N forwards instead of one per token (docs/evaluation.md)");
  add_integer_option(app, "--streams", o->at_once, 1, 1024,
                     "decode N examples at a time in shared forwards, instead of one on each thread; equal results");
  app.add_option("--record", o->record_path, "write rows, confidences and edits of every step; - is stdout")
      ->type_name("FILE");
  app.add_flag("--raw", o->raw, "feed prompts as they are, without the model's chat template");
  app.add_flag("--decide", o->decide,
               "decide questions by the probabilities of their options, instead of generating answers");
  add_integer_option(app, "--rotations", o->rotations, 1, kMostRotations,
                     "with --decide: ask a choice with its options in up to N orders (1)");
  app.add_option("--calibration", o->calibration, "with --decide: temperatures of llada decide --calibrate")
      ->type_name("FILE");
  app.add_flag("--json", o->json, "one JSON object on stdout instead of a table");
  for (const char* name :
       {"--likelihood-groups", "--record", "--raw", "--streams", "--decide", "--rotations", "--calibration"})
    app.get_option(name)->group(further("Details"));
  o->decode.use_defaults(false);
  add_decode_options(app, o->decode);
  app.footer(
      "Examples:\n"
      "  llada eval model.gguf --tasks eval/eval_public.jsonl --limit 50 --json\n"
      "  llada eval -m model.gguf --tasks eval/eval_public.jsonl --reference ref.jsonl --compare 'safe: "
      "--threshold 0.9' --compare 'fast: --threshold 0.7'\n"
      "Each example runs on one thread, --threads at once. Times are measured wall clock. "
      "Options mean the same as for llada run.");
  return [o]() -> Result<int> {
    read_environment(o->model.load);
    auto status = run(*o);
    if (!status) return std::unexpected(o->decode.named(status.error()));
    return status;
  };
}

}  // namespace llada::cli
