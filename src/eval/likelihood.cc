#include "eval/likelihood.h"

namespace llada::eval {

Result<Likelihood> pseudo_log_likelihood(Session& session, std::span<const int32_t> prompt,
                                         std::span<const int32_t> response, int64_t groups) {
  const auto score = session.score({.prompt = {prompt.begin(), prompt.end()},
                                    .continuations = {{response.begin(), response.end()}},
                                    .options = {.method = ScoreMethod::pseudo, .groups = groups}});
  if (!score) return std::unexpected(score.error());
  return Likelihood{score->continuations[0].log_probability, static_cast<int64_t>(response.size())};
}

}  // namespace llada::eval
