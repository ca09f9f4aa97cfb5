#include "eval/choices.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <iterator>
#include <utility>

#include "engine/prompt.h"

namespace llada::eval {
namespace {

constexpr int64_t kInFlight = 8;  // questions under way at a time

// The results of a question's requests as one.
ScoreResult joined(std::vector<ScoreResult> results) {
  ScoreResult all = std::move(results.front());
  for (size_t i = 1; i < results.size(); ++i) {
    std::ranges::move(results[i].continuations, std::back_inserter(all.continuations));
    all.forwards += results[i].forwards, all.rows += results[i].rows;
  }
  return all;
}

ChoiceAnswer judge(const Question& question, const ScoreResult& result) {
  ChoiceAnswer answer;
  const auto normalised = [&](size_t i) {
    return answer.log_probability[i] / static_cast<double>(question.lengths[i]);
  };
  for (size_t i = 0; i < question.options.size(); ++i) {
    answer.log_probability.push_back(result.continuations[i].log_probability);
    if (answer.log_probability[i] > answer.log_probability[answer.best]) answer.best = i;
    if (normalised(i) > normalised(answer.best_normalised)) answer.best_normalised = i;
  }
  double all = 0, right = 0;
  for (size_t i = 0; i < question.options.size(); ++i) {
    const double weight = std::exp(answer.log_probability[i] - answer.log_probability[answer.best]);
    all += weight;
    if (question.is_right(i)) right += weight;
  }
  answer.share = std::isfinite(all) ? right / all : 0;
  return answer;
}

ChoiceTotal count(const Question& question, const ScoreResult& result, const ChoiceAnswer& answer) {
  ChoiceTotal total{.questions = 1,
                    .right = question.is_right(answer.best),
                    .right_normalised = question.is_right(answer.best_normalised),
                    .share = answer.share,
                    .tokens = 0,
                    .forwards = result.forwards,
                    .rows = result.rows};
  for (const ContinuationScore& score : result.continuations) total.tokens += static_cast<int64_t>(score.tokens.size());
  return total;
}

// A question under way. Where this is given up, the scores are too.
struct ScoredQuestion {
  size_t question;
  std::vector<std::shared_ptr<ScoreSubmission>> scores = {};
  explicit ScoredQuestion(size_t q) : question(q) {}
  ScoredQuestion(ScoredQuestion&&) = default;
  ScoredQuestion& operator=(ScoredQuestion&&) = default;
  ~ScoredQuestion() {
    for (const auto& score : scores) score->cancel();
  }
  bool wait_for(std::chrono::milliseconds time) const {
    return std::ranges::all_of(scores, [&](const auto& score) { return score->wait_for(time); });
  }
};

void follow_dream(const Model& model, ScoreRequest& request) {
  const int32_t bos = model.config().bos_id >= 0 ? model.config().bos_id : model.tokenizer().spec().bos;
  if (bos >= 0 && (request.prompt.empty() || request.prompt[0] != bos))
    request.prompt.insert(request.prompt.begin(), bos);
  const ScoreMethod method = request.options.method;
  if (method != ScoreMethod::monte_carlo && method != ScoreMethod::chain) return;
  for (std::vector<int32_t>& text : request.continuations) text.push_back(model.special_ids().eos);
  request.options.mask_rates = method == ScoreMethod::monte_carlo;
  request.options.fixed_tail = method == ScoreMethod::monte_carlo ? 1 : 0;
}

// The score of no tokens is 0, which beats every other.
Status check_lengths(std::span<const std::string> options, const ScoreRequest& request, std::string_view name) {
  for (size_t i = 0; i < options.size(); ++i) {
    const std::string& option = options[i];
    if (!request.continuations[i].empty()) continue;
    if (option.empty()) return invalid("{} '': found 0 tokens, needed 1 or more", name);
    return invalid(
        "{} '{}': found 0 tokens behind the prompt's, since the tokenizer joins it with them; needed 1 or more, as a "
        "text that begins with a blank has",
        name, option);
  }
  return {};
}

// The request of so many options from `first` on, which have one context.
Result<ScoreRequest> request_of(const Model& model, const Question& question, size_t first, size_t count,
                                std::span<const Question> examples, const ChoiceOptions& options) {
  LLADA_TRY(const std::string context, with_examples(question, examples, options.shots, first));
  ScoreRequest request{.prompt = {}, .continuations = {}, .options = options.score};
  if (options.chat) {
    const ChatMessage message{"user", context};
    LLADA_TRY(request.prompt, model.chat_ids({&message, 1}));
  }
  const auto texts = std::span(question.options).subspan(first, count);
  for (const std::string& option : texts) {
    if (options.chat) {
      request.continuations.push_back(model.tokenizer().encode(option.substr(option.starts_with(' ') ? 1 : 0)));
      continue;
    }
    LLADA_TRY(auto pair, encode_pair(model, context, option));
    request.prompt = std::move(pair.context);
    request.continuations.push_back(std::move(pair.continuation));
  }
  LLADA_TRY_STATUS(check_lengths(texts, request, options.option_name));
  if (options.published && model.special_ids().shift_logits) follow_dream(model, request);
  LLADA_TRY_STATUS(check_score(model, request));
  return request;
}

}  // namespace

void ChoiceTotal::operator+=(const ChoiceTotal& other) {
  questions += other.questions, right += other.right, right_normalised += other.right_normalised;
  share += other.share;
  tokens += other.tokens, forwards += other.forwards, rows += other.rows;
}

ChoiceTotal ChoiceReport::total() const {
  ChoiceTotal sum;
  for (const auto& [task, total] : tasks) sum += total;
  return sum;
}

Result<std::vector<ScoreRequest>> score_requests(const Model& model, const Question& question,
                                                 std::span<const Question> examples, const ChoiceOptions& options) {
  const size_t all = question.options.size(), count = question.contexts.empty() ? all : 1;
  std::vector<ScoreRequest> requests;
  for (size_t first = 0; first < all; first += count) {
    LLADA_TRY(auto request, request_of(model, question, first, count, examples, options));
    requests.push_back(std::move(request));
  }
  return requests;
}

Result<ChoiceReport> answer_choices(const std::shared_ptr<const Model>& model, Engine& engine,
                                    const std::vector<Question>& questions, std::span<const Question> examples,
                                    const ChoiceOptions& options,
                                    const std::function<bool(int64_t done, const ChoiceReport& so_far)>& proceed) {
  std::vector<std::vector<ScoreRequest>> requests;
  for (size_t i = 0; i < questions.size(); ++i) {
    auto own = score_requests(*model, questions[i], examples, options);
    if (!own) return invalid("question {}: {}", i + 1, own.error().message);
    requests.push_back(std::move(*own));
  }
  ChoiceReport report;
  const auto begin = std::chrono::steady_clock::now();
  std::deque<ScoredQuestion> asked;
  size_t next = 0;
  while (next < questions.size() || !asked.empty()) {
    while (next < questions.size() && static_cast<int64_t>(asked.size()) < kInFlight) {
      ScoredQuestion& question = asked.emplace_back(next);
      for (ScoreRequest& request : requests[next]) question.scores.push_back(engine.submit_score(std::move(request)));
      ++next;
    }
    while (!report.interrupted && !asked.front().wait_for(std::chrono::milliseconds(100)))
      report.interrupted = !proceed(static_cast<int64_t>(report.answers.size()), report);
    if (report.interrupted) break;
    const ScoredQuestion done = std::move(asked.front());
    asked.pop_front();
    std::vector<ScoreResult> results;
    for (const auto& score : done.scores) {
      const auto& result = score->wait();
      if (!result) return invalid("question {}: {}", done.question + 1, result.error().message);
      results.push_back(*result);
    }
    const ScoreResult result = joined(std::move(results));
    const Question& question = questions[done.question];
    report.answers.push_back(judge(question, result));
    report.tasks[question.task] += count(question, result, report.answers.back());
    const bool go_on = proceed(static_cast<int64_t>(report.answers.size()), report);
    report.interrupted = !go_on && report.answers.size() < questions.size();
    if (report.interrupted) break;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace llada::eval
