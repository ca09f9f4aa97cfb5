// Fields that config.json and generation_config.json alone have: token ids, and numbers of any range.
// Private to formats/.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/model_config.h"
#include "json/fields.h"

namespace llada {

// Modules of large models are named one by one.
inline constexpr JsonLimits kConfigLimits{.values = 200'000};

// Absent members give `absent` where it is set, otherwise an error.
inline Result<int64_t> hf_integer(const Fields& fields, Fields::Names names,
                                  std::optional<int64_t> absent = std::nullopt) {
  constexpr int64_t kMost = int64_t{1} << 62;
  return fields.integer(names, -kMost, kMost, absent);
}
inline Result<double> hf_number(const Fields& fields, Fields::Names names, double absent) {
  return fields.real(names, 0, 1e30, absent);
}
// In single precision, as GGUF keeps it.
inline Result<float> hf_single(const Fields& fields, Fields::Names names, double absent) {
  LLADA_TRY(const double given, hf_number(fields, names, absent));
  return static_cast<float>(given);
}

// One token id, or a list of them; none where the member is left out.
inline Result<std::vector<int32_t>> hf_tokens(const Fields& fields, std::string_view name, size_t most = 64) {
  std::vector<int32_t> ids;
  const Json* value = fields.find(name);
  if (value == nullptr) return ids;
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > most) return fields.fault(name, fmt::format("found {} ids, needed at most {}", list.size(), most));
  for (const Json& id : list) {
    const auto number = whole_number(id);
    if (!number || *number < 0 || *number > std::numeric_limits<int32_t>::max())
      return fields.wrong(name, id, "a token id");
    ids.push_back(static_cast<int32_t>(*number));
  }
  return ids;
}

// Checks a member that may be left out.
inline Status hf_only(const Fields& fields, std::string_view name, std::initializer_list<Json> allowed) {
  const Json* value = fields.find(name);
  if (value == nullptr || std::ranges::find(allowed, *value) != allowed.end()) return {};
  return fields.wrong(name, *value, shown(*allowed.begin()));
}

// Refuses factors and caps that no family here computes, unless they change nothing.
inline Status no_other_numbers(const Fields& fields) {
  for (const auto name : {"attn_logit_softcapping", "query_pre_attn_scalar", "attention_multiplier", "scale_depth"})
    if (const Json* value = fields.find(name)) return fields.wrong(name, *value, "null");
  for (const auto name : {"logit_scale", "logits_scaling", "residual_multiplier", "embedding_multiplier", "scale_emb"})
    LLADA_TRY_STATUS(hf_only(fields, name, {1, 1.0}));
  return {};
}

// The token's id in the first of the files that has it; -1: none.
inline Result<int32_t> one_token(std::initializer_list<const Fields*> files, std::string_view name) {
  for (const Fields* one : files) {
    LLADA_TRY(const auto ids, hf_tokens(*one, name, 1));
    if (!ids.empty()) return ids.front();
  }
  return -1;
}

// Adds the tokens that end an answer, of which each file may list several. eot_id is read before.
inline Status read_ends(std::initializer_list<const Fields*> files, ModelConfig& c) {
  for (const Fields* one : files) {
    LLADA_TRY(const auto ids, hf_tokens(*one, "eos_token_id"));
    if (c.eos_id < 0 && !ids.empty()) c.eos_id = ids.front();
    for (const int32_t id : ids)
      if (id != c.eos_id && id != c.eot_id && std::ranges::count(c.end_ids, id) == 0) c.end_ids.push_back(id);
  }
  return {};
}

}  // namespace llada
