// Every combination of an acceptance rule, a way of revising, speculation and a K/V policy, with what validate() says of
// it: for the test that runs all of them, and the table in docs/strategies.md.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "decode/options.h"

namespace llada::decode {

struct StrategyPair {
  DecodeOptions options;  // defaults apart from the four choices
  std::string refusal;    // why it is refused; empty: it works
};

// attention_block > 0: for block-causal models of that block, whose predictions may be edits.
inline std::vector<StrategyPair> strategy_pairs(int64_t attention_block = 0) {
  ModelKind kind(attention_block);
  kind.moves_text = attention_block > 0;
  std::vector<StrategyPair> pairs;
  for (const Acceptance acceptance : all_values<Acceptance>()) {
    for (const Revision revision : all_values<Revision>()) {
      for (const bool mbsd : {false, true}) {
        for (const KvChoice kv : all_values<KvChoice>()) {
          StrategyPair pair;
          pair.options.acceptance = acceptance;
          pair.options.revision = revision;
          pair.options.mbsd = mbsd;
          pair.options.kv = kv;
          if (const Status status = validate(pair.options, false, kind); !status) pair.refusal = status.error().message;
          pairs.push_back(std::move(pair));
        }
      }
    }
  }
  return pairs;
}

// The pairs as a Markdown table: acceptance rules down, ways of revising across, each alone and with
// speculation. A cell names the K/V policies that go with it ("all" for every one), or, where none does, the number of
// the refusal below the table.
inline std::string strategy_table(int64_t attention_block = 0) {
  std::string table = "| acceptance |", rule = "|---|";
  for (const Revision revision : all_values<Revision>()) {
    for (const char* speculation : {"", " + mbsd"}) {
      table += fmt::format(" {}{} |", name(revision) == "none" ? "no revision" : name(revision), speculation);
      rule += "---|";
    }
  }
  table += "\n" + rule;
  std::vector<std::string> refusals;
  const std::vector<StrategyPair> pairs = strategy_pairs(attention_block);
  const size_t policies = all_values<KvChoice>().size(), columns = all_values<Revision>().size() * 2;
  for (size_t cell = 0; cell * policies < pairs.size(); ++cell) {
    const auto first = pairs.begin() + static_cast<std::ptrdiff_t>(cell * policies);
    if (cell % columns == 0) table += fmt::format("\n| {} |", name(first->options.acceptance));
    std::string works;
    size_t working = 0;
    for (auto pair = first; pair != first + static_cast<std::ptrdiff_t>(policies); ++pair) {
      if (!pair->refusal.empty()) continue;
      ++working;
      works += (works.empty() ? "" : ", ") + std::string(name(pair->options.kv));
    }
    if (working == policies) works = "all";
    if (working == 0) {
      if (std::ranges::find(refusals, first->refusal) == refusals.end()) refusals.push_back(first->refusal);
      works = fmt::format("no ({})", std::ranges::find(refusals, first->refusal) - refusals.begin() + 1);
    }
    table += fmt::format(" {} |", works);
  }
  table += "\n";
  for (size_t i = 0; i < refusals.size(); ++i) table += fmt::format("\n{}. `{}`", i + 1, refusals[i]);
  return table + "\n";
}

}  // namespace llada::decode
