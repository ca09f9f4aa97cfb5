#include "decode/pairs.h"

#include <fmt/format.h>

#include <algorithm>

namespace llada::decode {

std::vector<StrategyPair> strategy_pairs(int64_t attention_block) {
  std::vector<StrategyPair> pairs;
  SpecialIds ids;
  ids.attention_block = attention_block;
  for (const Acceptance acceptance : all_acceptances()) {
    for (const Revision revision : all_revisions()) {
      for (const bool mbsd : {false, true}) {
        for (const KvChoice kv : all_kv_choices()) {
          StrategyPair pair;
          pair.options.acceptance = acceptance;
          pair.options.revision = revision;
          pair.options.mbsd = mbsd;
          pair.options.kv = kv;
          if (const Status status = validate(pair.options); !status) {
            pair.refusal = status.error().message;
          } else if (const Status fits = validate_for(pair.options, ids); !fits) {
            pair.refusal = fits.error().message;
          }
          pairs.push_back(std::move(pair));
        }
      }
    }
  }
  return pairs;
}

std::string strategy_table(int64_t attention_block) {
  std::string table = "| acceptance |", rule = "|---|";
  for (const Revision revision : all_revisions()) {
    for (const char* speculation : {"", " + mbsd"}) {
      table += fmt::format(" {}{} |", name(revision) == "none" ? "no revision" : name(revision), speculation);
      rule += "---|";
    }
  }
  table += "\n" + rule;
  std::vector<std::string> refusals;
  const std::vector<StrategyPair> pairs = strategy_pairs(attention_block);
  const size_t policies = all_kv_choices().size(), columns = all_revisions().size() * 2;
  for (size_t cell = 0; cell * policies < pairs.size(); ++cell) {
    const auto first = pairs.begin() + static_cast<std::ptrdiff_t>(cell * policies);
    if (cell % columns == 0) table += fmt::format("\n| {} |", name(first->options.acceptance));
    std::string works;
    size_t working = 0;
    for (auto pair = first; pair != first + static_cast<std::ptrdiff_t>(policies); ++pair) {
      if (!pair->refusal.empty()) {
        if (std::ranges::find(refusals, pair->refusal) == refusals.end()) refusals.push_back(pair->refusal);
        continue;
      }
      ++working;
      works += (works.empty() ? "" : ", ") + std::string(name(pair->options.kv));
    }
    if (working == policies) works = "all";
    if (working == 0) {
      const auto found = std::ranges::find(refusals, first->refusal);
      works = fmt::format("no ({})", found - refusals.begin() + 1);
    }
    table += fmt::format(" {} |", works);
  }
  table += "\n";
  for (size_t i = 0; i < refusals.size(); ++i) table += fmt::format("\n{}. `{}`", i + 1, refusals[i]);
  return table + "\n";
}

}  // namespace llada::decode
