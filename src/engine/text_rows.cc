#include "engine/text_rows.h"

#include <algorithm>

namespace llada {

std::vector<int32_t> rows_without_text(const Model& model) {
  std::vector<int32_t> rows;
  if (!model.has_tokenizer()) return rows;
  const std::vector<TokenKind>& kinds = model.tokenizer().spec().kinds;
  const decode::SpecialIds& ids = model.special_ids();
  const int32_t special[] = {ids.mask, ids.eos, ids.eot, ids.delete_id, ids.split_id};
  const auto take = [&](int64_t id) {
    const auto row = static_cast<int32_t>(id);
    if (std::ranges::count(special, row) + std::ranges::count(ids.end_ids, row) == 0) rows.push_back(row);
  };
  const int64_t vocab = model.config().vocab, tokens = std::min<int64_t>(vocab, std::ssize(kinds));
  for (int64_t id = 0; id < tokens; ++id)
    if (kinds[static_cast<size_t>(id)] == TokenKind::unused) take(id);
  for (int64_t id = tokens; id < vocab; ++id) take(id);
  return rows;
}

SamplingRule text_rule(const Model& model, const decode::DecodeOptions& options, bool infill) {
  SamplingRule rule = decode::head_rule(options, model.special_ids(), infill);
  const std::vector<int32_t> rows = rows_without_text(model);
  rule.never_sampled.insert(rule.never_sampled.end(), rows.begin(), rows.end());
  std::ranges::sort(rule.never_sampled);
  return rule;
}

std::string_view cut_note(const TokenizerSpec& spec) {
  if (!spec.pre.empty() || !spec.regexes.empty()) return "";
  return "tokenizer.ggml.pre is missing: text is cut into words by the rules \"default\", which llama.cpp then takes "
         "too; a model that was trained with others gets other tokens";
}

}  // namespace llada
