#include "engine/decide_answer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace llada {
namespace {

constexpr double kLeastTemperature = 0.05, kMostTemperature = 20;

// exp(log_probability / temperature), as shares.
std::vector<double> shares(std::span<const double> log_probabilities, double temperature) {
  const double top = *std::ranges::max_element(log_probabilities);
  std::vector<double> list;
  for (const double l : log_probabilities) list.push_back(std::exp((l - top) / temperature));
  const double sum = std::accumulate(list.begin(), list.end(), 0.0);
  for (double& share : list) share /= sum;
  return list;
}

std::vector<double> mean_shares(std::span<const std::vector<double>> rotations, double temperature) {
  std::vector<double> mean(rotations.front().size(), 0);
  for (const std::vector<double>& rotation : rotations) {
    const std::vector<double> one = shares(rotation, temperature);
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += one[i] / static_cast<double>(rotations.size());
  }
  return mean;
}

}  // namespace

double confidence_of(QuestionKind kind, std::span<const double> probabilities) {
  const auto n = static_cast<double>(probabilities.size());
  const auto best = std::ranges::max_element(probabilities);
  if (probabilities.size() == 1) return 1;
  if (kind != QuestionKind::score) return std::max(0.0, (*best - 1 / n) / (1 - 1 / n));
  const auto level = static_cast<double>(best - probabilities.begin());
  double distance = 0, guess = 0;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    distance += probabilities[i] * std::abs(static_cast<double>(i) - level);
    guess += std::abs(static_cast<double>(i) - (n - 1) / 2) / n;
  }
  return std::max(0.0, 1 - distance / guess);
}

DecideAnswer answer_of(QuestionKind kind, std::vector<std::vector<double>> log_probabilities, double temperature) {
  DecideAnswer answer{.probabilities = mean_shares(log_probabilities, temperature)};
  answer.best = static_cast<size_t>(std::ranges::max_element(answer.probabilities) - answer.probabilities.begin());
  answer.confidence = confidence_of(kind, answer.probabilities);
  for (size_t i = 0; kind == QuestionKind::score && i < answer.probabilities.size(); ++i)
    answer.score += static_cast<double>(i) * answer.probabilities[i];
  for (const std::vector<double>& rotation : log_probabilities)
    for (const double l : rotation) answer.label_mass += std::exp(l) / static_cast<double>(log_probabilities.size());
  answer.log_probabilities = std::move(log_probabilities);
  return answer;
}

double decide_loss(std::span<const DecidedQuestion> questions, QuestionKind kind, double temperature) {
  double sum = 0, count = 0;
  for (const DecidedQuestion& q : questions) {
    if (q.kind != kind) continue;
    sum -= std::log(std::max(mean_shares(q.log_probabilities, temperature)[q.right], 1e-300));
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

// Golden-section search over the logarithm of the temperature, where the loss has one valley.
std::array<double, kQuestionKinds> fit_temperatures(std::span<const DecidedQuestion> questions) {
  std::array<double, kQuestionKinds> temperatures;
  for (size_t k = 0; k < kQuestionKinds; ++k) {
    const auto kind = static_cast<QuestionKind>(k);
    temperatures[k] = 1;
    if (std::ranges::count(questions, kind, &DecidedQuestion::kind) == 0) continue;
    const double golden = (std::sqrt(5.0) - 1) / 2;
    double low = std::log(kLeastTemperature), high = std::log(kMostTemperature);
    const auto loss = [&](double x) { return decide_loss(questions, kind, std::exp(x)); };
    double a = high - golden * (high - low), b = low + golden * (high - low), at_a = loss(a), at_b = loss(b);
    while (high - low > 1e-4) {
      if (at_a <= at_b) {
        high = b, b = a, at_b = at_a;
        a = high - golden * (high - low), at_a = loss(a);
      } else {
        low = a, a = b, at_a = at_b;
        b = low + golden * (high - low), at_b = loss(b);
      }
    }
    temperatures[k] = std::exp((low + high) / 2);
  }
  return temperatures;
}

}  // namespace llada
