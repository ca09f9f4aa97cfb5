#include "eval/likelihood.h"

#include <algorithm>
#include <cmath>

namespace llada::eval {

double log_probability(std::span<const float> logits, int32_t token) {
  const double top = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - top);
  return logits[static_cast<size_t>(token)] - top - std::log(sum);
}

Result<Likelihood> pseudo_log_likelihood(Session& session, const Model& model, std::span<const int32_t> prompt,
                                         std::span<const int32_t> response, int64_t groups) {
  const size_t step = groups > 0 ? std::min(static_cast<size_t>(groups), response.size()) : response.size();
  const auto vocab = static_cast<size_t>(model.config().vocab);
  // A model with shifted logits predicts a position in the row before it; a prompt is never empty there.
  const size_t shift = model.config().shift_logits && !prompt.empty() ? 1 : 0;
  std::vector<int32_t> canvas(prompt.begin(), prompt.end());
  canvas.insert(canvas.end(), response.begin(), response.end());
  Likelihood sum;
  if (const Status known = check_tokens(model, response); !known)  // of a reference file, it may be anything
    return invalid("response: {}", known.error().message);
  for (size_t group = 0; group < step; ++group) {
    std::vector<int32_t> masked = canvas, rows;
    for (size_t i = group; i < response.size(); i += step) {
      masked[prompt.size() + i] = model.special_ids().mask;
      rows.push_back(static_cast<int32_t>(prompt.size() + i - shift));
    }
    LLADA_TRY(const auto logits, session.logits(masked, rows));
    for (size_t i = group, row = 0; i < response.size(); i += step, ++row)
      sum += {log_probability(std::span(logits).subspan(row * vocab, vocab), response[i]), 1};
  }
  return sum;
}

}  // namespace llada::eval
