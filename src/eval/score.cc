#include "eval/score.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace llada::eval {
namespace {

constexpr double kZ = 1.959963984540054;  // 97.5 % quantile of the normal distribution

}  // namespace

Result<Likelihood> pseudo_log_likelihood(Session& session, std::span<const int32_t> prompt,
                                         std::span<const int32_t> response, int64_t groups) {
  const auto score = session.score({.prompt = {prompt.begin(), prompt.end()},
                                    .continuations = {{response.begin(), response.end()}},
                                    .options = {.method = ScoreMethod::pseudo, .groups = groups}});
  if (!score) return std::unexpected(score.error());
  return Likelihood{score->continuations[0].log_probability, static_cast<int64_t>(response.size())};
}

void Score::operator+=(const Score& other) {
  n += other.n;
  right += other.right;
  whole_right += other.whole_right;
  cut += other.cut;
  nfe += other.nfe;
  rows += other.rows;
  committed += other.committed;
  content_tokens += other.content_tokens;
  seconds += other.seconds;
  cpu_seconds += other.cpu_seconds;
  table_seconds += other.table_seconds;
  compared += other.compared;
  agreed += other.agreed;
  edit_distance += other.edit_distance;
  won += other.won;
  lost += other.lost;
  likelihood += other.likelihood;
}

std::pair<double, double> wilson95(int64_t right, int64_t n) {
  if (n <= 0) return {0, 1};
  const double count = static_cast<double>(n), p = static_cast<double>(right) / count;
  const double centre = (p + kZ * kZ / (2 * count)) / (1 + kZ * kZ / count);
  const double half = kZ / (1 + kZ * kZ / count) * std::sqrt(p * (1 - p) / count + kZ * kZ / (4 * count * count));
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

PairedDifference paired95(int64_t won, int64_t lost, int64_t n) {
  if (n <= 0) return {0, -1, 1};
  const double b = static_cast<double>(won), c = static_cast<double>(lost), count = static_cast<double>(n);
  const double wide = count + 2, b1 = b + 0.5, c1 = c + 0.5;  // the four cells with one half each
  const double centre = (b1 - c1) / wide;
  const double half = kZ * std::sqrt((b1 + c1 - (b1 - c1) * (b1 - c1) / wide)) / wide;
  return {(b - c) / count, std::max(-1.0, centre - half), std::min(1.0, centre + half)};
}

int64_t token_edit_distance(std::span<const int32_t> a, std::span<const int32_t> b) {
  std::vector<int64_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t diagonal = std::exchange(row[0], static_cast<int64_t>(i) + 1);
    for (size_t j = 0; j < b.size(); ++j)
      diagonal = std::exchange(row[j + 1], std::min({row[j + 1] + 1, row[j] + 1, diagonal + (a[i] != b[j])}));
  }
  return row.back();
}

}  // namespace llada::eval
