// llada tune: finds decoding options for a model, a task file and this device, and writes them as a preset.
#include "eval/tune.h"

#include <algorithm>
#include <chrono>

#include "base/figures.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/hub_access.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "cli/tune_axes.h"
#include "cli/workspace.h"
#include "engine/decode_preset.h"
#include "eval/evaluate.h"
#include "eval/measurements.h"
#include "json/parse.h"

namespace llada::cli {
namespace {

struct TuneOptions {
  ModelOptions model;
  std::string tasks, out, reference_path, resume, name = "tuned", common, minimize = "time";
  int64_t limit = 0, generations = 4, breadth = 3;
  double max_loss = 1;
  bool raw = false, json = false;
};

std::string joined(const std::string& common, const std::string& options) {
  return common.empty() || options.empty() ? common + options : common + " " + options;
}

std::function<double(const eval::Score&)> cost_of(const std::string& minimize) {
  if (minimize == "forwards") return [](const eval::Score& s) { return s.mean(s.nfe); };
  if (minimize == "rows") return [](const eval::Score& s) { return s.mean(s.rows); };
  return [](const eval::Score& s) { return s.n ? 1e3 * s.table_seconds / static_cast<double>(s.n) : 0; };
}

PresetOrigin origin_of(const TuneOptions& o, const Model& model, const eval::Attempt& attempt) {
  const eval::Score total = attempt.total();
  return {.model = eval::model_fingerprint(model),
          .device = model.device().info().description,
          .tasks = o.tasks,
          .examples = total.n,
          .max_loss = o.max_loss,
          .loss = attempt.loss(),
          .held_out_loss = attempt.validation_loss(),
          .agreement = eval::Score::ratio(total.agreed, total.compared),
          .nfe_mean = total.mean(total.nfe),
          .rows_mean = total.mean(total.rows)};
}

Json report_of(const TuneOptions& o, const eval::TuneResult& result, double seconds, int64_t examples) {
  auto frontier = Json::array();
  for (const eval::Attempt& t : result.frontier) {
    const eval::Score s = t.total();
    frontier.push_back({{"options", t.options},
                        {"cost", t.cost},
                        {"loss", t.loss()},
                        {"held_out_loss", t.validation_loss()},
                        {"agreement", eval::Score::ratio(s.agreed, s.compared)},
                        {"nfe_mean", s.mean(s.nfe)},
                        {"rows_mean", s.mean(s.rows)},
                        {"cut", s.cut},
                        {"examples", s.n}});
  }
  return {{"label", "measured"},
          {"minimize", o.minimize},
          {"max_loss", o.max_loss},
          {"tried", result.tried},
          {"refused", result.refused},
          {"examples_decoded", examples},
          {"seconds", seconds},
          {"interrupted", result.interrupted},
          {"frontier", std::move(frontier)},
          {"chosen", result.chosen < 0 ? Json(nullptr) : Json(result.chosen)},
          {"out", result.chosen < 0 ? Json(nullptr) : Json(o.out)}};
}

// The time that is left, as far as work that is done tells; empty in the first seconds.
std::string time_left(std::chrono::steady_clock::time_point begin, int64_t done, int64_t expected) {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (done <= 0 || seconds < 3) return {};
  const double left = seconds * static_cast<double>(expected - done) / static_cast<double>(done);
  return time_left_text(left);
}

Result<int> run(const TuneOptions& o) {
  if (o.minimize != "time" && o.minimize != "forwards" && o.minimize != "rows")
    return invalid("--minimize: found '{}', needed one of time, forwards, rows", o.minimize);
  auto common = parse_decode_options(o.common, {}, StartFrom::open_length);
  if (!common) return invalid("--options: {}", common.error().message);
  LLADA_TRY(auto examples, eval::load_examples(o.tasks, o.limit));
  LLADA_TRY(auto out, OutputFile::open(o.out));
  LLADA_TRY(const auto model, open_model(o.model));
  const decode::ModelKind kind = model->special_ids().kind();
  if (kind.uniform.length > 0)
    return invalid("{}: its canvases hold random tokens, which are decided in one way; needed a model with a mask",
                   model->file().path());
  common = parse_decode_options(o.common, kind, StartFrom::open_length);
  if (!common) return invalid("--options: {}", common.error().message);
  const auto axes = tune_axes(kind.attention_block > 0);
  const auto accepts = [&](const std::string& text) {
    const auto parsed = parse_decode_options(joined(o.common, text), kind, StartFrom::open_length);
    return parsed && decode::validate(*parsed, false, kind).has_value();
  };
  LLADA_TRY_STATUS(eval::check_tune(examples, axes, accepts));

  eval::EvaluateOptions options;
  options.workers = o.model.load.threads;
  options.raw_prompts = o.raw;
  options.reference = eval::reference_options(*common);
  options.reference_path = o.reference_path;
  LLADA_TRY(auto latency, model->latency(1));  // each example runs on one thread
  // Measurements of the same texts with another length are others.
  const std::string with = joined(o.common, fmt::format("(length {})", *decode::get_field(*common, "gen_length")));
  eval::MeasurementStore::Key key{eval::model_fingerprint(*model), latency.device,
                                  o.raw ? joined(with, "(raw prompts)") : with, eval::examples_fingerprint(examples)};
  LLADA_TRY(auto measurements, eval::MeasurementStore::open(o.resume, std::move(key), latency.points));
  if (measurements.size() > 0)
    note(fmt::format("tune: {} taken from {}\n", counted(static_cast<int64_t>(measurements.size()), "measurement"),
                     o.resume));
  latency.points = measurements.latency();
  options.latency = latency;
  const auto stopped = [] { return InterruptGuard::signal_number() != 0; };
  options.stopped = stopped;
  if (o.reference_path.empty() && !o.resume.empty()) options.reference_path = o.resume + ".reference";
  std::optional<Progress> progress;
  auto begin = std::chrono::steady_clock::now();
  options.progress = [&](int64_t done, int64_t total, const std::string& what) {
    if (what != "reference") return;  // candidates have a bar of their own
    if (!progress) progress.emplace("tune: reference");
    progress->update(static_cast<double>(done) / static_cast<double>(total),
                     fmt::format("{} of {}  {}", done, total, time_left(begin, done, total)));
  };
  LLADA_TRY(const auto evaluator, eval::Evaluator::create(model, examples, std::move(options)));
  LLADA_TRY_STATUS(evaluator->check_fits(*common));
  const InterruptGuard guard;
  const auto interrupted = [&] {
    note(fmt::format("llada tune: interrupted; {} was not written{}\n", o.out,
                     o.resume.empty() ? "" : ", and --resume goes on from here"));
    return 128 + InterruptGuard::signal_number();
  };
  LLADA_TRY(const auto reference, evaluator->reference(evaluator->all()));
  progress.reset();
  const eval::Score& total = reference.total;
  if (stopped()) {
    note(fmt::format("reference: {} of {} done\n", total.n, counted(std::ssize(examples), "example")));
    return interrupted();
  }
  LLADA_TRY_STATUS(eval::check_reference(total, reference.strategy.options));
  note(fmt::format("reference: one token per forward, {:.1f} % right, {:.1f} forwards, {:.0f} rows{}\n",
                   100 * total.accuracy(), total.mean(total.nfe), total.mean(total.rows),
                   total.cut > 0
                       ? fmt::format("\nWARNING: cut at --gen-length {} before their end: {} of {}",
                                     *decode::get_field(*common, "gen_length"), total.cut, counted(total.n, "answer"))
                       : ""));

  eval::TuneRequest request;
  request.max_loss = o.max_loss;
  request.generations = o.generations;
  request.breadth = o.breadth;
  request.cost = cost_of(o.minimize);
  request.stopped = stopped;
  begin = std::chrono::steady_clock::now();
  int64_t known = 0;  // example runs that a file knew
  progress.emplace("tune");
  request.news = [&](const std::string& text) { progress->say(text); };
  request.progress = [&](const eval::TuneProgress& p) {
    progress->update(static_cast<double>(p.done) / static_cast<double>(std::max<int64_t>(p.expected, 1)),
                     fmt::format("{}; {}; best {}", time_left(begin, p.done - known, p.expected - known), p.stage,
                                 p.best.empty() ? "not known yet" : p.best));
  };
  const auto measure = [&](const std::string& text, const std::vector<size_t>& which) -> Result<eval::Score> {
    if (const eval::Score* score = measurements.find(text, which)) {
      known += static_cast<int64_t>(which.size());
      return *score;
    }
    const std::string whole = joined(o.common, text);
    LLADA_TRY(const auto parsed, parse_decode_options(whole, kind, StartFrom::open_length));
    LLADA_TRY(const auto result, evaluator->run({text, whole, parsed}, which));
    if (result.total.n < std::ssize(which)) return failed("interrupted");
    LLADA_TRY_STATUS(measurements.put(text, which, result.total));
    return result.total;
  };
  LLADA_TRY(const auto result, eval::tune(examples, axes, accepts, measure, request));
  progress.reset();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const std::string table = fmt::format(
      "{} tried, {} refused, {} decoded in {:.0f} s;\ncost is {}\n{}", counted(result.tried, "candidate"),
      counted(result.refused, "combination"), counted(result.examples - known, "example"), seconds,
      o.minimize == "time" ? "milliseconds by the measured latency table" : o.minimize, eval::tune_table(result));
  LLADA_TRY_STATUS(out.report(o.json ? json_line(report_of(o, result, seconds, result.examples - known)) : table));
  if (result.interrupted) return interrupted();
  if (result.chosen < 0)
    return failed("no candidate stays within {} points of the reference; {} was not written", o.max_loss, o.out);
  const eval::Attempt& chosen = result.frontier[static_cast<size_t>(result.chosen)];
  const std::string text =
      decode_preset_text({.name = o.name, .options = joined(o.common, chosen.options)}, origin_of(o, *model, chosen));
  LLADA_TRY_STATUS(out.write(text));
  LLADA_TRY_STATUS(out.commit());
  return 0;
}

}  // namespace

Work setup_tune(CLI::App& app) {
  auto o = std::make_shared<TuneOptions>();
  add_model_options(app, o->model);
  app.add_option("--tasks", o->tasks,
                 "examples, one JSON object per line: prompt, answer, and if you like task, response")
      ->type_name("FILE")
      ->required();
  app.add_option("-o,--out", o->out, "the preset file, for --preset-decode; - is stdout")
      ->type_name("FILE")
      ->required();
  app.add_option("--max-loss", o->max_loss, "points of accuracy that may be lost against one token per forward (1)")
      ->type_name("POINTS")
      ->check(CLI::Range(-100.0, 100.0).description(""));
  offer(app.add_option("--minimize", o->minimize, "time (by this device's latency table), forwards or rows (time)")
            ->type_name("COST"),
        "time forwards rows");
  add_integer_option(app, "--limit", o->limit, 1, int64_t{1} << 40, "use the first N examples of each task");
  add_integer_option(app, "--generations", o->generations, 0, 1000, "rounds of the search (4)");
  add_integer_option(app, "--breadth", o->breadth, 1, 1000, "candidates per round whose neighbours are tried (3)");
  app.add_option("--options", o->common,
                 "decoding options that every candidate has, such as '--gen-length auto:384' (a length that follows "
                 "the answer)")
      ->type_name("OPTIONS");
  app.add_option("--name", o->name, "name inside the preset file (tuned)")->type_name("NAME");
  only_file(app.add_option("--reference", o->reference_path, "keep the answers of one token per forward in FILE"))
      ->type_name("FILE");
  only_file(
      app.add_option("--resume", o->resume,
                     "keep every measurement in FILE (and the reference in FILE.reference), and go on from there"))
      ->type_name("FILE");
  app.add_flag("--raw", o->raw, "feed prompts as they are, without the model's chat template");
  app.add_flag("--json", o->json, "one JSON object on stdout instead of a table");
  app.footer(
      "Examples:\n"
      "  llada tune -m model.gguf --tasks eval/tuning.jsonl --max-loss 1.0 -o preset.json\n"
      "  llada run -m model.gguf -p '...' --preset-decode preset.json\n"
      "  llada tune -m model.gguf --tasks eval/tuning.jsonl --resume search.jsonl -o preset.json\n"
      "Half of the examples choose the candidates, the other half must confirm the choice. With --resume a search that "
      "was stopped goes on where it was, and one with another --max-loss or --minimize starts with the known results. "
      "The "
      "preset is written at the end, whole or not at all.");
  return [o] {
    read_environment(o->model.load);
    return run(*o);
  };
}

}  // namespace llada::cli
