// Published models under short names, with the facts that a machine needs before it downloads one. The list is data:
// catalogue.json, which the build puts into the program. Sizes are those of the published configurations
// (study/presets.h has the same for most; tests/cli/recommend_test.cc compares them). The tokens per forward are
// measured by others or assumed, as `source` says.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace llada::hub {

struct CatalogueModel {
  std::string name, repository;  // short; OWNER/NAME
  std::string geometry;          // of study/presets.h; empty: none
  double parameters = 0;
  double looked_up = 0;       // of these: in embeddings that no product reads
  double in_experts = 0;      // of these: in experts of a mixture
  int experts = 0, used = 0;  // experts in a layer; experts that a row uses
  int rows = 0;               // computed by a forward with the preset `balanced`
  double tokens_per_forward = 0;
  std::string source;  // of tokens_per_forward

  double published_bytes() const { return 2 * parameters; }               // BF16
  double q4_bytes() const { return parameters * 4.5 / 8; }                // after llada convert --type q4_0
  static double memory(double weights) { return weights * 1.1 + 0.5e9; }  // with canvases of up to 1,000 positions
};

extern const std::string_view kCatalogueText;  // catalogue.json

// In the order of the file: the better model first.
Result<std::vector<CatalogueModel>> parse_catalogue(std::string_view text);

// The repository of a short name; empty where it is none.
std::string repository_of(std::string_view name);

}  // namespace llada::hub
