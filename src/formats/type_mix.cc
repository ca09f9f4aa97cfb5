#include "formats/type_mix.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

namespace llada {
namespace {

// Eight experts: such a model's attention is small beside them, and can have more bits.
constexpr int64_t kFewExperts = 8;

constexpr TypeMix kMixes[] = {
    {"f32", DType::F32, 0, MixRule::none},        {"f16", DType::F16, 1, MixRule::none},
    {"bf16", DType::BF16, 32, MixRule::none},     {"q8_0", DType::Q8_0, 7, MixRule::none},
    {"q6_k", DType::Q6_K, 18, MixRule::q6_k},     {"q5_k_m", DType::Q5_K, 17, MixRule::q5_k_m},
    {"q5_k_s", DType::Q5_K, 16, MixRule::q5_k_s}, {"q5_1", DType::Q5_1, 9, MixRule::none},
    {"q5_0", DType::Q5_0, 8, MixRule::none},      {"q4_k_m", DType::Q4_K, 15, MixRule::q4_k_m},
    {"q4_k_s", DType::Q4_K, 14, MixRule::q4_k_s}, {"q4_1", DType::Q4_1, 3, MixRule::none},
    {"q4_0", DType::Q4_0, 2, MixRule::none},      {"iq4_nl", DType::IQ4_NL, 25, MixRule::iq4},
    {"iq4_xs", DType::IQ4_XS, 30, MixRule::iq4},  {"q3_k_l", DType::Q3_K, 13, MixRule::q3_k_l},
    {"q3_k_m", DType::Q3_K, 12, MixRule::q3_k_m}, {"q3_k_s", DType::Q3_K, 11, MixRule::q3_k_s},
    {"q2_k", DType::Q2_K, 10, MixRule::q2_k},
};

// Names that llama.cpp's quantizer takes too.
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"q3_k", "q3_k_m"}, {"q4_k", "q4_k_m"}, {"q5_k", "q5_k_m"}};

bool fits(const Shape& shape, DType type) { return shape.columns() % traits(type).elements == 0; }

int64_t layer_of(std::string_view name) {  // "blk.3.ffn_down.weight"
  int64_t layer = 0;
  if (name.starts_with("blk.")) std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}

}  // namespace

bool gets_more_bits(int64_t layer, int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

DType in_smaller_groups(DType type) {
  switch (type) {
    case DType::Q2_K:
    case DType::Q3_K:
    case DType::TQ1_0:
    case DType::TQ2_0:
      return DType::Q4_0;
    case DType::Q4_K:
      return DType::Q5_0;
    case DType::Q5_K:
      return DType::Q5_1;
    case DType::Q6_K:
      return DType::Q8_0;
    default:
      return traits(type).elements == 256 ? DType::IQ4_NL : type;
  }
}

std::span<const TypeMix> type_mixes() { return kMixes; }

const TypeMix* find_type_mix(std::string_view name) {
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == b; };
  for (const auto& [alias, mix] : kAliases)
    if (std::ranges::equal(name, alias, same)) name = mix;
  const auto* mix =
      std::ranges::find_if(kMixes, [&](const TypeMix& m) { return std::ranges::equal(name, m.name, same); });
  return mix == std::end(kMixes) ? nullptr : mix;
}

std::string type_mix_names(std::string_view between, std::string_view before_last) {
  std::string names;
  for (const TypeMix& mix : kMixes)
    names.append(&mix == kMixes ? "" : &mix == std::end(kMixes) - 1 ? before_last : between).append(mix.name);
  return names;
}

DType TypeChooser::of_values() {
  const int64_t at = values_seen_++;
  const bool shared = config_.heads >= 4 * config_.kv_heads;  // four queries or more read one value
  if (config_.experts == kFewExperts) return DType::Q8_0;
  switch (mix_.rule) {
    case MixRule::q2_k:
      return shared ? DType::Q4_K : DType::Q3_K;
    case MixRule::q3_k_m:
      return at < 2 ? DType::Q5_K : DType::Q4_K;
    case MixRule::q3_k_l:
      return DType::Q5_K;
    case MixRule::iq4:
      return shared ? DType::Q5_K : mix_.type;
    case MixRule::q4_k_m:
    case MixRule::q5_k_m:
      return gets_more_bits(at, value_matrices_) ? DType::Q6_K : mix_.type;
    case MixRule::q4_k_s:
      return at < 4 ? DType::Q5_K : mix_.type;
    default:
      return mix_.type;
  }
}

DType TypeChooser::of_attention_output() const {
  if (config_.experts == kFewExperts) {
    const bool low = mix_.type != DType::Q5_K && mix_.type != DType::Q6_K && mix_.rule != MixRule::q3_k_l;
    return low ? DType::Q5_K : mix_.type;
  }
  switch (mix_.rule) {
    case MixRule::q2_k:
      return DType::Q3_K;
    case MixRule::q3_k_m:
      return DType::Q4_K;
    case MixRule::q3_k_l:
      return DType::Q5_K;
    default:
      return mix_.type;
  }
}

DType TypeChooser::of_down(int64_t layer) const {
  switch (mix_.rule) {
    case MixRule::q2_k:
      return DType::Q3_K;
    case MixRule::q3_k_m:
      return layer < config_.layers / 16 ? DType::Q5_K : DType::Q4_K;
    case MixRule::q3_k_l:
      return DType::Q5_K;
    case MixRule::q4_k_m:
    case MixRule::q5_k_m:
      return gets_more_bits(layer, config_.layers) ? DType::Q6_K : mix_.type;
    case MixRule::iq4:
      return layer < config_.layers / 8 && !weighted_ ? DType::Q5_K : mix_.type;
    case MixRule::q4_k_s:
      return layer < config_.layers / 8 ? DType::Q5_K : mix_.type;
    default:
      return mix_.type;
  }
}

DType TypeChooser::preferred(std::string_view name, const Shape& shape) {
  const auto is = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (name == "output.weight" || (name == "token_embd.weight" && config_.tied_head))
    return fits(shape, mix_.type) ? DType::Q6_K : DType::Q8_0;
  if (is("attn_v.weight")) return of_values();
  if (is("attn_k.weight")) return config_.experts == kFewExperts ? DType::Q8_0 : mix_.type;
  if (is("attn_output.weight")) return of_attention_output();
  if (is("ffn_down")) return of_down(layer_of(name));
  return mix_.type;
}

DType TypeChooser::choose(std::string_view name, const Shape& shape) {
  if (mix_.rule == MixRule::none) return fits(shape, mix_.type) ? mix_.type : DType::F16;
  const DType wanted = preferred(name, shape);
  if (fits(shape, wanted)) return wanted;
  ++fallbacks_;
  return fits(shape, in_smaller_groups(wanted)) ? in_smaller_groups(wanted) : DType::F16;
}

}  // namespace llada
