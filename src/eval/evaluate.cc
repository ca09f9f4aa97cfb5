#include "eval/evaluate.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "base/check.h"
#include "base/cpu_time.h"
#include "base/threads.h"
#include "engine/options.h"
#include "engine/prompt.h"

namespace llada::eval {
namespace {

StrategyResult sum_up(const StrategyUnderTest& strategy, const std::vector<Example>& examples,
                      const std::vector<size_t>& which, const std::vector<Answer>& answers) {
  StrategyResult result{.strategy = strategy, .tasks = {}, .total = {}};
  for (size_t i = 0; i < which.size(); ++i) {
    if (answers[i].score.n == 0) continue;
    result.tasks[examples[which[i]].task] += answers[i].score;
    result.total += answers[i].score;
  }
  for (const auto& [task, score] : result.tasks)
    result.accuracy_mean += score.accuracy() / static_cast<double>(result.tasks.size());
  return result;
}

// The step's time by the table: its forward, and on one device its sparse plan after it.
double table_seconds(const LatencyTable& table, const decode::StepEvent& event) {
  const int64_t streams = event.plan.cfg_scale > 0 ? 2 : 1;
  auto beside = std::ssize(event.plan.sparse.rows);
  for (const decode::Trial& trial : event.plan.sparse.trials) beside += std::ssize(trial.rows);
  const auto ms = [&](int64_t rows) { return rows > 0 ? table.ms(rows) : 0.0; };
  return 1e-3 * (ms(decode::rows_of(event.plan) - streams * beside) + ms(streams * beside));
}

}  // namespace

Evaluator::Evaluator(std::shared_ptr<const Model> model, std::vector<Example> examples, EvaluateOptions options,
                     ReferenceStore store)
    : model_(std::move(model)),
      examples_(std::move(examples)),
      options_(std::move(options)),
      store_(std::move(store)) {}

Result<std::unique_ptr<Evaluator>> Evaluator::create(std::shared_ptr<const Model> model, std::vector<Example> examples,
                                                     EvaluateOptions options) {
  ReferenceStore store = ReferenceStore::in_memory({});
  if (options.reference) {
    LLADA_TRY(const auto device, model->device().share(1));
    LLADA_TRY(store,
              ReferenceStore::open(options.reference_path, {model_fingerprint(*model), device->info().description,
                                                            reference_text(*options.reference)}));
  }
  const int workers = options.workers > 0 ? options.workers : usable_cores();
  std::unique_ptr<Evaluator> evaluator(
      new Evaluator(std::move(model), std::move(examples), std::move(options), std::move(store)));
  for (const Example& example : evaluator->examples_) {
    const ChatMessage message{"user", example.prompt};
    LLADA_TRY(auto ids, evaluator->options_.raw_prompts ? text_prompt(*evaluator->model_, example.prompt)
                                                        : chat_prompt(*evaluator->model_, {&message, 1}));
    evaluator->prompts_.push_back(std::move(ids));
  }
  if (evaluator->options_.at_once > 0) {
    LLADA_TRY(evaluator->engine_, Engine::create(evaluator->model_, {}));
  }
  for (int i = 0; i < (evaluator->engine_ ? evaluator->options_.at_once : workers); ++i) {
    LLADA_TRY(auto session, Session::create(evaluator->model_, {.threads = 1, .trace = nullptr}));
    evaluator->sessions_.push_back(std::move(session));
  }
  return evaluator;
}

std::vector<size_t> Evaluator::all() const {
  std::vector<size_t> indices(examples_.size());
  std::iota(indices.begin(), indices.end(), size_t{0});
  return indices;
}

Status Evaluator::for_each(const std::string& what, const std::vector<size_t>& which,
                           const std::function<Status(Session&, size_t example, size_t index)>& body, Part part) {
  std::atomic<size_t> next{0};
  std::mutex mutex;  // guards `error`, `done` and the calls of progress
  std::optional<Error> error;
  auto done = static_cast<int64_t>(part.begin);
  const auto total = static_cast<int64_t>(part.of > 0 ? part.of : which.size());
  const auto fail = [&](Error with) {
    const std::lock_guard lock(mutex);
    if (!error) error = std::move(with);
    next = which.size();
  };
  const auto work = [&](Session& session) {
    for (size_t i; !options_.stopped() && (i = next.fetch_add(1)) < which.size();) {
      Status status = within_memory([&]() -> Status {
        LLADA_TRY_STATUS(body(session, which[i], i));
        const std::lock_guard lock(mutex);
        if (options_.progress) options_.progress(++done, total, what);
        return {};
      });
      if (!status) fail(std::move(status).error());
    }
  };
  {
    std::vector<std::jthread> threads;
    Status all_there = within_memory([&]() -> Status {
      threads.reserve(sessions_.size());
      for (size_t i = 1; i < sessions_.size(); ++i)
        threads.emplace_back([&work, session = sessions_[i].get()] { work(*session); });
      return {};
    });
    if (!all_there) fail(std::move(all_there).error());  // those that began end soon
    work(*sessions_[0]);
  }
  if (error) return std::unexpected(std::move(*error));
  return {};
}

Result<Answer> Evaluator::answer(Session& session, size_t example, const decode::DecodeOptions& options,
                                 RunRecorder* recorder) const {
  Answer answer;
  const auto on_step = [&](const decode::StepEvent& event) {
    if (recorder != nullptr) recorder->step(event);
    if (options_.latency) answer.score.table_seconds += table_seconds(*options_.latency, event);
    return !options_.stopped();
  };
  const double begin = thread_cpu_seconds();
  LLADA_TRY(const Ready ready, prepare(*model_, {.tokens = prompts_[example], .options = options}));
  LLADA_TRY(const Generation g,
            engine_ ? engine_->submit(ready, {.run = {.on_step = on_step}})->wait() : session.run(ready, on_step));
  if (g.stats.decode.cancelled) return Answer{};
  const auto& ends = model_->special_ids().end_ids;
  const auto end = std::ranges::find_first_of(g.tokens, ends);
  answer.tokens.assign(g.tokens.begin(), end == g.tokens.end() ? end : end + 1);
  Score& score = answer.score;
  score.n = 1;
  score.nfe = g.stats.decode.nfe;
  score.rows = g.stats.decode.rows;
  score.committed = g.stats.decode.committed;
  score.content_tokens = g.stats.content_tokens;
  score.seconds = g.stats.seconds;
  score.cpu_seconds = engine_ ? 0 : thread_cpu_seconds() - begin;
  return answer;
}

Status Evaluator::add_likelihood(Session& session, size_t example, Answer& answer) {
  if (complete(answer) || options_.stopped()) return {};
  const std::pair key{example, answer.tokens};
  answer.likelihood_groups = options_.likelihood_groups;
  {
    const std::lock_guard lock(likelihood_mutex_);
    if (const auto known = likelihoods_.find(key); known != likelihoods_.end()) {
      answer.score.likelihood = known->second;
      return {};
    }
  }
  LLADA_TRY(answer.score.likelihood,
            pseudo_log_likelihood(session, prompts_[example], answer.tokens, options_.likelihood_groups));
  const std::lock_guard lock(likelihood_mutex_);
  likelihoods_.emplace(key, answer.score.likelihood);
  return {};
}

bool Evaluator::complete(const Answer& answer) const {
  return answer.score.n > 0 && (!options_.likelihood || answer.likelihood_groups == options_.likelihood_groups);
}

bool Evaluator::ended(const Answer& answer) const {
  return !answer.tokens.empty() && std::ranges::count(model_->special_ids().end_ids, answer.tokens.back()) > 0;
}

// The answer without its end token.
std::string Evaluator::text(const Answer& answer) const {
  return model_->tokenizer().decode(std::span(answer.tokens).first(answer.tokens.size() - ended(answer)));
}

// The scores that depend on the example's right answer and on the reference.
void Evaluator::judge(size_t example, Answer& answer) const {
  Score& score = answer.score;
  const std::string found = text(answer);
  score.right = answer_is_right(examples_[example], found);
  score.whole_right = response_is_right(examples_[example], found);
  score.cut = !ended(answer);
  if (!options_.reference) return;
  const Answer* reference = store_.find(prompt_hash(prompts_[example]));
  LLADA_CHECK(reference != nullptr);
  const bool reference_right = answer_is_right(examples_[example], text(*reference));
  score.compared = 1;
  score.agreed = answer.tokens == reference->tokens;
  score.edit_distance = token_edit_distance(answer.tokens, reference->tokens);
  score.won = score.right == 1 && !reference_right;
  score.lost = score.right == 0 && reference_right;
}

Status Evaluator::ensure_reference(const std::vector<size_t>& which) {
  if (!options_.reference) return {};
  std::vector<size_t> missing;
  std::map<uint64_t, size_t> first;  // the same prompt twice needs one run
  for (const size_t example : which) {
    const uint64_t prompt = prompt_hash(prompts_[example]);
    const Answer* known = store_.find(prompt);
    if (known != nullptr && complete(*known)) continue;
    if (first.emplace(prompt, example).second) missing.push_back(example);
  }
  // In parts that are saved, so that a run that is stopped does not start from nothing.
  constexpr size_t kSavedTogether = 64;
  for (size_t begin = 0; begin < missing.size(); begin += kSavedTogether) {
    const auto at = missing.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::vector<size_t> part(at,
                                   at + static_cast<std::ptrdiff_t>(std::min(kSavedTogether, missing.size() - begin)));
    std::vector<Answer> answers(part.size());
    const auto body = [&](Session& session, size_t example, size_t index) -> Status {
      if (const Answer* known = store_.find(prompt_hash(prompts_[example]))) {
        answers[index] = *known;
      } else {
        LLADA_TRY(answers[index], answer(session, example, *options_.reference, nullptr));
      }
      return answers[index].score.n > 0 ? add_likelihood(session, example, answers[index]) : Status();
    };
    LLADA_TRY_STATUS(for_each("reference", part, body, {begin, missing.size()}));
    for (size_t i = 0; i < part.size(); ++i)
      if (answers[i].score.n > 0) store_.put(prompt_hash(prompts_[part[i]]), std::move(answers[i]));
    LLADA_TRY_STATUS(store_.save());
    if (options_.stopped()) break;
  }
  return {};
}

Result<std::vector<Answer>> Evaluator::answers(const StrategyUnderTest& strategy, const std::vector<size_t>& which) {
  LLADA_TRY_STATUS(ensure_reference(which));
  std::vector<Answer> answers(which.size());
  if (options_.stopped()) return answers;
  std::vector<RunRecorder> recorders;
  for (const size_t example : which)
    recorders.emplace_back(strategy.name, strategy.description, examples_[example].task, static_cast<int64_t>(example),
                           model_->special_ids().attention_block);
  const auto body = [&](Session& session, size_t example, size_t index) -> Status {
    LLADA_TRY(answers[index],
              answer(session, example, strategy.options, options_.record ? &recorders[index] : nullptr));
    if (answers[index].score.n == 0) return {};
    const Answer* reference = store_.find(prompt_hash(prompts_[example]));
    if (reference != nullptr && reference->tokens == answers[index].tokens) {
      answers[index].likelihood_groups = reference->likelihood_groups;
      answers[index].score.likelihood = reference->score.likelihood;
    }
    LLADA_TRY_STATUS(add_likelihood(session, example, answers[index]));
    if (complete(answers[index]))
      judge(example, answers[index]);
    else
      answers[index] = {};
    return {};
  };
  LLADA_TRY_STATUS(for_each(strategy.name, which, body));
  if (options_.record)
    for (size_t i = 0; i < recorders.size(); ++i)
      if (answers[i].score.n > 0) LLADA_TRY_STATUS(options_.record(recorders[i].run()));
  return answers;
}

Status Evaluator::check_fits(const decode::DecodeOptions& options) const {
  for (size_t i = 0; i < prompts_.size(); ++i)
    if (const auto fits = prepare(*model_, {.tokens = prompts_[i], .options = options}); !fits)
      return invalid("example {} (from 0, task {}): {}", i, examples_[i].task, fits.error().message);
  return {};
}

Result<StrategyResult> Evaluator::run(const StrategyUnderTest& strategy, const std::vector<size_t>& which) {
  LLADA_TRY_STATUS(ensure_reference(which));
  const auto begin = std::chrono::steady_clock::now();
  LLADA_TRY(const auto answered, answers(strategy, which));
  StrategyResult result = sum_up(strategy, examples_, which, answered);
  result.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

Result<StrategyResult> Evaluator::reference(const std::vector<size_t>& which) {
  LLADA_CHECK(options_.reference.has_value());
  LLADA_TRY_STATUS(ensure_reference(which));
  std::vector<Answer> answered;
  for (const size_t example : which) {
    const Answer* known = store_.find(prompt_hash(prompts_[example]));
    answered.push_back(known != nullptr && complete(*known) ? *known : Answer{});
    if (answered.back().score.n > 0) judge(example, answered.back());
  }
  return sum_up({"reference", reference_text(*options_.reference), *options_.reference}, examples_, which, answered);
}

Result<Evaluation> evaluate(const std::shared_ptr<const Model>& model, std::vector<Example> examples,
                            const std::vector<StrategyUnderTest>& strategies, EvaluateOptions options) {
  const auto reference = options.reference;
  const bool compare = reference.has_value(), recorded = options.record != nullptr;
  const auto stopped = options.stopped;
  Evaluation evaluation;
  const auto finished = [&, tell = options.finished](const StrategyResult& result) {
    evaluation.interrupted |= result.total.n < static_cast<int64_t>(examples.size());
    return tell && result.total.n > 0 ? tell(result) : Status();
  };
  for (const StrategyUnderTest& strategy : strategies)  // before the dear reference runs
    LLADA_TRY_STATUS(decode::validate(strategy.options, false, model->special_ids().kind()));
  LLADA_TRY(const auto evaluator, Evaluator::create(model, examples, std::move(options)));
  for (const StrategyUnderTest& strategy : strategies) LLADA_TRY_STATUS(evaluator->check_fits(strategy.options));
  if (compare) {
    const auto begin = std::chrono::steady_clock::now();
    LLADA_TRY(evaluation.reference, evaluator->reference(evaluator->all()));
    evaluation.reference->wall_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    LLADA_TRY_STATUS(finished(*evaluation.reference));
    if (evaluation.reference->total.n == 0) evaluation.reference.reset();
  }
  for (const StrategyUnderTest& strategy : strategies) {
    if (evaluation.interrupted || stopped()) {
      evaluation.interrupted = true;
      break;
    }
    // The reference has run already; a recording wants steps, which it has not kept.
    StrategyResult result;
    if (compare && !recorded && decode::as_flags(strategy.options) == decode::as_flags(*reference)) {
      result = *evaluation.reference;
      result.strategy = strategy;
      result.measured_as = evaluation.reference->strategy.name;
    } else {
      LLADA_TRY(result, evaluator->run(strategy, evaluator->all()));
    }
    LLADA_TRY_STATUS(finished(result));
    if (result.total.n > 0) evaluation.results.push_back(std::move(result));
  }
  return evaluation;
}

}  // namespace llada::eval
