// llada score: how probable texts are to a model, and multiple-choice questions answered by that.
#include "eval/score.h"

#include "base/figures.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/hub_access.h"
#include "cli/options.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "cli/workspace.h"
#include "eval/choices.h"
#include "json/parse.h"
#include "text/text_file.h"

namespace llada::cli {
namespace {

struct ScoreCommand {
  ModelOptions model;
  std::string method, order, tasks, examples, out, prompt;
  std::vector<std::string> continuations;
  int64_t draws = 128, seed = 0, groups = 0, top = 0, limit = 0;
  eval::ChoiceOptions choice;
  double cfg = 0;
  bool json = false;
  std::vector<std::pair<const CLI::Option*, ScoreMethod>> only_with;  // options that one method has
};

// Options that were given and would not be looked at are refused.
Status check_given(const ScoreCommand& o) {
  if (o.tasks.empty() == o.continuations.empty())
    return invalid("found {} of --tasks and --continuation, needed one", o.tasks.empty() ? 0 : 2);
  for (const auto& [option, method] : o.only_with)
    if (option->count() > 0 && method != o.choice.score.method)
      return invalid("{}: only --method {} has it", option->get_name(), method_name(method));
  if (!o.tasks.empty() && !o.prompt.empty()) return invalid("found --prompt beside --tasks, needed one of the two");
  if (o.tasks.empty() && (!o.out.empty() || o.limit > 0 || o.choice.shots > 0 || !o.examples.empty()))
    return invalid("found --out, --limit, --shots or --examples without --tasks, needed --tasks");
  if (o.cfg > 0 && o.choice.score.method == ScoreMethod::duel)
    return invalid("--cfg: found {}, needed none with --method duel, whose guidance stands in --order", o.cfg);
  if ((o.choice.shots > 0) != !o.examples.empty()) return invalid("found one of --shots and --examples, needed both");
  return {};
}

// The text that is scored has its length and its end. A preset is meant for other commands too, so its settings of
// these are not looked at; typed ones are refused.
Result<decode::DecodeOptions> read_order(const std::string& text, const std::optional<decode::ModelKind>& kind) {
  LLADA_TRY(const DecodeWords words, read_words(text));
  for (const decode::Setting& s : words.settings)
    if (s.field->key == "gen_length" || s.field->key == "early_stop")
      return invalid("{}: found {}, needed none: the continuation's tokens are the answer, to the last one", s.typed,
                     s.text);
  // A preset has a form for each kind of models; otherwise the block that sees itself is decided together.
  const bool own_block =
      words.preset.empty() && kind && kind->attention_block > 0 && !names(words.settings, "block_length");
  return parse_decode_options(own_block ? fmt::format("{} --block-length {}", text, kind->attention_block) : text,
                              kind);
}

// kind: of the model, once that is known.
Status set_order(ScoreCommand& o, const std::optional<decode::ModelKind>& kind = {}) {
  auto order = read_order(o.order, kind);
  if (!order) return invalid("--order: {}", order.error().message);
  o.choice.score.order = *order;
  return {};
}

Status resolve(ScoreCommand& o) {
  ScoreOptions& score = o.choice.score;
  const auto method = parse_method(o.method.empty() ? (o.tasks.empty() ? "chain" : "mc") : o.method);
  if (!method) return invalid("--{}", method.error().message);
  score.method = *method;
  score.draws = o.draws, score.seed = static_cast<uint64_t>(o.seed), score.groups = o.groups, score.top = o.top;
  score.cfg_scale = o.cfg;
  LLADA_TRY_STATUS(check_given(o));
  return set_order(o);
}

Json tokens_json(const Model& model, const ContinuationScore& score) {
  const auto text_of = [&](int32_t token) { return model.tokenizer().decode({&token, 1}, true); };
  Json tokens = Json::array();
  for (const TokenScore& t : score.tokens) {
    Json token = {{"id", t.token}, {"text", text_of(t.token)}, {"log_probability", t.log_probability + 0.0}};
    for (const auto& other : t.top)
      token["top"].push_back(
          {{"id", other.token}, {"text", text_of(other.token)}, {"log_probability", other.log_probability + 0.0}});
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::string texts_report(const ScoreCommand& o, const Model& model, const ScoreResult& result) {
  if (o.json) {
    Json list = Json::array();
    for (size_t i = 0; i < result.continuations.size(); ++i) {
      const ContinuationScore& score = result.continuations[i];
      Json one = {{"text", o.continuations[i]}, {"log_probability", score.log_probability + 0.0}};  // not -0
      one["greedy"] = score.greedy ? Json(*score.greedy) : Json(nullptr);
      one["tokens"] = tokens_json(model, score);
      list.push_back(std::move(one));
    }
    return json_line({{"method", method_name(o.choice.score.method)},
                      {"continuations", std::move(list)},
                      {"forwards", result.forwards},
                      {"rows", result.rows}});
  }
  std::string out = fmt::format("{:>12} {:>10} {:>7} {:>7}  continuation\n", "log p", "per token", "tokens", "greedy");
  for (size_t i = 0; i < result.continuations.size(); ++i) {
    const ContinuationScore& score = result.continuations[i];
    const double tokens = static_cast<double>(std::max<size_t>(score.tokens.size(), 1));
    out += fmt::format("{:>12.4f} {:>10.4f} {:>7} {:>7}  {}\n", rounded(score.log_probability, 4),
                       rounded(score.log_probability / tokens, 4), score.tokens.size(),
                       score.greedy ? (*score.greedy ? "yes" : "no") : "-", one_line(o.continuations[i]));
  }
  return out + fmt::format("{}, {}\n", counted(result.forwards, "forward"), counted(result.rows, "row"));
}

Json total_json(const eval::ChoiceTotal& t) {
  const auto [low, high] = eval::wilson95(t.right, t.questions);
  const auto [low_n, high_n] = eval::wilson95(t.right_normalised, t.questions);
  return {{"n", t.questions},
          {"acc", eval::Score::ratio(t.right, t.questions)},
          {"acc_ci95", {low, high}},
          {"acc_norm", eval::Score::ratio(t.right_normalised, t.questions)},
          {"acc_norm_ci95", {low_n, high_n}},
          {"share", t.mean_share()},
          {"scored_tokens", t.tokens},
          {"forwards", t.forwards},
          {"rows", t.rows}};
}

std::string choices_report(const ScoreCommand& o, const Model& model, const eval::ChoiceReport& report) {
  if (o.json) {
    Json tasks = Json::object();
    for (const auto& [task, total] : report.tasks) tasks[task] = total_json(total);
    return json_line({{"model", model.file().path()},
                      {"device", model.device().info().description},
                      {"label", "measured"},
                      {"method", method_name(o.choice.score.method)},
                      {"tasks", std::move(tasks)},
                      {"seconds", report.seconds},
                      {"interrupted", report.interrupted}});
  }
  std::string out = fmt::format("{:<10} {:>6} {:>7} {:>12} {:>9} {:>7} {:>9} {:>9} {:>9}\n", "task", "n", "acc", "95 %",
                                "acc_norm", "share", "tokens", "forwards", "rows");
  for (const auto& [task, t] : report.tasks) {
    const auto [low, high] = eval::wilson95(t.right, t.questions);
    out += fmt::format(
        "{:<10} {:>6} {:>6.1f}% {:>12} {:>8.1f}% {:>6.1f}% {:>9} {:>9} {:>9}\n", task, t.questions,
        100 * eval::Score::ratio(t.right, t.questions), fmt::format("{:.1f}..{:.1f}", 100 * low, 100 * high),
        100 * eval::Score::ratio(t.right_normalised, t.questions), 100 * t.mean_share(), t.tokens, t.forwards, t.rows);
  }
  if (report.interrupted) out += fmt::format("interrupted after {}\n", counted(std::ssize(report.answers), "question"));
  return out;
}

// The answers as --out keeps them: a line for each.
std::string answers_text(const eval::ChoiceReport& report, const std::vector<eval::Question>& questions) {
  std::string text;
  for (size_t i = 0; i < report.answers.size(); ++i) {
    const eval::ChoiceAnswer& a = report.answers[i];
    Json line = {{"question", i + 1}, {"task", questions[i].task}, {"answer", questions[i].answer}};
    if (!questions[i].also_right.empty()) line["also_right"] = questions[i].also_right;
    line["best"] = a.best, line["best_normalised"] = a.best_normalised;
    line["share"] = a.share, line["log_probability"] = a.log_probability;
    text += json_line(line);
  }
  return text;
}

Result<int> score_tasks(const ScoreCommand& o, const std::shared_ptr<const Model>& model, Engine& engine,
                        const std::vector<eval::Question>& questions, std::span<const eval::Question> examples) {
  LLADA_TRY(auto out, OutputFile::open(o.out));
  std::optional<Progress> progress(std::in_place, "score");
  const auto proceed = [&](int64_t done, const eval::ChoiceReport& so_far) {
    const auto all = static_cast<double>(questions.size());
    const eval::ChoiceTotal total = so_far.total();
    progress->update(static_cast<double>(done) / all,
                     fmt::format("{} of {}, {:.1f} % right", done, questions.size(),
                                 100 * eval::Score::ratio(total.right, total.questions)));
    return InterruptGuard::signal_number() == 0;
  };
  auto report = eval::answer_choices(model, engine, questions, examples, o.choice, proceed);
  progress.reset();
  if (!report) return std::unexpected(report.error());
  if (!o.out.empty()) LLADA_TRY_STATUS(out.write(answers_text(*report, questions)));
  LLADA_TRY_STATUS(out.commit());
  LLADA_TRY_STATUS(out.report(choices_report(o, *model, *report)));
  return report->interrupted ? 128 + InterruptGuard::signal_number() : 0;
}

Result<int> score_texts(const ScoreCommand& o, const std::shared_ptr<const Model>& model, Engine& engine) {
  eval::Question question{.task = "text", .context = o.prompt, .options = o.continuations};
  eval::ChoiceOptions choice = o.choice;
  choice.option_name = "--continuation";
  LLADA_TRY(auto requests, eval::score_requests(*model, question, {}, choice));
  const auto handle = engine.submit_score(std::move(requests.front()));
  if (const int signal = InterruptGuard::wait_for(*handle); signal != 0) return 128 + signal;
  const auto& result = handle->wait();
  if (!result) return std::unexpected(result.error());
  LLADA_TRY_STATUS(print(texts_report(o, *model, *result)));
  return 0;
}

Result<int> run(ScoreCommand& o) {
  LLADA_TRY_STATUS(resolve(o));
  LLADA_TRY(o.prompt, as_text(o.prompt, "--prompt"));
  for (std::string& continuation : o.continuations) {
    LLADA_TRY(continuation, as_text(continuation, "--continuation"));
  }
  std::vector<eval::Question> questions, examples;
  if (!o.tasks.empty()) {
    LLADA_TRY(questions, eval::load_questions(o.tasks, o.limit));
  }
  if (!o.examples.empty()) {
    LLADA_TRY(examples, eval::load_questions(o.examples, 0));
  }
  LLADA_TRY(const auto model, open_model(o.model));
  LLADA_TRY_STATUS(set_order(o, model->special_ids().kind()));
  const InterruptGuard guard;
  // The device's own table takes a while to measure; for a few texts an everyday number of rows does as well.
  LLADA_TRY(const auto engine, Engine::create(model, {.row_budget = o.tasks.empty() ? 64 : 0}));
  return o.tasks.empty() ? score_texts(o, model, *engine) : score_tasks(o, model, *engine, questions, examples);
}

void add_method_options(CLI::App& app, ScoreCommand& o) {
  offer(app.add_option(
               "--method", o.method,
               "mc: LLaDA's published estimate (default of --tasks); chain: left to right, exact (default of texts); "
               "exact: one token each, one forward; duel: the probability of decoding it; pseudo: each token given all "
               "others")
            ->type_name("NAME"),
        "mc chain exact duel pseudo");
  const auto only = [&](CLI::Option* option, ScoreMethod method) { o.only_with.emplace_back(option, method); };
  only(add_integer_option(app, "--draws", o.draws, 1, kMostDraws, "mc: random masks per option (128)"),
       ScoreMethod::monte_carlo);
  only(add_integer_option(app, "--seed", o.seed, 0, int64_t{1} << 62,
                          "mc: seed of the random masks, which are the same for all options (0)"),
       ScoreMethod::monte_carlo);
  only(app.add_option("--order", o.order,
                      "duel: decoding options, as in '--threshold 0.9 --block-length 32'; blocks are the model's where "
                      "it has some")
           ->type_name("'OPTIONS'"),
       ScoreMethod::duel);
  only(add_integer_option(app, "--groups", o.groups, 1, int64_t{1} << 40,
                          "pseudo: forwards per option, instead of one per token"),
       ScoreMethod::pseudo);
  const auto set_cfg = [&o](const std::string& text) {
    decode::DecodeOptions scratch;
    if (const Status status = set_field(scratch, "cfg_scale", text); !status)
      throw CLI::ValidationError("--cfg", status.error().message.substr(std::string_view("cfg_scale: ").size()));
    o.cfg = scratch.cfg_scale;
  };
  app.add_option_function<std::string>("--cfg", set_cfg, "classifier-free guidance with this scale; twice the rows")
      ->type_name("X");
}

}  // namespace

Work setup_score(CLI::App& app) {
  auto o = std::make_shared<ScoreCommand>();
  add_model_options(app, o->model);
  app.add_option(
         "--tasks", o->tasks,
         "multiple-choice questions, one JSON object per line, with the fields of BoolQ, ARC, HellaSwag, MMLU, PIQA, "
         "WinoGrande or TruthfulQA, or prompt, choices, answer")
      ->type_name("FILE");
  app.add_option("-p,--prompt", o->prompt, "the text before the continuations")->type_name("TEXT");
  app.add_option("--continuation", o->continuations, "a text to score; repeat it for several")->type_name("TEXT");
  add_method_options(app, *o);
  app.add_option("--examples", o->examples, "answered questions for --shots, such as the development split")
      ->type_name("FILE");
  add_integer_option(app, "--shots", o->choice.shots, 1, 1000,
                     "put the first N examples of the same kind and subject before each");
  add_integer_option(app, "--limit", o->limit, 1, int64_t{1} << 40,
                     "use the first N questions of each kind and subject");
  app.add_flag("--chat", o->choice.chat, "put the context into the model's chat template");
  add_integer_option(app, "--top", o->top, 1, 1000, "with --json: the N best tokens of each position");
  app.add_option("-o,--out", o->out, "keep every option's log-probability, a line per question; - is stdout")
      ->type_name("FILE");
  app.add_flag("--json", o->json, "one JSON object on stdout instead of a table");
  for (const char* name : {"--seed", "--order", "--groups", "--top", "--out"})
    app.get_option(name)->group(further("Details"));
  app.footer(
      "Examples:\n"
      "  llada score -m model.gguf -p 'The capital of France is' --continuation ' Paris' --continuation ' Rome'\n"
      "  llada score -m model.gguf --tasks arc_challenge_test.jsonl --cfg 0.5\n"
      "  llada score -m model.gguf --tasks mmlu_test.jsonl --shots 5 --examples mmlu_dev.jsonl --json\n"
      "Log-probabilities are natural. docs/evaluation.md says what each method means, and where the commands of "
      "published tables are.");
  return [o]() -> Result<int> {
    read_environment(o->model.load);
    return run(*o);
  };
}

}  // namespace llada::cli
