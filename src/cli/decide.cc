// llada decide: typed questions about a text, each answered by the probabilities of its options, and the temperatures
// that make these honest.
#include "cli/commands.h"
#include "cli/decide_report.h"
#include "cli/help.h"
#include "cli/hub_access.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/terminal.h"
#include "cli/workspace.h"
#include "text/text_file.h"
#include "wire/decide_json.h"

namespace llada::cli {
namespace {

struct DecideCommand {
  ModelOptions model;
  std::string question, choice, levels, state, request, labels, calibration, tasks, out;
  int64_t rotations = 1, limit = 0;
  bool joint = false, json = false;
};

// "a|b|c".
std::vector<DecideOption> options_of(std::string_view text) {
  std::vector<DecideOption> options;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('|', begin), text.size());
    options.push_back({std::string(text.substr(begin, end - begin))});
    begin = end + 1;
  }
  return options;
}

Status check_words(const DecideCommand& o) {
  const int ways = (o.question.empty() ? 0 : 1) + (o.request.empty() ? 0 : 1) + (o.tasks.empty() ? 0 : 1);
  if (ways != 1) return invalid("found {} of --question, --request and --calibrate, needed one", ways);
  if (o.question.empty() && (!o.choice.empty() || !o.levels.empty() || !o.state.empty()))
    return invalid("found --choice, --levels or --state without --question, needed --question");
  if (!o.choice.empty() && !o.levels.empty()) return invalid("found --levels beside --choice, needed one of the two");
  if (o.joint && o.request.empty()) return invalid("found --joint without --request, needed both");
  if (o.tasks.empty() != o.out.empty()) return invalid("found one of --calibrate TASKS and --out FILE, needed both");
  if (o.tasks.empty() && o.limit > 0) return invalid("found --limit without --calibrate, needed both");
  if (!o.tasks.empty() && !o.calibration.empty()) return invalid("found --calibration beside --calibrate, needed one");
  return {};
}

Result<DecideOptions> options_of(const DecideCommand& o) {
  DecideOptions options{.labels = o.labels == "values" ? DecideLabels::values : DecideLabels::letters,
                        .joint = o.joint,
                        .rotations = o.rotations};
  if (!o.calibration.empty()) {
    LLADA_TRY(options.temperatures, load_temperatures(o.calibration));
  }
  return options;
}

// The command line's words over those of the request's `llada`.
Result<DecideRequest> read_request(const DecideCommand& o) {
  LLADA_TRY(const DecideOptions options, options_of(o));
  DecideRequest request;
  if (!o.request.empty()) {
    LLADA_TRY(const std::string text, read_text(o.request));
    LLADA_TRY(request, read_decide(text, o.request == "-" ? "stdin" : o.request));
    if (!o.labels.empty()) request.options.labels = options.labels;
    if (o.joint) request.options.joint = true;
    if (o.rotations > 1) request.options.rotations = o.rotations;
    request.options.temperatures = options.temperatures;
  } else {
    LLADA_TRY(request.state, o.state == "-" ? read_text("-") : as_text(o.state, "--state"));
    DecideQuestion question{.kind = QuestionKind::predicate, .instructions = {}};
    LLADA_TRY(question.instructions, as_text(o.question, "--question"));
    for (const auto& [text, kind, flag] : {std::tuple(&o.choice, QuestionKind::choice, "--choice"),
                                           std::tuple(&o.levels, QuestionKind::score, "--levels")}) {
      if (text->empty()) continue;
      LLADA_TRY(const std::string words, as_text(*text, flag));
      question.kind = kind, question.options = options_of(words);
    }
    request.questions.push_back(std::move(question));
    request.options = options;
  }
  LLADA_TRY_STATUS(check_decide(request));
  return request;
}

std::string answer_text(const DecideQuestion& q, const DecideAnswer& a) {
  std::string out = one_line(q.name.empty() ? q.instructions : q.name + ": " + q.instructions) + "\n";
  for (size_t i = 0; i < a.probabilities.size(); ++i) {
    const std::string option =
        q.kind == QuestionKind::predicate ? (i == 0 ? "yes" : "no") : one_line(q.options[i].text);
    out += fmt::format("  {:.4f} {} {}\n", rounded(a.probabilities[i], 4), i == a.best ? '*' : ' ', option);
  }
  if (q.kind == QuestionKind::score) out += fmt::format("  score {:.2f} of 0 to {}\n", a.score, q.options.size() - 1);
  if (q.kind != QuestionKind::predicate) out += fmt::format("  confidence {:.2f}\n", a.confidence);
  if (!a.best_is_label || a.label_mass < 0.5)
    out += fmt::format("  the labels have {:.1f} % of the probability{}\n", 100 * a.label_mass,
                       a.best_is_label ? "" : ", and the best token is no label");
  return out;
}

Result<int> answer(const DecideCommand& o, const std::shared_ptr<const Model>& model, const DecideRequest& request) {
  LLADA_TRY(auto job, start_decide(model, request));
  // The device's own table takes a while to measure; for a few questions an everyday number of rows does as well.
  LLADA_TRY(const auto engine, Engine::create(model, {.row_budget = 64}));
  const auto handle = engine->submit_decide(std::move(job));
  if (const int signal = InterruptGuard::wait_for(*handle); signal != 0) return 128 + signal;
  const auto& result = handle->wait();
  if (!result) return std::unexpected(result.error());
  if (o.json) {
    LLADA_TRY_STATUS(print(decide_text(request, *result, model_name(model->file().path()))));
    return 0;
  }
  std::string out;
  for (size_t i = 0; i < result->answers.size(); ++i) out += answer_text(request.questions[i], result->answers[i]);
  LLADA_TRY_STATUS(
      print(out + fmt::format("{}, {}\n", counted(result->forwards, "forward"), counted(result->rows, "row"))));
  return 0;
}

// Fitted on every other question and shown on the rest, so that the shown ones were not fitted.
Result<int> calibrate(const DecideCommand& o, const std::shared_ptr<const Model>& model,
                      const std::vector<eval::DecideTask>& tasks) {
  LLADA_TRY(const DecideOptions options, options_of(o));
  LLADA_TRY(auto out, OutputFile::open(o.out));
  LLADA_TRY(const auto report, run_decide_tasks(model, tasks, options));
  if (report.interrupted) {  // too few to fit
    const auto measures = measure(report, {1, 1, 1});
    LLADA_TRY_STATUS(out.report(o.json ? json_line({{"before", measures_json(measures)}, {"interrupted", true}})
                                       : measures_table("before", measures)));
    note(fmt::format("llada decide: interrupted; {} was not written\n", o.out));
    return 128 + InterruptGuard::signal_number();
  }
  std::vector<DecidedQuestion> fitted;
  std::array<size_t, kQuestionKinds> counts{};
  for (size_t i = 0; i < report.answers.size(); i += 2) {
    fitted.push_back(report.answers[i]);
    ++counts[static_cast<size_t>(report.answers[i].kind)];
  }
  const std::array<double, kQuestionKinds> temperatures = fit_temperatures(fitted);
  const auto held_out = [](size_t i) { return i % 2 == 1; };
  const auto before = measure(report, {1, 1, 1}, held_out), after = measure(report, temperatures, held_out);
  const std::string name_of_model = model_name(model->file().path());
  LLADA_TRY_STATUS(out.write(temperatures_text(temperatures, name_of_model, counts)));
  LLADA_TRY_STATUS(out.commit());
  if (o.json) {
    Json kinds;
    for (size_t k = 0; k < kQuestionKinds; ++k)
      kinds[std::string(name(static_cast<QuestionKind>(k)))] = temperatures[k];
    LLADA_TRY_STATUS(out.report(json_line({{"temperatures", std::move(kinds)},
                                           {"fitted", fitted.size()},
                                           {"before", measures_json(before)},
                                           {"after", measures_json(after)},
                                           {"interrupted", false}})));
    return 0;
  }
  std::string text = fmt::format("fitted on {}:", counted(std::ssize(fitted), "question"));
  for (size_t k = 0; k < kQuestionKinds; ++k)
    if (counts[k] > 0) text += fmt::format(" {} {:.3f}", name(static_cast<QuestionKind>(k)), temperatures[k]);
  text += "\nthe others:\n" + measures_table("before", before) + measures_table("after", after);
  LLADA_TRY_STATUS(out.report(text));
  return 0;
}

Result<int> run(const DecideCommand& o) {
  LLADA_TRY_STATUS(check_words(o));
  DecideRequest request;
  std::vector<eval::DecideTask> tasks;
  if (o.tasks.empty()) {
    LLADA_TRY(request, read_request(o));
  } else {
    LLADA_TRY(tasks, eval::load_decide_tasks(o.tasks, o.limit));
  }
  LLADA_TRY(const auto model, open_model(o.model));
  const InterruptGuard guard;
  return o.tasks.empty() ? answer(o, model, request) : calibrate(o, model, tasks);
}

}  // namespace

Work setup_decide(CLI::App& app) {
  auto o = std::make_shared<DecideCommand>();
  add_model_options(app, o->model);
  app.add_option("--question", o->question, "the question; without --choice and --levels: how probable Yes is")
      ->type_name("TEXT");
  app.add_option("--choice", o->choice, "the options of the question, with | between them")->type_name("'A|B|C'");
  app.add_option("--levels", o->levels, "its levels from lowest to highest, with | between them")
      ->type_name("'LOW|MID|HIGH'");
  app.add_option("-p,--state", o->state, "the text that is asked about; - is stdin")->type_name("TEXT");
  app.add_option("--request", o->request, "many questions, as a body of /v1/decisions or /v1/systemone; - is stdin")
      ->type_name("FILE");
  offer(app.add_option("--labels", o->labels,
                       "letters (default): one forward each; values: the options' own text, as many as it has tokens")
            ->type_name("HOW")
            ->check(CLI::IsMember({"letters", "values"}).description("")),
        "letters values");
  add_integer_option(app, "--rotations", o->rotations, 1, kMostRotations,
                     "ask a choice with its options in up to N orders, and average (1); N times the cost");
  app.add_flag("--joint", o->joint, "with --request: all questions on one canvas, in one forward");
  app.add_option("--calibration", o->calibration, "temperatures that --calibrate wrote")->type_name("FILE");
  app.add_option("--calibrate", o->tasks, "fit temperatures to answered questions, one JSON object per line")
      ->type_name("TASKS");
  only_file(app.add_option("-o,--out", o->out, "with --calibrate: where the temperatures are written"))
      ->type_name("FILE");
  add_integer_option(app, "--limit", o->limit, 1, int64_t{1} << 40,
                     "with --calibrate: use the first N questions of each task");
  app.add_flag("--json", o->json, "one JSON object on stdout instead of a table");
  for (const char* name : {"--labels", "--calibrate", "--out", "--limit"})
    app.get_option(name)->group(further("Details"));
  app.footer(
      "Examples:\n"
      "  llada decide -m model.gguf -p 'WIN a FREE phone!' --question 'Is this message spam?'\n"
      "  llada decide -m model.gguf -p 'I want my money back.' --question 'Which tone is it?' --choice "
      "'calm|angry|sad'\n"
      "  llada decide -m model.gguf --request questions.json --joint --json\n"
      "  llada decide -m model.gguf --calibrate tuning.jsonl --out model.temperatures.json\n"
      "No text is written: each answer is one forward. docs/decide.md has the definition.");
  return [o]() -> Result<int> {
    read_environment(o->model.load);
    return run(*o);
  };
}

}  // namespace llada::cli
