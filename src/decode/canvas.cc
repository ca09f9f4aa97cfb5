#include "decode/canvas.h"

#include <algorithm>

#include "base/check.h"
#include "base/fnv.h"
#include "decode/sampling.h"

namespace llada::decode {
namespace {

void add(std::vector<int32_t>& ids, int32_t id) {
  if (id >= 0 && std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
}

}  // namespace

int64_t generation_size(int64_t prompt_tokens, int64_t gen_length, const SpecialIds& ids, int64_t context) {
  if (ids.uniform.length > 0) return prompt_tokens + ids.uniform.holding(gen_length);
  const int64_t block = std::max<int64_t>(ids.attention_block, 1), before = ids.causal_text ? prompt_tokens : 0;
  const int64_t asked = prompt_tokens + gen_length;
  if (ids.prompt_ends_block || ids.cuts_last_block) return asked;
  if (ids.decided_first) {  // a window at the last position too
    const int64_t whole = asked + block - 1;
    return context > 0 ? std::max(asked, std::min(whole, context)) : whole;
  }
  const int64_t behind = prompt_tokens - before + gen_length;
  return before + (behind + block - 1) / block * block;
}

Canvas lay_generation(std::span<const int32_t> prompt, int64_t gen_length, const SpecialIds& ids, int64_t context) {
  LLADA_CHECK(gen_length >= 1 && gen_length <= kMaxGenLength);
  const auto given = static_cast<int64_t>(prompt.size());
  const auto size = static_cast<size_t>(generation_size(given, gen_length, ids, context));
  Canvas canvas;
  canvas.mask_id = ids.uniform.length > 0 ? -1 : ids.mask;
  canvas.padding = static_cast<int64_t>(size) - given - gen_length;
  canvas.tokens.reserve(size);
  canvas.tokens.assign(prompt.begin(), prompt.end());
  canvas.tokens.resize(size, ids.uniform.length > 0 ? 0 : ids.mask);
  canvas.states.assign(prompt.size(), TokenState::fixed);
  canvas.states.resize(size, TokenState::masked);
  return canvas;
}

Canvas fixed_canvas(std::span<const int32_t> tokens) {
  return {.tokens = {tokens.begin(), tokens.end()}, .states = std::vector(tokens.size(), TokenState::fixed)};
}

Result<Canvas> lay_infill(std::span<const int32_t> template_tokens, std::span<const int32_t> gap_positions,
                          const SpecialIds& ids) {
  if (gap_positions.empty()) return invalid("infill: found no gap, needed at least one");
  Canvas canvas;
  canvas.mask_id = ids.mask;
  canvas.infill = true;
  canvas.tokens.assign(template_tokens.begin(), template_tokens.end());
  canvas.states.assign(template_tokens.size(), TokenState::fixed);
  for (const int32_t position : gap_positions) {
    if (position < 0 || position >= canvas.size()) {
      return invalid("infill: found a gap at position {}, needed 0 to {}", position, canvas.size() - 1);
    }
    const auto index = static_cast<size_t>(position);
    if (canvas.states[index] == TokenState::masked)
      return invalid("infill: found position {} twice among the gaps", position);
    canvas.tokens[index] = ids.mask;
    canvas.states[index] = TokenState::masked;
  }
  return canvas;
}

SamplingRule head_rule(const DecodeOptions& options, const SpecialIds& ids, bool infill) {
  SamplingRule rule;
  // Random canvases have draws of their own (StepPlan::draws).
  rule.temperature = ids.uniform.length > 0 ? 0 : options.temperature;
  rule.seed = options.seed;
  rule.fixed_noise = draws_once(options);
  if (ids.uniform.length == 0) add(rule.never_sampled, ids.mask);
  if (options.revision != Revision::levenshtein)
    add(rule.never_sampled, ids.delete_id), add(rule.never_sampled, ids.split_id);
  if (options.logits_eos_inf) {
    add(rule.never_sampled, ids.eos);
    add(rule.out_of_softmax, ids.eos);
  }
  if (infill) {
    for (auto* list : {&rule.never_sampled, &rule.out_of_softmax}) {
      add(*list, ids.eos);
      add(*list, ids.eot);
      for (const int32_t id : ids.end_ids) add(*list, id);
    }
  }
  if (options.confidence_eos_eot_inf) {
    if (options.temperature == 0) add(rule.out_of_softmax, ids.eos);
    add(rule.out_of_softmax, ids.eot);
  }
  std::ranges::sort(rule.never_sampled);
  std::ranges::sort(rule.out_of_softmax);
  return rule;
}

int64_t generated_begin(const Canvas& canvas) {
  return std::ranges::find_if(canvas.states, [](TokenState s) { return s != TokenState::fixed; }) -
         canvas.states.begin();
}

std::vector<int32_t> tokens_at(const Canvas& canvas, std::span<const int32_t> positions) {
  std::vector<int32_t> tokens;
  tokens.reserve(positions.size());
  for (const int32_t p : positions) tokens.push_back(canvas.tokens[static_cast<size_t>(p)]);
  return tokens;
}

Trial trial_of(const Canvas& canvas, int32_t position, int32_t row) {
  if (row == position) return {.rows = {position}, .inputs = {canvas.undecided_token()}, .logits = row};
  return {.rows = {row, position},
          .inputs = {canvas.tokens[static_cast<size_t>(row)], canvas.undecided_token()},
          .logits = row};
}

int64_t count_masked(const Canvas& canvas) { return std::ranges::count(canvas.states, TokenState::masked); }

uint64_t canvas_hash(const Canvas& canvas) {
  Fnv fnv;
  for (const int32_t token : canvas.tokens) fnv.add_little_endian(static_cast<uint32_t>(token));
  return fnv.hash();
}

}  // namespace llada::decode
