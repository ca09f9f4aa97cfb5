#include "formats/gguf_fields.h"

namespace llada {
namespace {

// Behind the architecture's name; another value than these asks for a computation that is not done.
struct Neutral {
  std::string_view leaf;
  double value, also;
};
constexpr Neutral kNeutral[] = {{"attention.clamp_kqv", 0, 0},
                                {"attention.max_alibi_bias", 0, 0},
                                {"attention.output_scale", 0, 1},
                                {"attention.scale", 0, 0},
                                {"attention.shared_kv_layers", 0, 0},
                                {"attention.sliding_window", 0, 0},
                                {"attention.temperature_scale", 0, 0},
                                {"attention.value_scale", 0, 1},
                                {"attn_logit_softcapping", 0, 0},
                                {"embedding_length_per_layer_input", 0, 0},
                                {"embedding_scale", 0, 1},
                                {"expert_capacity", 0, 0},
                                {"expert_count", 0, 0},
                                {"expert_gating_func", 0, 1},
                                {"expert_group_count", 0, 1},
                                {"expert_shared_count", 0, 0},
                                {"expert_weights_scale", 0, 1},
                                {"final_logit_softcapping", 0, 0},
                                {"leading_dense_block_count", 0, 0},
                                {"logit_scale", 0, 1},
                                {"nextn_predict_layers", 0, 0},
                                {"residual_scale", 0, 1},
                                {"rope.scale_linear", 0, 1},
                                {"rope.scaling.attn_factor", 0, 1},
                                {"rope.scaling.factor", 0, 1},  // llama.cpp scales linearly where there is no type
                                {"router_logit_softcapping", 0, 0},
                                {"swin_norm", 0, 0},
                                {"use_parallel_residual", 0, 0}};

// These say nothing that the tensors do not, or say how training went.
constexpr std::string_view kHarmless[] = {"feed_forward_length", "rope.scaling.finetuned",
                                          "rope.scaling.original_context_length", "tensor_data_layout", "vocab_size"};

// This project's own keys, which begin as those of the architecture llada do.
constexpr std::string_view kOwn[] = {kKeyRegexes,  kKeyNfc,     kKeyIgnoreMerges, kKeyEndIds,
                                     kKeyDeleteId, kKeySplitId, kKeySingleTurn,   kKeyRenormalise};

}  // namespace

Status GgufFields::finish(const std::string& prefix, std::vector<std::string>& notes) const {
  constexpr size_t kNamed = 4;
  std::vector<std::string> unknown;
  size_t more = 0;
  for (const GgufValue& value : file_.values()) {
    if (!value.key.starts_with(prefix) || std::ranges::count(asked_, value.key) > 0) continue;
    const std::string key(value.key);
    const std::string_view leaf = value.key.substr(prefix.size());
    const auto known = std::ranges::find(kNeutral, leaf, &Neutral::leaf);
    if (leaf == "rope.scaling.type") {
      LLADA_TRY(const auto type, string(key));
      if (type != "none" && type != "linear") return invalid("{}: {} is {}, none needed", name_, key, printable(type));
    } else if (known == std::end(kNeutral)) {
      if (std::ranges::count(kHarmless, leaf) + std::ranges::count(kOwn, value.key) > 0) continue;
      if (unknown.size() == kNamed)
        ++more;
      else
        unknown.emplace_back(printable(key));
    } else if (value.type == GgufType::boolean) {
      LLADA_TRY_STATUS(off(key));
    } else if (known->value == known->also) {
      LLADA_TRY_STATUS(neutral(key, {known->value}));
    } else {
      LLADA_TRY_STATUS(neutral(key, {known->value, known->also}));
    }
  }
  if (!unknown.empty())
    notes.push_back(fmt::format("ignored metadata: {}{}", fmt::join(unknown, ", "),
                                more > 0 ? fmt::format(" and {} more", more) : ""));
  return {};
}

}  // namespace llada
