#include "formats/family.h"

#include <algorithm>
#include <vector>

namespace llada {

std::span<const Family* const> families() {
  static const std::vector<const Family*> all = [] {
    std::vector<const Family*> list = {&kLladaFamily, &kLladaMoeFamily, &kLlada2Family, &kDreamFamily};
    for (const auto more : {qwen_families(), llama_families()})
      for (const Family& one : more) list.push_back(&one);
    list.push_back(&kDiffusionGemmaFamily);
    return list;
  }();
  return all;
}

std::string_view missing_for(std::string_view name) {
  struct Missing {
    std::string_view name, what;
  };
  constexpr std::string_view kClover = "Gated DeltaNet layers, with a recurrent state that is kept for each block";
  constexpr Missing kMissing[] = {
      {"clover_moe", kClover},
  };
  const auto found = std::ranges::find(kMissing, name, &Missing::name);
  return found == std::end(kMissing) ? std::string_view() : found->what;
}

ModelConfig config_of(const Family& family) {
  ModelConfig c;
  c.family = &family;
  c.shift_logits = family.shift_logits;
  c.attention_block = family.attention_block;
  c.causal_text = family.causal_text;
  c.decided_first = family.decided_first;
  c.prompt_ends_block = family.prompt_ends_block;
  c.cuts_last_block = family.cuts_last_block;
  return c;
}

const Family* find_family(std::string_view name) {
  const auto found = std::ranges::find(families(), name, &Family::name);
  return found == families().end() ? nullptr : *found;
}

}  // namespace llada
