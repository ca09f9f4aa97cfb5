// What `llada tune` varies: one axis per question, choices ordered so that neighbours are alike. A new option
// is searched once it stands here. Combinations that make no sense are refused when their text is parsed.
#pragma once
#include "eval/tune.h"

namespace llada::cli {

// block_causal: for models whose finished blocks are exact (decode/kv_policy.h); questions that do not arise there
// are left out.
inline std::vector<eval::Axis> tune_axes(bool block_causal = false) {
  std::vector<eval::Axis> axes = {
      {"acceptance",
       {"--factor 0.1", "--factor 0.25", "--factor 0.5", "--factor 1", "--threshold 0.995 --anchor-threshold 0.95",
        "--threshold 0.99 --anchor-threshold 0.95", "--threshold 0.99 --anchor-threshold 0.9", "--threshold 0.995",
        "--threshold 0.99", "--threshold 0.98", "--threshold 0.97", "--threshold 0.96", "--threshold 0.95", "--threshold 0.9",
        "--threshold 0.85", "--threshold 0.8", "--threshold 0.7", "--threshold 0.6", "--entropy-bound 0.2",
        "--entropy-bound 0.1", "--entropy-bound 0.05", "--entropy-bound 0.02"},
       10},
      {"credit", {"", "--credit"}, 0},
      {"tail", {"", "--tail 64", "--tail 32", "--tail 16", "--tail 8"}, 2},
      {"rows", {"", "--kv suffix", "--kv prefix", "--kv dual", "--kv delayed"}, 0},
      {"refresh", {"", "--refresh 8", "--refresh 4", "--refresh 3", "--refresh 2"}, 0},
      {"block", {"--block-length 8", "--block-length 16", "", "--block-length 64", "--block-length 128"}, 2},
      {"revision",
       {"", "--revise --stable-threshold 0.8", "--revise --stable-threshold 0.9",
        "--revise --stable-threshold 0.95", "--revise --stable-threshold 0.99", "--wino"},
       0},
      {"revised rows", {"", "--revise-rows 8", "--revise-rows 16", "--revise-rows 32"}, 0},
      {"speculation",
       {"", "--mbsd --mbsd-trigger 4", "--mbsd --mbsd-trigger 12", "--mbsd --mbsd-trigger 33"},
       0},
  };
  if (!block_causal) return axes;
  std::erase_if(axes, [](const eval::Axis& axis) {
    return axis.name == "tail" || axis.name == "refresh" || axis.name == "speculation";
  });
  for (eval::Axis& axis : axes)
    if (axis.name == "rows") axis.choices = {"--kv block"};
  return axes;
}

}  // namespace llada::cli
