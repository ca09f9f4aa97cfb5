#include "engine/form_store.h"

#include <algorithm>
#include <array>

#include "text/tokenizer.h"

namespace llada {

std::shared_ptr<const forms::TokenForm> FormStore::kept(const forms::Form& form) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(kept_, form, [](const auto& kept) -> const forms::Form& { return kept.first; });
  if (known == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, known);
  return known->second;
}

Result<std::shared_ptr<const forms::TokenForm>> FormStore::get(const forms::Form& form, const Tokenizer& tokenizer,
                                                               const decode::SpecialIds& ids) {
  if (auto known = kept(form)) return known;
  std::shared_ptr<const forms::Vocabulary> vocabulary;
  {
    const std::lock_guard lock(mutex_);
    if (!vocabulary_) vocabulary_ = forms::Vocabulary::of(tokenizer, std::array{ids.mask, ids.delete_id, ids.split_id});
    vocabulary = vocabulary_;
  }
  // Others go on while a form is made; two that ask for the same one may both make it.
  forms::EndTokens ends{ids.end_ids, ids.eos >= 0 || ids.end_ids.empty() ? ids.eos : ids.end_ids.front()};
  if (ends.fill >= 0 && std::ranges::find(ends.ids, ends.fill) == ends.ids.end()) ends.ids.push_back(ends.fill);
  LLADA_TRY(forms::TokenForm fresh, forms::token_form_of(form, *vocabulary, ends));
  auto made = std::make_shared<const forms::TokenForm>(std::move(fresh));
  const std::lock_guard lock(mutex_);
  kept_.emplace_front(form, made);
  int64_t bytes = 0;
  const auto too_many = std::find_if(std::next(kept_.begin()), kept_.end(), [&](const auto& kept) {
    return (bytes += kept.second->bytes() + std::ssize(kept.first.text)) > kMostBytes;
  });
  kept_.erase(too_many, kept_.end());
  return made;
}

}  // namespace llada
