#include "decode/answer.h"

#include <algorithm>

#include "decode/canvas.h"
#include "decode/field_entry.h"

namespace llada::decode {
namespace {

bool is_final(TokenState state) { return state == TokenState::fixed || state == TokenState::stable; }
bool is_decided(TokenState state) { return state == TokenState::visible || state == TokenState::stable; }

}  // namespace

std::span<const Field> ending_fields() {
  using O = EndingOptions;
  using enum FieldGroup;
  // clang-format off
  static const Field kFields[] = {
    field<&O::early_stop>(ending, "early_stop", "WHEN",
        "when to stop: no mask is left, the block of an end token is done, or the answer is final").often(),
    field<&O::logits_eos_inf>(ending, "logits_eos_inf", "", "never sample the end-of-sequence token"),
    field<&O::confidence_eos_eot_inf>(ending, "confidence_eos_eot_inf", "", "decide end tokens last"),
  };
  // clang-format on
  return kFields;
}

int64_t first_end(const Canvas& canvas, int64_t begin, int64_t end, std::span<const int32_t> end_ids) {
  for (int64_t p = begin; p < end; ++p) {
    const auto i = static_cast<size_t>(p);
    if (is_decided(canvas.states[i]) && std::ranges::find(end_ids, canvas.tokens[i]) != end_ids.end()) return p;
  }
  return end;
}

int64_t answer_length(const Canvas& canvas, int64_t begin, std::span<const int32_t> end_ids) {
  return first_end(canvas, begin, canvas.answer_end(), end_ids) - begin;
}

int64_t content_tokens(const Canvas& canvas, const SpecialIds& ids) {
  const int64_t begin = generated_begin(canvas);
  const int64_t end = canvas.infill ? canvas.size() : first_end(canvas, begin, canvas.answer_end(), ids.end_ids);
  return std::count_if(canvas.states.begin() + begin, canvas.states.begin() + end, is_decided);
}

int64_t final_length(const Canvas& canvas, int64_t begin) {
  const auto from = canvas.states.begin() + begin;
  return std::find_if_not(from, canvas.states.end(), is_final) - from;
}

bool length_is_final(const Canvas& canvas) {
  const int64_t begin = generated_begin(canvas);
  return canvas.padding > 0 && begin + final_length(canvas, begin) >= canvas.answer_end();
}

bool answer_is_final(const Canvas& canvas, const SpecialIds& ids) {
  if (canvas.infill) return false;
  if (length_is_final(canvas)) return true;
  const int64_t begin = generated_begin(canvas);
  const int64_t end = begin + final_length(canvas, begin);
  return first_end(canvas, begin, end, ids.end_ids) < end;
}

std::vector<Edit> canonical_tail(Canvas& canvas, const SpecialIds& ids) {
  std::vector<Edit> edits;
  if (!answer_is_final(canvas, ids)) return edits;
  const int64_t end = first_end(canvas, generated_begin(canvas), canvas.answer_end(), ids.end_ids);
  if (ids.eos < 0 && end == canvas.answer_end()) return edits;
  const int32_t filler = ids.eos >= 0 ? ids.eos : canvas.tokens[static_cast<size_t>(end)];
  for (int64_t p = std::min(end + 1, canvas.answer_end()); p < canvas.size(); ++p) {
    const auto i = static_cast<size_t>(p);
    if (canvas.states[i] == TokenState::fixed) continue;
    if (canvas.tokens[i] == filler && canvas.states[i] == TokenState::stable) continue;
    canvas.tokens[i] = filler;
    canvas.states[i] = TokenState::stable;
    edits.push_back({static_cast<int32_t>(p), filler, TokenState::stable, 1.0});
  }
  return edits;
}

}  // namespace llada::decode
