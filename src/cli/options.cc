#include "cli/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "cli/preset.h"

namespace llada::cli {
namespace {

using decode::Acceptance;
using decode::Revision;

template <class T>
Status read_number(std::string_view text, T& out, std::string_view needed) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    return invalid("found '{}', which is out of range; needed {}", text, needed);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    return invalid("found '{}', needed {}", text, needed);
  out = value;
  return {};
}

Status read_count(std::string_view text, int64_t& out) { return read_number(text, out, "a whole number"); }
Status read_real(std::string_view text, double& out) { return read_number(text, out, "a number"); }

// The rules that read a flag; without --accept, the first of them is what the flag chooses.
struct Readers {
  std::string_view flag;
  std::vector<Acceptance> rules;
};

std::span<const Readers> readers() {
  static const std::vector<Readers> kReaders = {
      {"--threshold", {Acceptance::threshold, Acceptance::llada2, Acceptance::anchored, Acceptance::settled}},
      {"--visible-threshold", {Acceptance::threshold, Acceptance::llada2, Acceptance::anchored, Acceptance::settled}},
      {"--factor", {Acceptance::factor}},
      {"--entropy-bound", {Acceptance::entropy}},
      {"--anchor-threshold", {Acceptance::anchored}},
      {"--settle-steps", {Acceptance::settled}},
      {"--settle-threshold", {Acceptance::settled}}};
  return kReaders;
}

// Naming a rule's parameter chooses the rule.
Status choose(DecodeFlags& flags, std::string_view flag) {
  const auto reads = [&](Acceptance rule) {
    const auto found = std::ranges::find(readers(), flag, &Readers::flag);
    return std::ranges::count(found->rules, rule) > 0;
  };
  const Acceptance first = std::ranges::find(readers(), flag, &Readers::flag)->rules.front();
  if (flags.accept_flag.empty()) {
    flags.options.acceptance = first;
  } else if (!reads(flags.options.acceptance)) {
    // --settle-threshold and --anchor-threshold refine --threshold's rule, so both orders are one.
    const bool refiner = first == Acceptance::settled || first == Acceptance::anchored;
    const bool refines =
        !flags.accept_named && refiner && flags.options.acceptance == Acceptance::threshold;
    if (!refines)
      return invalid("{} already chose how tokens are accepted: {}, which does not read it", flags.accept_flag,
                     name(flags.options.acceptance));
    flags.options.acceptance = first;
  }
  if (flags.accept_flag.empty()) flags.accept_flag = flag;
  return {};
}

Status accept_by_name(DecodeFlags& flags, std::string_view text) {
  LLADA_TRY(const Acceptance rule, decode::acceptance_from_name(text));
  if (!flags.accept_flag.empty()) {
    const auto found = std::ranges::find(readers(), flags.accept_flag, &Readers::flag);
    if (found != readers().end() && std::ranges::count(found->rules, rule) == 0)
      return invalid("{} already chose how tokens are accepted: {} does not read it", flags.accept_flag, text);
  }
  flags.options.acceptance = rule;
  flags.accept_flag = "--accept";
  flags.accept_named = true;
  return {};
}

// A way of revising, and the threshold that it was published with where no acceptance is asked for.
Status revise(DecodeFlags& flags, std::string_view flag, Revision revision, double threshold) {
  if (flags.options.revision != Revision::none && flags.options.revision != revision)
    return invalid("{} already chose {} revision", flags.revise_flag, name(flags.options.revision));
  if (flags.options.revision == Revision::none) flags.revise_flag = flag;
  flags.options.revision = revision;
  if (flags.accept_flag.empty()) flags.options.acceptance = Acceptance::threshold;
  if (flags.threshold_flag.empty()) flags.options.threshold = threshold;
  return {};
}

Status read_threshold(DecodeFlags& flags, std::string_view flag, std::string_view text) {
  if (!flags.threshold_flag.empty() && flags.threshold_flag != flag)
    return invalid("{} already set the same threshold", flags.threshold_flag);
  flags.threshold_flag = flag;
  LLADA_TRY_STATUS(choose(flags, flag));
  return read_real(text, flags.options.threshold);
}

Status dual_path(DecodeFlags& flags, std::string_view flag) {
  return revise(flags, flag, Revision::dual_path, 0.7);
}
Status remask(DecodeFlags& flags, std::string_view flag) {
  return revise(flags, flag, Revision::remask, 0.7);
}

// "ROWS:MS,ROWS:MS,..."
Status read_table(std::string_view text, std::vector<decode::LatencyPoint>& out) {
  out.clear();
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string_view pair = text.substr(at, end - at);
    const size_t colon = pair.find(':');
    if (colon == std::string_view::npos) return invalid("found '{}', needed ROWS:MS", pair);
    decode::LatencyPoint point;
    LLADA_TRY_STATUS(read_count(pair.substr(0, colon), point.rows));
    LLADA_TRY_STATUS(read_real(pair.substr(colon + 1), point.ms));
    out.push_back(point);
    at = end + 1;
  }
  return {};
}

template <class T>
Status read_name(Result<T> value, T& out) {
  LLADA_TRY(out, std::move(value));
  return {};
}

struct Flag {
  const char* name;
  const char* value;  // what the help calls its value; null: a switch
  const char* help;
  Status (*set)(DecodeFlags& flags, std::string_view value);
};

constexpr std::array kFlags = {
    Flag{"--gen-length", "N", "positions to generate (128)",
         [](DecodeFlags& f, std::string_view v) { return read_count(v, f.options.gen_length); }},
    Flag{"--block-length", "N", "positions that are decided together, blocks left to right (32)",
         [](DecodeFlags& f, std::string_view v) { return read_count(v, f.options.block_length); }},
    Flag{"--steps", "N", "forwards of the whole run, for the fixed schedule; 0: one token per forward (0)",
         [](DecodeFlags& f, std::string_view v) { return read_count(v, f.options.steps); }},
    Flag{"--accept", "RULE",
         "which predictions are kept: schedule, threshold, factor, entropy, llada2, dream-entropy, dream-margin, "
         "dream-maskgit, anchored or settled (schedule)",
         accept_by_name},
    Flag{"--threshold", "T", "accept every token whose probability is above T",
         [](DecodeFlags& f, std::string_view v) { return read_threshold(f, "--threshold", v); }},
    Flag{"--factor", "F",
         "accept the n most certain tokens while the n-th has probability of 1 - F / (n + 1) or more",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(choose(f, "--factor"));
           return read_real(v, f.options.factor);
         }},
    Flag{"--entropy-bound", "NATS",
         "accept the most certain tokens while their summed entropy stays within the bound",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(choose(f, "--entropy-bound"));
           return read_real(v, f.options.entropy_bound);
         }},
    Flag{"--anchor-threshold", "T",
         "beside --threshold, accept above T what stands left of the first token that is not accepted (0.9)",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(choose(f, "--anchor-threshold"));
           return read_real(v, f.options.anchor_threshold);
         }},
    Flag{"--settle-threshold", "T",
         "beside --threshold, accept above T what the last forwards predicted alike (0.5)",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(choose(f, "--settle-threshold"));
           return read_real(v, f.options.settle_threshold);
         }},
    Flag{"--settle-steps", "N", "how many forwards have to predict alike (2)",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(choose(f, "--settle-steps"));
           return read_count(v, f.options.settle_steps);
         }},
    Flag{"--credit", nullptr, "raise the probability of tokens that were predicted before (CreditDecoding)",
         [](DecodeFlags& f, std::string_view) -> Status {
           f.options.credit = true;
           return {};
         }},
    Flag{"--remasking", "RULE", "what the schedule orders by: low_confidence or random (low_confidence)",
         [](DecodeFlags& f, std::string_view v) {
           return read_name(decode::remasking_from_name(v), f.options.remasking);
         }},
    Flag{"--temperature", "T", "sample with Gumbel noise; 0 takes the best token (0)",
         [](DecodeFlags& f, std::string_view v) { return read_real(v, f.options.temperature); }},
    Flag{"--seed", "N", "of sampling and of random remasking (0)",
         [](DecodeFlags& f, std::string_view v) {
           return read_number(v, f.options.seed, "a whole number from 0");
         }},
    Flag{"--cfg-scale", "S", "classifier-free guidance; 0: none (0)",
         [](DecodeFlags& f, std::string_view v) { return read_real(v, f.options.cfg_scale); }},
    Flag{"--early-stop", "WHEN",
         "none, block (after the block with an end token) or answer (once it is final) (answer)",
         [](DecodeFlags& f, std::string_view v) {
           return read_name(decode::early_stop_from_name(v), f.options.early_stop);
         }},
    Flag{"--logits-eos-inf", nullptr, "never sample the end-of-sequence token",
         [](DecodeFlags& f, std::string_view) -> Status {
           f.options.logits_eos_inf = true;
           return {};
         }},
    Flag{"--confidence-eos-eot-inf", nullptr, "decide end tokens last",
         [](DecodeFlags& f, std::string_view) -> Status {
           f.options.confidence_eos_eot_inf = true;
           return {};
         }},
    Flag{"--kv", "POLICY",
         "which rows are not recomputed in every forward: none, prefix, suffix, dual, block or delayed "
         "(none)",
         [](DecodeFlags& f, std::string_view v) { return read_name(decode::kv_from_name(v), f.options.kv); }},
    Flag{"--warmup", "N", "forwards at the start of each block that recompute everything (1)",
         [](DecodeFlags& f, std::string_view v) { return read_count(v, f.options.warmup); }},
    Flag{"--tail", "N", "masks behind the block that attention reads (all)",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(read_count(v, f.options.tail));
           return f.options.tail < 0 ? invalid("found '{}', needed 0 or more", v) : Status{};
         }},
    Flag{"--refresh", "N", "recompute everything in every N-th forward; 0: as the policy says (0)",
         [](DecodeFlags& f, std::string_view v) { return read_count(v, f.options.refresh); }},
    Flag{"--refresh-drift", "D",
         "recompute everything after a forward in which cached values had turned by more than D = 1 - cosine; "
         "0: do not look (0)",
         [](DecodeFlags& f, std::string_view v) { return read_real(v, f.options.refresh_drift); }},

    Flag{"--mbsd", nullptr, "draft tokens of the blocks ahead while few masks are left (multi-block speculation)",
         [](DecodeFlags& f, std::string_view) -> Status {
           f.options.mbsd = true;
           return {};
         }},
    Flag{"--mbsd-trigger", "N", "look ahead when fewer masks than N are left in the block (4)",
         [](DecodeFlags& f, std::string_view v) {
           f.options.mbsd = true;
           return read_count(v, f.options.mbsd_trigger);
         }},
    Flag{"--mbsd-lookahead", "N", "positions to draft at most (32)",
         [](DecodeFlags& f, std::string_view v) {
           f.options.mbsd = true;
           return read_count(v, f.options.mbsd_lookahead);
         }},
    Flag{"--mbsd-threshold", "T", "probability that a draft must exceed, twice (0.7)",
         [](DecodeFlags& f, std::string_view v) {
           f.options.mbsd = true;
           return read_real(v, f.options.mbsd_threshold);
         }},
    Flag{"--mbsd-drafts", "HOW", "hidden: later steps see masks where drafts are; visible: they see drafts (hidden)",
         [](DecodeFlags& f, std::string_view v) {
           f.options.mbsd = true;
           return read_name(decode::draft_input_from_name(v), f.options.mbsd_drafts);
         }},
    Flag{"--mbsd-max-rows", "N", "rows of one forward that memory allows; 0: any number (0)",
         [](DecodeFlags& f, std::string_view v) {
           f.options.mbsd = true;
           return read_count(v, f.options.mbsd_max_rows);
         }},
    Flag{"--latency-table", "ROWS:MS,...",
         "time of a forward by rows, or 'device': its own, measured at the start (modelled on sim); drafts only fill the "
         "bucket that a step is in anyway",
         [](DecodeFlags& f, std::string_view v) -> Status {
           f.options.mbsd = true;
           f.options.device_latency = v == "device";
           if (f.options.device_latency) return {};
           return read_table(v, f.options.latency_table);
         }},
    Flag{"--latency-slack", "S", "share by which a step may get slower for its drafts (0.02)",
         [](DecodeFlags& f, std::string_view v) {
           f.options.mbsd = true;
           return read_real(v, f.options.latency_slack);
         }},

    Flag{"--revise", nullptr, "predict doubtful tokens again until they are stable (dual-path revision)",
         [](DecodeFlags& f, std::string_view) { return dual_path(f, "--revise"); }},
    Flag{"--visible-threshold", "T", "with --revise: write every token whose probability is above T (0.7)",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(dual_path(f, "--visible-threshold"));
           return read_threshold(f, "--visible-threshold", v);
         }},
    Flag{"--stable-threshold", "T", "with --revise: tokens with a probability from T are final (0.9)",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(dual_path(f, "--stable-threshold"));
           return read_real(v, f.options.stable_threshold);
         }},
    Flag{"--stable-repeats", "N", "so are tokens that N predictions in a row agree on (2)",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(dual_path(f, "--stable-repeats"));
           return read_count(v, f.options.stable_repeats);
         }},
    Flag{"--revise-policy", "WHICH", "which first: oldest, least-confident or balanced (balanced)",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(dual_path(f, "--revise-policy"));
           return read_name(decode::revise_policy_from_name(v), f.options.revise_policy);
         }},
    Flag{"--revise-path", "WHERE",
         "fused: in the step's own forward; separate: in a forward beside it, which another device could run "
         "(fused)",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(dual_path(f, "--revise-path"));
           return read_name(decode::revise_path_from_name(v), f.options.revise_path);
         }},
    Flag{"--revise-rows", "N", "tokens predicted again per step (4)",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(dual_path(f, "--revise-rows"));
           return read_count(v, f.options.revise_rows);
         }},
    Flag{"--revise-limit", "N", "times that one token is predicted again (4)",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(dual_path(f, "--revise-limit"));
           return read_count(v, f.options.revise_limit);
         }},
    Flag{"--final-sweep", "N",
         "tokens predicted again per step once all before the end are decided; 0: none (32)",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(dual_path(f, "--final-sweep"));
           return read_count(v, f.options.final_sweep);
         }},

    Flag{"--wino", nullptr, "commit early and mask again what the other tokens do not support (WINO)",
         [](DecodeFlags& f, std::string_view) { return revise(f, "--wino", Revision::wino, 0.6); }},
    Flag{"--wino-back", "T", "with --wino: mask again what the others give less than T (0.9)",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(revise(f, "--wino-back", Revision::wino, 0.6));
           return read_real(v, f.options.wino_back);
         }},
    Flag{"--edit-threshold", "T",
         "write another token over a decided one when its probability is above T (LLaDA2.1's editing)",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(revise(f, "--edit-threshold", Revision::edit, 0.7));
           return read_real(v, f.options.edit_threshold);
         }},
    Flag{"--edit-steps", "N", "forwards per block that only edit (16)",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(revise(f, "--edit-steps", Revision::edit, 0.7));
           return read_count(v, f.options.edit_steps);
         }},
    Flag{"--remask-share", "S", "mask again this share of a block's tokens per step, least confident first (0.25)",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(remask(f, "--remask-share"));
           return read_real(v, f.options.remask_share);
         }},
    Flag{"--remask-below", "T", "of those whose probability was below T (0.9)",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(remask(f, "--remask-below"));
           return read_real(v, f.options.remask_below);
         }},
    Flag{"--remask-limit", "N", "times that one position is masked again (1)",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(remask(f, "--remask-limit"));
           return read_count(v, f.options.remask_limit);
         }},
};

const Flag* find_flag(std::string_view name) {
  for (const Flag& flag : kFlags)
    if (flag.name == name) return &flag;
  return nullptr;
}

constexpr std::string_view kPresetFlag = "--preset-decode";

// Options as words: separated by white space, "--name value" or "--name=value".
struct Word {
  std::string_view name, value;
  const Flag* flag;  // null: kPresetFlag
};

Result<std::vector<Word>> read_words(std::string_view text) {
  std::vector<std::string_view> pieces;
  constexpr std::string_view kSpace = " \t\r\n";
  for (size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    pieces.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kSpace, end);
  }
  std::vector<Word> words;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const size_t equals = pieces[i].find('=');
    Word word{pieces[i].substr(0, equals), {}, find_flag(pieces[i].substr(0, equals))};
    if (word.flag == nullptr && word.name != kPresetFlag)
      return invalid("'{}' is no decoding option", word.name);
    if (std::ranges::count(words, word.name, &Word::name) > 0) return invalid("{}: given twice", word.name);
    if (word.flag != nullptr && word.flag->value == nullptr) {
      if (equals != std::string_view::npos) return invalid("{}: takes no value", word.name);
    } else if (equals != std::string_view::npos) {
      word.value = pieces[i].substr(equals + 1);
    } else if (++i < pieces.size()) {
      word.value = pieces[i];
    } else {
      return invalid("{}: needs a value", word.name);
    }
    words.push_back(word);
  }
  return words;
}

// The preset's options where `given` does not say that the same one was given beside it.
Status apply_preset(DecodeFlags& flags, std::string_view name, bool infill,
                    const std::function<bool(std::string_view name)>& given) {
  LLADA_TRY(const Preset preset, find_preset(std::string(name)));
  const auto words = read_words(preset.options);
  if (!words) return invalid("{}: {}", name, words.error().message);
  for (const Word& word : *words) {
    if (word.flag == nullptr) return invalid("{}: a preset cannot name another one", name);
    // What a preset says of generation alone does not apply to gaps.
    if (infill && (word.name == "--gen-length" || word.name == "--tail")) continue;
    if (given(word.name)) continue;
    if (const Status status = word.flag->set(flags, word.value); !status)
      return invalid("{}: {}: {}", name, word.name, status.error().message);
  }
  return {};
}

}  // namespace

Result<int64_t> parse_integer(std::string_view text, int64_t least, int64_t most) {
  int64_t value = 0;
  const std::string needed = fmt::format("{} to {}", least, most);
  LLADA_TRY_STATUS(read_number(text, value, needed));
  if (value < least || value > most) return invalid("found {}, needed {}", value, needed);
  return value;
}

void read_environment(LoadOptions& options) {
  options.isa = isa_from_environment();
  options.cdsprpc = cdsprpc_from_environment();
}

std::string cdsprpc_from_environment() {
  const char* path = std::getenv("LLADA_CDSPRPC");
  return path != nullptr ? path : "";
}

std::string isa_from_environment() {
  const char* isa = std::getenv("LLADA_ISA");
  return isa != nullptr ? isa : "";
}

void add_device_options(CLI::App& app, LoadOptions& options) {
  constexpr const char* kGroup = "Device";
  app.add_option("--device", options.device,
                 "where to compute: cpu, sim:PROFILE[,window=40%,...], hexagon[:...] or cuda[:budget=4GiB] (cpu)")
      ->type_name("NAME")
      ->group(kGroup);
  add_integer_option(app, "--threads", options.threads, 0, 1024, "0: one per physical core (0)")
      ->group(kGroup);
  app.add_option_function<std::string>(
         "--attention",
         [&options](const std::string& text) {
           if (text != "fast" && text != "exact")
             throw CLI::ValidationError("--attention", fmt::format("found '{}', needed fast or exact", text));
           options.exact_attention = text == "exact";
         },
         "of rows that see 1024 positions or more: fast reads 8-bit copies of keys and values where the processor has "
         "kernels for them (error about 1 %), exact the stored ones (fast)")
      ->type_name("KIND")
      ->group(kGroup);
}

void add_model_options(CLI::App& app, ModelOptions& options) {
  app.add_option("-m,--model", options.path, "a GGUF file or a Hugging Face folder")
      ->type_name("MODEL")
      ->required();
  add_device_options(app, options.load);
}

void add_decode_options(CLI::App& app, DecodeFlags& flags, bool infill) {
  // Before all others: values are taken in this order, whatever the order on the command line.
  app.add_option_function<std::string>(
         std::string(kPresetFlag),
         [&app, &flags, infill](const std::string& name) {
           const auto given = [&app](std::string_view flag) {
             return app.get_option(std::string(flag))->count() > 0;
           };
           if (const Status status = apply_preset(flags, name, infill, given); !status)
             throw CLI::ValidationError(std::string(kPresetFlag), status.error().message);
         },
         infill ? "exact, balanced, fast, llada2, llada2.1, or a file of llada tune, less what is for generating only; options "
                  "beside it replace the preset's"
                : "exact, balanced, fast, llada2, llada2.1, or a file of llada tune; options beside it replace the preset's")
      ->type_name("NAME|FILE")
      ->group("Decoding");
  for (const Flag& flag : kFlags) {
    if (infill && std::string_view(flag.name) == "--gen-length") {
      app.add_option_function<std::string>(flag.name,
                                           [](const std::string&) {
                                             throw CLI::ValidationError(
                                                 "--gen-length",
                                                 "not for infilling, where the gaps <mask:N> say it");
                                           })
          ->group("");
      continue;
    }
    const auto set = [&flag, &flags](std::string_view value) {
      if (const Status status = flag.set(flags, value); !status)
        throw CLI::ValidationError(flag.name, status.error().message);
    };
    CLI::Option* option =
        flag.value == nullptr
            ? app.add_flag_callback(
                  flag.name, [set] { set({}); }, flag.help)
            : app.add_option_function<std::string>(flag.name, set, flag.help)->type_name(flag.value);
    option->group("Decoding");
  }
}

Result<decode::DecodeOptions> parse_decode_options(std::string_view text) {
  LLADA_TRY(const auto words, read_words(text));
  DecodeFlags flags;
  const auto given = [&](std::string_view name) {
    return std::ranges::count(words, name, &Word::name) > 0;
  };
  for (const Word& word : words)
    if (word.flag == nullptr) {
      if (const Status status = apply_preset(flags, word.value, false, given); !status)
        return invalid("{}: {}", word.name, status.error().message);
    }
  for (const Word& word : words) {
    if (word.flag == nullptr) continue;
    if (const Status status = word.flag->set(flags, word.value); !status)
      return invalid("{}: {}", word.name, status.error().message);
  }
  LLADA_TRY_STATUS(decode::validate(flags.options));
  return flags.options;
}

}  // namespace llada::cli
