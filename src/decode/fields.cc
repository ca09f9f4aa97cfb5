#include "decode/fields.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/numbers.h"
#include "decode/removed.h"

namespace llada::decode {
namespace {

using O = DecodeOptions;
using enum FieldGroup;

template <class T>
Status read_number(std::string_view text, T& out, const Field& f) {
  T value{};
  const auto [end, error] = llada::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    return invalid("found '{}', which is out of range; needed {}", text, needed(f));
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    return invalid("found '{}', needed {}", text, needed(f));
  out = value;
  return {};
}

template <class T>
Status read_value(const Field& f, std::string_view text, T& out) {
  if constexpr (std::is_same_v<T, bool>) {
    if (text != "true" && text != "false") return invalid("found '{}', needed {}", text, needed(f));
    out = text == "true";
    return {};
  } else if constexpr (std::is_enum_v<T>) {
    if (const std::string_view instead = replaced_by(f.key, text); !instead.empty())
      return invalid("found '{}', which was removed: {}", text, instead);
    LLADA_TRY(out, from_name<T>(text));
    return {};
  } else if (!f.word.empty() && text == f.word) {
    out = static_cast<T>(-1);
    return {};
  } else {
    LLADA_TRY_STATUS(read_number(text, out, f));
    // Written as a number, -1 is a mistake rather than the word.
    return !f.word.empty() && text.starts_with('-') ? invalid("found '{}', needed {}", text, needed(f)) : Status();
  }
}

template <class T>
std::string show_value(const Field& f, T value) {
  if constexpr (std::is_enum_v<T>) {
    return std::string(name(value));
  } else {
    if constexpr (std::is_same_v<T, int64_t>)
      if (value == -1 && !f.word.empty()) return std::string(f.word);
    return fmt::format("{}", value);
  }
}

template <class T>
bool in_range(const Field& f, T value) {
  if constexpr (std::is_enum_v<T>) {
    return !name(value).empty();
  } else if constexpr (std::is_same_v<T, bool>) {
    return true;
  } else {
    const auto x = static_cast<double>(value);
    const Range& r = f.range;
    if (!f.word.empty() && x == -1) return true;
    return std::isfinite(x) && (r.above_least ? x > r.least : x >= r.least) &&
           (r.below_most ? x < r.most : x <= r.most);
  }
}

// A Field being written.
struct Entry : Field {
  constexpr Entry(FieldGroup part, std::string_view name, std::string_view value_name, std::string_view text) {
    group = part, key = name, unit = value_name, help = text;
  }
  constexpr Entry in(Range r) { return range = r, *this; }
  constexpr Entry or_word(std::string_view text) { return word = text, *this; }
  constexpr Entry or_all() { return or_word("all"); }
  constexpr Entry tuned(std::string_view values) { return tune = values, *this; }
  constexpr Entry also(std::string_view flags) { return aliases = flags, *this; }
  constexpr Entry for_rules(unsigned bits) { return rules = bits, *this; }
  constexpr Entry for_rule(Acceptance rule) { return for_rules(rule_bit(rule)); }
  constexpr Entry of(Revision way) { return revision = way, *this; }
  constexpr Entry with(std::string_view other) { return beside = other, *this; }
  constexpr Entry sets(std::string_view other, std::string_view to = {}) { return target = other, value = to, *this; }
  constexpr Entry often() { return basic = true, *this; }
};

template <auto Member>
Entry field(FieldGroup group, std::string_view key, std::string_view unit, std::string_view help) {
  using T = std::remove_cvref_t<decltype(std::declval<O>().*Member)>;
  Entry f(group, key, unit, help);
  if constexpr (std::is_enum_v<T>) f.words = words(T{});
  f.read = [](const Field& self, std::string_view text, O& o) { return read_value(self, text, o.*Member); };
  f.show = [](const Field& self, const O& o) { return show_value(self, o.*Member); };
  f.check = [](const Field& self, const O& o) -> Status {
    if (in_range(self, o.*Member)) return {};
    if constexpr (std::is_enum_v<T>)
      return invalid("{}: found a number without a name, needed {}", self.key, needed(self));
    else
      return invalid("{}: found {}, needed {}", self.key, o.*Member, needed(self));
  };
  return f;
}

Entry shorthand(FieldGroup group, std::string_view key, std::string_view unit, std::string_view help) {
  Entry f(group, key, unit, help);
  f.read = [](const Field& self, std::string_view text, O& o) -> Status {
    bool wanted = true;
    if (self.is_switch()) LLADA_TRY_STATUS(read_value(self, text, wanted));
    const Field& target = *find_field(self.target);
    return wanted ? target.read(target, self.value.empty() ? text : self.value, o) : Status();
  };
  return f;
}

// "ROWS:MS,ROWS:MS,...", "device" or "none".
Status read_latency(const Field& f, std::string_view text, O& o) {
  o.device_latency = text == "device";
  o.latency_table.clear();
  if (o.device_latency || text == "none") return {};
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string_view pair = text.substr(at, end - at);
    const size_t colon = pair.find(':');
    LatencyPoint point;
    if (colon == std::string_view::npos || !read_number(pair.substr(0, colon), point.rows, f) ||
        !read_number(pair.substr(colon + 1), point.ms, f))
      return invalid("found '{}', needed ROWS:MS", pair);
    o.latency_table.push_back(point);
    at = end + 1;
  }
  return {};
}

std::string show_latency(const Field&, const O& o) {
  if (o.device_latency) return "device";
  std::string text;
  for (const LatencyPoint& p : o.latency_table) text += fmt::format("{}{}:{}", text.empty() ? "" : ",", p.rows, p.ms);
  return text.empty() ? "none" : text;
}

Status check_latency(const Field&, const O& o) {
  if (o.device_latency && !o.latency_table.empty())
    return invalid("latency_table: found {} points beside the device's own table, needed one of the two",
                   o.latency_table.size());
  LatencyPoint before;
  for (const LatencyPoint& p : o.latency_table) {
    if (p.rows <= before.rows || !std::isfinite(p.ms) || p.ms < before.ms)
      return invalid("latency_table: found {} rows in {} ms after {} in {}, needed both ascending from above 0", p.rows,
                     p.ms, before.rows, before.ms);
    before = p;
  }
  return {};
}

// A number, "auto" or "auto:N" for at most N.
Status read_length(const Field& f, std::string_view text, O& o) {
  const bool is_auto = text == "auto" || text.starts_with("auto:");
  int64_t most = kAutoLength;
  if (text != "auto") LLADA_TRY_STATUS(read_number(is_auto ? text.substr(5) : text, most, f));
  o.gen_length = most;
  o.auto_length = is_auto;
  return {};
}

std::string show_length(const Field&, const O& o) {
  if (!o.auto_length) return fmt::format("{}", o.gen_length);
  return o.gen_length == kAutoLength ? "auto" : fmt::format("auto:{}", o.gen_length);
}

Entry length_entry(std::string_view help) {
  Entry f = field<&O::gen_length>(length, "gen_length", "N", help).in({1, kMaxGenLength});
  f.read = read_length, f.show = show_length, f.word = "auto";
  // -1 is the word of other options.
  f.check = [](const Field& self, const O& o) -> Status {
    if (o.gen_length >= 1 && o.gen_length <= kMaxGenLength) return {};
    return invalid("{}: found {}, needed {}", self.key, o.gen_length, needed(self));
  };
  return f;
}

Entry latency_entry(std::string_view help) {
  Entry f(drafts, "latency_table", "ROWS:MS,...", help);
  f.read = read_latency, f.show = show_latency, f.check = check_latency;
  return f;
}

// 64 bits, written with or without a sign, since other programs' seeds have one.
Status read_seed(const Field& f, std::string_view text, O& o) {
  if (!text.starts_with('-')) return read_number(text, o.seed, f);
  int64_t value = 0;
  LLADA_TRY_STATUS(read_number(text, value, f));
  o.seed = static_cast<uint64_t>(value);
  return {};
}

Entry seed_entry(std::string_view help) {
  Entry f = field<&O::seed>(sampling, "seed", "N", help);
  f.read = read_seed;
  f.range.least = -std::numeric_limits<double>::infinity();  // 64 bits, whose ends are no doubles
  return f;
}

constexpr double kMaxGuidance = 1e6;  // useful ones are below 10; far beyond this, hidden states overflow a float
constexpr unsigned kThresholdRules = rule_bit(Acceptance::threshold) | rule_bit(Acceptance::llada2);
constexpr Range kPositions{1, kMaxGenLength}, kSteps{0, kMaxSteps}, kShare{0, 1};
constexpr Range kAboveZero{.above_least = true}, kShareAboveZero{0, 1, true, false};

}  // namespace

std::span<const Field> fields() {
  // clang-format off
  static const Field kFields[] = {
    length_entry("positions to generate; auto[:MOST]: as needed")
        .also("-n,--n-predict,--max-tokens").often(),
    field<&O::block_length>(length, "block_length", "N", "positions that are decided together, blocks left to right")
        .in(kPositions).tuned("8 16 32 64 128").often(),
    field<&O::slide>(length, "slide", "",
        "the block begins at the first mask and moves with it, so that no forward waits for a block's last tokens")
        .tuned("false true"),
    field<&O::steps>(length, "steps", "N",
        "forwards of the whole run, by a fixed schedule; 0: one token per forward").in(kSteps).often(),
    field<&O::acceptance>(acceptance, "accept", "RULE", "which predictions are kept"),
    field<&O::threshold>(acceptance, "threshold", "T", "accept tokens whose probability is T or more")
        .in(kShareAboveZero).for_rules(kThresholdRules)
        .tuned("1 0.995 0.99 0.98 0.97 0.96 0.95 0.9 0.85 0.8 0.7 0.6").often(),
    field<&O::factor>(acceptance, "factor", "F",
        "accept the n most certain tokens while the n-th has probability of 1 - F / (n + 1) or more")
        .in(kAboveZero).for_rule(Acceptance::factor).tuned("1 0.5 0.25 0.1"),
    field<&O::entropy_bound>(acceptance, "entropy_bound", "NATS",
        "accept the most certain tokens while their summed entropy stays within the bound")
        .for_rule(Acceptance::entropy).tuned("0.02 0.05 0.1 0.2"),
    field<&O::entropy_gate>(acceptance, "entropy_gate", "NATS",
        "of what is accepted, leave masked what has more entropy than this open on its left; 0: no gate")
        .tuned("0 4 1 0.5 0.2"),
    field<&O::remasking>(acceptance, "remasking", "RULE", "what the schedule orders by"),
    field<&O::temperature>(sampling, "temperature", "T", "sample with Gumbel noise; 0 takes the best token")
        .also("--temp").often(),
    seed_entry("seed of sampling and of random remasking; -1: drawn").also("-s").often(),
    field<&O::top_k>(sampling, "top_k", "N", "sample from the N best tokens; 0: from all").in(kSteps),
    field<&O::top_p>(sampling, "top_p", "P", "then from the best tokens that together have probability P; 1: from all")
        .in(kShare),
    field<&O::min_p>(sampling, "min_p", "P",
        "then from tokens with at least P times the best one's probability; 0: all").in(kShare),
    field<&O::repeat_penalty>(sampling, "repeat_penalty", "F",
        "divide the logits of tokens that stand nearby already by F; 1: do not").in(kAboveZero),
    field<&O::repeat_window>(sampling, "repeat_window", "N", "how many positions before and behind are nearby")
        .in(kPositions).also("--repeat-last-n"),
    field<&O::cfg_scale>(guidance, "cfg_scale", "S", "classifier-free guidance; 0: none").in({0, kMaxGuidance}).often(),
    field<&O::early_stop>(ending, "early_stop", "WHEN",
        "when to stop: no mask is left, the block of an end token is done, or the answer is final").often(),
    field<&O::logits_eos_inf>(ending, "logits_eos_inf", "", "never sample the end-of-sequence token"),
    field<&O::confidence_eos_eot_inf>(ending, "confidence_eos_eot_inf", "", "decide end tokens last"),
    field<&O::kv>(caches, "kv", "POLICY", "rows not recomputed in every forward")
        .tuned("none prefix dual frozen").often(),
    field<&O::tail>(caches, "tail", "N", "masks behind the block that attention reads").in({0, kMaxGenLength}).or_all()
        .tuned("all 64 32 16 8"),
    field<&O::refresh>(caches, "refresh", "N", "recompute everything in every N-th forward; 0: as the policy says")
        .tuned("0 8 4 3 2"),
    field<&O::refresh_drift>(caches, "refresh_drift", "D",
        "recompute everything after a forward in which cached values had turned by more than D = 1 - cosine; 0: never")
        .in({0, 2}),
    field<&O::evict>(caches, "evict", "A",
        "with --kv frozen, only the masks that gained most attention go on behind the model's second layer: "
        "A times as many as a forward commits (FOCUS: 1.5); 0: all")
        .tuned("0 3 1.5"),
    field<&O::evict_rows>(caches, "evict_rows", "N", "with --evict, rows that go on at least").in(kPositions)
        .with("evict").tuned("8 16 4"),
    field<&O::mbsd>(drafts, "mbsd", "",
        "draft tokens of the blocks ahead while few masks are left (multi-block speculation)"),
    field<&O::mbsd_trigger>(drafts, "mbsd_trigger", "N", "look ahead when fewer masks than N are left in the block")
        .in(kPositions),
    field<&O::mbsd_lookahead>(drafts, "mbsd_lookahead", "N", "positions to draft at most").in(kPositions),
    field<&O::mbsd_threshold>(drafts, "mbsd_threshold", "T", "probability that a draft must exceed, twice")
        .in({0, 1, false, true}),
    field<&O::mbsd_max_rows>(drafts, "mbsd_max_rows", "N", "rows of one forward that memory allows; 0: any number"),
    latency_entry(
        "time of a forward by rows, or 'device': its own, measured at the start (modelled on sim); drafts only fill "
        "the bucket that a step is in anyway"),
    field<&O::revision>(revision, "revision", "WAY",
        "how decided tokens are looked at again; options of one way choose it"),
    shorthand(revision, "revise", "", "predict doubtful tokens again until they are stable (dual-path revision)")
        .of(Revision::dual_path).sets("revision", "dual-path"),
    shorthand(revision, "visible_threshold", "T",
        "with --revise: write every token whose probability is T or more (alone 0.7)")
        .in(kShareAboveZero).for_rules(kThresholdRules).of(Revision::dual_path).sets("threshold"),
    field<&O::stable_threshold>(revision, "stable_threshold", "T",
        "with --revise: tokens with a probability from T are final").in(kShare).of(Revision::dual_path),
    field<&O::revise_path>(revision, "revise_path", "WHERE",
        "in the step's own forward, or in a separate one beside it, which another device could run")
        .of(Revision::dual_path),
    field<&O::revise_rows>(revision, "revise_rows", "N", "tokens predicted again per step").in(kPositions)
        .tuned("4 8 16 32").of(Revision::dual_path),
    field<&O::final_sweep>(revision, "final_sweep", "N",
        "tokens predicted again per step once all before the end are decided; 0: none")
        .in({0, kMaxGenLength}).tuned("32 0").of(Revision::dual_path),
    field<&O::edit_threshold>(revision, "edit_threshold", "T",
        "write another token over a decided one when its probability is above T (LLaDA2.1's editing)")
        .in(kShare).of(Revision::edit),
    field<&O::edit_steps>(revision, "edit_steps", "N", "forwards per block that only edit").in(kSteps)
        .of(Revision::edit),
  };
  // clang-format on
  return kFields;
}

std::string_view title(FieldGroup group) {
  static constexpr std::string_view kTitles[] = {
      "Length",  "Acceptance", "Sampling", "Guidance", "End of the answer", "Caches", "Drafts of blocks ahead",
      "Revision"};
  return kTitles[static_cast<size_t>(group)];
}

const Field* find_field(std::string_view key) {
  const auto found = std::ranges::find(fields(), key, &Field::key);
  return found == fields().end() ? nullptr : &*found;
}

std::string flag(const Field& field) {
  std::string text = "--" + std::string(field.key);
  std::ranges::replace(text, '_', '-');
  return text;
}

std::string needed(const Field& f) {
  if (f.key == "latency_table") return "ROWS:MS,..., device or none";
  if (f.key == "seed") return "a whole number of 64 bits";
  if (f.is_switch()) return "true or false";
  if (!f.words.empty()) return fmt::format("one of {}", fmt::join(f.words, ", "));
  const bool bounded = std::isfinite(f.range.most);
  std::string text = f.unit == "N" ? "a whole number" : "a number";
  text += fmt::format(" {} {}", f.range.above_least ? "above" : "from", f.range.least);
  if (bounded && f.range.below_most) text += fmt::format(" and below {}", f.range.most);
  if (bounded && !f.range.below_most)
    text += fmt::format(" {} {}", f.range.above_least ? "and at most" : "to", f.range.most);
  return f.word.empty() ? text : fmt::format("{}, or {}", text, f.word);
}

std::string help_of(const Field& f, std::string_view initial) {
  std::string text(f.help);
  if (!f.words.empty()) text += fmt::format(": {}", fmt::join(f.words, ", "));
  return initial.empty() || (f.is_switch() && initial == "false") ? text : fmt::format("{} ({})", text, initial);
}

Status set_field(DecodeOptions& options, std::string_view key, std::string_view text) {
  const Field* f = find_field(key);
  if (f == nullptr) return invalid("{}", no_option(key));
  DecodeOptions next = options;
  if (const Status status = f->read(*f, text, next); !status) return invalid("{}: {}", key, status.error().message);
  const Field* target = f->target.empty() ? f : find_field(f->target);
  LLADA_TRY_STATUS(target->check(*target, next));
  options = std::move(next);
  return {};
}

Result<std::string> get_field(const DecodeOptions& options, std::string_view key) {
  const Field* f = find_field(key);
  if (f == nullptr) return invalid("{}", no_option(key));
  if (f->show == nullptr) return invalid("{}: sets {}, needed that", key, f->target);
  return f->show(*f, options);
}

Status check_fields(const DecodeOptions& options, bool infill) {
  for (const Field& f : fields())
    if (f.check != nullptr && !(infill && f.key == "gen_length")) LLADA_TRY_STATUS(f.check(f, options));
  return {};
}

std::string as_flags(const DecodeOptions& options) {
  std::string text;
  for (const Field& f : fields()) {
    if (f.show == nullptr || f.show(f, options) == f.show(f, {})) continue;
    if (!text.empty()) text += ' ';
    text += flag(f);
    if (!f.is_switch() || f.show(f, options) == "false") text.append("=").append(f.show(f, options));
  }
  return text;
}

std::string field_table() {
  const DecodeOptions defaults{.gen_length = kAutoLength, .auto_length = true};
  std::string table = "| group | option | value | default | what it does |\n|---|---|---|---|---|\n";
  std::string_view heading;
  for (const Field& f : fields()) {
    const std::string value = f.is_switch()     ? ""
                              : f.words.empty() ? needed(f)
                                                : fmt::format("{}", fmt::join(f.words, ", "));
    const std::string initial = f.show == nullptr ? fmt::format("sets {}", f.target) : f.show(f, defaults);
    const bool first = title(f.group) != heading;
    heading = title(f.group);
    std::string names = fmt::format("`{}{}{}`", flag(f), f.aliases.empty() ? "" : ",", f.aliases);
    for (size_t at = 0; (at = names.find(',', at)) != std::string::npos; at += 4) names.replace(at, 1, "`, `");
    table += fmt::format("| {} | {} | {} | {} | {} |\n", first ? heading : "", names, value, initial, f.help);
  }
  return table;
}

}  // namespace llada::decode
