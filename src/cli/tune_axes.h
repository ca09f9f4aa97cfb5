// What `llada tune` varies: one axis per question, choices ordered so that neighbours are alike. A new option
// is searched once it stands here.
#pragma once
#include "eval/tune.h"

namespace llada::cli {

inline std::vector<eval::Axis> tune_axes() {
  return {
      {"acceptance",
       {"--threshold 0.99", "--threshold 0.97", "--threshold 0.95", "--threshold 0.9", "--threshold 0.85",
        "--threshold 0.8", "--threshold 0.7", "--threshold 0.6", "--factor 0.5", "--factor 1", "--factor 2",
        "--entropy-bound 0.05", "--entropy-bound 0.1", "--entropy-bound 0.2", "--entropy-bound 0.4"},
       3},
      {"rows", {"", "--kv prefix", "--kv dual"}, 0},
      {"refresh", {"", "--refresh 8", "--refresh 4", "--refresh 3", "--refresh 2"}, 0},
      {"block", {"--block-length 8", "--block-length 16", "", "--block-length 64"}, 2},
  };
}

}  // namespace llada::cli
