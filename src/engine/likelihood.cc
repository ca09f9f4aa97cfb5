#include "engine/likelihood.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "decode/sampling.h"
#include "engine/request.h"
#include "engine/score_jobs.h"

namespace llada {
namespace {

constexpr std::array<std::pair<ScoreMethod, std::string_view>, 5> kMethods = {{{ScoreMethod::monte_carlo, "mc"},
                                                                               {ScoreMethod::chain, "chain"},
                                                                               {ScoreMethod::exact, "exact"},
                                                                               {ScoreMethod::duel, "duel"},
                                                                               {ScoreMethod::pseudo, "pseudo"}}};

Status check_options(const ScoreOptions& o) {
  if (o.draws < 1 || o.draws > kMostDraws) return invalid("draws: found {}, needed 1 to {}", o.draws, kMostDraws);
  if (o.batch < 1) return invalid("batch: found {}, needed 1 or more", o.batch);
  if (!(o.cfg_scale >= 0) || !std::isfinite(o.cfg_scale))
    return invalid("cfg_scale: found {}, needed 0 or more", o.cfg_scale);
  for (const auto& [name, value] :
       {std::pair{"groups", o.groups}, std::pair{"top", o.top}, std::pair{"fixed_tail", o.fixed_tail}})
    if (value < 0) return invalid("{}: found {}, needed 0 or more", name, value);
  if (o.method != ScoreMethod::duel) return {};
  if (o.order.revision != decode::Revision::none || o.order.mbsd)
    return invalid("order: found revision or drafts, needed a rule whose commits are final");
  if (o.order.acceptance == decode::Acceptance::causal)
    return invalid("order: found accept causal, needed a rule that decides by one forward");
  if (decode::samples(o.order) || decode::needs_logits(o.order))
    return invalid("order: found sampling or penalties, needed none: the given text is written");
  if (decode::form_of(o.order))
    return invalid("order: found a form of the answer, needed none: the given text is written");
  if (o.cfg_scale > 0) return invalid("cfg_scale: duel has its guidance in the decoding options");
  return {};
}

}  // namespace

std::string_view method_name(ScoreMethod method) {
  return std::ranges::find(kMethods, method, &std::pair<ScoreMethod, std::string_view>::first)->second;
}

Result<ScoreMethod> parse_method(std::string_view name) {
  for (const auto& [method, known] : kMethods)
    if (known == name) return method;
  return invalid("method: found '{}', needed mc, chain, exact, duel or pseudo", name);
}

Status check_score(const Model& model, const ScoreRequest& request) {
  const ScoreOptions& o = request.options;
  LLADA_TRY_STATUS(check_options(o));
  if (request.continuations.empty()) return invalid("continuations: found none, needed one or more");
  if (Status known = check_tokens(model, request.prompt); !known) return invalid("prompt: {}", known.error().message);
  int64_t tokens = 0;
  for (size_t c = 0; c < request.continuations.size(); ++c) {
    const std::vector<int32_t>& text = request.continuations[c];
    const auto length = static_cast<int64_t>(text.size());
    tokens += length;
    if (Status known = check_tokens(model, text); !known)
      return invalid("continuation {}: {}", c + 1, known.error().message);
    if (o.method == ScoreMethod::exact && length != 1)
      return invalid("continuation {}: found {} tokens, needed 1 for the method exact", c + 1, length);
    if (o.method == ScoreMethod::monte_carlo && o.fixed_tail > length)
      return invalid("fixed_tail: found {}, needed {} at most, the tokens of continuation {}", o.fixed_tail, length,
                     c + 1);
    const int64_t positions = static_cast<int64_t>(request.prompt.size()) + length;
    if (model.context() > 0 && positions > model.context())
      return too_large("continuation {}: with the prompt it needs {} positions; {}", c + 1, positions,
                       model.context_bound());
  }
  if (o.method == ScoreMethod::monte_carlo && tokens > kMostDrawnTokens / o.draws)
    return invalid("draws: found {} of {} tokens, needed {} at most for so many tokens", o.draws, tokens,
                   kMostDrawnTokens / tokens);
  return {};
}

Result<std::unique_ptr<ScoreJob>> start_score(std::shared_ptr<const Model> model, const ScoreRequest& request) {
  LLADA_TRY_STATUS(check_readable(*model));
  LLADA_TRY_STATUS(check_score(*model, request));
  if (const decode::SpecialIds& ids = model->special_ids(); ids.kind().keeps_finished()) {
    constexpr std::string_view kWhy = "with a model that reads finished text causally";
    if (request.options.method == ScoreMethod::duel && ids.causal_text)
      return invalid("method: found duel {}, whose blocks begin with a token of that text; needed another one", kWhy);
    if (request.options.cfg_scale > 0)
      return invalid("cfg_scale: found {} {}; needed 0", request.options.cfg_scale, kWhy);
  }
  if (request.options.method == ScoreMethod::duel) return DuelScore::create(std::move(model), request);
  return std::make_unique<CanvasScore>(std::move(model), request);
}

}  // namespace llada
