#include "cli/options.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <set>
#include <vector>

namespace llada::cli {
namespace {

using decode::Acceptance;

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

// Naming a rule's parameter chooses the rule.
Status choose(DecodeFlags& flags, std::string_view flag, Acceptance acceptance) {
  if (!flags.acceptance_flag.empty() && flags.acceptance_flag != flag)
    return invalid(
        "{} already chose how tokens are accepted; needed one of --threshold, --factor and --entropy-bound",
        flags.acceptance_flag);
  flags.acceptance_flag = flag;
  flags.options.acceptance = acceptance;
  return {};
}

template <class T>
Status read_name(Result<T> value, T& out) {
  if (!value) {
    // The flag's own name stands before the message already.
    const size_t colon = value.error().message.find(": ");
    return invalid(
        "{}", colon == std::string::npos ? value.error().message : value.error().message.substr(colon + 2));
  }
  out = *value;
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
    Flag{"--threshold", "T", "accept every token whose probability is above T",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(choose(f, "--threshold", Acceptance::threshold));
           return read_real(v, f.options.threshold);
         }},
    Flag{"--factor", "F",
         "accept the n most certain tokens while the n-th has probability of 1 - F / (n + 1) or more",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(choose(f, "--factor", Acceptance::factor));
           return read_real(v, f.options.factor);
         }},
    Flag{"--entropy-bound", "NATS",
         "accept the most certain tokens while their summed entropy stays within the bound",
         [](DecodeFlags& f, std::string_view v) -> Status {
           LLADA_TRY_STATUS(choose(f, "--entropy-bound", Acceptance::entropy));
           return read_real(v, f.options.entropy_bound);
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
         "which rows are not recomputed in every forward: none, prefix, dual or block (none)",
         [](DecodeFlags& f, std::string_view v) { return read_name(decode::kv_from_name(v), f.options.kv); }},
    Flag{"--refresh", "N", "recompute everything every N forwards of a block; 0: at its start (0)",
         [](DecodeFlags& f, std::string_view v) { return read_count(v, f.options.refresh); }},
};

const Flag* find_flag(std::string_view name) {
  for (const Flag& flag : kFlags)
    if (flag.name == name) return &flag;
  return nullptr;
}

}  // namespace

Result<int64_t> parse_integer(std::string_view text, int64_t least, int64_t most) {
  int64_t value = 0;
  const std::string needed = fmt::format("{} to {}", least, most);
  LLADA_TRY_STATUS(read_number(text, value, needed));
  if (value < least || value > most) return invalid("found {}, needed {}", value, needed);
  return value;
}

std::string isa_from_environment() {
  const char* isa = std::getenv("LLADA_ISA");
  return isa != nullptr ? isa : "";
}

void add_device_options(CLI::App& app, LoadOptions& options) {
  constexpr const char* kGroup = "Device";
  app.add_option("--device", options.device, "where to compute: cpu, or sim:PROFILE[,window=40%,...] (cpu)")
      ->type_name("NAME")
      ->group(kGroup);
  add_integer_option(app, "--threads", options.threads, 0, 1024, "0: one per physical core (0)")
      ->group(kGroup);
}

void add_model_options(CLI::App& app, ModelOptions& options) {
  app.add_option("-m,--model", options.path, "a GGUF file or a Hugging Face folder")
      ->type_name("MODEL")
      ->required();
  add_device_options(app, options.load);
}

void add_decode_options(CLI::App& app, DecodeFlags& flags, bool infill) {
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
  std::vector<std::string_view> words;
  constexpr std::string_view kSpace = " \t\r\n";
  for (size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kSpace, end);
  }
  DecodeFlags flags;
  std::set<std::string_view> seen;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const std::string_view name = words[i].substr(0, equals);
    const Flag* flag = find_flag(name);
    if (flag == nullptr) return invalid("'{}' is no decoding option", name);
    if (!seen.insert(name).second) return invalid("{}: given twice", name);
    std::string_view value;
    if (flag->value == nullptr) {
      if (equals != std::string_view::npos) return invalid("{}: takes no value", name);
    } else if (equals != std::string_view::npos) {
      value = words[i].substr(equals + 1);
    } else if (++i < words.size()) {
      value = words[i];
    } else {
      return invalid("{}: needs a value", name);
    }
    if (const Status status = flag->set(flags, value); !status)
      return invalid("{}: {}", name, status.error().message);
  }
  LLADA_TRY_STATUS(decode::validate(flags.options));
  return flags.options;
}

}  // namespace llada::cli
