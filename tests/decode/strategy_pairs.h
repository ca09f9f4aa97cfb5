// Every combination of an acceptance rule, a way of revising, speculation and a K/V policy, with the answer of
// validate(): for the test that runs all of them, and the tables in docs/strategies.md.
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

struct StrategyLine {
  std::string name;
  std::vector<std::string> cells;
};

// Lines of equal cells become one, with the names of all.
inline std::vector<StrategyLine> merged(const std::vector<StrategyLine>& lines) {
  std::vector<StrategyLine> out;
  for (const StrategyLine& line : lines) {
    const auto same = std::ranges::find(out, line.cells, &StrategyLine::cells);
    if (same == out.end()) {
      out.push_back(line);
    } else {
      same->name += ", " + line.name;
    }
  }
  return out;
}

// The pairs as a Markdown table: acceptance rules down, ways of revising across, each alone and with speculation; those
// of equal cells share a row or a column. A cell names the K/V policies that go with it, "all" for every one.
inline std::string strategy_table(int64_t attention_block = 0) {
  std::vector<StrategyLine> columns, rows;
  for (const Revision revision : all_values<Revision>())
    for (const char* speculation : {"", " + mbsd"})
      columns.push_back({(name(revision) == "none" ? "no revision" : std::string(name(revision))) + speculation, {}});
  const std::vector<StrategyPair> pairs = strategy_pairs(attention_block);
  const size_t policies = all_values<KvChoice>().size(), width = columns.size();
  for (size_t cell = 0; cell * policies < pairs.size(); ++cell) {
    std::vector<std::string_view> works;
    for (size_t i = cell * policies; i < (cell + 1) * policies; ++i)
      if (pairs[i].refusal.empty()) works.push_back(name(pairs[i].options.kv));
    columns[cell % width].cells.push_back(works.empty()              ? "no"
                                          : works.size() == policies ? "all"
                                                                     : fmt::format("{}", fmt::join(works, ", ")));
  }
  columns = merged(columns);
  for (const Acceptance acceptance : all_values<Acceptance>()) {
    StrategyLine row{std::string(name(acceptance)), {}};
    for (const StrategyLine& column : columns) row.cells.push_back(column.cells[rows.size()]);
    rows.push_back(std::move(row));
  }
  std::string table = "| acceptance |", rule = "|---|";
  for (const StrategyLine& column : columns) {
    table += " " + column.name + " |";
    rule += "---|";
  }
  table += "\n" + rule;
  for (const StrategyLine& row : merged(rows))
    table += fmt::format("\n| {} | {} |", row.name, fmt::join(row.cells, " | "));
  return table + "\n";
}

}  // namespace llada::decode
