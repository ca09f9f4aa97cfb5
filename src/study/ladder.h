// The lines of a ladder and the passes of each (simulate.h says what they stand for): data, and no prices.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "formats/model_config.h"
#include "study/simulate.h"

namespace llada {

// With speculation a pass has as many logits as its block has rows: drafts stand in the place of decided tokens. With
// revision the CPU checks tokens beside it, and computes the K/V of those that were decided since.
enum class Fills { nothing, drafts, checks, drafts_and_checks };

struct LineSpec {
  const char* name;
  bool host_only, prefix_kv;
  std::string_view memory;  // by name; of the lines with a planned memory the options' choice
  bool planned;
  double tokens_per_pass;
  Fills fills = Fills::nothing;
  double of_last = 0;  // > 0: its tokens per pass are this share of the last line's
  bool autoregressive = false;
  bool divided = false;  // products between both units; the last of its list
};
// The tokens per pass that samplers reach on such a model.
struct TokensRange {
  double low, high;
  const char* source;
};
struct Ladder {
  std::span<const LineSpec> lines;
  std::span<const LineSpec> beside;        // to compare the last line with
  const TokensRange* range = nullptr;      // null: not known
  int64_t canvas = 0, gen = 0, block = 0;  // canvas: of random tokens; 0: none
  bool causal_blocks = false;

  size_t somr() const;  // the first line with a planned memory
  // wanted_all: every row has logits.
  std::vector<SimulatedPass> passes(const LineSpec& line, int64_t prompt, double tokens_per_pass,
                                    bool wanted_all) const;
};

// gen: tokens that are asked for; a model with canvases fills whole ones.
Ladder ladder_of(const ModelConfig& config, int64_t gen);

}  // namespace llada
