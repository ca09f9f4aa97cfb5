// The words of options, as they are written on the command line and in reports.
#include <array>

#include "decode/options.h"

namespace llada::decode {
namespace {

template <class T>
struct Named {
  T value;
  std::string_view text;
};

constexpr std::array kAcceptances = {Named{Acceptance::schedule, "schedule"},
                                     Named{Acceptance::threshold, "threshold"},
                                     Named{Acceptance::factor, "factor"},
                                     Named{Acceptance::entropy, "entropy"},
                                     Named{Acceptance::llada2, "llada2"},
                                     Named{Acceptance::dream_entropy, "dream-entropy"},
                                     Named{Acceptance::dream_margin, "dream-margin"},
                                     Named{Acceptance::dream_maskgit, "dream-maskgit"},
                                     Named{Acceptance::anchored, "anchored"},
                                     Named{Acceptance::settled, "settled"}};
constexpr std::array kRemaskings = {Named{Remasking::low_confidence, "low_confidence"},
                                    Named{Remasking::random, "random"}};
constexpr std::array kEarlyStops = {Named{EarlyStop::none, "none"}, Named{EarlyStop::block, "block"},
                                    Named{EarlyStop::answer, "answer"}};
constexpr std::array kKvChoices = {Named{KvChoice::none, "none"},     Named{KvChoice::prefix, "prefix"},
                                   Named{KvChoice::suffix, "suffix"}, Named{KvChoice::dual, "dual"},
                                   Named{KvChoice::block, "block"},   Named{KvChoice::delayed, "delayed"}};
constexpr std::array kRevisions = {Named{Revision::none, "none"}, Named{Revision::dual_path, "dual-path"},
                                   Named{Revision::wino, "wino"}, Named{Revision::edit, "edit"},
                                   Named{Revision::remask, "remask"}};
constexpr std::array kRevisePolicies = {Named{RevisePolicy::oldest, "oldest"},
                                        Named{RevisePolicy::least_confident, "least-confident"},
                                        Named{RevisePolicy::balanced, "balanced"}};
constexpr std::array kRevisePaths = {Named{RevisePath::fused, "fused"},
                                     Named{RevisePath::separate, "separate"}};
constexpr std::array kDraftInputs = {Named{DraftInput::hidden, "hidden"},
                                     Named{DraftInput::visible, "visible"}};

template <class T, size_t N>
std::string_view name_in(const std::array<Named<T>, N>& table, T value) {
  for (const auto& entry : table) {
    if (entry.value == value) return entry.text;
  }
  return {};
}

template <class T, size_t N>
Result<T> value_in(const std::array<Named<T>, N>& table, std::string_view text) {
  std::string known;
  for (const auto& entry : table) {
    if (entry.text == text) return entry.value;
    known += (known.empty() ? "" : ", ") + std::string(entry.text);
  }
  return invalid("found '{}', needed one of {}", text, known);
}

template <class T, size_t N>
std::vector<T> values(const std::array<Named<T>, N>& table) {
  std::vector<T> all;
  for (const auto& entry : table) all.push_back(entry.value);
  return all;
}

}  // namespace

std::string_view name(Acceptance value) { return name_in(kAcceptances, value); }
std::string_view name(Remasking value) { return name_in(kRemaskings, value); }
std::string_view name(EarlyStop value) { return name_in(kEarlyStops, value); }
std::string_view name(KvChoice value) { return name_in(kKvChoices, value); }
std::string_view name(Revision value) { return name_in(kRevisions, value); }
std::string_view name(RevisePolicy value) { return name_in(kRevisePolicies, value); }
std::string_view name(RevisePath value) { return name_in(kRevisePaths, value); }
std::string_view name(DraftInput value) { return name_in(kDraftInputs, value); }

Result<Acceptance> acceptance_from_name(std::string_view text) {
  return value_in(kAcceptances, text);
}
Result<Remasking> remasking_from_name(std::string_view text) {
  return value_in(kRemaskings, text);
}
Result<EarlyStop> early_stop_from_name(std::string_view text) {
  return value_in(kEarlyStops, text);
}
Result<KvChoice> kv_from_name(std::string_view text) { return value_in(kKvChoices, text); }
Result<RevisePolicy> revise_policy_from_name(std::string_view text) {
  return value_in(kRevisePolicies, text);
}
Result<RevisePath> revise_path_from_name(std::string_view text) {
  return value_in(kRevisePaths, text);
}
Result<DraftInput> draft_input_from_name(std::string_view text) {
  return value_in(kDraftInputs, text);
}

std::vector<Acceptance> all_acceptances() { return values(kAcceptances); }
std::vector<KvChoice> all_kv_choices() { return values(kKvChoices); }
std::vector<Revision> all_revisions() { return values(kRevisions); }

}  // namespace llada::decode
