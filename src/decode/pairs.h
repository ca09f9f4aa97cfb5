// Which options go together: validate() and validate_for() of options.h are made here, and every combination of an
// acceptance rule, a way of revising, speculation and a K/V policy with what validate() says of it: the table in the
// documentation and the test that runs all of them come from here.
#pragma once
#include <string>
#include <vector>

#include "decode/options.h"

namespace llada::decode {

struct StrategyPair {
  DecodeOptions options;  // defaults apart from the four choices
  std::string refusal;    // why it is refused; empty: it works
};

// attention_block > 0: for block-causal models of that block.
std::vector<StrategyPair> strategy_pairs(int64_t attention_block = 0);

// The pairs as a Markdown table: acceptance rules down, ways of revising across, each alone and with
// speculation. A cell names the K/V policies that go with it ("all" for every one), or, where none does, the number of
// the refusal below the table.
std::string strategy_table(int64_t attention_block = 0);

}  // namespace llada::decode
