#include "eval/evaluate.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <optional>
#include <thread>

#include "base/threads.h"

namespace llada::eval {
namespace {

Result<Score> run_example(Session& session, const Model& model, const Example& example,
                          const decode::DecodeOptions& options, bool raw) {
  const ChatMessage message{"user", example.prompt};
  LLADA_TRY(const auto prompt, raw ? model.prompt_ids(example.prompt) : model.chat_ids({&message, 1}));
  LLADA_TRY(const Generation g, session.generate(prompt, options, {}));
  Score score;
  score.n = 1;
  score.right = answer_is_right(example, g.text);
  score.whole_right = response_is_right(example, g.text);
  score.nfe = g.stats.decode.nfe;
  score.rows = g.stats.decode.rows;
  score.committed = g.stats.decode.committed;
  score.content_tokens = g.stats.content_tokens;
  score.seconds = g.stats.seconds;
  return score;
}

}  // namespace

void Score::operator+=(const Score& other) {
  n += other.n;
  right += other.right;
  whole_right += other.whole_right;
  nfe += other.nfe;
  rows += other.rows;
  committed += other.committed;
  content_tokens += other.content_tokens;
  seconds += other.seconds;
}

std::pair<double, double> wilson95(int64_t right, int64_t n) {
  if (n <= 0) return {0, 1};
  constexpr double z = 1.959963984540054;  // 97.5 % quantile of the normal distribution
  const double count = static_cast<double>(n), p = static_cast<double>(right) / count;
  const double centre = (p + z * z / (2 * count)) / (1 + z * z / count);
  const double half = z / (1 + z * z / count) * std::sqrt(p * (1 - p) / count + z * z / (4 * count * count));
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

Result<std::vector<StrategyResult>> evaluate(const std::shared_ptr<const Model>& model,
                                             const std::vector<Example>& examples,
                                             const std::vector<StrategyUnderTest>& strategies,
                                             const EvaluateOptions& options) {
  const int workers = options.workers > 0 ? options.workers : usable_cores();
  std::vector<StrategyResult> results;
  for (const StrategyUnderTest& strategy : strategies) {
    std::vector<Score> scores(examples.size());
    std::atomic<size_t> next{0};
    std::mutex mutex;  // guards `error` and the calls of progress
    std::optional<Error> error;
    int64_t done = 0;
    const auto work = [&] {
      auto session = Session::create(model, {.threads = 1, .trace = nullptr});
      for (size_t i; (i = next.fetch_add(1)) < examples.size();) {
        auto score = session
                         ? run_example(**session, *model, examples[i], strategy.options, options.raw_prompts)
                         : Result<Score>(std::unexpected(session.error()));
        const std::lock_guard lock(mutex);
        if (!score) {
          if (!error) error = score.error();
          next = examples.size();
          return;
        }
        scores[i] = *score;
        if (options.progress) options.progress(++done, static_cast<int64_t>(examples.size()), strategy.name);
      }
    };
    const auto begin = std::chrono::steady_clock::now();
    {
      std::vector<std::jthread> threads;
      for (int i = 1; i < workers; ++i) threads.emplace_back(work);
      work();
    }
    if (error) return std::unexpected(*error);
    StrategyResult result{.strategy = strategy, .tasks = {}, .total = {}};
    result.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    for (size_t i = 0; i < examples.size(); ++i) {
      result.tasks[examples[i].task] += scores[i];
      result.total += scores[i];
    }
    for (const auto& [task, score] : result.tasks)
      result.accuracy_mean += score.accuracy() / static_cast<double>(result.tasks.size());
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace llada::eval
