// Which options go together: a table of conditions and messages behind validate() of options.h.
#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "decode/fields.h"
#include "decode/options.h"

namespace llada::decode {
namespace {

struct Asked {
  const DecodeOptions& o;
  bool infill = false;
  const ModelKind& kind;
  int64_t attention_block = kind.attention_block;

  bool fixed_length() const { return !infill && !o.auto_length; }
  int64_t blocks() const { return (o.gen_length - 1) / o.block_length + 1; }
};

// What cannot go together. The refusal reads "KEY: found its value with the values of `with`, WHY", of a switch "KEY:
// found the values of `with`, WHY", without them "KEY: found its value WHY"; {block} is the model's attention block. Of
// several keys it is about the first one that has another value than its default; there is none where all have theirs.
// "tools" and "logit_bias" are no fields, and stand as switches.
struct Conflict {
  std::string_view keys, with;
  bool (*when)(const Asked&);
  std::string_view why;
};

constexpr Conflict kConflicts[] = {
    {"steps", "accept", [](const Asked& a) { return a.o.steps > 0 && !has_schedule(a.o.acceptance); },
     "which decides the number of steps itself; needed 0"},
    {"steps", "gen_length slide",
     [](const Asked& a) { return a.o.steps > 0 && (a.o.slide || (a.o.auto_length && !a.infill)); },
     "where the blocks that share them are not known; needed 0"},
    {"steps", "gen_length block_length",
     [](const Asked& a) { return a.fixed_length() && a.o.steps > 0 && a.o.steps < a.blocks(); },
     "which are more blocks; needed at least one for each"},
    {"remasking", "accept revision mbsd confidence_eos_eot_inf",
     [](const Asked& a) {
       return a.o.remasking == Remasking::random && (a.o.acceptance != Acceptance::schedule || a.o.mbsd ||
                                                     a.o.revision != Revision::none || a.o.confidence_eos_eot_inf);
     },
     "of which one reads confidences; needed low_confidence, or accept schedule alone"},
    {"confidence_eos_eot_inf", "accept",
     [](const Asked& a) { return a.o.confidence_eos_eot_inf && !reads_probability(a.o.acceptance); },
     "which does not read the confidences that it changes; needed another acceptance"},
    {"entropy_gate", "accept", [](const Asked& a) { return a.o.entropy_gate > 0 && has_schedule(a.o.acceptance); },
     "which commits a planned number; needed another acceptance"},
    {"slide", "accept revision",
     [](const Asked& a) {
       return a.o.slide &&
              (a.o.acceptance == Acceptance::llada2 || is_dream(a.o.acceptance) || edits_in_place(a.o.revision));
     },
     "of which one works on blocks that stay where they are; needed neither accept llada2 or dream-* nor revision "
     "edit or levenshtein"},
    {"top_k top_p min_p", "temperature", [](const Asked& a) { return a.o.temperature == 0; },
     "which takes the best token; needed a temperature above 0"},
    {"choice regex json_schema json_object template", "",
     [](const Asked& a) {
       return !a.o.choice.empty() + !a.o.regex.empty() + !a.o.json_schema.empty() + (a.o.json_object > 0) +
                  !a.o.form_template.empty() >
              1;
     },
     "beside another form of the answer; needed one"},
    {"top_k top_p min_p repeat_penalty neighbour_penalty logits_eos_inf confidence_eos_eot_inf", "",
     [](const Asked& a) { return form_of(a.o).has_value(); },
     "where the answer has a form, which decides what may be sampled; needed it left out"},
    {"t_max", "t_min", [](const Asked& a) { return a.o.t_max <= a.o.t_min; },
     "which a canvas ends with; needed a higher temperature to begin with"},
    {"refresh", "kv", [](const Asked& a) { return a.o.refresh > 0 && a.o.kv == KvChoice::none; },
     "which computes everything in every step; needed another kv"},
    {"tail", "", [](const Asked& a) { return a.o.tail >= 0 && a.infill; },
     "for infilling, where the text goes on behind the gap; needed all"},
    {"mbsd", "tail gen_length block_length",
     [](const Asked& a) { return a.o.mbsd && (a.o.tail == 0 || (!a.infill && a.o.block_length >= a.o.gen_length)); },
     "which leave nothing behind the block to draft; needed a tail, and a block to look ahead to"},
    {"early_stop", "gen_length",
     [](const Asked& a) { return a.o.auto_length && !a.infill && a.o.early_stop == EarlyStop::none; },
     "which ends with the answer; needed block or answer"},
    {"slide refresh tail mbsd", "", [](const Asked& a) { return a.attention_block > 0; },
     "with a block-causal model, which sees one block and finished ones, whose K/V stays right; needed it left out"},
    {"accept", "", [](const Asked& a) { return a.o.acceptance == Acceptance::causal && a.attention_block == 0; },
     "with full attention, where no position is without those behind it; needed a block-causal model"},
    {"revision entropy_gate cfg_scale repeat_penalty neighbour_penalty choice regex json_schema json_object template "
     "tools",
     "accept",
     [](const Asked& a) {
       return a.o.acceptance == Acceptance::causal &&
              (a.o.revision != Revision::none || a.o.entropy_gate > 0 || a.o.cfg_scale > 0 || a.o.repeat_penalty != 1 ||
               a.o.neighbour_penalty > 0 || form_of(a.o).has_value());
     },
     "which keeps what a causal forward says as it is; needed it left out"},
    {"kv", "accept",
     [](const Asked& a) {
       return a.o.acceptance == Acceptance::causal && a.o.kv != KvChoice::none && a.o.kv != KvChoice::block;
     },
     "whose K/V is causal; needed none or block"},
    {"revision cfg_scale neighbour_penalty", "",
     [](const Asked& a) {
       return a.kind.keeps_finished() &&
              (a.o.revision != Revision::none || a.o.cfg_scale > 0 || a.o.neighbour_penalty > 0);
     },
     "with a model that reads finished text causally; needed it left out"},
    {"kv", "",
     [](const Asked& a) { return a.kind.keeps_finished() && a.o.kv != KvChoice::none && a.o.kv != KvChoice::block; },
     "with a model that reads finished text causally, whose K/V is exact; needed none or block"},
    {"steps", "", [](const Asked& a) { return a.kind.decided_first && a.o.steps > 0; },
     "with a model whose window moves with what is decided; needed 0"},
    {"accept", "",
     [](const Asked& a) {
       return a.kind.decided_first && (a.o.acceptance == Acceptance::llada2 || is_dream(a.o.acceptance) ||
                                       a.o.acceptance == Acceptance::causal);
     },
     "with a model whose window moves with what is decided; needed schedule, threshold, factor, entropy or wedlm"},
    {"infill", "", [](const Asked& a) { return a.attention_block > 0 && a.infill; },
     "a block-causal model does not see the text behind a gap's block; needed a model with full attention"},
    {"block_length", "",
     [](const Asked& a) {
       return a.attention_block > 0 &&
              (a.o.block_length > a.attention_block || a.attention_block % a.o.block_length != 0);
     },
     "with a block-causal model of blocks of {block}; needed {block}, or a divisor of it"},
    {"kv", "",
     [](const Asked& a) {
       return a.attention_block > 0 && a.o.kv != KvChoice::none && a.o.kv != KvChoice::block &&
              a.o.kv != KvChoice::frozen;
     },
     "with a block-causal model, whose finished blocks are exact; needed none, block or frozen"},
    {"revision", "kv",
     [](const Asked& a) {
       return a.attention_block > 0 && a.o.kv == KvChoice::frozen && a.o.revision != Revision::none;
     },
     "which freezes what a block-causal model revises; needed none, or kv block"},
    {"temperature cfg_scale repeat_penalty neighbour_penalty entropy_gate choice regex json_schema json_object "
     "template tools logit_bias",
     "revision", [](const Asked& a) { return a.o.revision == Revision::levenshtein; },
     "which takes the best tokens, as the model ranks them; needed it left out"},
    {"revision", "", [](const Asked& a) { return a.o.revision == Revision::levenshtein && !a.kind.moves_text; },
     "with a model that has no tokens for deletions and insertions; needed edit, or a model that has them (LLaDA2.2)"},
    {"revision", "",
     [](const Asked& a) { return a.o.revision == Revision::levenshtein && a.o.acceptance != Acceptance::threshold; },
     "with a rule that decides masks in another way; needed accept threshold"},
    {"revision", "", [](const Asked& a) { return a.o.revision == Revision::dual_path && a.kind.whole_blocks; },
     "with a model whose blocks choose experts together, so that no row is computed alone; needed another"},
    {"kv", "", [](const Asked& a) { return a.o.kv == KvChoice::frozen && a.kind.whole_blocks; },
     "with a model whose blocks choose experts together, so that no row is computed alone; needed none or block"},
    {"revise_lateness", "revise_path",
     [](const Asked& a) { return a.o.revise_lateness != 0 && a.o.revise_path == RevisePath::fused; },
     "whose results come with the step's own; needed revise_path separate"},
};

// As an error quotes it. A text may be long and may hold line ends, so that it is not shown.
std::string found_of(const Field& f, const DecodeOptions& o) { return f.text ? "a text" : f.show(f, o); }

bool is_asked(const DecodeOptions& o, std::string_view key) {
  if (key == "tools") return !o.tools.empty();
  if (key == "logit_bias") return !o.logit_bias.empty();
  return *get_field(o, key) != *get_field({}, key);
}

// The key that the conflict is about; empty: none.
std::string_view key_in(const Conflict& c, const Asked& asked) {
  if (!c.when(asked)) return {};
  if (!c.keys.contains(' ')) return c.keys;
  for (const auto part : std::views::split(c.keys, ' ')) {
    const std::string_view key(part.begin(), part.end());
    if (is_asked(asked.o, key)) return key;
  }
  return {};
}

Status check_conflicts(const Asked& asked) {
  for (const Conflict& c : kConflicts) {
    const std::string_view key = key_in(c, asked);
    if (key.empty()) continue;
    const Field* field = find_field(key);
    if (field == nullptr && c.with.empty()) return invalid("{}: {}", key, c.why);
    // That a switch is on goes without saying.
    const bool is_switch = field == nullptr || (field->is_switch() && !c.with.empty());
    std::string found = is_switch ? "" : found_of(*field, asked.o), why(c.why);
    const char* before = is_switch ? "" : " with ";
    for (const auto part : std::views::split(c.with, ' ')) {
      const std::string_view other(part.begin(), part.end());
      if (other.empty()) continue;
      found += fmt::format("{}{} {}", std::exchange(before, ", "), other, *get_field(asked.o, other));
    }
    constexpr std::string_view kBlock = "{block}";
    for (size_t at = 0; (at = why.find(kBlock)) != std::string::npos;)
      why.replace(at, kBlock.size(), fmt::format("{}", asked.attention_block));
    return invalid("{}: found {}{} {}", key, found, c.with.empty() ? "" : ",", why);
  }
  return {};
}

// Canvases of random tokens have options of their own, and few of the others.
Status check_kind(const DecodeOptions& o, bool infill, const ModelKind& kind) {
  constexpr std::string_view kBoth[] = {"gen_length",    "temperature", "seed",    "early_stop",
                                        "entropy_bound", "accept",      "choice",  "regex",
                                        "json_schema",   "json_object", "template"};
  const bool uniform = kind.uniform.length > 0;
  if (uniform && infill)
    return invalid("infill: a model whose canvases hold random tokens writes behind a prompt only; needed no gap");
  for (const Field& f : fields()) {
    if (f.show == nullptr || f.show(f, o) == f.show(f, {})) continue;
    if (!uniform && f.group == FieldGroup::random_canvas)
      return invalid("{}: found {}, which is for models whose canvases hold random tokens; needed it left out", f.key,
                     found_of(f, o));
    if (uniform && f.group != FieldGroup::random_canvas &&
        (std::ranges::find(kBoth, f.key) == std::end(kBoth) ||
         (f.key == "accept" && o.acceptance != Acceptance::entropy)))
      return invalid(
          "{}: found {} with a model whose canvases hold random tokens, which are decided in a way of their "
          "own; needed it left out",
          f.key, found_of(f, o));
  }
  return {};
}

}  // namespace

Status validate(const DecodeOptions& o, bool infill, const ModelKind& kind) {
  LLADA_TRY_STATUS(check_fields(o, infill));
  LLADA_TRY_STATUS(check_kind(o, infill, kind));
  return check_conflicts({o, infill, kind});
}

}  // namespace llada::decode
