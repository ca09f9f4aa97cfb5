// Which options go together: a table of the things that models, texts and ways of decoding lack, behind validate() of
// options.h.
#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <vector>

#include "decode/fields.h"
#include "decode/options.h"

namespace llada::decode {
namespace {

struct Combination {
  const DecodeOptions& o;
  bool infill = false;
  const ModelKind& kind;
  int64_t attention_block = kind.attention_block;

  // 0: an infilled text, whose blocks gen_length (unchecked there) says nothing about.
  int64_t blocks() const { return infill ? 0 : (o.gen_length - 1) / o.block_length + 1; }
};

// Options that cannot be had, and beside which. keys: at another value than their default; KEY=A|B: at these; KEY!: at
// any. with: other options by key, or a kind of model or of text. "tools", "logit_bias" and "infill" are no fields, and
// stand as switches. reason, need: of this case, where its row's text names them.
struct Case {
  std::string_view keys, with;
  bool (*when)(const Combination&) = nullptr;
  std::string_view reason = {}, need = {};
};

// One missing capability and every option that needs it. A refusal reads "KEY: found its value with WITH, WHY"; of a
// switch beside other options "KEY: found WITH, WHY". {reason}, {need}: the case's own; {key}: the option; {values}:
// its other possible values; {with}: the possible values of the first of the others. {others}: the case's other keys
// that are asked for; {blocks}: their number; {block}: the model's attention block. The first case that holds speaks,
// so kinds of models come first: another value helps nobody whose model has no use for the option.
struct Refusal {
  std::string_view why;
  Case cases[9];
  bool of_model = false;  // as in Refused
};
constexpr bool kOfModel = true;

constexpr Case kBesideFullAttention = {"accept=causal", "full attention",
                                       [](const Combination& a) { return a.attention_block == 0; }};

constexpr Refusal kRefusals[] = {
    // Kinds of models.
    {"where every position reads those behind it, too; needed a block-causal model, or {values}",
     {kBesideFullAttention},
     kOfModel},
    {"as LLaDA2.2 has; needed {values}",
     {{"revision=levenshtein", "a model that has no tokens for deletions and insertions",
       [](const Combination& a) { return !a.kind.moves_text; }}},
     kOfModel},
    {"which sees nothing behind the current block, and whose finished blocks have exact K/V; needed {values}",
     {{"slide refresh_after tail kv=prefix|dual", "a block-causal model",
       [](const Combination& a) { return a.attention_block > 0; }}},
     kOfModel},
    {"so that its K/V is final; needed {values}",
     {{"revision cfg_scale neighbour_penalty mbsd kv=frozen", "a model that reads finished text causally",
       [](const Combination& a) { return a.kind.keeps_finished(); }}},
     kOfModel},
    {"which does not see the text behind a gap; needed a model with full attention",
     {{"infill", "a block-causal model", [](const Combination& a) { return a.attention_block > 0; }},
      {"infill", "a model whose canvases hold random tokens",
       [](const Combination& a) { return a.kind.uniform.length > 0; }}},
     kOfModel},
    {"; needed {block}, or a divisor of it",
     {{"block_length!", "a block-causal model of blocks of {block}",
       [](const Combination& a) {
         return a.attention_block > 0 &&
                (a.o.block_length > a.attention_block || a.attention_block % a.o.block_length != 0);
       }}},
     kOfModel},
    {"so that no row is computed alone; needed {values}",
     {{"revision=dual-path kv=frozen", "a model whose blocks choose experts together",
       [](const Combination& a) { return a.kind.whole_blocks; }}},
     kOfModel},
    // Ways of decoding.
    {"which keeps a causal forward's tokens as they are; needed {values}",
     {{"revision mbsd entropy_gate cfg_scale repeat_penalty neighbour_penalty choice regex json_schema json_object "
       "template tools",
       "accept", [](const Combination& a) { return a.o.acceptance == Acceptance::causal; }}}},
    {"which takes the best tokens, as the model ranks them; needed {values}",
     {{"temperature cfg_scale repeat_penalty neighbour_penalty entropy_gate choice regex json_schema json_object "
       "template tools logit_bias",
       "revision", [](const Combination& a) { return a.o.revision == Revision::levenshtein; }}}},
    {"which freezes tokens that a block-causal model revises; needed none, or {with}",
     {{"revision", "kv", [](const Combination& a) { return a.attention_block > 0 && a.o.kv == KvChoice::frozen; }}}},
    {"; needed accept threshold",
     {{"revision=levenshtein", "a rule that decides masks in another way",
       [](const Combination& a) { return a.o.acceptance != Acceptance::threshold; }}}},
    {"{reason}, so that {key} would change nothing; needed {need}",
     {{"steps", "accept", [](const Combination& a) { return !has_schedule(a.o.acceptance); },
       "which decides itself how many tokens a step keeps", "{with}"},
      {"confidence_eos_eot_inf", "accept", [](const Combination& a) { return !reads_probability(a.o.acceptance); },
       "which does not read confidences", "{with}"},
      {"top_k top_p min_p", "temperature", [](const Combination& a) { return a.o.temperature == 0; },
       "which always takes the best token", "temperature above 0"},
      {"refresh_after", "kv", [](const Combination& a) { return a.o.kv == KvChoice::none; },
       "which computes everything in every step", "{with}"},
      {"mbsd", "tail", [](const Combination& a) { return a.o.tail == 0; },
       "which leaves nothing behind the block to draft", "tail all, or above 0"},
      {"mbsd", "gen_length block_length",
       [](const Combination& a) { return !a.infill && a.o.block_length >= a.o.gen_length; },
       "which leaves nothing behind the block to draft", "block_length below gen_length"}}},
    // One plans ahead, by blocks or a number of tokens, and the other decides from step to step.
    {"{reason}; needed {need}",
     {{"steps accept=llada2|dream-entropy|dream-margin|dream-maskgit|causal", "a window that begins at the first mask",
       [](const Combination& a) { return a.kind.decided_first; },
       "so that no block stays in its place to be planned or confirmed", "{values}"},
      {"steps", "slide", [](const Combination& a) { return a.o.slide; },
       "with which no block stays in its place to have a share of the steps", "{values}, or slide false"},
      {"steps", "gen_length", [](const Combination& a) { return a.o.auto_length && !a.infill; },
       "which leaves open how many blocks share the steps", "{values}, or a number for gen_length"},
      {"early_stop=none", "gen_length", [](const Combination& a) { return a.o.auto_length && !a.infill; },
       "which goes on until the answer ends", "{values}, or a number for gen_length"},
      {"slide", "accept",
       [](const Combination& a) { return is_dream(a.o.acceptance) || a.o.acceptance == Acceptance::llada2; },
       "which plans the steps of a block that stays in its place", "{with}, or slide false"},
      {"slide", "revision", [](const Combination& a) { return edits_in_place(a.o.revision); },
       "which changes the tokens of a block that stays in its place", "{with}, or slide false"},
      {"mbsd", "revision", [](const Combination& a) { return a.attention_block > 0 && edits_in_place(a.o.revision); },
       "which edits a block-causal model's blocks one after the other", "{with}"},
      {"entropy_gate", "accept", [](const Combination& a) { return has_schedule(a.o.acceptance); },
       "which keeps a planned number of tokens in every step", "{with}"},
      {"kv=frozen", "accept", [](const Combination& a) { return a.o.acceptance == Acceptance::causal; },
       "whose causal forwards write the K/V for good", "{values}"}}},
    {"which are {blocks} blocks; needed {blocks} at least",
     {{"steps", "gen_length block_length",
       [](const Combination& a) { return !a.infill && !a.o.auto_length && a.o.steps < a.blocks(); }}}},
    {"another form of the answer; needed one alone",
     {{"choice regex json_schema json_object template", "{others}",
       [](const Combination& a) {
         return !a.o.choice.empty() + !a.o.regex.empty() + !a.o.json_schema.empty() + (a.o.json_object > 0) +
                    !a.o.form_template.empty() >
                1;
       }}}},
    {"which decides which tokens may be sampled; needed it left out",
     {{"top_k top_p min_p repeat_penalty neighbour_penalty logits_eos_inf confidence_eos_eot_inf",
       "a form of the answer", [](const Combination& a) { return form_of(a.o).has_value(); }}}},
    {"where the text goes on behind the gap; needed all",
     {{"tail", "infilling", [](const Combination& a) { return a.infill; }}}},
};

// As an error quotes it. A text may be long and may hold line ends, so that it is not shown.
std::string found_of(const Field& f, const DecodeOptions& o) { return f.text ? "a text" : f.show(f, o); }

std::vector<std::string_view> parts_of(std::string_view text, char between) {
  std::vector<std::string_view> parts;
  for (const auto part : std::views::split(text, between)) parts.emplace_back(part.begin(), part.end());
  return parts;
}

// The first of the case's keys that is asked for and that `only` allows; empty: none.
std::string_view key_in(const Case& c, const Combination& asked, std::string_view only = {}) {
  if (c.when == nullptr || !c.when(asked)) return {};
  for (const std::string_view entry : parts_of(c.keys, ' ')) {
    const size_t end = std::min(entry.find_first_of("=!"), entry.size());
    const std::string_view key = entry.substr(0, end), values = entry.substr(end);
    if (!only.empty() && key != only) continue;
    if (key == "tools"        ? !asked.o.tools.empty()
        : key == "logit_bias" ? !asked.o.logit_bias.empty()
        : key == "infill"     ? asked.infill
        : values == "!"       ? true
        : values.empty()      ? *get_field(asked.o, key) != *get_field({}, key)
                              : std::ranges::count(parts_of(values.substr(1), '|'), *get_field(asked.o, key)) > 0)
      return key;
  }
  return {};
}

// Whether the case refuses the option, or another one because of it.
bool is_about(const Case& c, std::string_view key, const Combination& asked) {
  return !key_in(c, asked, key).empty() ||
         (std::ranges::count(parts_of(c.with, ' '), key) > 0 && !key_in(c, asked).empty());
}

// The values that an option can have, with all others as they are, so that neither it nor `key` is refused.
std::string values_left(const Combination& asked, const Field* field, std::string_view key) {
  if (field == nullptr || field->words.empty()) return "it left out";
  std::string left;
  for (const std::string_view word : field->words) {
    DecodeOptions o = asked.o;
    const Combination other{o, asked.infill, asked.kind};
    bool works = set_field(o, field->key, word).has_value();
    for (const Refusal& r : kRefusals)
      for (const Case& c : r.cases) works = works && !is_about(c, field->key, other) && key_in(c, other, key).empty();
    if (works) left += fmt::format("{}{}", left.empty() ? "" : ", ", word);
  }
  if (left.empty()) return field->key == key ? "another model" : "it left out";
  if (const size_t last = left.rfind(", "); last != left.npos) left.replace(last, 2, " or ");
  return field->key == key ? left : fmt::format("{} {}", field->key, left);
}

OrRefused<void> refuse(std::string_view key, const Refusal& row, const Case& c, const Combination& asked) {
  const std::string_view why = row.why;
  const Field* field = find_field(key);
  const std::vector<std::string_view> others = parts_of(c.with, ' ');
  const Field* beside = find_field(others[0]);
  std::string with(c.with), others_asked;
  if (beside != nullptr) with.clear();
  for (const std::string_view other : others)
    if (beside != nullptr) with += fmt::format("{}{} {}", with.empty() ? "" : ", ", other, *get_field(asked.o, other));
  for (const std::string_view other : parts_of(c.keys, ' '))
    if (other != key && !key_in(c, asked, other).empty())
      others_asked += fmt::format("{}{}", others_asked.empty() ? "" : ", ", other);
  // That a switch is on goes without saying.
  const std::string found = field == nullptr && beside == nullptr ? ""
                            : field == nullptr || (field->is_switch() && beside != nullptr)
                                ? "found "
                                : fmt::format("found {} with ", found_of(*field, asked.o));
  std::string text = fmt::format("{}: {}{}{}{}", key, found, with, why.starts_with(';') ? "" : ", ", why);
  const auto replace = [&](std::string_view name, std::string_view by) {
    for (size_t at = 0; (at = text.find(name, at)) != text.npos; at += by.size()) text.replace(at, name.size(), by);
  };
  replace("{reason}", c.reason);
  replace("{need}", c.need);
  replace("{key}", key);
  replace("{others}", others_asked);
  replace("{values}", values_left(asked, field, key));
  replace("{with}", values_left(asked, beside, key));
  replace("{blocks}", fmt::format("{}", asked.blocks()));
  replace("{block}", fmt::format("{}", asked.attention_block));
  return std::unexpected(Refused({ErrorKind::invalid_input, text}, row.of_model));
}

OrRefused<void> check_refusals(const Combination& asked) {
  for (const Refusal& r : kRefusals)
    for (const Case& c : r.cases)
      if (const std::string_view key = key_in(c, asked); !key.empty()) return refuse(key, r, c, asked);
  return {};
}

// Canvases of random tokens have options of their own, and few of the others.
Status check_kind(const DecodeOptions& o, const ModelKind& kind) {
  constexpr std::string_view kBoth[] = {"gen_length",    "temperature", "seed",    "early_stop",
                                        "entropy_bound", "accept",      "choice",  "regex",
                                        "json_schema",   "json_object", "template"};
  const bool uniform = kind.uniform.length > 0;
  for (const Field& f : fields()) {
    if (f.show(f, o) == f.show(f, {})) continue;
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

bool needs_blocks(const DecodeOptions& o) { return !key_in(kBesideFullAttention, {o, false, ModelKind()}).empty(); }

OrRefused<void> validate(const DecodeOptions& o, bool infill, const ModelKind& kind) {
  LLADA_TRY_STATUS(check_fields(o, infill));
  LLADA_TRY_STATUS(check_kind(o, kind));
  return check_refusals({o, infill, kind});
}

}  // namespace llada::decode
