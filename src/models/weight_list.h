// The weights of a model: the tensors that its files have (formats/expectations.h), in that order, experts one by one;
// and their numbers by name. Private to models/.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model_config.h"
#include "graph/program.h"
#include "models/model_graph.h"

namespace llada {

// The three matrices of a gated feed-forward network.
struct FeedForward {
  WeightId gate = kNoWeight, up = kNoWeight, down = kNoWeight;
};

class WeightList {
 public:
  WeightList(const ModelConfig& config, std::vector<WeightInfo>& list);

  // kNoWeight: the model has none of that name. For experts: the first one's.
  WeightId of(std::string_view name) const;
  WeightId in_layer(int64_t layer, std::string_view leaf) const;
  FeedForward network(int64_t layer, std::string_view suffix) const;  // "ffn_gate" + suffix, and so on

 private:
  std::map<std::string, WeightId, std::less<>> first_;
};

// Without the fields that build_model() fills in for all.
Result<ModelGraph> build_transformer(const ModelConfig& config);
Result<ModelGraph> build_diffusion_gemma(const ModelConfig& config);

}  // namespace llada
