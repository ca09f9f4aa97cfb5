#include "api/forming.h"

#include <algorithm>

#include "llada/llada.h"

namespace llada::api {

using decode::TokenState;

static_assert(static_cast<int>(TokenState::fixed) == LLADA_TOKEN_FIXED &&
              static_cast<int>(TokenState::masked) == LLADA_TOKEN_MASKED &&
              static_cast<int>(TokenState::visible) == LLADA_TOKEN_VISIBLE &&
              static_cast<int>(TokenState::stable) == LLADA_TOKEN_STABLE);

Forming Forming::of(std::shared_ptr<const Model> model, const Request& request) {
  Forming forming;
  forming.model = std::move(model);
  const bool infill = request.gaps.has_value();
  const int64_t given = std::ssize(request.tokens);
  const auto size = static_cast<size_t>(infill ? given : most_generated(*forming.model, given, request.options));
  forming.begin = infill ? 0 : given;
  forming.canvas.infill = infill;
  forming.canvas.mask_id = forming.model->special_ids().mask;
  forming.canvas.tokens.resize(size);
  forming.canvas.states.resize(size);
  forming.confidences.resize(size);
  forming.states.resize(size);
  if (forming.model->has_tokenizer()) forming.texts.resize(size), forming.text_sizes.resize(size);
  for (size_t i = 0; i < size; ++i)
    infill ? forming.set(i, request.tokens[i], TokenState::fixed, 1)
           : forming.set(i, forming.canvas.mask_id, TokenState::masked, 0);
  if (infill)
    for (const int32_t gap : *request.gaps)
      if (gap >= 0 && static_cast<size_t>(gap) < size)  // the engine refuses others
        forming.set(static_cast<size_t>(gap), forming.canvas.mask_id, TokenState::masked, 0);
  return forming;
}

void Forming::set(size_t at, int32_t token, TokenState state, double confidence) {
  canvas.tokens[at] = token;
  canvas.states[at] = state;
  states[at] = static_cast<int32_t>(state);
  confidences[at] = state == TokenState::masked ? 0 : static_cast<float>(confidence);
  if (texts.empty()) return;
  const std::string_view text = state == TokenState::masked ? kHole : model->tokenizer().piece(token);
  texts[at] = text.empty() ? "" : text.data();
  text_sizes[at] = text.size();
}

void Forming::apply(std::span<const decode::Edit> edits, std::vector<int32_t>* changed) {
  for (const decode::Edit& edit : edits) {
    const int64_t at = edit.position - begin;
    if (at < 0 || at >= canvas.size()) continue;
    set(static_cast<size_t>(at), edit.token, edit.state, edit.confidence);
    if (changed != nullptr) changed->push_back(static_cast<int32_t>(at));
  }
}

void Forming::finish(std::span<const int32_t> tokens) {
  const size_t size = std::min(tokens.size(), canvas.tokens.size());
  for (size_t i = 0; i < size; ++i)
    if (tokens[i] != canvas.tokens[i]) set(i, tokens[i], TokenState::stable, 1);
}

int64_t Forming::masked() const { return std::ranges::count(canvas.states, TokenState::masked); }

}  // namespace llada::api
