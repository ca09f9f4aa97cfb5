#include "decode/options.h"

#include <array>
#include <cmath>

namespace llada::decode {
namespace {

template <class T>
struct Named {
  T value;
  std::string_view text;
};

constexpr std::array kAcceptances = {
    Named{Acceptance::schedule, "schedule"}, Named{Acceptance::threshold, "threshold"},
    Named{Acceptance::factor, "factor"}, Named{Acceptance::entropy, "entropy"}};
constexpr std::array kRemaskings = {Named{Remasking::low_confidence, "low_confidence"},
                                    Named{Remasking::random, "random"}};
constexpr std::array kEarlyStops = {Named{EarlyStop::none, "none"}, Named{EarlyStop::block, "block"},
                                    Named{EarlyStop::answer, "answer"}};
constexpr std::array kKvChoices = {Named{KvChoice::none, "none"}, Named{KvChoice::prefix, "prefix"},
                                   Named{KvChoice::dual, "dual"}, Named{KvChoice::block, "block"}};

template <class T, size_t N>
std::string_view name_in(const std::array<Named<T>, N>& table, T value) {
  for (const auto& entry : table) {
    if (entry.value == value) return entry.text;
  }
  return {};
}

template <class T, size_t N>
Result<T> value_in(const std::array<Named<T>, N>& table, std::string_view option, std::string_view text) {
  std::string known;
  for (const auto& entry : table) {
    if (entry.text == text) return entry.value;
    known += (known.empty() ? "" : ", ") + std::string(entry.text);
  }
  return invalid("{}: found '{}', needed one of {}", option, text, known);
}

bool finite_from(double value, double least) { return std::isfinite(value) && value >= least; }

Status validate_numbers(const DecodeOptions& o, bool infill) {
  if (!infill && (o.gen_length < 1 || o.gen_length > kMaxGenLength)) {
    return invalid("gen_length: found {}, needed 1 to {}", o.gen_length, kMaxGenLength);
  }
  if (o.block_length < 1 || o.block_length > kMaxGenLength) {
    return invalid("block_length: found {}, needed 1 to {}", o.block_length, kMaxGenLength);
  }
  if (o.steps < 0 || o.steps > kMaxSteps) {
    return invalid("steps: found {}, needed 0 (one token per step) to {}", o.steps, kMaxSteps);
  }
  if (!(o.threshold > 0 && o.threshold <= 1)) {
    return invalid("threshold: found {}, needed above 0 and at most 1", o.threshold);
  }
  if (!std::isfinite(o.factor) || o.factor <= 0) return invalid("factor: found {}, needed above 0", o.factor);
  if (!finite_from(o.entropy_bound, 0)) {
    return invalid("entropy_bound: found {}, needed 0 nats or more", o.entropy_bound);
  }
  if (!finite_from(o.temperature, 0))
    return invalid("temperature: found {}, needed 0 or more", o.temperature);
  if (!finite_from(o.cfg_scale, 0)) return invalid("cfg_scale: found {}, needed 0 or more", o.cfg_scale);
  if (o.refresh < 0) return invalid("refresh: found {}, needed 0 (block starts only) or more", o.refresh);
  return {};
}

}  // namespace

Status validate(const DecodeOptions& o, bool infill) {
  if (name(o.acceptance).empty() || name(o.remasking).empty() || name(o.early_stop).empty() ||
      name(o.kv).empty()) {
    return invalid(
        "acceptance, remasking, early_stop or kv: found a number without a name, needed one of the named "
        "values");
  }
  LLADA_TRY_STATUS(validate_numbers(o, infill));
  if (o.acceptance != Acceptance::schedule) {
    if (o.steps != 0) {
      return invalid("steps: found {} with acceptance {}, which decides the number of steps itself; needed 0",
                     o.steps, name(o.acceptance));
    }
    if (o.remasking == Remasking::random) {
      return invalid("remasking: random has no confidence for acceptance {}; needed acceptance schedule",
                     name(o.acceptance));
    }
  }
  if (o.acceptance == Acceptance::entropy && o.confidence_eos_eot_inf) {
    return invalid(
        "confidence_eos_eot_inf: changes confidences, which acceptance entropy does not read; needed another "
        "acceptance");
  }
  if (o.remasking == Remasking::random && o.confidence_eos_eot_inf) {
    return invalid(
        "confidence_eos_eot_inf: changes confidences, which remasking random does not read; needed "
        "low_confidence");
  }
  if (o.refresh > 0 && o.kv == KvChoice::none) {
    return invalid(
        "refresh: found {} with kv none, which computes everything in every step; needed kv prefix, dual or "
        "block",
        o.refresh);
  }
  if (!infill && o.steps > 0) {
    const int64_t blocks = (o.gen_length - 1) / o.block_length + 1;
    if (o.steps < blocks) {
      return invalid(
          "steps: found {}, needed at least one for each of {} blocks (gen_length {}, block_length {})",
          o.steps, blocks, o.gen_length, o.block_length);
    }
  }
  return {};
}

std::string_view name(Acceptance value) { return name_in(kAcceptances, value); }
std::string_view name(Remasking value) { return name_in(kRemaskings, value); }
std::string_view name(EarlyStop value) { return name_in(kEarlyStops, value); }
std::string_view name(KvChoice value) { return name_in(kKvChoices, value); }

Result<Acceptance> acceptance_from_name(std::string_view text) {
  return value_in(kAcceptances, "acceptance", text);
}
Result<Remasking> remasking_from_name(std::string_view text) {
  return value_in(kRemaskings, "remasking", text);
}
Result<EarlyStop> early_stop_from_name(std::string_view text) {
  return value_in(kEarlyStops, "early_stop", text);
}
Result<KvChoice> kv_from_name(std::string_view text) { return value_in(kKvChoices, "kv", text); }

}  // namespace llada::decode
