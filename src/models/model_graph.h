// A model as the rest of the engine sees it: the list of its weights, and its forward pass as a program for
// any step shape.
#pragma once
#include <functional>
#include <vector>

#include "formats/model_config.h"
#include "graph/program.h"

namespace llada {

struct ModelGraph {
  std::vector<WeightInfo> weights;
  std::function<Program(StepShape)> forward;  // of the shape's pass
  bool encodes = false;                       // there is a pass that encodes a prompt (Pass::encode)

  // forward(), where the model has the pass. Invalid: it has not.
  Result<Program> program(StepShape shape) const;

  // The geometry of the K/V store per position and layer.
  int layers = 0, kv_heads = 0, head_dim = 0;
  std::vector<KvHeads> kv_by_layer = {};  // where one differs from kv_heads of head_dim
  int64_t width = 0, vocab = 0;
  int64_t context = 0;  // positions the model was trained for
  // The keys that a row of a canvas reads; a row of an encoded prompt: KeyRule::causal(). A step that says that text
  // below a position is causal adds that restriction.
  KeyRule keys;
};

// Invalid: an architecture whose decoding rules are not built in.
Result<ModelGraph> build_model(const ModelConfig& config);

}  // namespace llada
